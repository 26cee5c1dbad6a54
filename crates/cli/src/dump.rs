//! `barnabas data dump`: any file of a log directory, item by item.

use crate::coordinator_records::{Decoder, Topic};
use crate::format::text as json_text;
use crate::session::{Failure, at_most};
use clap::{Args, ValueEnum};
use model::{Offset, Sequence};
use platform::{Disk, RealDisk};
use protocol::records::{
    Batch, BatchHeader, BatchRecords, Compression, ControlRecord, LegacyMessage, Record,
    TimestampType,
};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use storage::inspect::{self, FileKind, InspectError, Item, Options};

const HELP: &str = "What a file is, its name says: <20 digits>.log, .index, .timeindex, .txnindex or .snapshot (also .deleted, \
.cleaned and .swap ones), leader-epoch-checkpoint, the *-offset-checkpoint files, partition.metadata, meta.properties, \
.kafka_cleanshutdown. Files are only read, piece by piece; a running broker's too.

Exit codes: 0 nothing is wrong, 1 a file cannot be read or is none of these, 2 wrong usage, 3 a file is damaged: a
checksum is wrong, its end is cut off or zero, it holds something else; with --verify also what --verify finds.

Examples:
  barnabas data dump data/orders-0/00000000000000000000.log
  barnabas data dump --records --json data/__consumer_offsets-7/00000000000000000000.log
  barnabas data dump data/orders-0/00000000000000000000.timeindex data/orders-0/leader-epoch-checkpoint
  barnabas data dump --verify --quiet data/orders-0/*.log data/orders-0/*index";

/// What of one file's problems is shown, each on its line.
const PROBLEMS_SHOWN: u64 = 100;

/// Print any file of a log directory, for people or as a JSON line per item, and check it. Changes nothing.
#[derive(Args, Debug)]
#[command(after_help = HELP)]
pub(crate) struct Dump {
    /// The files.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Also print the records of batches: offset, timestamp, key, value, headers.
    #[arg(short, long)]
    records: bool,
    /// Print JSON, a line per item.
    #[arg(long)]
    json: bool,
    /// Also check order, records, and index entries against the .log beside the index.
    #[arg(long)]
    verify: bool,
    /// Print what is wrong, and nothing else.
    #[arg(short, long)]
    quiet: bool,
    /// How keys and values of records are read.
    #[arg(long, value_name = "AS", value_enum, default_value_t = Decode::Auto)]
    decode: Decode,
    /// The most that is held of one batch in memory, stored or inflated, and of a file that is read whole.
    #[arg(long, value_name = "BYTES", default_value_t = 64 << 20, value_parser = at_most::<1024, 2_147_483_647>)]
    limit: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Decode {
    /// As the records of Kafka's own topics if the file's directory is one of them.
    Auto,
    /// As records of __consumer_offsets.
    Offsets,
    /// As records of __transaction_state.
    Transactions,
    /// As they are.
    None,
}

impl Dump {
    pub(crate) fn dump(&self) -> Result<(), Failure> {
        let disk: Arc<dyn Disk> = Arc::new(RealDisk);
        let mut out = BufWriter::new(io::stdout().lock());
        let (mut unread, mut damaged) = (Vec::new(), Vec::new());
        for path in &self.files {
            match self.file(&disk, path, &mut out) {
                Ok(None) => {}
                Ok(Some(wrong)) => damaged.push(format!("{}: {wrong}", path.display())),
                Err(InspectError::Stopped(failure)) => return Err(failure),
                Err(InspectError::Disk(error)) => {
                    unread.push(format!("{error}: {}", error.source));
                }
                Err(error @ InspectError::Unknown) => {
                    unread.push(format!("{}: {error}", path.display()));
                }
            }
        }
        out.flush()?;
        let is_unread = !unread.is_empty();
        let said = unread.into_iter().chain(damaged).collect::<Vec<_>>();
        match (said.is_empty(), is_unread) {
            (true, _) => Ok(()),
            (_, true) => Err(Failure::Failed(said.join("\nbarnabas: "))),
            (_, false) => Err(Failure::Damaged(said.join("\nbarnabas: "))),
        }
    }

    /// What is wrong with the file, in a line.
    fn file(
        &self,
        disk: &Arc<dyn Disk>,
        path: &Path,
        out: &mut impl Write,
    ) -> Result<Option<String>, InspectError<Failure>> {
        let (kind, base) = FileKind::of(path).ok_or(InspectError::Unknown)?;
        let failed = |error: io::Error| {
            InspectError::Stopped(Failure::Failed(format!("{}: {error}", path.display())))
        };
        let metadata = std::fs::metadata(path).map_err(failed)?;
        if !metadata.is_file() {
            // To open a pipe would wait, and a device may have no end.
            return Err(InspectError::Unknown);
        }
        let topic = match self.decode {
            Decode::Auto => inspect::partition_of(path).and_then(|found| Topic::of(&found.topic)),
            Decode::Offsets => Some(Topic::Offsets),
            Decode::Transactions => Some(Topic::Transactions),
            Decode::None => None,
        };
        let printer = Printer { json: self.json, decoder: topic.map(Decoder::new) };
        let printed = |line: Result<(), Failure>| line.map_err(InspectError::Stopped);
        if !self.quiet {
            printed(printer.header(out, path, kind, base, metadata.len()))?;
        }
        let options = Options {
            verify: self.verify,
            records: self.records && !self.quiet,
            limit: self.limit,
        };
        let (mut problems, mut first) = (0, None);
        inspect::inspect(disk, path, options, |item| {
            if let Item::Problem(text) = &item {
                problems += 1;
                first.get_or_insert_with(|| text.clone());
                if problems > PROBLEMS_SHOWN {
                    return Ok(());
                }
            } else if self.quiet {
                return Ok(());
            }
            printer.item(out, &item)
        })?;
        Ok(first.map(|first| match problems {
            1 => first,
            _ => format!("{problems} problems, the first: {first}"),
        }))
    }
}

struct Printer {
    json: bool,
    decoder: Option<Decoder>,
}

impl Printer {
    fn header(
        &self,
        out: &mut impl Write,
        path: &Path,
        kind: FileKind,
        base: Offset,
        bytes: u64,
    ) -> Result<(), Failure> {
        let named = matches!(
            kind,
            FileKind::Segment
                | FileKind::OffsetIndex
                | FileKind::TimeIndex
                | FileKind::TransactionIndex
                | FileKind::ProducerSnapshot
                | FileKind::Checksums
        );
        let (path, kind) = (path.display(), kind.name());
        if self.json {
            let offset = named.then_some(base.0);
            let line = json!({ "type": "file", "path": path.to_string(), "kind": kind, "offset": offset, "bytes": bytes });
            return Ok(writeln!(out, "{line}")?);
        }
        let at = if named { format!(" at offset {base}") } else { String::new() };
        Ok(writeln!(out, "{path}: {kind}{at}, {bytes} bytes")?)
    }

    fn item(&self, out: &mut impl Write, item: &Item<'_>) -> Result<(), Failure> {
        if let Item::Batch { position, batch, valid, records } = item {
            let line = match self.json {
                true => batch_json(*position, batch, *valid, *records).to_string(),
                false => batch_text(*position, batch, *valid, *records),
            };
            writeln!(out, "{line}")?;
            return records.map_or(Ok(()), |records| self.records(out, batch, records));
        }
        let line = match self.json {
            true => item_json(item).to_string(),
            false => item_text(item),
        };
        Ok(writeln!(out, "{line}")?)
    }

    /// Up to the first record that cannot be read; why, is told apart from it.
    fn records(
        &self,
        out: &mut impl Write,
        batch: &Batch<'_>,
        records: &BatchRecords<'_>,
    ) -> Result<(), Failure> {
        if let Some(messages) = records.messages() {
            for message in messages.map_while(Result::ok) {
                let checksum = message.crc().map(|crc| (crc, message.verify()));
                self.record(out, batch, &Record::from(message), None, checksum)?;
            }
            return Ok(());
        }
        let first = batch.header().and_then(base_sequence);
        let base = batch.header().map_or(0, |header| header.base_offset);
        for record in records.iter().map_while(Result::ok) {
            let delta = i32::try_from(record.offset.0.saturating_sub(base)).unwrap_or(0);
            self.record(out, batch, &record, first.map(|first| first.plus(delta).0), None)?;
        }
        Ok(())
    }

    fn record(
        &self,
        out: &mut impl Write,
        batch: &Batch<'_>,
        record: &Record<'_>,
        sequence: Option<i32>,
        checksum: Option<(u32, bool)>,
    ) -> Result<(), Failure> {
        let control = batch.is_control().then(|| ControlRecord::parse(record));
        let decoded = match (&control, &self.decoder) {
            (None, Some(decoder)) => decoder.decode(record.key, record.value),
            _ => None,
        };
        let line = match self.json {
            true => record_json(record, sequence, checksum, control.as_ref(), decoded).to_string(),
            false => record_text(record, sequence, checksum, control.as_ref(), decoded),
        };
        Ok(writeln!(out, "{line}")?)
    }
}

type Control = Result<ControlRecord, protocol::records::RecordsError>;

/// Keys of Kafka's control records, by their types.
fn control_name(control: &Control) -> (String, Option<i32>) {
    match control {
        Ok(ControlRecord::EndTransaction(end)) => {
            let name = if end.committed { "COMMIT" } else { "ABORT" };
            (name.to_owned(), Some(end.coordinator_epoch))
        }
        Ok(ControlRecord::Other { kind }) => {
            let names = [
                "LEADER_CHANGE",
                "SNAPSHOT_HEADER",
                "SNAPSHOT_FOOTER",
                "KRAFT_VERSION",
                "KRAFT_VOTERS",
            ];
            let known = usize::try_from(*kind - 2).ok().and_then(|at| names.get(at));
            (known.map_or_else(|| format!("type {kind}"), |name| (*name).to_owned()), None)
        }
        Err(error) => (error.to_string(), None),
    }
}

fn codec(batch: &Batch<'_>) -> &'static str {
    batch.compression().map_or("unknown", Compression::name)
}

const fn timestamp_type(batch: &Batch<'_>) -> &'static str {
    match batch.timestamp_type() {
        TimestampType::CreateTime => "CreateTime",
        TimestampType::LogAppendTime => "LogAppendTime",
    }
}

/// The first record's sequence. Kafka's coordinators write sequences without a producer, too.
fn base_sequence(header: &BatchHeader) -> Option<Sequence> {
    (header.base_sequence >= 0).then_some(Sequence(header.base_sequence))
}

fn last_sequence(header: &BatchHeader) -> Option<Sequence> {
    Some(base_sequence(header)?.plus(header.last_offset_delta))
}

/// The first offset, which message sets tell only in their records.
fn first_offset(batch: &Batch<'_>, records: Option<&BatchRecords<'_>>) -> Option<i64> {
    let first = || records?.iter().next()?.ok().map(|record| record.offset);
    batch.base_offset().or_else(first).map(|offset| offset.0)
}

fn batch_json(
    position: u64,
    batch: &Batch<'_>,
    valid: bool,
    records: Option<&BatchRecords<'_>>,
) -> Value {
    let mut value = json!({
        "type": "batch",
        "position": position,
        "size": batch.bytes().len(),
        "magic": batch.magic(),
        "base_offset": first_offset(batch, records),
        "last_offset": batch.last_offset().0,
        "compression": codec(batch),
        "timestamp_type": timestamp_type(batch),
        "max_timestamp": batch.max_timestamp().map(|timestamp| timestamp.0),
        "crc": batch.header().map(|header| header.crc).or(batch.legacy().and_then(LegacyMessage::crc)),
        "valid": valid,
    });
    if let (Some(header), Some(fields)) = (batch.header(), value.as_object_mut()) {
        let attributes = header.attributes;
        let more = json!({
            "count": header.record_count,
            "leader_epoch": header.partition_leader_epoch,
            "attributes": attributes.0,
            "transactional": attributes.is_transactional(),
            "control": attributes.is_control(),
            "base_timestamp": header.base_timestamp,
            "delete_horizon": header.delete_horizon().map(|horizon| horizon.0),
            "producer_id": header.producer_id,
            "producer_epoch": header.producer_epoch,
            "base_sequence": header.base_sequence,
            "last_sequence": last_sequence(header).map_or(-1, |sequence| sequence.0),
        });
        fields.extend(more.as_object().cloned().unwrap_or_default());
    }
    value
}

fn batch_text(
    position: u64,
    batch: &Batch<'_>,
    valid: bool,
    records: Option<&BatchRecords<'_>>,
) -> String {
    let first =
        first_offset(batch, records).map_or_else(|| "?".to_owned(), |first| first.to_string());
    let mut line = format!(
        "batch {first}..{} position {position} size {} magic {} compression {} {} {}",
        batch.last_offset(),
        batch.bytes().len(),
        batch.magic(),
        codec(batch),
        timestamp_type(batch),
        batch.max_timestamp().map_or(-1, |timestamp| timestamp.0),
    );
    let mut add = |text: std::fmt::Arguments<'_>| line.write_fmt(text).expect("a string takes it");
    let crc = batch.header().map(|header| header.crc);
    if let Some(header) = batch.header() {
        add(format_args!(
            " records {} leader epoch {}",
            header.record_count, header.partition_leader_epoch
        ));
        if header.producer_id >= 0 {
            add(format_args!(" producer {} epoch {}", header.producer_id, header.producer_epoch));
        }
        if let Some(last) = last_sequence(header) {
            add(format_args!(" sequences {}..{last}", header.base_sequence));
        }
        if header.attributes.is_transactional() {
            add(format_args!(" transactional"));
        }
        if header.attributes.is_control() {
            add(format_args!(" control"));
        }
        if let Some(horizon) = header.delete_horizon() {
            add(format_args!(" delete horizon {horizon}"));
        }
    }
    let crc = crc.or(batch.legacy().and_then(LegacyMessage::crc)).unwrap_or_default();
    add(format_args!(" crc {crc} {}", if valid { "valid" } else { "WRONG" }));
    line
}

fn record_json(
    record: &Record<'_>,
    sequence: Option<i32>,
    checksum: Option<(u32, bool)>,
    control: Option<&Control>,
    decoded: Option<(Value, Value)>,
) -> Value {
    let length = |field: Option<&[u8]>| field.map(<[u8]>::len);
    let header = |header: protocol::records::Header<'_>| json!({ "name": json_text(Some(header.key)), "value": json_text(header.value) });
    let mut value = json!({
        "type": "record",
        "offset": record.offset.0,
        "timestamp": record.timestamp.map(|timestamp| timestamp.0),
        "key_size": length(record.key),
        "value_size": length(record.value),
        "sequence": sequence,
        "headers": record.headers.clone().map(header).collect::<Vec<_>>(),
    });
    if let Some((crc, valid)) = checksum {
        value["crc"] = json!(crc);
        value["valid"] = json!(valid);
    }
    if let Some(control) = control {
        let (name, epoch) = control_name(control);
        value["control"] = json!(name);
        value["coordinator_epoch"] = json!(epoch);
    }
    let (key, content) =
        decoded.unwrap_or_else(|| (json_text(record.key), json_text(record.value)));
    value["key"] = key;
    value["value"] = content;
    value
}

fn record_text(
    record: &Record<'_>,
    sequence: Option<i32>,
    checksum: Option<(u32, bool)>,
    control: Option<&Control>,
    decoded: Option<(Value, Value)>,
) -> String {
    let length = |field: Option<&[u8]>| {
        field.map_or(-1, |field| i64::try_from(field.len()).unwrap_or(i64::MAX))
    };
    let mut line = format!(
        "  record {} timestamp {} key size {} value size {}",
        record.offset,
        record.timestamp.map_or(-1, |timestamp| timestamp.0),
        length(record.key),
        length(record.value),
    );
    let mut add = |text: std::fmt::Arguments<'_>| line.write_fmt(text).expect("a string takes it");
    if let Some(sequence) = sequence {
        add(format_args!(" sequence {sequence}"));
    }
    if let Some((crc, valid)) = checksum {
        add(format_args!(" crc {crc} {}", if valid { "valid" } else { "WRONG" }));
    }
    for header in record.headers.clone() {
        add(format_args!(" header {}={}", shown(Some(header.key)), shown(header.value)));
    }
    match (control.map(control_name), decoded) {
        (Some((name, epoch)), _) => {
            add(format_args!(" {name}"));
            if let Some(epoch) = epoch {
                add(format_args!(" coordinator epoch {epoch}"));
            }
        }
        (None, Some((key, value))) => add(format_args!(" key {key} value {value}")),
        (None, None) => {
            add(format_args!(" key {} value {}", shown(record.key), shown(record.value)));
        }
    }
    line
}

/// Bytes for people: quoted text, else hex.
fn shown(field: Option<&[u8]>) -> String {
    let Some(field) = field else { return "null".to_owned() };
    match std::str::from_utf8(field) {
        Ok(text) if !text.contains(|c: char| c.is_control() && !c.is_whitespace()) => {
            format!("{text:?}")
        }
        _ => field.iter().fold("0x".to_owned(), |mut text, byte| {
            write!(text, "{byte:02x}").expect("a string takes it");
            text
        }),
    }
}

fn item_json(item: &Item<'_>) -> Value {
    match item {
        Item::Batch { .. } => unreachable!("batches have a function of their own"),
        Item::OffsetEntry { offset, position } => {
            json!({ "type": "offset", "offset": offset.0, "position": position })
        }
        Item::TimeEntry { timestamp, offset } => {
            json!({ "type": "time", "timestamp": timestamp, "offset": offset.0 })
        }
        Item::Padding { bytes } => json!({ "type": "padding", "bytes": bytes }),
        Item::Aborted { version, producer_id, first_offset, last_offset, last_stable_offset } => {
            json!({
                "type": "aborted",
                "version": version,
                "producer_id": producer_id.0,
                "first_offset": first_offset.0,
                "last_offset": last_offset.0,
                "last_stable_offset": last_stable_offset.0,
            })
        }
        Item::Part { from, known } => json!({
            "type": "part",
            "from": from,
            "first_batch": known.and_then(|(first, _)| first),
            "heads": known.map(|(_, heads)| format!("{heads:016x}")),
        }),
        Item::Producer(producer) => json!({
            "type": "producer",
            "producer_id": producer.producer_id,
            "producer_epoch": producer.epoch,
            "last_sequence": producer.last_sequence,
            "last_offset": producer.last_offset,
            "offset_delta": producer.offset_delta,
            "timestamp": producer.timestamp,
            "coordinator_epoch": producer.coordinator_epoch,
            "transaction_first_offset": producer.current_txn_first_offset,
        }),
        Item::Epoch(epoch, start) => {
            json!({ "type": "epoch", "leader_epoch": epoch.0, "start_offset": start.0 })
        }
        Item::PartitionOffset(partition, offset) => json!({
            "type": "checkpoint",
            "topic": &*partition.topic,
            "partition": partition.partition,
            "offset": offset,
        }),
        Item::TopicId(id) => json!({ "type": "topic_id", "topic_id": id.to_string() }),
        Item::Property(key, value) => json!({ "type": "property", "key": key, "value": value }),
        Item::Problem(text) => json!({ "type": "problem", "problem": text }),
    }
}

fn item_text(item: &Item<'_>) -> String {
    match item {
        Item::Batch { .. } => unreachable!("batches have a function of their own"),
        Item::OffsetEntry { offset, position } => format!("offset {offset} position {position}"),
        Item::TimeEntry { timestamp, offset } => format!("timestamp {timestamp} offset {offset}"),
        Item::Padding { bytes } => format!("{bytes} zero bytes, allocated ahead of need"),
        Item::Aborted { version, producer_id, first_offset, last_offset, last_stable_offset } => {
            format!(
                "aborted {first_offset}..{last_offset} producer {producer_id} last stable offset {last_stable_offset} version {version}"
            )
        }
        Item::Part { from, known: None } => format!("from {from} nothing known"),
        Item::Part { from, known: Some((None, _)) } => format!("from {from} no batch starts"),
        Item::Part { from, known: Some((Some(first), heads)) } => {
            format!("from {from} first batch {first} heads {heads:016x}")
        }
        Item::Producer(producer) => format!(
            "producer {} epoch {} last sequence {} last offset {} offset delta {} timestamp {} coordinator epoch {} transaction from {}",
            producer.producer_id,
            producer.epoch,
            producer.last_sequence,
            producer.last_offset,
            producer.offset_delta,
            producer.timestamp,
            producer.coordinator_epoch,
            producer.current_txn_first_offset,
        ),
        Item::Epoch(epoch, start) => format!("leader epoch {epoch} from offset {start}"),
        Item::PartitionOffset(partition, offset) => format!("{partition} {offset}"),
        Item::TopicId(id) => format!("topic id {id}"),
        Item::Property(key, value) => format!("{key}={value}"),
        Item::Problem(text) => format!("WRONG: {text}"),
    }
}
