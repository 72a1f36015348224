-- Purpose: every memory copy that ran on a GPU, one row each.
-- Needs: CUPTI_ACTIVITY_KIND_MEMCPY
-- Params: none
-- Columns:
--   start INTEGER ns in the report's own time
--   end INTEGER ns in the report's own time
--   deviceId INTEGER CUDA ordinal inside the process, of the device that executes the copy
--   contextId INTEGER inside the process
--   streamId INTEGER inside the context
--   correlationId INTEGER unique inside the process; NULL or 0 if the launch is unknown
--   globalPid INTEGER process key in the upper 40 bits, as unsigned
--   copyKind INTEGER ENUM_CUDA_MEMCPY_OPER: 1 HtoD, 2 DtoH, 8 DtoD, 10 PtoP, others
--   bytes INTEGER bytes copied
--   srcDeviceId INTEGER CUDA ordinal inside the process; NULL where the source is not a device or is not known
--   dstDeviceId INTEGER the same of the destination
--   graphNodeId INTEGER of the CUDA graph that it is part of; NULL or 0 outside graphs
-- Order: none
SELECT start, "end", deviceId, contextId, streamId, correlationId, globalPid, copyKind, bytes, srcDeviceId, dstDeviceId, graphNodeId
FROM CUPTI_ACTIVITY_KIND_MEMCPY
