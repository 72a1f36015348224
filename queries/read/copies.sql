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
-- Order: none
SELECT start, "end", deviceId, contextId, streamId, correlationId, globalPid, copyKind, bytes
FROM CUPTI_ACTIVITY_KIND_MEMCPY
