-- Purpose: how many CUDA API calls there are, and how many of them launch kernels or graphs or copy: why a report has no GPU work.
-- Needs: CUPTI_ACTIVITY_KIND_RUNTIME, StringIds
-- Params: none
-- Columns:
--   calls INTEGER all API calls
--   launches INTEGER launches of kernels and graphs among them
--   copies INTEGER copies and memsets among them
-- Order: none
SELECT count(*) AS calls,
    count(CASE WHEN s.value LIKE 'cu%Launch%' THEN 1 END) AS launches,
    count(CASE WHEN s.value LIKE 'cu%Memcpy%' OR s.value LIKE 'cu%Memset%' THEN 1 END) AS copies
FROM CUPTI_ACTIVITY_KIND_RUNTIME AS r
LEFT JOIN StringIds AS s ON s.id = r.nameId
