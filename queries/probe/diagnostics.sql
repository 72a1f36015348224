-- Purpose: errors that the profiler noted while it captured (severity 3); its warnings appear on good captures too.
-- Needs: DIAGNOSTIC_EVENT
-- Params: none
-- Columns:
--   text TEXT
-- Order: timestamp, text
SELECT text
FROM DIAGNOSTIC_EVENT
WHERE severity = 3
ORDER BY "timestamp", text
