-- Purpose: what the host or a stream waited for.
-- Needs: CUPTI_ACTIVITY_KIND_SYNCHRONIZATION
-- Params: none
-- Columns:
--   globalPid INTEGER process key in the upper 40 bits, as unsigned
--   contextId INTEGER inside the process
--   streamId INTEGER inside the context: the stream that waits or is waited for
--   correlationId INTEGER of the call, unique inside the process
--   syncType INTEGER 1 the host for an event, 2 a stream for an event, 3 the host for a stream, 4 the host for a context
--   eventId INTEGER the event that is waited for
--   eventSyncId INTEGER number of the very record that is waited for; NULL in exports before 2025
-- Order: none
SELECT globalPid, contextId, streamId, correlationId, syncType, eventId, eventSyncId
FROM CUPTI_ACTIVITY_KIND_SYNCHRONIZATION
