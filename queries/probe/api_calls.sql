-- Purpose: how many CUDA API calls the report holds; without them nothing says when GPU work was launched.
--   count(*) would count pages without being stopped where they name each other.
-- Needs: CUPTI_ACTIVITY_KIND_RUNTIME
-- Params: none
-- Columns:
--   calls INTEGER
-- Order: none
SELECT coalesce(sum(1), 0) AS calls
FROM CUPTI_ACTIVITY_KIND_RUNTIME
