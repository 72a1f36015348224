//! Several ranks: clocks, matched collectives, who waits for whom, bandwidth. Runs are written as `nsys export` writes them,
//! with every answer known; times are ns on a true clock, which each rank reads wrongly in its own way.

mod captures;
mod clocks;
mod many;
mod matching;
mod nccl_log;
mod pipelines;
mod places;
mod send_recv;
mod steps;
mod stragglers;
mod timeline;
mod together;
mod tracing;
