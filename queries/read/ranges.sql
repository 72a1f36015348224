-- Purpose: NVTX ranges that have an end: push/pop (eventType 59) and start/end (60).
-- Needs: NVTX_EVENTS
-- Params: none
-- Columns:
--   start INTEGER ns in the report's own time
--   end INTEGER ns in the report's own time
--   globalTid INTEGER thread that opened the range
--   domainId INTEGER inside the process; NULL or 0 is the default domain
--   text TEXT the range's text; NULL if it is a registered string
--   textId INTEGER StringIds.id of a registered string; NULL otherwise
--   eventType INTEGER 59 push/pop, 60 start/end
--   rowid INTEGER finds the payload again
-- Order: none
SELECT start, "end", globalTid, domainId, text, textId, eventType, rowid
FROM NVTX_EVENTS
WHERE eventType IN (59, 60) AND "end" IS NOT NULL
