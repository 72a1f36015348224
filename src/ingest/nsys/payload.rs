//! Payloads of NCCL's NVTX ranges: JSON text, else a blob that the report's own schema tables describe.
//!
//! Entry names as NCCL writes them since 2.16 (communicator id since 2.25): `NCCL communicator ID`, `Message size [bytes]`,
//! `Reduction operation`, `Root`, `Peer rank`, `No. of ranks`, `Rank`, `CUDA device`. Advanced tracing has `commHash`,
//! `seqNumber`, `operationId`. Ids of schemas and enumerations move between NCCL versions and are never assumed.

use std::collections::BTreeMap;

use foldhash::HashMap;
use serde_json::Value;

use super::db::{Db, bytes, int, text};
use super::queries;
use crate::Result;

/// What a payload says; every field may be missing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fields {
    /// Communicator id.
    pub comm: Option<u64>,
    /// Message size in bytes, as logged.
    pub bytes: Option<u64>,
    /// Reduction operation.
    pub redop: Option<String>,
    /// Root rank.
    pub root: Option<i64>,
    /// Peer rank.
    pub peer: Option<i64>,
    /// Number of ranks of the communicator.
    pub n_ranks: Option<i64>,
    /// This rank in the communicator.
    pub rank: Option<i64>,
    /// CUDA ordinal.
    pub device: Option<i64>,
    /// Sequence number (advanced tracing).
    pub seq: Option<u64>,
    /// Key of the operation, equal on all ranks (advanced tracing).
    pub operation: Option<u64>,
    /// True for an operation on the GPU's time line: only those have a class, a key, a channel (advanced tracing).
    pub on_gpu: bool,
    /// Elements of a call (advanced tracing).
    count: Option<u64>,
    /// Bytes of one element.
    element: Option<u64>,
}

/// One field of a binary payload.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    name: String,
    kind: i64,
    offset: usize,
}

/// The schema tables of a report.
#[derive(Debug, Default)]
pub struct Decoder {
    schemas: BTreeMap<(i64, i64), Vec<Entry>>,
    enums: HashMap<(i64, i64), BTreeMap<i64, String>>,
}

impl Decoder {
    /// Reads the schema tables; rows that repeat for each process count once.
    ///
    /// # Errors
    /// The report is damaged.
    pub fn read(db: &Db) -> Result<Decoder> {
        let mut decoder = Decoder::default();
        db.each(queries::PAYLOAD_ENTRIES, [], |row| {
            let (Some(domain), Some(schema), Some(kind), Some(name)) =
                (int(row, 0), int(row, 1), int(row, 3), text(row, 4))
            else {
                return;
            };
            let offset = usize::try_from(int(row, 5).unwrap_or(0)).unwrap_or(usize::MAX);
            let entries = decoder.schemas.entry((domain, schema)).or_default();
            entries.push(Entry { name: name.into_owned(), kind, offset });
        })?;
        db.each(queries::PAYLOAD_ENUMS, [], |row| {
            let (Some(domain), Some(schema), Some(name)) = (int(row, 0), int(row, 1), text(row, 3))
            else {
                return;
            };
            decoder
                .enums
                .entry((domain, schema))
                .or_default()
                .insert(int(row, 2).unwrap_or(0), name.into_owned());
        })?;
        Ok(decoder)
    }

    /// The payload of the range in row `rowid`; empty where it has none or is not understood.
    ///
    /// # Errors
    /// The report is damaged.
    pub fn payload(&self, db: &Db, rowid: i64) -> Result<Fields> {
        let mut fields = Fields::default();
        let mut registered = None;
        db.each(queries::PAYLOAD, [rowid], |row| {
            if let Some(json) = text(row, 0) {
                fields = from_json(&json);
            } else if let Some(id) = int(row, 1) {
                registered = Some(id);
            } else if let Some(blob) = bytes(row, 2) {
                fields = self.decode(blob);
            }
        })?;
        if let Some(id) = registered {
            db.each(queries::STRING, [id], |row| {
                fields = text(row, 0).map(|json| from_json(&json)).unwrap_or_default()
            })?;
        }
        Ok(fields)
    }

    /// Decodes `u64 domain, u64 schema, u64 size, u64 offset`, then the payload, all little-endian.
    fn decode(&self, blob: &[u8]) -> Fields {
        let decoded;
        let blob = match hex(blob) {
            Some(raw) => {
                decoded = raw;
                decoded.as_slice()
            }
            None => blob,
        };
        self.try_blob(blob).unwrap_or_default()
    }

    fn try_blob(&self, blob: &[u8]) -> Option<Fields> {
        let word = |at: usize| read_uint(blob, at, 8);
        let (domain, schema) = (word(0)? as i64, word(8)? as i64);
        let (size, offset) = (usize::try_from(word(16)?).ok()?, usize::try_from(word(24)?).ok()?);
        let payload = blob.get(offset..offset.checked_add(size)?)?;
        let mut fields = Fields::default();
        for entry in self.schemas.get(&(domain, schema))? {
            if let Some(names) = self.enums.get(&(domain, entry.kind)) {
                let value = read_uint(payload, entry.offset, 4).map(|v| v as u32 as i32 as i64);
                if let Some(name) = value.and_then(|v| names.get(&v)) {
                    set(&mut fields, &entry.name, &Value::String(name.clone()));
                }
            } else if let Some(value) = read_number(payload, entry) {
                set(&mut fields, &entry.name, &value);
            }
        }
        Some(fields)
    }
}

/// Reads one number by its NVTX entry type (nvToolsExtPayload.h): 5 and friends are C types of x86-64 and Arm64 Linux.
fn read_number(payload: &[u8], entry: &Entry) -> Option<Value> {
    let (size, signed) = match entry.kind {
        1 | 11 => (1, true),
        2 | 12 => (1, false),
        3 | 13 => (2, true),
        4 | 14 => (2, false),
        5 | 15 => (4, true),
        6 | 16 => (4, false),
        7 | 9 | 17 => (8, true),
        8 | 10 | 18 | 22 | 23 => (8, false),
        _ => return None,
    };
    let raw = read_uint(payload, entry.offset, size)?;
    if signed {
        let shift = 64 - 8 * size as u32;
        return Some(Value::from(((raw << shift) as i64) >> shift));
    }
    Some(Value::from(raw))
}

fn read_uint(bytes: &[u8], at: usize, size: usize) -> Option<u64> {
    let field = bytes.get(at..at.checked_add(size)?)?;
    Some(field.iter().rev().fold(0, |value, &byte| (value << 8) | u64::from(byte)))
}

/// Some exports write blobs as hexadecimal text.
fn hex(text: &[u8]) -> Option<Vec<u8>> {
    let digits = text.strip_prefix(b"0x").or_else(|| text.strip_prefix(b"X'")).unwrap_or(text);
    if digits.len() < 64
        || !digits.len().is_multiple_of(2)
        || !digits.iter().all(u8::is_ascii_hexdigit)
    {
        return None;
    }
    digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
        .collect()
}

fn from_json(json: &str) -> Fields {
    let mut fields = Fields::default();
    if let Ok(Value::Object(map)) = serde_json::from_str::<Value>(json) {
        for (name, value) in &map {
            set(&mut fields, name, value);
        }
        fields.bytes = fields.bytes.or_else(|| fields.count?.checked_mul(fields.element?));
    }
    fields
}

fn set(fields: &mut Fields, name: &str, value: &Value) {
    match name {
        "NCCL communicator ID" | "commHash" => fields.comm = unsigned(value),
        "Message size [bytes]" => fields.bytes = unsigned(value),
        "Reduction operation" => fields.redop = value.as_str().map(str::to_owned),
        "Root" => fields.root = signed(value),
        "Peer rank" => fields.peer = signed(value),
        "No. of ranks" => fields.n_ranks = signed(value),
        "Rank" | "commRank" => fields.rank = signed(value),
        "CUDA device" => fields.device = signed(value),
        "seqNumber" => fields.seq = unsigned(value),
        "operationId" => {
            fields.operation = unsigned(value);
            fields.on_gpu = true;
        }
        "operationClass" | "localId" | "channelId" | "channel" => fields.on_gpu = true,
        "count" => fields.count = unsigned(value),
        "dataType" => fields.element = element_bytes(value),
        "peer" | "peerRank" => fields.peer = signed(value),
        "root" => fields.root = signed(value),
        _ => {}
    }
}

/// Bytes of one element of an NCCL data type, in any spelling (`ncclFloat32`, `float`, `bf16`) or by its number in nccl.h.
fn element_bytes(data_type: &Value) -> Option<u64> {
    const BY_NUMBER: [u64; 12] = [1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1];
    if let Some(number) = data_type.as_u64() {
        return BY_NUMBER.get(usize::try_from(number).ok()?).copied();
    }
    Some(match data_type.as_str()?.trim_start_matches("nccl").to_ascii_lowercase().as_str() {
        "int8" | "uint8" | "char" | "float8e4m3" | "float8e5m2" => 1,
        "float16" | "half" | "bfloat16" | "bf16" => 2,
        "int32" | "uint32" | "int" | "float32" | "float" => 4,
        "int64" | "uint64" | "float64" | "double" => 8,
        _ => return None,
    })
}

/// Ids are unsigned; some writers print them negative, as text, or in hexadecimal.
fn unsigned(value: &Value) -> Option<u64> {
    match value {
        Value::Number(n) => n.as_u64().or_else(|| n.as_i64().map(|v| v as u64)),
        Value::String(s) => match s.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => s.parse().ok(),
        },
        _ => None,
    }
}

fn signed(value: &Value) -> Option<i64> {
    match value {
        Value::Number(n) => n.as_i64(),
        Value::String(s) => s.parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoder() -> Decoder {
        let entry = |name: &str, kind, offset| Entry { name: name.to_owned(), kind, offset };
        let mut decoder = Decoder::default();
        let fields = vec![
            entry("NCCL communicator ID", 18, 0),
            entry("Message size [bytes]", 22, 8),
            entry("Root", 5, 16),
            entry("Reduction operation", 77, 20),
        ];
        decoder.schemas.insert((1, 16777224), fields);
        decoder
            .enums
            .insert((1, 77), BTreeMap::from([(0, "Sum".to_owned()), (3, "Min".to_owned())]));
        decoder
    }

    fn blob() -> Vec<u8> {
        let mut blob = Vec::new();
        for word in [1u64, 16777224, 24, 32, 0xBBD4_90CF_1122_3344, 4096] {
            blob.extend(word.to_le_bytes());
        }
        blob.extend((-1i32).to_le_bytes());
        blob.extend(3u32.to_le_bytes());
        blob
    }

    #[test]
    fn a_blob_is_read_by_the_schema_tables() {
        let fields = decoder().decode(&blob());
        let expected = Fields {
            comm: Some(0xBBD4_90CF_1122_3344),
            bytes: Some(4096),
            root: Some(-1),
            redop: Some("Min".to_owned()),
            ..Fields::default()
        };
        assert_eq!(fields, expected);
        let text: String = blob().iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(decoder().decode(text.as_bytes()), expected);
    }

    #[test]
    fn a_cut_or_unknown_blob_says_nothing() {
        let whole = blob();
        for len in 0..whole.len() {
            assert_eq!(decoder().decode(&whole[..len]), Fields::default(), "{len} bytes");
        }
        let mut other = whole.clone();
        other[8] = 99;
        assert_eq!(decoder().decode(&other), Fields::default());
        let mut far = whole;
        far[24..32].copy_from_slice(&u64::MAX.to_le_bytes());
        assert_eq!(decoder().decode(&far), Fields::default());
    }

    // What runs on the GPU has an operation id, a local id or a channel; sizes are a count of elements of a type.
    #[test]
    fn payloads_of_advanced_tracing() {
        let on_gpu = from_json(
            r#"{"localId":7,"commHash":"0xbbd490cf11223344","commRank":1,"count":1024,"dataType":"ncclBfloat16","seqNumber":3,"operationId":99}"#,
        );
        assert!(on_gpu.on_gpu);
        assert_eq!(
            (on_gpu.comm, on_gpu.bytes, on_gpu.seq),
            (Some(0xbbd4_90cf_1122_3344), Some(2048), Some(3))
        );
        assert_eq!((on_gpu.operation, on_gpu.rank), (Some(99), Some(1)));
        let call = from_json(r#"{"count":10,"dataType":7,"rank":1}"#);
        assert_eq!((call.on_gpu, call.bytes), (false, Some(40)));
        assert_eq!(from_json(r#"{"count":10,"dataType":"complex"}"#).bytes, None);
        assert_eq!(from_json(r#"{"count":18446744073709551615,"dataType":"double"}"#).bytes, None);
    }

    #[test]
    fn json_ids_are_unsigned_in_any_spelling() {
        let id = |json: &str| from_json(json).comm;
        assert_eq!(
            id(r#"{"NCCL communicator ID":13534677598637979598}"#),
            Some(13534677598637979598)
        );
        assert_eq!(
            id(r#"{"NCCL communicator ID":-4912066475071572018}"#),
            Some(13534677598637979598)
        );
        assert_eq!(id(r#"{"commHash":"0xbbd4"}"#), Some(0xbbd4));
        assert_eq!(id("{broken"), None);
    }
}
