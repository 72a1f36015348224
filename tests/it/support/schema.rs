//! Tables and columns by version of Nsight Systems, read from real exports.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

/// One row for each version and table: `version<tab>table<tab>columns`, a column as `name:TYPE` with `!` for NOT NULL.
const LISTED: &str = include_str!("../../data/schema_by_version.tsv");

/// Tables that no listed export holds, from the published schema.
const PUBLISHED: &[(&str, &str)] = &[
    ("MPI_RANKS", "globalTid:INTEGER! rank:INTEGER!"),
    (
        "TARGET_INFO_GPU_METRICS",
        "typeId:INTEGER! sourceId:INTEGER! typeName:TEXT! metricId:INTEGER! metricName:TEXT!",
    ),
    (
        "GPU_METRICS",
        "rawTimestamp:INTEGER! timestamp:INTEGER! typeId:INTEGER! metricId:INTEGER! value:INTEGER!",
    ),
    (
        "CUPTI_ACTIVITY_KIND_CUDA_EVENT",
        "deviceId:INTEGER! contextId:INTEGER! greenContextId:INTEGER streamId:INTEGER! correlationId:INTEGER \
         globalPid:INTEGER eventId:INTEGER! eventSyncId:INTEGER",
    ),
];

/// A column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    pub name: String,
    pub kind: String,
    pub not_null: bool,
}

/// All versions.
pub struct Schemas {
    /// In order of release.
    pub versions: Vec<String>,
    tables: BTreeMap<(usize, String), Vec<Column>>,
    names: BTreeSet<String>,
}

/// The schemas, read once.
pub fn schemas() -> &'static Schemas {
    static SCHEMAS: OnceLock<Schemas> = OnceLock::new();
    SCHEMAS.get_or_init(|| {
        let mut schemas =
            Schemas { versions: Vec::new(), tables: BTreeMap::new(), names: BTreeSet::new() };
        for line in LISTED.lines().filter(|line| !line.starts_with('#')) {
            let [version, table, listed] = line.split('\t').collect::<Vec<_>>()[..] else {
                panic!("three columns: {line}")
            };
            if schemas.versions.last().is_none_or(|last| last != version) {
                schemas.versions.push(version.to_owned());
            }
            schemas.names.insert(table.to_owned());
            schemas.tables.insert((schemas.versions.len() - 1, table.to_owned()), columns(listed));
        }
        schemas
    })
}

fn columns(listed: &str) -> Vec<Column> {
    listed
        .split_whitespace()
        .map(|column| {
            let (name, kind) = column.split_once(':').expect("name:TYPE");
            Column {
                name: name.to_owned(),
                kind: kind.trim_end_matches('!').to_owned(),
                not_null: kind.ends_with('!'),
            }
        })
        .collect()
}

impl Schemas {
    /// The position of a version.
    pub fn index(&self, version: &str) -> usize {
        self.versions.iter().position(|v| v == version).expect("a listed version")
    }

    /// Every table of any version.
    pub fn table_names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str).chain(PUBLISHED.iter().map(|(name, _)| *name))
    }

    /// True if an export of this version held the table.
    pub fn is_listed(&self, version: usize, table: &str) -> bool {
        self.tables.contains_key(&(version, table.to_owned()))
    }

    /// The columns of a table in a version, or in the nearest version that lists it (the later of two).
    pub fn columns(&self, version: usize, table: &str) -> Vec<Column> {
        let listed = self.tables.iter().filter(|((_, name), _)| name == table);
        let nearest = listed.min_by_key(|((v, _), _)| (v.abs_diff(version), std::cmp::Reverse(*v)));
        if let Some((_, nearest)) = nearest {
            return nearest.clone();
        }
        let published = PUBLISHED.iter().find(|(name, _)| *name == table);
        columns(published.unwrap_or_else(|| panic!("no version lists {table}")).1)
    }

    /// `CREATE TABLE` as an export has it.
    pub fn create(&self, version: usize, table: &str) -> String {
        let columns: Vec<String> = self
            .columns(version, table)
            .iter()
            .map(|c| {
                let key = if table == "StringIds" && c.name == "id" { " PRIMARY KEY" } else { "" };
                format!(
                    "\"{}\" {}{}{key}",
                    c.name,
                    c.kind,
                    if c.not_null { " NOT NULL" } else { "" }
                )
            })
            .collect();
        format!("CREATE TABLE \"{table}\" ({})", columns.join(", "))
    }
}
