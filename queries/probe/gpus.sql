-- Purpose: GPU models, with the numbers by which processes know them.
-- Needs: TARGET_INFO_GPU, TARGET_INFO_CUDA_GPU
-- Params: none
-- Columns:
--   id INTEGER number of the GPU in this report; NULL in exports up to 2020 of the second table
--   name TEXT model
--   deviceId INTEGER CUDA ordinal in exports up to 2020; NULL later
--   uuid TEXT the GPU's own number, the same in every report; NULL in exports up to 2020
-- Order: id, deviceId
SELECT coalesce(id, deviceId) AS id, name, deviceId, uuid
FROM TARGET_INFO_GPU
UNION
SELECT NULL, name, deviceId, NULL
FROM TARGET_INFO_CUDA_GPU
ORDER BY 1, 3
