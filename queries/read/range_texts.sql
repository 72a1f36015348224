-- Purpose: the texts of NVTX ranges with how often each occurs, most frequent first, for the error that proposes --step.
-- Needs: NVTX_EVENTS, StringIds
-- Params: none
-- Columns:
--   text TEXT
--   occurrences INTEGER
-- Order: occurrences descending, text
SELECT coalesce(r.text, s.value) AS text, sum(r.n) AS occurrences
FROM (
    SELECT text, textId, count(*) AS n
    FROM NVTX_EVENTS
    WHERE eventType IN (59, 60) AND "end" IS NOT NULL
    GROUP BY text, textId
) AS r
LEFT JOIN StringIds AS s ON r.text IS NULL AND s.id = r.textId
WHERE coalesce(r.text, s.value) IS NOT NULL
GROUP BY 1
ORDER BY 2 DESC, 1
