//! Matching, clocks and waits of 64 ranks with 5,000 collectives each.

#[path = "../tests/it/across/many.rs"]
#[allow(unreachable_pub, reason = "a file of the tests, too")]
mod many;

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use many::{Many, RANKS};
use nsysnccl::internals::collectives::events::Event;
use nsysnccl::internals::collectives::groups;

fn bench(c: &mut Criterion) {
    let mut group = c.benchmark_group("64 ranks of 5,000 collectives");
    group.sample_size(10);
    for (name, payloads, ranges) in
        [("payloads", true, true), ("stream order", false, true), ("time", true, false)]
    {
        let many = Many::new(payloads, ranges);
        let numbers: Vec<u32> = (0..RANKS).collect();
        // Every rank has every step.
        let run_steps: Vec<usize> = (0..many.steps[0].len()).collect();
        group.bench_function(name, |b| {
            b.iter(|| {
                let (events, across) = many.across();
                let lists: Vec<&[Event]> = events.iter().map(Vec::as_slice).collect();
                let waits =
                    groups::step_waits(&across.measured, &across.compute, &run_steps, &numbers);
                black_box((groups::groups(&across.measured, &lists, &numbers), waits))
            });
        });
    }
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
