-- Purpose: names of the NVTX domains, for each process.
-- Needs: NVTX_EVENTS
-- Params: none
-- Columns:
--   globalTid INTEGER a thread of the process that made the domain
--   domainId INTEGER inside the process
--   text TEXT the name; NULL if it is a registered string
--   textId INTEGER StringIds.id of the name; NULL otherwise
-- Order: none
SELECT globalTid, domainId, text, textId
FROM NVTX_EVENTS
WHERE eventType = 75
