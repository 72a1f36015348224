-- Purpose: how the report was captured. Holds the whole environment of the launched program, secrets among it:
--   only rank numbers and NCCL and CUDA settings are taken from it.
-- Needs: META_DATA_CAPTURE
-- Params: none
-- Columns:
--   name TEXT may repeat, e.g. PROCESS_0:ENVIRONMENT_VARIABLE
--   value TEXT
-- Order: none
SELECT name, value
FROM META_DATA_CAPTURE
