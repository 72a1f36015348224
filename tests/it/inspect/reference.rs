//! Against numbers that `mean_busbw.py` computes from the same logs by the definitions of NVIDIA's exporter.

use std::collections::BTreeMap;
use std::path::Path;

use nsysnccl::internals::inspect::{Filter, Inspected, budget};
use nsysnccl::internals::render::{self, Format, Style};

use super::log::inspected;

fn data() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/inspector")
}

fn view(folder: &str) -> Inspected {
    inspected(&[data().join(folder)], &Filter::default(), budget(8))
}

#[test]
fn mean_bandwidth_of_every_operation_and_class_of_every_communicator() {
    let expected = std::fs::read_to_string(data().join("mean_busbw.tsv")).expect("the table");
    let mut compared = 0;
    for folder in ["v2.28.9", "v2.30.7"] {
        let csv = render::print(
            &view(folder),
            Format::Csv,
            &Style { width: 100, color: false, full: true },
        );
        let mut lines = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
        let head = lines.next().expect("a head");
        let column = |name: &str| head.iter().position(|h| *h == name).expect(name);
        let key = ["comm_id", "class", "op", "sn", "bytes", "ranks"].map(column);
        let mean = column("logged_busbw_gbs_mean");
        let got: BTreeMap<String, &str> =
            lines.map(|line| (key.map(|i| line[i]).join(" "), line[mean])).collect();
        for line in expected.lines().skip(1).filter(|line| line.starts_with(folder)) {
            let fields: Vec<&str> = line.split('\t').collect();
            let (key, want) = (fields[1..7].join(" "), fields[7].parse::<f64>().expect("a number"));
            let got: f64 = got
                .get(&key)
                .unwrap_or_else(|| panic!("{folder} {key} is not printed"))
                .parse()
                .expect("a number");
            assert!((got - want).abs() < 5e-7, "{folder} {key}: {got} instead of {want}");
            compared += 1;
        }
    }
    assert_eq!(compared, 364);
}

#[test]
fn recomputed_bandwidths_are_those_that_the_logs_give() {
    // Times are whole microseconds in the log and bandwidths are computed from them, so both must agree to the digits printed.
    for folder in ["v2.28.9", "v2.30.7"] {
        let inspected = view(folder);
        let counts = inspected.bandwidths.iter().flatten();
        for (op, counts) in inspected
            .view
            .communicators
            .iter()
            .flat_map(|c| &c.ops)
            .zip(counts)
            .filter(|(op, _)| op.sizes_corrected == 0)
        {
            let mean = counts.iter().map(|(v, n)| v * *n as f64).sum::<f64>() / op.count as f64;
            let logged = op.logged_busbw_gbs_mean.expect("logged");
            assert!(
                (mean - logged).abs() < 1e-6,
                "{folder} {} {:?}: {mean} for {logged}",
                op.op,
                op.bytes
            );
        }
    }
}

#[test]
fn negative_sizes_of_both_generations_are_corrected() {
    for folder in ["v2.28.9", "v2.30.7"] {
        let view = view(folder).view;
        let corrected: u64 =
            view.communicators.iter().flat_map(|c| &c.ops).map(|op| op.sizes_corrected).sum();
        assert_eq!(corrected, 24, "{folder}");
        assert!(
            view.communicators
                .iter()
                .flat_map(|c| &c.ops)
                .all(|op| op.bytes.is_some_and(|b| b < 1 << 30))
        );
        assert_eq!(view.files.iter().map(|f| f.bad_lines).sum::<u64>(), 0);
    }
}

#[test]
fn lost_records_of_the_first_generation_show_as_gaps() {
    // 2.28.9 keeps only the newest operation between two dumps; 2.30.7 lost none of the same program.
    let missing = |folder: &str| {
        view(folder).view.communicators.iter().map(|c| c.missing_operations).sum::<u64>()
    };
    assert_eq!((missing("v2.28.9"), missing("v2.30.7")), (9, 0));
}
