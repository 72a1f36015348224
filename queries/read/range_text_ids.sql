-- Purpose: the registered strings that NVTX ranges name, with repetitions, so that only these are kept of all strings.
-- Needs: NVTX_EVENTS
-- Params: none
-- Columns:
--   textId INTEGER StringIds.id
-- Order: none
SELECT textId
FROM NVTX_EVENTS
WHERE eventType IN (59, 60) AND textId IS NOT NULL
