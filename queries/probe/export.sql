-- Purpose: by which version, with which schema and how the report was exported.
-- Needs: META_DATA_EXPORT
-- Params: none
-- Columns:
--   name TEXT e.g. EXPORT_SCHEMA_VERSION
--   value TEXT
-- Order: none
SELECT name, value
FROM META_DATA_EXPORT
