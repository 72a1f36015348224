-- Purpose: every string of the report, to find the few that matter in one pass.
-- Needs: StringIds
-- Params: none
-- Columns:
--   id INTEGER
--   value TEXT
-- Order: none
SELECT id, value
FROM StringIds
