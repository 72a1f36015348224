//! One report, row by row.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use super::scenes::EPOCH;
use super::schema::schemas;

/// A thread of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thread {
    pub pid: u32,
    pub tid: u32,
}

/// When and where something was launched; without a time, the call is not in the report.
#[derive(Debug, Clone, Copy)]
pub struct Launch {
    pub thread: Thread,
    pub at: Option<i64>,
}

/// A stream of a device, as the process knows it.
#[derive(Debug, Clone, Copy)]
pub struct Stream {
    pub device: i64,
    pub context: i64,
    pub stream: i64,
}

/// Direction of a copy, by its number in `ENUM_CUDA_MEMCPY_OPER`.
#[allow(dead_code)] // Every kind by its number, whether a test has one or not.
#[derive(Debug, Clone, Copy)]
pub enum Copy {
    HtoD = 1,
    DtoH = 2,
    DtoD = 8,
    HtoH = 9,
    PtoP = 10,
}

/// How payloads of NCCL ranges are exported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Payloads {
    /// The default of `nsys export`.
    None,
    /// `--include-json true`.
    Json,
    /// `--include-blobs true`.
    Blob,
}

/// What NCCL says about one call.
#[derive(Debug, Clone, Copy, Default)]
pub struct Payload {
    pub comm: u64,
    pub bytes: Option<u64>,
    pub redop: Option<&'static str>,
    pub root: Option<i32>,
    pub peer: Option<i32>,
    /// Communicator init: ranks, own rank, CUDA device.
    pub init: Option<(i32, i32, i32)>,
}

/// A thread.
pub fn thread(pid: u32, tid: u32) -> Thread {
    Thread { pid, tid }
}

/// A stream of device 0.
pub fn stream(id: i64) -> Stream {
    Stream { device: 0, context: 1, stream: id }
}

impl Thread {
    /// `globalTid`: virtual machine 1, process and thread id.
    pub fn global(self) -> i64 {
        self.process() | i64::from(self.tid)
    }

    /// `globalPid`.
    pub fn process(self) -> i64 {
        1 << 48 | i64::from(self.pid) << 24
    }

    /// A launch by this thread.
    pub fn at(self, time: i64) -> Launch {
        Launch { thread: self, at: Some(time) }
    }

    /// A launch that the report does not hold.
    pub fn unseen(self) -> Launch {
        Launch { thread: self, at: None }
    }
}

type Row = Vec<(&'static str, Value)>;

const DOMAIN: i64 = 1;
const REDOPS: i64 = 16_777_236;
const REDOP_NAMES: [&str; 5] = ["Sum", "Product", "Max", "Min", "Avg"];

/// A report that is being written.
#[derive(Debug, Clone)]
pub struct Report {
    version: usize,
    rows: BTreeMap<&'static str, Vec<Row>>,
    strings: BTreeMap<String, i64>,
    correlations: BTreeMap<u32, i64>,
    schemas: Vec<Vec<&'static str>>,
    pub payloads: Payloads,
    /// Write tables without rows too (`--lazy=false`).
    pub all_tables: bool,
    /// Write rows last to first: their order means nothing.
    pub reversed: bool,
}

impl Default for Report {
    fn default() -> Self {
        Self::of(schemas().versions.last().expect("a version"))
    }
}

impl Report {
    /// An empty report of a listed version.
    pub fn of(version: &str) -> Self {
        let mut report = Self {
            version: schemas().index(version),
            rows: BTreeMap::new(),
            strings: BTreeMap::new(),
            correlations: BTreeMap::new(),
            schemas: Vec::new(),
            payloads: Payloads::Json,
            all_tables: false,
            reversed: false,
        };
        report.export("EXPORT_PRODUCT_VERSION", version.trim_end_matches('*'));
        report.export("EXPORT_PARAM_TIME_NORMALIZE", "false");
        report.session(EPOCH);
        report
    }

    /// A row of any table; columns that the version lacks are left out, missing ones that must not be NULL get 0 or ''.
    pub fn row(&mut self, table: &'static str, row: &[(&'static str, Value)]) {
        self.rows.entry(table).or_default().push(row.to_vec());
    }

    /// Removes every row of a table.
    pub fn without(&mut self, table: &'static str) {
        self.rows.remove(table);
    }

    /// The id of a string; ids are sparse, as in real reports.
    pub fn string(&mut self, text: &str) -> i64 {
        let next = 1000 + 7 * self.strings.len() as i64;
        *self.strings.entry(text.to_owned()).or_insert(next)
    }

    /// A fact about the export.
    pub fn export(&mut self, name: &str, value: &str) {
        self.row("META_DATA_EXPORT", &[("name", text(name)), ("value", text(value))]);
    }

    /// Unix time of the report's time 0.
    pub fn session(&mut self, utc: i64) {
        self.without("TARGET_INFO_SESSION_START_TIME");
        self.row("TARGET_INFO_SESSION_START_TIME", &[("utcEpochNs", utc.into())]);
    }

    /// A variable of the launcher's environment.
    pub fn env(&mut self, name: &str, value: &str) {
        let assignment = format!("{name}=\"{value}\"");
        self.row(
            "META_DATA_CAPTURE",
            &[("name", text("PROCESS_0:ENVIRONMENT_VARIABLE")), ("value", text(&assignment))],
        );
    }

    /// A fact about the host (`Hostname`, `DeviceEnvironment`).
    pub fn system(&mut self, name: &str, value: &str) {
        self.row("TARGET_INFO_SYSTEM_ENV", &[("name", text(name)), ("value", text(value))]);
    }

    /// GPU `id`, which `pid` knows as `cuda`.
    pub fn gpu(&mut self, id: i64, model: &str, pid: u32, cuda: i64) {
        self.row(
            "TARGET_INFO_GPU",
            &[("id", id.into()), ("deviceId", id.into()), ("name", text(model))],
        );
        self.row(
            "TARGET_INFO_CUDA_DEVICE",
            &[("gpuId", id.into()), ("cudaId", cuda.into()), ("pid", i64::from(pid).into())],
        );
    }

    /// The same, with the number that it has in every report.
    pub fn gpu_with_uuid(&mut self, id: i64, uuid: &str, pid: u32, cuda: i64) {
        self.row(
            "TARGET_INFO_GPU",
            &[("id", id.into()), ("name", text("NVIDIA H200")), ("uuid", text(uuid))],
        );
        self.row(
            "TARGET_INFO_CUDA_DEVICE",
            &[("gpuId", id.into()), ("cudaId", cuda.into()), ("pid", i64::from(pid).into())],
        );
    }

    /// A push/pop range.
    pub fn range(&mut self, thread: Thread, name: &str, time: Range<i64>) {
        self.nvtx(
            thread,
            59,
            0,
            &[("start", time.start.into()), ("end", time.end.into()), ("text", text(name))],
        );
    }

    /// A push/pop range whose text is a registered string.
    pub fn registered_range(&mut self, thread: Thread, name: &str, time: Range<i64>) {
        let id = self.string(name);
        self.nvtx(
            thread,
            59,
            0,
            &[("start", time.start.into()), ("end", time.end.into()), ("textId", id.into())],
        );
    }

    /// A start/end range that ends on another thread.
    pub fn start_end_range(
        &mut self,
        thread: Thread,
        ends_on: Thread,
        name: &str,
        time: Range<i64>,
    ) {
        let times = [("start", time.start.into()), ("end", time.end.into())];
        self.nvtx(
            thread,
            60,
            0,
            &[&times[..], &[("text", text(name)), ("endGlobalTid", ends_on.global().into())]]
                .concat(),
        );
    }

    /// A range that was never closed.
    pub fn open_range(&mut self, thread: Thread, name: &str, start: i64) {
        self.nvtx(thread, 59, 0, &[("start", start.into()), ("text", text(name))]);
    }

    fn nvtx(&mut self, thread: Thread, kind: i64, domain: i64, row: &[(&'static str, Value)]) {
        let common = [
            ("eventType", kind.into()),
            ("globalTid", thread.global().into()),
            ("domainId", domain.into()),
        ];
        self.row("NVTX_EVENTS", &[&common[..], row].concat());
    }

    /// A call of NCCL with its payload.
    pub fn nccl(&mut self, thread: Thread, function: &str, time: Range<i64>, payload: Payload) {
        let name = self.string(function);
        let mut row =
            vec![("start", time.start.into()), ("end", time.end.into()), ("textId", name.into())];
        match self.payloads {
            Payloads::None => {}
            Payloads::Json => row.push(("jsonText", text(&payload.json()))),
            Payloads::Blob => row.push(("binaryData", Value::Blob(self.blob(&payload)))),
        }
        let domain_is_named = self
            .rows
            .get("NVTX_EVENTS")
            .is_some_and(|rows| rows.iter().any(|row| row.contains(&("eventType", 75.into()))));
        if !domain_is_named {
            self.nvtx(thread, 75, DOMAIN, &[("start", (-1000).into()), ("text", text("NCCL"))]);
        }
        self.nvtx(thread, 59, DOMAIN, &row);
    }

    /// 32 bytes of header, then the fields as the schema rows describe them.
    fn blob(&mut self, payload: &Payload) -> Vec<u8> {
        let fields = payload.fields();
        let names: Vec<&'static str> = fields.iter().map(|field| field.name).collect();
        let known = self.schemas.iter().position(|schema| *schema == names);
        let at = known.unwrap_or_else(|| self.describe(&fields, names));
        let mut data = Vec::new();
        fields.iter().for_each(|field| data.extend(field.bytes()));
        let header = [DOMAIN as u64, schema_id(at) as u64, data.len() as u64, 32];
        header.iter().flat_map(|word| word.to_le_bytes()).chain(data).collect()
    }

    /// Writes the schema rows of a new set of fields.
    fn describe(&mut self, fields: &[Field], names: Vec<&'static str>) -> usize {
        let schema: i64 = schema_id(self.schemas.len());
        let mut offset = 0;
        for (i, field) in fields.iter().enumerate() {
            // The first entry's offset is NULL in real exports.
            let at = if i == 0 { Value::Null } else { Value::Integer(offset) };
            offset += field.bytes().len() as i64;
            let row = [
                ("schemaId", schema.into()),
                ("idx", (i as i64).into()),
                ("type", field.kind().into()),
                ("name", text(field.name)),
            ];
            self.row(
                "NVTX_PAYLOAD_SCHEMA_ENTRIES",
                &[&[("domainId", DOMAIN.into()), ("offset", at)][..], &row].concat(),
            );
        }
        if !self.rows.contains_key("NVTX_PAYLOAD_ENUM_ENTRIES") {
            for (i, name) in REDOP_NAMES.into_iter().enumerate() {
                // 0 is NULL in real exports.
                let value = if i == 0 { Value::Null } else { Value::Integer(i as i64) };
                let row = [
                    ("domainId", DOMAIN.into()),
                    ("schemaId", REDOPS.into()),
                    ("idx", (i as i64).into()),
                ];
                self.row(
                    "NVTX_PAYLOAD_ENUM_ENTRIES",
                    &[&row[..], &[("name", text(name)), ("value", value)]].concat(),
                );
            }
        }
        self.schemas.push(names);
        self.schemas.len() - 1
    }

    /// A kernel; `name` is the demangled name, from which the short one follows. Returns its correlation id.
    pub fn kernel(&mut self, name: &str, stream: Stream, time: Range<i64>, launch: Launch) -> i64 {
        let correlation = self.launch(launch);
        self.kernel_of(correlation, name, stream, time, launch.thread);
        correlation
    }

    /// A kernel of a launch that was written already, as the nodes of a CUDA graph are.
    pub fn kernel_of(
        &mut self,
        correlation: i64,
        name: &str,
        stream: Stream,
        time: Range<i64>,
        thread: Thread,
    ) {
        let (demangled, short) = (self.string(name), self.string(short_name(name)));
        let names = [("demangledName", demangled.into()), ("shortName", short.into())];
        self.gpu_row("CUPTI_ACTIVITY_KIND_KERNEL", correlation, stream, time, thread, &names);
    }

    /// A copy. Returns its correlation id.
    pub fn copy(
        &mut self,
        kind: Copy,
        bytes: i64,
        stream: Stream,
        time: Range<i64>,
        launch: Launch,
    ) -> i64 {
        let correlation = self.launch(launch);
        let what = [("copyKind", (kind as i64).into()), ("bytes", bytes.into())];
        self.gpu_row("CUPTI_ACTIVITY_KIND_MEMCPY", correlation, stream, time, launch.thread, &what);
        correlation
    }

    /// A copy of any kind from one device to another (or the same). Returns its correlation id.
    pub fn copy_of(
        &mut self,
        kind: i64,
        bytes: i64,
        [from, to]: [i64; 2],
        stream: Stream,
        time: Range<i64>,
        launch: Launch,
    ) -> i64 {
        let correlation = self.launch(launch);
        let what = [
            ("copyKind", kind.into()),
            ("bytes", bytes.into()),
            ("srcDeviceId", from.into()),
            ("dstDeviceId", to.into()),
        ];
        self.gpu_row("CUPTI_ACTIVITY_KIND_MEMCPY", correlation, stream, time, launch.thread, &what);
        correlation
    }

    /// A memset.
    pub fn memset(&mut self, bytes: i64, stream: Stream, time: Range<i64>, launch: Launch) {
        self.memset_of(bytes, stream, time, launch);
    }

    /// A memset. Returns its correlation id.
    pub fn memset_of(
        &mut self,
        bytes: i64,
        stream: Stream,
        time: Range<i64>,
        launch: Launch,
    ) -> i64 {
        let correlation = self.launch(launch);
        self.gpu_row(
            "CUPTI_ACTIVITY_KIND_MEMSET",
            correlation,
            stream,
            time,
            launch.thread,
            &[("bytes", bytes.into())],
        );
        correlation
    }

    /// A CUDA graph as one row. Returns its correlation id.
    pub fn graph(&mut self, stream: Stream, time: Range<i64>, launch: Launch) -> i64 {
        let correlation = self.launch(launch);
        self.gpu_row(
            "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
            correlation,
            stream,
            time,
            launch.thread,
            &[],
        );
        correlation
    }

    fn gpu_row(
        &mut self,
        table: &'static str,
        correlation: i64,
        stream: Stream,
        time: Range<i64>,
        thread: Thread,
        more: &[(&'static str, Value)],
    ) {
        let place = [
            ("deviceId", stream.device.into()),
            ("contextId", stream.context.into()),
            ("streamId", stream.stream.into()),
        ];
        let who = [("correlationId", correlation.into()), ("globalPid", thread.process().into())];
        let when = [("start", time.start.into()), ("end", time.end.into())];
        self.row(table, &[&when[..], &place, &who, more].concat());
    }

    /// An API call and its correlation id: ids begin with 1 in every process, so they repeat across processes.
    fn launch(&mut self, launch: Launch) -> i64 {
        let next = self.correlations.entry(launch.thread.pid).or_default();
        *next += 1;
        let correlation = *next;
        if let Some(at) = launch.at {
            self.api(correlation, launch.thread, at);
        }
        correlation
    }

    /// A further API row for a correlation id.
    pub fn api(&mut self, correlation: i64, thread: Thread, at: i64) {
        let name = self.string("cudaLaunchKernel_v7000");
        let row =
            [("start", at.into()), ("end", (at + 1).into()), ("globalTid", thread.global().into())];
        self.row(
            "CUPTI_ACTIVITY_KIND_RUNTIME",
            &[&row[..], &[("correlationId", correlation.into()), ("nameId", name.into())]].concat(),
        );
    }

    /// Writes the report into `folder`.
    pub fn save(&self, folder: &Path, name: &str) -> PathBuf {
        let path = folder.join(name);
        let connection = Connection::open(&path).expect("a new file");
        self.write(&connection).expect("a report");
        path
    }

    /// Writes the report into an empty database.
    pub fn write(&self, connection: &Connection) -> rusqlite::Result<()> {
        connection.execute_batch("BEGIN")?;
        let mut rows = self.rows.clone();
        let strings = self
            .strings
            .iter()
            .map(|(value, id)| vec![("id", Value::Integer(*id)), ("value", text(value))]);
        rows.insert("StringIds", strings.collect());
        // The table was renamed in 2023; before 2022 there is none.
        let facts = rows.remove("META_DATA_EXPORT");
        if let (Some(facts), Some(name)) = (facts, self.export_table()) {
            rows.insert(name, facts);
        }
        if self.all_tables {
            let other = ["META_DATA_EXPORT", "EXPORT_META_DATA"];
            for name in schemas().table_names().filter(|name| !other.contains(name)) {
                rows.entry(name).or_default();
            }
        }
        for (table, mut list) in rows {
            if list.is_empty() && !self.all_tables {
                continue;
            }
            if self.reversed {
                list.reverse();
            }
            connection.execute_batch(&schemas().create(self.version, table))?;
            for row in list {
                self.insert(connection, table, row)?;
            }
        }
        connection.execute_batch("COMMIT")
    }

    fn export_table(&self) -> Option<&'static str> {
        ["META_DATA_EXPORT", "EXPORT_META_DATA"]
            .into_iter()
            .find(|name| schemas().is_listed(self.version, name))
    }

    fn insert(&self, connection: &Connection, table: &str, row: Row) -> rusqlite::Result<()> {
        let columns = schemas().columns(self.version, table);
        let has = |name: &str| columns.iter().any(|column| column.name == name);
        let mut values: BTreeMap<&str, Value> = BTreeMap::new();
        for (name, value) in row {
            match (name, &value) {
                // Before registered strings had a column of their own.
                ("textId", Value::Integer(id)) if !has("textId") => {
                    let string = self
                        .strings
                        .iter()
                        .find(|(_, known)| *known == id)
                        .map(|(string, _)| text(string));
                    values.insert("text", string.expect("a registered string"));
                }
                _ if has(name) => drop(values.insert(name, value)),
                _ => {}
            }
        }
        for column in columns.iter().filter(|column| column.not_null) {
            values.entry(&column.name).or_insert_with(|| {
                if column.kind == "TEXT" { text("") } else { Value::Integer(0) }
            });
        }
        let names: Vec<String> = values.keys().map(|name| format!("\"{name}\"")).collect();
        let marks = vec!["?"; names.len()].join(", ");
        let sql = format!("INSERT INTO \"{table}\" ({}) VALUES ({marks})", names.join(", "));
        connection.prepare_cached(&sql)?.execute(params_from_iter(values.into_values()))?;
        Ok(())
    }
}

fn schema_id(at: usize) -> i64 {
    16_777_217 + at as i64
}

/// A text value.
pub fn text(value: &str) -> Value {
    Value::Text(value.to_owned())
}

/// `void ns::name<int>(int *)` is called `name`.
fn short_name(demangled: &str) -> &str {
    let head = demangled.split(['<', '(']).next().unwrap_or(demangled);
    head.rsplit([' ', ':']).next().unwrap_or(head)
}

/// One field of a payload.
struct Field {
    name: &'static str,
    value: FieldValue,
}

enum FieldValue {
    /// NVTX type 18 (u64) for ids, 22 (size) for bytes.
    Wide(i64, u64),
    /// NVTX type 5 (int).
    Int(i32),
    /// An enumeration.
    Redop(&'static str),
}

impl Field {
    fn kind(&self) -> i64 {
        match self.value {
            FieldValue::Wide(kind, _) => kind,
            FieldValue::Int(_) => 5,
            FieldValue::Redop(_) => REDOPS,
        }
    }

    fn bytes(&self) -> Vec<u8> {
        match self.value {
            FieldValue::Wide(_, value) => value.to_le_bytes().to_vec(),
            FieldValue::Int(value) => value.to_le_bytes().to_vec(),
            FieldValue::Redop(name) => {
                let at = REDOP_NAMES.iter().position(|n| *n == name).expect("a reduction");
                (at as i32).to_le_bytes().to_vec()
            }
        }
    }
}

impl Payload {
    fn fields(&self) -> Vec<Field> {
        let mut out =
            vec![Field { name: "NCCL communicator ID", value: FieldValue::Wide(18, self.comm) }];
        let mut add =
            |name, value: Option<FieldValue>| out.extend(value.map(|value| Field { name, value }));
        add("Message size [bytes]", self.bytes.map(|bytes| FieldValue::Wide(22, bytes)));
        add("Root", self.root.map(FieldValue::Int));
        add("Peer rank", self.peer.map(FieldValue::Int));
        add("Reduction operation", self.redop.map(FieldValue::Redop));
        add("No. of ranks", self.init.map(|(n, _, _)| FieldValue::Int(n)));
        add("Rank", self.init.map(|(_, rank, _)| FieldValue::Int(rank)));
        add("CUDA device", self.init.map(|(_, _, device)| FieldValue::Int(device)));
        out
    }

    fn json(&self) -> String {
        let fields = self.fields().into_iter().map(|field| match field.value {
            FieldValue::Wide(_, value) => format!("\"{}\":{value}", field.name),
            FieldValue::Int(value) => format!("\"{}\":{value}", field.name),
            FieldValue::Redop(value) => format!("\"{}\":\"{value}\"", field.name),
        });
        format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
    }
}
