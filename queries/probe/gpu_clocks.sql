-- Purpose: the highest clock of each GPU.
-- Needs: TARGET_INFO_GPU
-- Params: none
-- Columns:
--   id INTEGER number of the GPU in this report
--   clockRate INTEGER Hz; NULL or 0 if unknown
-- Order: id
SELECT id, clockRate
FROM TARGET_INFO_GPU
ORDER BY id
