-- Purpose: MPI ranks by thread (captured with --trace=mpi).
-- Needs: MPI_RANKS
-- Params: none
-- Columns:
--   globalTid INTEGER a thread of the process
--   rank INTEGER in MPI_COMM_WORLD
-- Order: none
SELECT globalTid, "rank"
FROM MPI_RANKS
