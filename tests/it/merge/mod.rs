//! Kernels of a trace beside records of NCCL Inspector: hand-drawn cases, and captures where both are known.

mod captures;
mod cases;
mod faults;
mod run;
mod scene;
mod typical;
