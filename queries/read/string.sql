-- Purpose: one string by its id.
-- Needs: StringIds
-- Params: ?1 id
-- Columns:
--   value TEXT
-- Order: none
SELECT value
FROM StringIds
WHERE id = ?1
