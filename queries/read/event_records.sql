-- Purpose: every cudaEventRecord: the event completes when all that its stream held at the call has.
-- Needs: CUPTI_ACTIVITY_KIND_CUDA_EVENT
-- Params: none
-- Columns:
--   globalPid INTEGER process key in the upper 40 bits, as unsigned
--   contextId INTEGER inside the process
--   streamId INTEGER inside the context: where the event was recorded
--   correlationId INTEGER of the call, unique inside the process
--   eventId INTEGER the event, recorded again and again
--   eventSyncId INTEGER number of this very record, which waits for it bear too; NULL in exports before 2025
-- Order: none
SELECT globalPid, contextId, streamId, correlationId, eventId, eventSyncId
FROM CUPTI_ACTIVITY_KIND_CUDA_EVENT
