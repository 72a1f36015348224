-- Purpose: names of the values of enumerations in binary NVTX payloads.
-- Needs: NVTX_PAYLOAD_ENUM_ENTRIES
-- Params: none
-- Columns:
--   domainId INTEGER inside the process
--   schemaId INTEGER of the enumeration
--   value INTEGER NULL is 0
--   name TEXT e.g. 'Sum'
-- Order: domainId, schemaId, value
SELECT DISTINCT domainId, schemaId, value, name
FROM NVTX_PAYLOAD_ENUM_ENTRIES
ORDER BY domainId, schemaId, value
