-- Purpose: Unix time of the report's time 0.
-- Needs: TARGET_INFO_SESSION_START_TIME
-- Params: none
-- Columns:
--   utcEpochNs INTEGER ns since 1970
-- Order: none
SELECT utcEpochNs
FROM TARGET_INFO_SESSION_START_TIME
