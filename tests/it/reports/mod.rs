//! Whole reports, from rows as `nsys export` writes them to the numbers that are printed.

mod complaints;
mod ddp_8gpu;
mod facts;
mod queries;
mod unusual;
