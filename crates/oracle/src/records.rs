//! Records in cases: a line of notation to send, a tree to compare.
//!
//! `batch: n=3 codec=gzip ts=1000; batch: magic=1` is two batches. Words, all optional:
//!
//! | word | meaning |
//! |---|---|
//! | `n` | how many records (1); `key`, `value`: text or `null`; `size`: a value of that many bytes; `headers`: how many |
//! | `ts` | first timestamp, then one more per record (1000); `step` changes the distance |
//! | `codec`, `magic` | `none`, `gzip`, `snappy`, `lz4`, `zstd`; 0, 1 or 2 |
//! | `pid`, `epoch`, `seq`, `txn`, `control` | producer, kind |
//! | `base`, `count`, `last`, `maxts`, `attributes`, `leader` | overwrite a header field; the CRC stays right |
//! | `length`, `crc`, `magicbyte` | overwrite without repair |
//! | `cut` | leave out that many bytes at the end |

use crate::tree::{shown, unshown};
use model::{Offset, ProducerEpoch, ProducerId, Sequence, Timestamp};
use protocol::records::{
    Batch, Batches, Compression, HEADER_BYTES, Header, RecordBatchBuilder, TimestampType,
};
use serde_json::{Value, json};

const INFLATE_LIMIT: usize = 64 << 20;

/// The bytes of a line of notation; other text is bytes as [`shown`] writes them.
pub(crate) fn encode(text: &str) -> Result<Vec<u8>, String> {
    if !text.starts_with("batch:") {
        return unshown(text);
    }
    let mut out = Vec::new();
    for part in text.split(';') {
        let words = part
            .trim()
            .strip_prefix("batch:")
            .ok_or_else(|| format!("{part} does not start with batch:"))?;
        out.extend(Notation::parse(words)?.encode().map_err(|e| format!("{text}: {e}"))?);
    }
    Ok(out)
}

/// Timestamp, key, value.
type Plain = (i64, Option<Vec<u8>>, Option<Vec<u8>>);

#[derive(Default)]
struct Notation(Vec<(String, String)>);

impl Notation {
    fn parse(words: &str) -> Result<Self, String> {
        const KNOWN: &str = " n key value size headers ts step codec magic pid epoch seq txn \
                             control base count last maxts attributes leader length crc magicbyte cut ";
        let words = words.split_whitespace().map(|word| {
            let (name, value) = word.split_once('=').unwrap_or((word, "true"));
            match KNOWN.contains(&format!(" {name} ")) {
                true => Ok((name.to_owned(), value.to_owned())),
                false => Err(format!("{word}: unknown word")),
            }
        });
        Ok(Self(words.collect::<Result<_, _>>()?))
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    fn number<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>, String> {
        self.text(name)
            .map(|text| text.parse().map_err(|_| format!("{name}={text} is no number")))
            .transpose()
    }

    fn field(&self, name: &str, default: &'static str) -> Option<&[u8]> {
        match self.text(name).unwrap_or(default) {
            "null" => None,
            text => Some(text.as_bytes()),
        }
    }

    fn codec(&self) -> Result<Compression, String> {
        Ok(match self.text("codec").unwrap_or("none") {
            "none" => Compression::None,
            "gzip" => Compression::Gzip,
            "snappy" => Compression::Snappy,
            "lz4" => Compression::Lz4,
            "zstd" => Compression::Zstd,
            other => return Err(format!("unknown codec {other}")),
        })
    }

    fn encode(&self) -> Result<Vec<u8>, String> {
        let magic: u8 = self.number("magic")?.unwrap_or(2);
        let mut bytes = if magic < 2 { self.legacy(magic)? } else { self.batch()? };
        if let Some(length) = self.number::<i32>("length")? {
            bytes[8..12].copy_from_slice(&length.to_be_bytes());
        }
        if let Some(byte) = self.number::<u8>("magicbyte")? {
            bytes[16] = byte;
        }
        if self.text("crc").is_some() {
            let at = if magic < 2 { 12 } else { 17 };
            bytes[at] ^= 0xff;
        }
        bytes.truncate(bytes.len().saturating_sub(self.number("cut")?.unwrap_or(0)));
        Ok(bytes)
    }

    fn records(&self) -> Result<Vec<Plain>, String> {
        let count: i64 = self.number("n")?.unwrap_or(1);
        let start: i64 = self.number("ts")?.unwrap_or(1000);
        let step: i64 = self.number("step")?.unwrap_or(1);
        let value = match self.number::<usize>("size")? {
            Some(size) => Some(vec![b'x'; size]),
            None => self.field("value", "value").map(<[u8]>::to_vec),
        };
        let key = self.field("key", "null").map(<[u8]>::to_vec);
        let record = |at: i64| (start.saturating_add(at * step), key.clone(), value.clone());
        Ok((0..count).map(record).collect())
    }

    fn batch(&self) -> Result<Vec<u8>, String> {
        let wrong = |error: protocol::records::BuildError| error.to_string();
        let mut builder = RecordBatchBuilder::new().compression(self.codec()?);
        if let Some(base) = self.number("base")? {
            builder = builder.base_offset(Offset(base));
        }
        if let Some(pid) = self.number("pid")? {
            let epoch = self.number("epoch")?.unwrap_or(0);
            let sequence = self.number("seq")?.map(Sequence);
            builder = builder.producer(ProducerId(pid), ProducerEpoch(epoch), sequence);
        }
        if self.text("txn").is_some() {
            builder = builder.transactional();
        }
        if self.text("control").is_some() {
            builder = builder.control();
        }
        let headers = self.number("headers")?.unwrap_or(0);
        let header = |_| Header { key: b"header", value: Some(b"content") };
        for (timestamp, key, value) in self.records()? {
            let timestamp = (timestamp >= 0).then_some(Timestamp(timestamp));
            let headers = (0..headers).map(header);
            builder
                .append_with(timestamp, key.as_deref(), value.as_deref(), headers)
                .map_err(wrong)?;
        }
        let mut bytes = builder.build().map_err(wrong)?.to_vec();
        self.overwrite(&mut bytes)?;
        Ok(bytes)
    }

    fn overwrite(&self, bytes: &mut [u8]) -> Result<(), String> {
        let mut header = protocol::records::BatchHeader::parse(bytes).map_err(|e| e.to_string())?;
        if let Some(count) = self.number("count")? {
            header.record_count = count;
        }
        if let Some(last) = self.number("last")? {
            header.last_offset_delta = last;
        }
        if let Some(max) = self.number("maxts")? {
            header.max_timestamp = max;
        }
        if let Some(epoch) = self.number("leader")? {
            header.partition_leader_epoch = epoch;
        }
        if let Some(attributes) = self.number("attributes")? {
            header.attributes = protocol::records::Attributes(attributes);
        }
        header.crc = header.compute_crc(&bytes[HEADER_BYTES..]);
        bytes[..HEADER_BYTES].copy_from_slice(&header.encode());
        Ok(())
    }

    fn legacy(&self, magic: u8) -> Result<Vec<u8>, String> {
        let mut set = Vec::new();
        let codec = self.codec()?;
        let records = self.records()?;
        let last = records.len() as i64 - 1;
        let last_timestamp = records.last().map_or(-1, |record| record.0);
        let base: i64 = self.number("base")?.unwrap_or(0);
        for (offset, (timestamp, key, value)) in (base..).zip(records) {
            message(&mut set, (magic, 0), offset, timestamp, key.as_deref(), value.as_deref());
        }
        if codec == Compression::None {
            return Ok(set);
        }
        let levels = protocol::records::CompressionLevels::DEFAULT;
        let packed = codec.compress(magic, levels, &set).map_err(|error| error.to_string())?;
        let mut wrapper = Vec::new();
        message(&mut wrapper, (magic, codec.id()), last, last_timestamp, None, Some(&packed));
        Ok(wrapper)
    }
}

fn message(
    out: &mut Vec<u8>,
    (magic, attributes): (u8, u8),
    offset: i64,
    timestamp: i64,
    key: Option<&[u8]>,
    value: Option<&[u8]>,
) {
    let mut body = vec![magic, attributes];
    if magic > 0 {
        body.extend(timestamp.to_be_bytes());
    }
    for field in [key, value] {
        let length = field.map_or(-1, |field| i32::try_from(field.len()).unwrap_or(i32::MAX));
        body.extend(length.to_be_bytes());
        body.extend_from_slice(field.unwrap_or_default());
    }
    out.extend(offset.to_be_bytes());
    out.extend(i32::try_from(body.len() + 4).unwrap_or(i32::MAX).to_be_bytes());
    out.extend(crc32fast::hash(&body).to_be_bytes());
    out.extend_from_slice(&body);
}

/// The batches in `bytes`: headers and decoded records; how they are compressed is not compared, by
/// which codec is.
pub(crate) fn tree(bytes: &[u8]) -> Value {
    let mut batches = Batches::new(bytes);
    let mut list: Vec<Value> = batches
        .by_ref()
        .map(|batch| match batch {
            Ok(batch) => one(&batch),
            Err(error) => json!({ "unreadable": error.to_string() }),
        })
        .collect();
    if let Some(rest) = batches.incomplete() {
        list.push(json!({ "incomplete": rest.length }));
    }
    Value::Array(list)
}

fn one(batch: &Batch<'_>) -> Value {
    let records = match batch.records(INFLATE_LIMIT) {
        Ok(records) => records
            .iter()
            .map(|record| match record {
                Ok(record) => json!({
                    "offset": record.offset.0,
                    "timestamp": record.timestamp.map(|t| t.0),
                    "key": record.key.map(shown),
                    "value": record.value.map(shown),
                    "headers": record.headers.clone()
                        .map(|h| json!([shown(h.key), h.value.map(shown)]))
                        .collect::<Vec<_>>(),
                }),
                Err(error) => json!({ "unreadable": error.to_string() }),
            })
            .collect(),
        Err(error) => json!({ "unreadable": error.to_string() }),
    };
    let mut tree = json!({
        "magic": batch.magic(),
        "crc_is_right": batch.verify(),
        "codec": batch.compression().map_or_else(|e| e.to_string(), |c| format!("{c:?}")),
        "log_append_time": batch.timestamp_type() == TimestampType::LogAppendTime,
        "last_offset": batch.last_offset().0,
        "max_timestamp": batch.max_timestamp().map(|t| t.0),
        "records": records,
    });
    if let (Some(header), Value::Object(fields)) = (batch.header(), &mut tree) {
        let more = json!({
            "base_offset": header.base_offset,
            "partition_leader_epoch": header.partition_leader_epoch,
            "attributes": header.attributes.0,
            "last_offset_delta": header.last_offset_delta,
            "base_timestamp": header.base_timestamp,
            "batch_producer_id": header.producer_id,
            "batch_producer_epoch": header.producer_epoch,
            "base_sequence": header.base_sequence,
            "record_count": header.record_count,
        });
        if let Value::Object(more) = more {
            fields.extend(more);
        }
    }
    tree
}
