//! One line of Inspector's Prometheus mode.

use crate::model::record::PrometheusRow;
use crate::redact;

use super::json::Fault;

/// One sample: `name{label="value",...} number`.
#[derive(Debug)]
pub(super) struct Sample {
    /// All labels: samples that share them belong to one row.
    pub key: String,
    /// The row with the one number that this sample holds.
    pub row: PrometheusRow,
}

/// Reads one sample.
///
/// # Errors
/// The line is none, or of a metric that Inspector does not write.
pub(super) fn sample(line: &str) -> Result<Sample, Fault> {
    let fault = |why: &str| Fault::from(format!("is no Prometheus sample of Inspector: {why}"));
    let (name, rest) = line.split_once('{').ok_or_else(|| fault("no labels"))?;
    let end = rest.rfind('}').ok_or_else(|| fault("the labels do not end"))?;
    let (labels, value) =
        (rest.get(..end).unwrap_or_default(), rest.get(end + 1..).unwrap_or_default());
    let value: f64 = value
        .split_whitespace()
        .next()
        .and_then(|v| v.parse().ok())
        .ok_or_else(|| fault("no number"))?;
    let mut row = PrometheusRow::default();
    for (label, value) in pairs(labels) {
        let text = Some(redact::owned(value.clone())).filter(|v| v != "unknown");
        match label {
            "hostname" | "node" => row.hostname = text,
            "gpu_device_id" | "gpu" => row.gpu = text,
            "comm_id" | "comm_name" => row.comm = text,
            "rank" => row.rank = value.parse().ok(),
            "nranks" => row.n_ranks = value.parse().ok(),
            "n_nodes" => row.nnodes = value.parse().ok(),
            "collective" | "p2p_operation" => row.op = text,
            "message_size" => row.message_size = text,
            "algo_proto" => row.algo_proto = text,
            "coll_sn" => row.sn = value.parse().ok(),
            _ => {}
        }
    }
    let value = Some(value).filter(|v| v.is_finite());
    let bandwidth = value.filter(|_| !row.message_size.as_deref().is_some_and(is_negative_size));
    match name.strip_prefix("nccl_").map(|n| n.strip_prefix("p2p_").unwrap_or(n)) {
        Some("bus_bandwidth_gbs") => row.busbw_gbs = bandwidth,
        Some("algorithm_bandwidth_gbs") => row.algbw_gbs = bandwidth,
        Some("collective_exec_time_microseconds" | "exec_time_microseconds") => {
            row.exec_time_us = value
        }
        _ => return Err(fault("an unknown metric")),
    }
    Ok(Sample { key: labels.to_owned(), row })
}

/// The labels. A backslash escapes the next character, as in the exposition format.
fn pairs(labels: &str) -> Vec<(&str, String)> {
    let mut out = Vec::new();
    let mut rest = labels;
    while let Some((label, after)) = rest.split_once("=\"") {
        let mut value = String::new();
        let mut chars = after.char_indices();
        let mut end = after.len();
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => {
                    end = at + 1;
                    break;
                }
                '\\' => value.extend(chars.next().map(|(_, c)| if c == 'n' { '\n' } else { c })),
                c => value.push(c),
            }
        }
        out.push((label.trim_start_matches(',').trim(), value));
        rest = after.get(end..).unwrap_or_default();
    }
    out
}

/// True for the size that 2^64 - n becomes: about 16 million TB. The bandwidths beside it are absurd.
fn is_negative_size(size: &str) -> bool {
    let number = size.split(['-', 'T', '.']).next().and_then(|n| n.parse::<u64>().ok());
    size.ends_with("TB") && number.is_some_and(|n| n >= 8_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_generations_are_read() {
        let old = sample(r#"nccl_bus_bandwidth_gbs{comm_id="0xa1",hostname="n0",rank="3",slurm_job_id="unknown",nranks="4",n_nodes="1",collective="Broadcast",coll_sn="19",message_size="64.00KB"} 2.048"#).expect("a sample");
        assert_eq!(
            (old.row.comm.as_deref(), old.row.rank, old.row.sn, old.row.busbw_gbs),
            (Some("0xa1"), Some(3), Some(19), Some(2.048))
        );
        let new =
            sample(r#"nccl_p2p_exec_time_microseconds{node="n0",comm_name="a \"b\"",p2p_operation="Send",message_size="1-2MB"} 39.25"#)
                .expect("a sample");
        assert_eq!(
            (new.row.comm.as_deref(), new.row.op.as_deref(), new.row.exec_time_us),
            (Some("a \"b\""), Some("Send"), Some(39.25))
        );
    }

    #[test]
    fn the_bandwidth_of_a_negative_size_is_not_kept() {
        let text = |metric: &str| {
            format!(
                r#"{metric}{{collective="AllReduce",message_size="16777215-16777216TB"}} 2.3e+14"#
            )
        };
        assert_eq!(sample(&text("nccl_bus_bandwidth_gbs")).expect("a sample").row.busbw_gbs, None);
        assert_eq!(
            sample(&text("nccl_collective_exec_time_microseconds"))
                .expect("a sample")
                .row
                .exec_time_us,
            Some(2.3e14)
        );
    }

    #[test]
    fn other_lines_are_refused() {
        for line in [
            "nccl_bus_bandwidth_gbs 3",
            "nccl_x{a=\"b\"} 1",
            "nccl_bus_bandwidth_gbs{a=\"b\"",
            "nccl_bus_bandwidth_gbs{} x",
        ] {
            assert!(sample(line).is_err(), "{line}");
        }
    }
}
