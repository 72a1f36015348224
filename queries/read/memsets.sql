-- Purpose: every memory set that ran on a GPU, one row each.
-- Needs: CUPTI_ACTIVITY_KIND_MEMSET
-- Params: none
-- Columns:
--   start INTEGER ns in the report's own time
--   end INTEGER ns in the report's own time
--   deviceId INTEGER CUDA ordinal inside the process
--   contextId INTEGER inside the process
--   streamId INTEGER inside the context
--   correlationId INTEGER unique inside the process; NULL or 0 if the launch is unknown
--   globalPid INTEGER process key in the upper 40 bits, as unsigned
--   bytes INTEGER bytes set
--   graphNodeId INTEGER of the CUDA graph that it is part of; NULL or 0 outside graphs
-- Order: none
SELECT start, "end", deviceId, contextId, streamId, correlationId, globalPid, bytes, graphNodeId
FROM CUPTI_ACTIVITY_KIND_MEMSET
