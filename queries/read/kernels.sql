-- Purpose: every kernel that ran on a GPU, one row each.
-- Needs: CUPTI_ACTIVITY_KIND_KERNEL
-- Params: none
-- Columns:
--   start INTEGER ns in the report's own time
--   end INTEGER ns in the report's own time
--   deviceId INTEGER CUDA ordinal inside the process
--   contextId INTEGER inside the process
--   streamId INTEGER inside the context
--   correlationId INTEGER unique inside the process; NULL or 0 if the launch is unknown
--   globalPid INTEGER process key in the upper 40 bits, as unsigned
--   shortName INTEGER StringIds.id
--   demangledName INTEGER StringIds.id
--   graphNodeId INTEGER of the CUDA graph that the kernel is part of; NULL or 0 outside graphs
--   gridX INTEGER blocks of the launch in x
--   gridY INTEGER blocks of the launch in y
--   gridZ INTEGER blocks of the launch in z
-- Order: none
SELECT start, "end", deviceId, contextId, streamId, correlationId, globalPid, shortName, demangledName, graphNodeId, gridX, gridY, gridZ
FROM CUPTI_ACTIVITY_KIND_KERNEL
