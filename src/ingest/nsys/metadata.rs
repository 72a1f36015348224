//! What a report says about itself: versions, clock, host, GPUs, and the few facts taken from the captured environment.

use std::collections::BTreeMap;

use foldhash::{HashMap, HashMapExt};

use super::db::{Db, int, shown, text, time};
use super::gather::is_time;
use super::ids::process_of;
use super::queries;
use crate::Result;
use crate::model::{Ns, RANK_VARIABLES};
use crate::redact;

const SIZE_VARIABLES: [&str; 4] =
    ["WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE"];

/// NCCL and CUDA settings that are kept.
const MOST_SETTINGS: usize = 500;

/// Facts about one report.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Metadata {
    /// Version of Nsight Systems that exported it.
    pub nsys_version: Option<String>,
    /// Version of the export's schema.
    pub schema_version: Option<String>,
    /// Nanoseconds to add to timestamps to get Unix time; 0 if they already are.
    pub epoch_ns: Option<i64>,
    /// Timestamp of the capture's beginning.
    pub zero: Ns,
    /// Host name.
    pub hostname: Option<String>,
    /// `Graph` or `Node`.
    pub cuda_graph_mode: Option<String>,
    /// Rank from the environment: variable and value.
    pub rank: Option<(&'static str, u32)>,
    /// Number of ranks from the environment.
    pub world_size: Option<u32>,
    /// NCCL and CUDA settings of the environment.
    pub settings: BTreeMap<String, String>,
    /// GPUs by number.
    gpus: BTreeMap<i64, Gpu>,
    /// GPU number by (pid, CUDA ordinal).
    devices: HashMap<(i64, i64), i64>,
    /// MPI rank by process.
    pub mpi_ranks: HashMap<u64, u32>,
    /// Errors that the profiler noted.
    pub errors: Vec<String>,
    /// How the export was made.
    pub exported: Exported,
    /// Whether NVTX was traced; `None` if the report does not say.
    pub nvtx_traced: Option<bool>,
    /// True if only some NVTX domains were kept (`--nvtx-domain-include`, `--nvtx-domain-exclude`).
    pub nvtx_filtered: bool,
}

/// With which options `nsys export` ran, as far as the export says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Exported {
    /// `--tables` left out tables.
    pub only_some_tables: bool,
    /// `--times` left out events.
    pub only_some_times: bool,
    /// `--include-blobs`: NVTX payloads as binary data.
    pub include_blobs: Option<bool>,
    /// `--include-json`: NVTX payloads as text.
    pub include_json: Option<bool>,
}

/// A GPU as a report knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gpu {
    /// Model.
    pub model: String,
    /// Its own number, the same in every report.
    pub uuid: Option<String>,
}

impl Metadata {
    /// Reads all of it.
    ///
    /// # Errors
    /// The report is damaged.
    pub fn read(db: &Db) -> Result<Metadata> {
        let mut meta = Metadata::default();
        let (mut normalized, mut shift) = (false, 0i64);
        db.each(queries::EXPORT, [], |row| {
            let (Some(name), Some(value)) = (text(row, 0), text(row, 1)) else { return };
            match &*name {
                "EXPORT_PRODUCT_VERSION" => {
                    meta.nsys_version = Some(redact::owned(value.into_owned()))
                }
                "EXPORT_SCHEMA_VERSION" => {
                    meta.schema_version = Some(redact::owned(value.into_owned()))
                }
                "EXPORT_PARAM_TIME_NORMALIZE" => {
                    normalized = value.eq_ignore_ascii_case("true") || value == "1"
                }
                "EXPORT_PARAM_TABLES_TO_EXPORT" => {
                    meta.exported.only_some_tables = !value.trim().is_empty()
                }
                "EXPORT_PARAM_TIMES_TO_EXPORT" => {
                    meta.exported.only_some_times = !value.trim().is_empty()
                }
                "EXPORT_PARAM_INCLUDE_BLOBS" => {
                    meta.exported.include_blobs = Some(value.eq_ignore_ascii_case("true"))
                }
                "EXPORT_PARAM_INCLUDE_JSON" => {
                    meta.exported.include_json = Some(value.eq_ignore_ascii_case("true"))
                }
                "EXPORT_PARAM_TIME_SHIFT" => {
                    shift = value.trim().parse().ok().filter(|&ns| is_time(ns)).unwrap_or(0)
                }
                _ => {}
            }
        })?;
        let mut utc = None;
        db.each(queries::SESSION, [], |row| utc = utc.or(time(row, 0).filter(|&ns| ns > 0)))?;
        meta.epoch_ns = if normalized {
            Some(0i64.saturating_sub(shift))
        } else {
            utc.map(|ns| ns.saturating_sub(shift))
        };
        meta.zero = if normalized { utc.unwrap_or(0).saturating_add(shift) } else { shift };
        meta.read_environment(db)?;
        meta.read_devices(db)?;
        db.each(queries::MPI_RANKS, [], |row| {
            if let (Some(thread), Some(rank)) =
                (int(row, 0), int(row, 1).and_then(|r| u32::try_from(r).ok()))
            {
                meta.mpi_ranks.insert(process_of(thread), rank);
            }
        })?;
        db.each(queries::DIAGNOSTICS, [], |row| meta.errors.extend(shown(row, 0)))?;
        Ok(meta)
    }

    /// The environment may hold secrets: nothing but rank numbers and NCCL and CUDA settings leaves this function.
    fn read_environment(&mut self, db: &Db) -> Result<()> {
        let mut variables: HashMap<String, String> = HashMap::new();
        let mut keep = |name: &str, value: &str| {
            let wanted = RANK_VARIABLES.contains(&name)
                || SIZE_VARIABLES.contains(&name)
                || redact::is_setting(name);
            if wanted {
                variables.entry(name.to_owned()).or_insert_with(|| value.to_owned());
            }
        };
        let (mut graph_mode, mut nvtx_traced, mut nvtx_filtered) = (None, None, false);
        db.each(queries::CAPTURE, [], |row| {
            let (Some(name), Some(value)) = (text(row, 0), text(row, 1)) else { return };
            if name.ends_with(":ENVIRONMENT_VARIABLE") {
                if let Some((variable, value)) = value.split_once('=') {
                    keep(variable.trim(), value.trim().trim_matches('"'));
                }
            } else if name.ends_with("CUDA_GRAPH_TRACE_OPTIONS:MODE") {
                graph_mode = shown(row, 1);
            } else if name.ends_with(":COLLECT_NVTX_TRACE") {
                nvtx_traced = Some(value.eq_ignore_ascii_case("true"));
            } else if name == "NVTX_OPTIONS:NVTX_DOMAIN_FILTER_STRING" {
                nvtx_filtered = !value.trim().is_empty();
            }
        })?;
        let mut hostname = None;
        db.each(queries::SYSTEM, [], |row| match (text(row, 0), text(row, 1)) {
            (Some(name), Some(_)) if name == "Hostname" => hostname = shown(row, 1),
            // `K=V;K=V`: a value may hold a semicolon, which at worst loses that variable.
            (Some(_), Some(value)) => value
                .split(';')
                .filter_map(|pair| pair.split_once('='))
                .for_each(|(k, v)| keep(k, v)),
            _ => {}
        })?;
        let number = |name: &str| variables.get(name).and_then(|v| v.trim().parse::<u32>().ok());
        self.rank =
            RANK_VARIABLES.into_iter().find_map(|name| number(name).map(|rank| (name, rank)));
        self.world_size = SIZE_VARIABLES.into_iter().find_map(number);
        self.settings = variables
            .into_iter()
            .filter_map(|(name, value)| redact::setting(&name, &value).map(|value| (name, value)))
            .collect();
        // The first by name: no environment has as many.
        while self.settings.len() > MOST_SETTINGS {
            self.settings.pop_last();
        }
        self.cuda_graph_mode = graph_mode;
        self.nvtx_traced = nvtx_traced;
        self.nvtx_filtered = nvtx_filtered;
        self.hostname = hostname;
        Ok(())
    }

    fn read_devices(&mut self, db: &Db) -> Result<()> {
        db.each(queries::GPUS, [], |row| {
            if let (Some(id), Some(model)) = (int(row, 0).or_else(|| int(row, 2)), shown(row, 1)) {
                // Zeros stand for a number that is not known.
                let uuid = shown(row, 3)
                    .filter(|uuid| uuid.chars().any(|c| c.is_ascii_hexdigit() && c != '0'));
                let gpu = || Gpu { model, uuid };
                self.gpus.entry(id).or_insert_with(gpu);
            }
        })?;
        db.each(queries::DEVICES, [], |row| {
            if let (Some(gpu), Some(cuda), Some(pid)) = (int(row, 0), int(row, 1), int(row, 2)) {
                self.devices.insert((pid, cuda), gpu);
            }
        })?;
        Ok(())
    }

    /// How many GPUs of each model the machine has.
    pub fn gpu_models(&self) -> BTreeMap<String, usize> {
        let mut models = BTreeMap::new();
        self.gpus.values().for_each(|gpu| *models.entry(gpu.model.clone()).or_default() += 1);
        models
    }

    /// The machine's index of the GPU that a process knows under a CUDA ordinal; `None` where the report does not say.
    pub fn gpu_index(&self, pid: u32, device: i64) -> Option<u32> {
        u32::try_from(*self.devices.get(&(i64::from(pid), device))?).ok()
    }

    /// The own number of the GPU that has a number in this report; `None` where the report does not say.
    pub fn uuid(&self, id: i64) -> Option<&str> {
        self.gpus.get(&id)?.uuid.as_deref()
    }

    /// The machine's GPUs by their own numbers, as far as they are known.
    pub fn gpu_uuids(&self) -> Vec<String> {
        self.gpus.values().filter_map(|gpu| gpu.uuid.clone()).collect()
    }

    /// The GPU that a process knows under a CUDA ordinal; `None` where the report does not say. Where all GPUs are of one model, that
    /// at least is known.
    pub fn gpu(&self, pid: u32, device: i64) -> Option<Gpu> {
        if let Some(gpu) = self.devices.get(&(i64::from(pid), device)) {
            return self.gpus.get(gpu).cloned();
        }
        let mut gpus = self.gpus.values();
        let first = gpus.next()?;
        gpus.all(|other| other.model == first.model)
            .then(|| Gpu { model: first.model.clone(), uuid: None })
    }
}
