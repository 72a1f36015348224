-- Purpose: the payload of one NVTX range, as JSON text or as a blob that the schema tables describe.
-- Needs: NVTX_EVENTS
-- Params: ?1 rowid of the range
-- Columns:
--   jsonText TEXT NULL unless exported with --include-json
--   jsonTextId INTEGER StringIds.id where the JSON is a registered string; NULL otherwise
--   binaryData BLOB NULL unless exported with --include-blobs
-- Order: none
SELECT jsonText, jsonTextId, binaryData
FROM NVTX_EVENTS
WHERE rowid = ?1
