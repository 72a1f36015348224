-- Purpose: the texts of NVTX ranges outside the domain NCCL with how often each occurs, most frequent first, for the error that proposes --step.
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
        AND (globalTid >> 24, coalesce(domainId, 0)) NOT IN (
            SELECT d.globalTid >> 24, d.domainId
            FROM NVTX_EVENTS AS d
            LEFT JOIN StringIds AS n ON d.text IS NULL AND n.id = d.textId
            WHERE d.eventType = 75 AND d.globalTid IS NOT NULL AND d.domainId IS NOT NULL AND coalesce(d.text, n.value) = 'NCCL'
        )
    GROUP BY text, textId
) AS r
LEFT JOIN StringIds AS s ON r.text IS NULL AND s.id = r.textId
WHERE coalesce(r.text, s.value) IS NOT NULL
GROUP BY 1
ORDER BY 2 DESC, 1
