-- Purpose: how many CUDA API calls the report holds; without them nothing says when GPU work was launched.
-- Needs: CUPTI_ACTIVITY_KIND_RUNTIME
-- Params: none
-- Columns:
--   calls INTEGER
-- Order: none
SELECT count(*) AS calls
FROM CUPTI_ACTIVITY_KIND_RUNTIME
