-- Purpose: how long was captured.
-- Needs: ANALYSIS_DETAILS
-- Params: none
-- Columns:
--   duration INTEGER ns
-- Order: none
SELECT duration
FROM ANALYSIS_DETAILS
