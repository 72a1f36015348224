-- Purpose: when and on which thread each CUDA API call started; with the correlation id this places GPU work.
-- Needs: CUPTI_ACTIVITY_KIND_RUNTIME
-- Params: none
-- Columns:
--   start INTEGER ns in the report's own time
--   correlationId INTEGER unique inside the process; several rows may share one
--   globalTid INTEGER thread; its upper 40 bits are the process key, as unsigned
-- Order: none
SELECT start, correlationId, globalTid
FROM CUPTI_ACTIVITY_KIND_RUNTIME
