-- Purpose: the samples of GPU counters, one row a counter and sample.
-- Needs: GPU_METRICS
-- Params: none
-- Columns:
--   timestamp INTEGER ns in the report's own time: the beginning of the sample
--   typeId INTEGER stands for the GPU
--   metricId INTEGER inside the type
--   value INTEGER percent, or Hz of a clock
-- Order: none
SELECT timestamp, typeId, metricId, value
FROM GPU_METRICS
