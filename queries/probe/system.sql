-- Purpose: facts about the host. DeviceEnvironment holds the whole environment of the profiler, secrets among it:
--   only rank numbers and NCCL and CUDA settings are taken from it.
-- Needs: TARGET_INFO_SYSTEM_ENV
-- Params: none
-- Columns:
--   name TEXT e.g. Hostname
--   value TEXT
-- Order: none
SELECT name, value
FROM TARGET_INFO_SYSTEM_ENV
WHERE name IN ('Hostname', 'DeviceEnvironment')
