-- Purpose: every CUDA API call from start to end, with its thread and function: what the host did, and when it waited.
-- Needs: CUPTI_ACTIVITY_KIND_RUNTIME
-- Params: none
-- Columns:
--   start INTEGER ns in the report's own time
--   end INTEGER ns in the report's own time
--   correlationId INTEGER unique inside the process; several rows may share one
--   globalTid INTEGER thread; its upper 40 bits are the process key, as unsigned
--   nameId INTEGER StringIds.id of the function's name
-- Order: none
SELECT start, "end", correlationId, globalTid, nameId
FROM CUPTI_ACTIVITY_KIND_RUNTIME
