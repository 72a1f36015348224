-- Purpose: what the fields of binary NVTX payloads are called, where they lie and of which type they are.
-- Needs: NVTX_PAYLOAD_SCHEMA_ENTRIES
-- Params: none
-- Columns:
--   domainId INTEGER inside the process
--   schemaId INTEGER of the payload
--   idx INTEGER position among the fields
--   type INTEGER NVTX entry type, or the schema id of an enumeration
--   name TEXT e.g. 'Message size [bytes]'
--   offset INTEGER bytes from the payload's start; NULL is 0
-- Order: domainId, schemaId, idx
SELECT DISTINCT domainId, schemaId, idx, type, name, "offset"
FROM NVTX_PAYLOAD_SCHEMA_ENTRIES
ORDER BY domainId, schemaId, idx
