-- Purpose: which GPU a process knows under which CUDA ordinal.
-- Needs: TARGET_INFO_CUDA_DEVICE
-- Params: none
-- Columns:
--   gpuId INTEGER TARGET_INFO_GPU.id; NULL if unknown
--   cudaId INTEGER CUDA ordinal
--   pid INTEGER operating-system process id
-- Order: pid, cudaId
SELECT gpuId, cudaId, pid
FROM TARGET_INFO_CUDA_DEVICE
ORDER BY pid, cudaId
