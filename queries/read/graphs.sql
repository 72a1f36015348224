-- Purpose: CUDA graphs captured as one row a launch (--cuda-graph-trace=graph): GPU work of unknown class.
-- Needs: CUPTI_ACTIVITY_KIND_GRAPH_TRACE
-- Params: none
-- Columns:
--   start INTEGER ns in the report's own time
--   end INTEGER ns in the report's own time
--   deviceId INTEGER CUDA ordinal inside the process
--   contextId INTEGER inside the process
--   streamId INTEGER inside the context
--   correlationId INTEGER of the cudaGraphLaunch; kernels of a node-level trace share it
--   globalPid INTEGER process key in the upper 40 bits, as unsigned
-- Order: none
SELECT start, "end", deviceId, contextId, streamId, correlationId, globalPid
FROM CUPTI_ACTIVITY_KIND_GRAPH_TRACE
