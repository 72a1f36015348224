-- Purpose: warnings (severity 2) and errors (3) that the profiler noted while it captured, with how often each occurs.
-- Needs: DIAGNOSTIC_EVENT
-- Params: none
-- Columns:
--   severity INTEGER 2 warning, 3 error
--   text TEXT
--   occurrences INTEGER
-- Order: severity descending, text
SELECT severity, text, count(*) AS occurrences
FROM DIAGNOSTIC_EVENT
WHERE severity IN (2, 3)
GROUP BY severity, text
ORDER BY severity DESC, text
