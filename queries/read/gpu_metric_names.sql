-- Purpose: what the counters of GPUs are called that were sampled.
-- Needs: TARGET_INFO_GPU_METRICS
-- Params: none
-- Columns:
--   typeId INTEGER stands for the GPU: its low byte is the GPU's number
--   metricId INTEGER inside the type; not the same in other reports
--   metricName TEXT e.g. SMs Active [Throughput %]
-- Order: typeId, metricId
SELECT typeId, metricId, metricName
FROM TARGET_INFO_GPU_METRICS
ORDER BY typeId, metricId
