-- Purpose: GPU models, with the numbers by which processes know them.
-- Needs: TARGET_INFO_GPU, TARGET_INFO_CUDA_GPU
-- Params: none
-- Columns:
--   id INTEGER number of the GPU in this report; NULL in exports up to 2020 of the second table
--   name TEXT model
--   deviceId INTEGER CUDA ordinal in exports up to 2020; NULL later
-- Order: id, deviceId
SELECT coalesce(id, deviceId) AS id, name, deviceId
FROM TARGET_INFO_GPU
UNION
SELECT NULL, name, deviceId
FROM TARGET_INFO_CUDA_GPU
ORDER BY 1, 3
