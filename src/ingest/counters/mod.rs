//! Counters that were sampled beside a run, as text: one reader for each program that writes them.
//!
//! None of them says when to the microsecond, and two do not say when at all: see each reader.

pub(crate) mod dcgm;
mod dcgmi;
mod exporter;
mod smi;

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use super::encoding::AsUtf8;
use crate::catalogue::Id;
use crate::ingest::open;
use crate::model::Ns;
use crate::model::counter::{Quantity, Sampled, Sampler, Series, Unit};
use crate::warning::Warning;
use crate::{Error, Result, text, units};

/// No file is read further.
const LARGEST: u64 = 64 << 20;
/// GPUs of one file, at most.
const MOST_GPUS: usize = 4_096;

/// What one file holds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CounterFile {
    /// What was sampled, by GPU.
    pub sampled: Vec<Sampled>,
    /// What a reader should know.
    pub warnings: Vec<Warning>,
}

/// Who wrote a text, by its first lines; `None` if none of them did.
pub(crate) fn told(text: &str) -> Option<Sampler> {
    [
        (Sampler::Dcgmi, dcgmi::is_one as fn(&str) -> bool),
        (Sampler::Exporter, exporter::is_one),
        (Sampler::Smi, smi::is_one),
    ]
    .into_iter()
    .find(|(_, is_one)| is_one(text))
    .map(|(sampler, _)| sampler)
}

/// Reads a file.
///
/// # Errors
/// It cannot be read, or none of the programs wrote it.
pub(crate) fn read(path: &Path) -> Result<CounterFile> {
    let mut bytes = Vec::new();
    AsUtf8::new(open::open(path)?)
        .take(LARGEST + 1)
        .read_to_end(&mut bytes)
        .map_err(|e| Error::input(path, format!("cannot be read: {e}")))?;
    let cut = bytes.len() as u64 > LARGEST;
    bytes.truncate(LARGEST as usize);
    let content = String::from_utf8_lossy(&bytes);
    let content = text::without_escapes(&content);
    let unknown = || {
        Error::input(path, "holds no counters of GPUs").with_hint(
            "write them with: dcgmi dmon -e 1002,1004,1005,1009,1010,1011,1012,100,409,419,429,439 -d 100, with the DCGM exporter, or with: nvidia-smi dmon -s pucvmet -o DT",
        )
    };
    let sampler = told(&content).ok_or_else(unknown)?;
    let mut table = Found::default();
    match sampler {
        Sampler::Dcgmi => dcgmi::parse(&content, &mut table),
        Sampler::Exporter => exporter::parse(&content, &mut table),
        Sampler::Smi => smi::parse(&content, &mut table),
        Sampler::Nsys => {}
    }
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    let mut warnings = Vec::new();
    let mut say = |code: Id, message: String| {
        warnings.push(Warning::new(code, message).in_report(&name));
    };
    if cut {
        say(
            Id::CountersCut,
            format!("Only the first {} of {name} are read.", units::bytes(LARGEST)),
        );
    }
    if table.instances > 0 {
        say(
            Id::CountersInstances,
            format!(
                "{} of {name} left out: of parts of a GPU, of links or of switches.",
                units::plural(table.instances, "line")
            ),
        );
    }
    if table.bad > 0 {
        say(
            Id::CountersLines,
            format!(
                "{} of {name} left out: not as its header or format says.",
                units::plural(table.bad, "line")
            ),
        );
    }
    let sampled: Vec<Sampled> = table.finish(sampler, &name);
    match sampled.is_empty() {
        true => Err(unknown()),
        false => Ok(CounterFile { sampled, warnings }),
    }
}

/// A GPU as a file names it.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Gpu {
    hostname: Option<String>,
    index: Option<u32>,
    uuid: Option<String>,
}

/// What a reader found so far.
#[derive(Debug, Default)]
struct Found {
    series: BTreeMap<Gpu, BTreeMap<Quantity, Column>>,
    /// Lines of parts of a GPU.
    instances: usize,
    /// Lines that do not fit their header.
    bad: usize,
}

/// One counter of a GPU.
#[derive(Debug, Default)]
struct Column {
    unit: Option<Unit>,
    names: Vec<String>,
    samples: Vec<(Option<Ns>, f64)>,
    /// Counters of one sample that are added up: their names in it.
    in_sample: Vec<String>,
}

impl Found {
    /// Takes a value of a GPU. Where several counters are of one quantity (errors of NVLink by kind), they are added up sample by
    /// sample: a name that comes again begins the next sample.
    fn add(&mut self, gpu: &Gpu, what: (Quantity, Unit), name: &str, at: Option<Ns>, value: f64) {
        if self.series.len() >= MOST_GPUS && !self.series.contains_key(gpu) {
            self.instances += 1;
            return;
        }
        let (quantity, unit) = what;
        let column = self.series.entry(gpu.clone()).or_default().entry(quantity).or_default();
        if *column.unit.get_or_insert(unit) != unit {
            self.bad += 1;
            return;
        }
        if !column.names.iter().any(|known| known == name) {
            column.names.push(name.to_owned());
        }
        let again = column.in_sample.iter().any(|known| known == name);
        match column.samples.last_mut() {
            Some((_, sum)) if !again => *sum += value,
            _ => {
                column.in_sample.clear();
                column.samples.push((at, value));
            }
        }
        column.in_sample.push(name.to_owned());
    }

    fn finish(self, sampler: Sampler, file: &str) -> Vec<Sampled> {
        let of_gpu = |(gpu, columns): (Gpu, BTreeMap<Quantity, Column>)| {
            let timed = columns.values().flat_map(|c| &c.samples).all(|(at, _)| at.is_some());
            let series = columns.into_iter().map(|(quantity, mut column)| {
                if timed {
                    column.samples.sort_by_key(|(at, _)| *at);
                }
                Series {
                    quantity,
                    unit: column.unit.unwrap_or(Unit::Count),
                    names: column.names,
                    at: match timed {
                        true => column.samples.iter().filter_map(|(at, _)| *at).collect(),
                        false => Vec::new(),
                    },
                    value: column.samples.into_iter().map(|(_, value)| value).collect(),
                }
            });
            Sampled {
                sampler,
                file: file.to_owned(),
                gpu_index: gpu.index,
                gpu_uuid: gpu.uuid,
                hostname: gpu.hostname,
                epoch_ns: timed.then_some(0),
                max_clock_mhz: None,
                series: series.collect(),
            }
        };
        self.series.into_iter().map(of_gpu).collect()
    }
}

/// A value; `None` for what stands in place of one that there is not: `N/A`, `-`, NaN, and DCGM's numbers for blank, not found, not
/// supported and not permitted.
fn value(text: &str) -> Option<f64> {
    const BLANK_WHOLE: u64 = 0x7fff_ffff_ffff_fff0;
    const BLANK_REAL: f64 = 140_737_488_355_328.0;
    if text.parse::<u64>().is_ok_and(|whole| whole >= BLANK_WHOLE) {
        return None;
    }
    let value: f64 = text.parse().ok()?;
    let blank = (BLANK_REAL..BLANK_REAL + 16.0).contains(&value);
    (value.is_finite() && value >= 0.0 && !blank).then_some(value)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Any text behind any of the headers is read or refused.
        #[test]
        fn anything_is_read_to_its_end(
            head in prop::sample::select(vec![
                "#Entity SMACT NFELT\n", "#Date Time gpu pwr\n", "DCGM_FI_DEV_SM_CLOCK{gpu=\"0\"} 1\n",
            ]),
            lines in prop::collection::vec(
                "(GPU [0-9N]{1,3} [0-9N/A. -]{0,20}|DCGM_FI_DEV_SM_CLOCK\\{[a-z=\"\\\\,}]{0,20}[0-9 ]{0,20}|[0-9: -]{0,30}|\\PC{0,20})",
                0..20,
            ),
        ) {
            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().join("f.txt");
            std::fs::write(&path, format!("{head}{}", lines.join("\n"))).expect("written");
            if let Ok(file) = read(&path) {
                for series in file.sampled.iter().flat_map(|one| &one.series) {
                    prop_assert!(series.at.is_empty() || series.at.len() == series.value.len());
                    prop_assert!(series.at.is_sorted());
                }
            }
        }
    }

    #[test]
    fn what_stands_for_no_value_is_none() {
        assert_eq!(value("0.912"), Some(0.912));
        assert_eq!(value("123456789012"), Some(123_456_789_012.0));
        for blank in [
            "N/A",
            "-",
            "NaN",
            "",
            "-1",
            "9223372036854775792",
            "9223372036854775794",
            "140737488355328.0",
            "140737488355330",
            "inf",
        ] {
            assert_eq!(value(blank), None, "{blank}");
        }
    }

    #[test]
    fn counters_of_one_quantity_are_added_up_sample_by_sample() {
        let mut found = Found::default();
        let gpu = Gpu { index: Some(0), ..Gpu::default() };
        let what = (Quantity::NvlinkErrors, Unit::Count);
        for (name, value) in [("crc", 1.0), ("replay", 2.0), ("crc", 5.0), ("replay", 2.0)] {
            found.add(&gpu, what, name, None, value);
        }
        let sampled = found.finish(Sampler::Dcgmi, "f");
        assert_eq!(sampled[0].series[0].value, [3.0, 7.0]);
        assert_eq!(sampled[0].series[0].names, ["crc", "replay"]);
    }
}
