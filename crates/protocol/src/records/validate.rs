//! What a leader checks, corrects and converts before it appends what a producer sent.
//!
//! The rules and their order are those of Kafka 3.9's `LogValidator` and `analyzeAndValidateRecords`,
//! with magic 2 as the only format written. Needs no state of the log: offsets and leader epoch are
//! assigned later by patching the 16 header bytes that no checksum covers.
//!
//! A batch stays as it was sent, byte for byte, unless one of these asks for a new one:
//!
//! | | rebuilt when |
//! |---|---|
//! | magic | 0 or 1 |
//! | codec | differs from the topic's `compression.type` (levels do not count) |
//!
//! Compressed records that are not numbered 0, 1, 2, ... are renumbered where a rebuild happens anyway.
//! Otherwise they are refused with Kafka's code: its own rebuild trips over them.

use super::batch::{Batch, Batches};
use super::builder::{BuildError, RecordBatchBuilder};
use super::compression::{Compression, CompressionLevels, Deflater, Inflater, Outline, fair_limit};
use super::error::RecordsError;
use super::header::{
    Attributes, BatchHeader, HEADER_BYTES, LOG_OVERHEAD_BYTES, MAGIC_POSITION, TimestampType,
};
use super::legacy::{InnerMessages, LegacyMessage, next_entry};
use super::record::{EncodedHeaders, RawRecord};
use bytes::Bytes;
use model::{Offset, ProducerEpoch, ProducerId, Sequence, Timestamp};
use std::borrow::Cow;
use std::fmt;
use usual::Usual;

/// Who appends. Followers do not validate: see [`verified`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// A produce request: every rule applies.
    #[default]
    Client,
    /// Our own group or transaction coordinator: control batches and offsets of its own are fine.
    Coordinator,
}

/// How deep to look: `barnabas.record.validation`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RecordValidation {
    /// At every record, as Kafka does; compressed batches are inflated for it.
    #[default]
    Full,
    /// At batch headers, unless a compacted topic (keys) or a conversion asks for more. What Kafka
    /// would refuse inside a batch is accepted, and a wrong max timestamp stays.
    Headers,
}

/// The topic's settings and the moment.
#[derive(Clone, Debug)]
pub struct ValidationRules {
    /// Who appends.
    pub origin: Origin,
    /// `compression.type`; none is `producer`, which keeps what was sent.
    pub compression: Option<Compression>,
    /// `compression.*.level`, for batches that are rebuilt.
    pub levels: CompressionLevels,
    /// `message.timestamp.type`.
    pub timestamp_type: TimestampType,
    /// `message.timestamp.before.max.ms`: how far a create time may lie before `now`.
    pub timestamp_before_max_ms: i64,
    /// `message.timestamp.after.max.ms`: how far a create time may lie after `now`.
    pub timestamp_after_max_ms: i64,
    /// Whether `cleanup.policy` contains `compact`: then every record needs a key.
    pub compacted: bool,
    /// `max.message.bytes`: the largest batch.
    pub max_message_bytes: usize,
    /// How deep to look.
    pub validation: RecordValidation,
    /// The most bytes that one compressed batch may inflate to, unless that is less than 32 times its
    /// compressed size.
    pub inflate_limit: usize,
    /// The leader's clock.
    pub now: Timestamp,
}

/// The default of [`ValidationRules::inflate_limit`]. Kafka 3.9 has no limit.
pub const INFLATE_LIMIT: usize = 128 << 20;
/// The limit for the rare batches that have to be inflated as a whole to be written anew.
const REBUILD_LIMIT: usize = 16 << 20;
/// Record errors beyond this many are counted, not listed.
const LISTED_RECORD_ERRORS: usize = 10_000;

impl ValidationRules {
    /// Kafka's defaults at time `now`.
    #[must_use]
    pub fn new(now: Timestamp) -> Self {
        Self {
            origin: Origin::Client,
            compression: None,
            levels: CompressionLevels::DEFAULT,
            timestamp_type: TimestampType::CreateTime,
            timestamp_before_max_ms: i64::MAX,
            timestamp_after_max_ms: i64::MAX,
            compacted: false,
            max_message_bytes: 1_048_588,
            validation: RecordValidation::Full,
            inflate_limit: INFLATE_LIMIT,
            now,
        }
    }

    /// How far `received` compressed bytes may be inflated to look at them.
    fn walk_limit(&self, received: usize) -> usize {
        fair_limit(self.inflate_limit, received)
    }

    /// How far they may be inflated in memory.
    fn rebuild_limit(&self, received: usize) -> usize {
        fair_limit(self.inflate_limit.min(REBUILD_LIMIT), received)
    }

    /// Why a record with `timestamp` (-1 if none) and `has_key` may not be appended.
    #[inline]
    fn refusal(&self, batch: TimestampType, timestamp: i64, has_key: bool) -> Option<Refusal> {
        if self.compacted && !has_key {
            return Some(Refusal::NullKey);
        }
        if self.timestamp_type == TimestampType::CreateTime && timestamp != -1 {
            let age = self.now.0.saturating_sub(timestamp);
            let out = age > self.timestamp_before_max_ms
                || age.saturating_neg() > self.timestamp_after_max_ms;
            out.then_some(Refusal::Timestamp(timestamp))
        } else {
            (batch == TimestampType::LogAppendTime).then_some(Refusal::TimestampType)
        }
    }
}

/// What is ready for the log: offsets from 0, no leader epoch yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Validated {
    /// What was sent, as one batch; none if there was no whole one.
    pub batch: Option<ValidatedBatch>,
    /// The time that was stamped on the records, on a topic with log append time.
    pub log_append_time: Option<Timestamp>,
    /// Records that were rewritten from an older format.
    pub converted_records: usize,
}

impl Validated {
    /// Bytes of the batch.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        self.batch.as_ref().map_or(0, |batch| batch.header.size_bytes())
    }
}

/// One batch: write `header.encode()`, with offset and leader epoch set, then `payload`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidatedBatch {
    /// Base offset 0, leader epoch -1, everything else final, CRC included.
    pub header: BatchHeader,
    /// What follows the header: a slice of the input if the batch stays as it was sent.
    pub payload: Bytes,
}

impl ValidatedBatch {
    /// Numbers the batch from `base_offset` on and returns the header's bytes.
    #[must_use]
    pub fn assign(&mut self, base_offset: Offset, leader_epoch: model::LeaderEpoch) -> [u8; 61] {
        self.header.base_offset = base_offset.0;
        self.header.partition_leader_epoch = leader_epoch.0;
        self.header.encode()
    }
}

/// Kafka's error for what was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ValidationErrorKind {
    /// `CORRUPT_MESSAGE` (2).
    CorruptMessage,
    /// `MESSAGE_TOO_LARGE` (10).
    MessageTooLarge,
    /// `INVALID_TIMESTAMP` (32).
    InvalidTimestamp,
    /// `UNSUPPORTED_COMPRESSION_TYPE` (76).
    UnsupportedCompressionType,
    /// `INVALID_RECORD` (87).
    InvalidRecord,
    /// `UNKNOWN_SERVER_ERROR` (-1): Kafka's reader fails where its broker does not expect it, and that
    /// is what its clients know. The fault is in the records all the same.
    UnknownServerError,
}

/// Why nothing of a produce request's partition may be appended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ValidationError {
    /// Which of Kafka's errors it is.
    pub kind: ValidationErrorKind,
    /// For people.
    pub message: Cow<'static, str>,
    /// The records that were refused, if it was for what they are (KIP-467).
    pub record_errors: Vec<RecordError>,
}

/// A record that may not be appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordError {
    /// Its index in the batch, from 0: `batchIndex` in the response.
    pub batch_index: i32,
    /// Why.
    pub refusal: Refusal,
}

/// Why a record may not be appended; prints as the message for the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No key, and the topic is compacted.
    NullKey,
    /// A create time outside of `message.timestamp.*.max.ms`.
    Timestamp(i64),
    /// Producers may not say that the broker stamped their records.
    TimestampType,
    /// A message of another magic than its wrapper.
    Magic,
    /// A compressed message in a compressed set.
    Nested,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NullKey => f.write_str("Compacted topic cannot accept message without key."),
            Self::Timestamp(at) => {
                write!(f, "Timestamp {at} is out of the range that the topic accepts.")
            }
            Self::TimestampType => {
                f.write_str("Producer should not set timestamp type to LogAppendTime.")
            }
            Self::Magic => f.write_str("Message has another magic than its wrapper."),
            Self::Nested => f.write_str("Message in a compressed set is itself compressed."),
        }
    }
}

impl ValidationError {
    fn invalid(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ValidationErrorKind::InvalidRecord, message)
    }

    fn new(kind: ValidationErrorKind, message: impl Into<Cow<'static, str>>) -> Self {
        Self { kind, message: message.into(), record_errors: Vec::new() }
    }
}

impl From<RecordsError> for ValidationError {
    fn from(error: RecordsError) -> Self {
        let kind = match &error {
            RecordsError::Corrupt(_) => ValidationErrorKind::CorruptMessage,
            RecordsError::Invalid(_) => ValidationErrorKind::InvalidRecord,
            RecordsError::Unreadable(_) => ValidationErrorKind::UnknownServerError,
            RecordsError::Codec(_) => ValidationErrorKind::UnsupportedCompressionType,
            // Producers answer by splitting the batch, which is what helps.
            RecordsError::TooLarge { .. } => ValidationErrorKind::MessageTooLarge,
        };
        Self::new(kind, error.to_string())
    }
}

impl From<BuildError> for ValidationError {
    fn from(error: BuildError) -> Self {
        let kind = match &error {
            BuildError::TooLarge => ValidationErrorKind::MessageTooLarge,
            BuildError::Offset(_) => ValidationErrorKind::InvalidRecord,
            BuildError::Timestamp(_) => ValidationErrorKind::InvalidTimestamp,
        };
        Self::new(kind, error.to_string())
    }
}

/// What a version of Produce may carry for one partition: from version 3 on exactly one batch of magic
/// 2, and zstd only from version 7 on. Before the topic is looked at.
///
/// Returns that batch, for [`validate_one`]; none before version 3.
///
/// # Errors
/// [`ValidationError`] without record errors.
pub fn check_produce(version: i16, records: &[u8]) -> Result<Option<Batch<'_>>, ValidationError> {
    if version < 3 {
        return Ok(None);
    }
    let mut batches = Batches::new(records);
    let is_old = |records: &[u8]| {
        next_entry(&mut &*records).is_ok_and(|entry| {
            entry.is_some_and(|entry| matches!(entry.get(MAGIC_POSITION), Some(0 | 1)))
        })
    };
    if records.get(MAGIC_POSITION) != Some(&2) && is_old(records) {
        return Err(ValidationError::invalid(
            "produce requests from version 3 on may only contain record batches of magic 2",
        ));
    }
    let first = batches.next().transpose()?.ok_or_else(|| {
        ValidationError::invalid("a produce request must have a record batch for each partition")
    })?;
    if version < 7 && first.compression()? == Compression::Zstd {
        return Err(ValidationError::new(
            ValidationErrorKind::UnsupportedCompressionType,
            "produce requests before version 7 may not use zstd",
        ));
    }
    match batches.next().transpose()? {
        Some(_) => Err(ValidationError::invalid(
            "produce requests from version 3 on may only contain one record batch per partition",
        )),
        None => Ok(Some(first)),
    }
}

/// The batches that a follower got from its leader, checksums verified: followers append them as they
/// are. Ends before an incomplete batch.
pub fn verified(records: &[u8]) -> impl Iterator<Item = Result<Batch<'_>, RecordsError>> {
    Batches::new(records).map(|batch| {
        batch.and_then(|batch| {
            let valid = batch.verify();
            valid.then_some(batch).ok_or(RecordsError::corrupt("checksum does not match"))
        })
    })
}

/// Checks `input` by `rules` and returns what to append. Bytes after the last whole batch are dropped.
///
/// # Errors
/// [`ValidationError`]; then nothing may be appended.
pub fn validate(input: &Bytes, rules: &ValidationRules) -> Result<Validated, ValidationError> {
    let mut first = None;
    let mut more = false;
    let mut source = Compression::None;
    for batch in Batches::new(input) {
        let batch = batch?;
        check_shape(&batch, rules)?;
        let codec = batch.compression()?;
        if codec != Compression::None {
            source = codec;
        }
        more |= first.is_some();
        first.get_or_insert(batch);
    }
    let Some(first) = first else { return Ok(Validated::default()) };
    if more && (first.magic() == 2 || source != Compression::None) {
        return Err(ValidationError::invalid("compressed or v2 records must be one batch"));
    }
    validate_shaped(input, &first, source, rules)
}

/// As [`validate`], where `input` holds `batch` and no other.
///
/// # Errors
/// [`ValidationError`]; then nothing may be appended.
pub fn validate_one(
    input: &Bytes,
    batch: &Batch<'_>,
    rules: &ValidationRules,
) -> Result<Validated, ValidationError> {
    check_shape(batch, rules)?;
    validate_shaped(input, batch, batch.compression()?, rules)
}

/// Validates what starts with `first`, whose shape has been checked.
fn validate_shaped(
    input: &Bytes,
    first: &Batch<'_>,
    source: Compression,
    rules: &ValidationRules,
) -> Result<Validated, ValidationError> {
    let target = rules.compression.unwrap_or(source);
    let (batch, converted_records) = match first.header() {
        Some(header) => (validate_v2(input, first, header, target, rules)?, 0),
        None => convert(input, first.magic(), target, rules)?,
    };
    let log_append_time =
        (rules.timestamp_type == TimestampType::LogAppendTime).then_some(rules.now);
    Ok(Validated { batch: Some(batch), log_append_time, converted_records })
}

/// What every batch must be, before it is known what becomes of it.
fn check_shape(batch: &Batch<'_>, rules: &ValidationRules) -> Result<(), ValidationError> {
    if let Some(header) = batch.header()
        && rules.origin == Origin::Client
        && header.base_offset != 0
    {
        return Err(ValidationError::invalid(format!(
            "the base offset of a produced batch must be 0, it is {}",
            header.base_offset
        )));
    }
    check_size(batch.bytes().len(), rules)?;
    if batch.verify() {
        return Ok(());
    }
    Err(ValidationError::new(ValidationErrorKind::CorruptMessage, "checksum does not match"))
}

fn check_size(size: usize, rules: &ValidationRules) -> Result<(), ValidationError> {
    if size <= rules.max_message_bytes {
        return Ok(());
    }
    Err(ValidationError::new(
        ValidationErrorKind::MessageTooLarge,
        format!("batch of {size} bytes is larger than the topic's {}", rules.max_message_bytes),
    ))
}

fn check_client_header(header: &BatchHeader) -> Result<(), ValidationError> {
    let from_offsets = i64::from(header.last_offset_delta) + 1;
    if from_offsets <= 0 || header.record_count <= 0 {
        return Err(ValidationError::invalid("batch without records"));
    }
    if from_offsets != i64::from(header.record_count) {
        return Err(ValidationError::invalid(format!(
            "batch of {} records has {from_offsets} offsets",
            header.record_count
        )));
    }
    if header.attributes.is_control() {
        return Err(ValidationError::invalid("clients may not write control records"));
    }
    if header.producer_id > -1 && header.base_sequence < 0 {
        return Err(ValidationError::invalid("batch with a producer id but without sequence"));
    }
    Ok(())
}

fn validate_v2(
    input: &Bytes,
    batch: &Batch<'_>,
    header: &BatchHeader,
    target: Compression,
    rules: &ValidationRules,
) -> Result<ValidatedBatch, ValidationError> {
    if rules.origin == Origin::Client {
        check_client_header(header)?;
    }
    let source = header.attributes.compression()?;
    let payload = &batch.bytes()[HEADER_BYTES..];
    // Control records stay uncompressed, whatever the topic says.
    let in_place =
        source == target || source == Compression::None && header.attributes.is_control();
    if !in_place {
        return recode(header, source, payload, target, rules);
    }
    let mut walk = Walk::new(rules, header.attributes.timestamp_type());
    if rules.validation == RecordValidation::Full || rules.compacted {
        walk_any(header, source, payload, &mut walk)?;
        walk.finish()?;
        if !walk.in_order && source != Compression::None {
            let error = RecordsError::unreadable("compressed records are not numbered from 0 on");
            return Err(error.into());
        }
    } else {
        walk.trust(header);
        walk.finish()?;
    }
    let (position, end) = (batch.position(), batch.position() + batch.bytes().len());
    let payload = input.slice(position + HEADER_BYTES..end);
    let mut header = header.clone();
    header.base_offset = 0;
    header.partition_leader_epoch = -1;
    let max_timestamp = match rules.timestamp_type {
        TimestampType::CreateTime => walk.max_timestamp,
        TimestampType::LogAppendTime => rules.now.0,
    };
    if header.set_max_timestamp(rules.timestamp_type, max_timestamp) {
        header.crc = header.compute_crc(&payload);
    }
    Ok(ValidatedBatch { header, payload })
}

/// What a pass over the records of a batch has found.
struct Walk<'r> {
    rules: &'r ValidationRules,
    batch_type: TimestampType,
    index: i32,
    in_order: bool,
    first_timestamp_delta: i64,
    max_timestamp: i64,
    errors: Vec<RecordError>,
    refused: usize,
}

impl<'r> Walk<'r> {
    const fn new(rules: &'r ValidationRules, batch_type: TimestampType) -> Self {
        Self {
            rules,
            batch_type,
            index: 0,
            in_order: true,
            first_timestamp_delta: 0,
            max_timestamp: -1,
            errors: Vec::new(),
            refused: 0,
        }
    }

    /// Judges the next record; true if nothing has been refused so far.
    #[inline]
    fn record(&mut self, timestamp: i64, has_key: bool) -> bool {
        self.max_timestamp = self.max_timestamp.max(timestamp);
        if let Some(refusal) = self.rules.refusal(self.batch_type, timestamp, has_key) {
            self.refuse(refusal);
        }
        self.index = self.index.saturating_add(1);
        self.refused == 0
    }

    #[cold]
    fn refuse(&mut self, refusal: Refusal) {
        self.refused += 1;
        if self.errors.len() < LISTED_RECORD_ERRORS {
            self.errors.push(RecordError { batch_index: self.index, refusal });
        }
    }

    /// Judges a v2 record by its outline.
    #[inline]
    fn outline(&mut self, header: &BatchHeader, outline: Outline) -> i64 {
        self.in_order &= outline.offset_delta == self.index;
        if self.index == 0 {
            self.first_timestamp_delta = outline.timestamp_delta;
        }
        let timestamp = match self.batch_type {
            TimestampType::LogAppendTime => header.max_timestamp,
            TimestampType::CreateTime => header.timestamp(outline.timestamp_delta),
        };
        self.record(timestamp, outline.has_key);
        timestamp
    }

    /// Judges all records of a batch together; false, and nothing has happened, if one may have to be
    /// refused, which is for [`Walk::record`] to say.
    fn takes(&mut self, usual: &Usual) -> bool {
        // Of what the rules ask of timestamps the outermost two tell all.
        let refuses = |timestamp| {
            self.rules.refusal(self.batch_type, timestamp, usual.all_have_keys).is_some()
        };
        if refuses(usual.min_timestamp) || refuses(usual.max_timestamp) {
            return false;
        }
        self.first_timestamp_delta = usual.first_timestamp_delta;
        self.max_timestamp = usual.max_timestamp;
        self.index = usual.count;
        true
    }

    /// Judges a batch by its header alone.
    fn trust(&mut self, header: &BatchHeader) {
        self.record(header.base_timestamp, true);
        self.index = 0;
        if self.refused == 0 {
            self.record(header.max_timestamp, true);
        }
        self.max_timestamp = header.max_timestamp;
    }

    fn finish(&mut self) -> Result<(), ValidationError> {
        if self.refused == 0 {
            return Ok(());
        }
        let by_timestamp = self
            .errors
            .iter()
            .any(|error| matches!(error.refusal, Refusal::Timestamp(_) | Refusal::TimestampType));
        // These words reach clients, so they are Kafka's form.
        let mut message = String::from("One or more records have been rejected due to ");
        let kind = match by_timestamp {
            true => {
                message.push_str("invalid timestamp");
                ValidationErrorKind::InvalidTimestamp
            }
            false => {
                let more = format!("{} record errors in total", self.refused);
                message.push_str(&more);
                ValidationErrorKind::InvalidRecord
            }
        };
        Err(ValidationError {
            kind,
            message: message.into(),
            record_errors: std::mem::take(&mut self.errors),
        })
    }
}

/// Walks uncompressed v2 records, checking every byte's place; allocates nothing.
fn walk_plain<'a>(
    header: &BatchHeader,
    payload: &'a [u8],
    walk: &mut Walk<'_>,
    mut accepted: impl FnMut(&RawRecord<'a>, i64) -> Result<(), ValidationError>,
) -> Result<(), ValidationError> {
    if header.record_count < 0 {
        return Err(ValidationError::invalid("negative record count"));
    }
    let mut at = 0;
    for _ in 0..header.record_count {
        let raw = RawRecord::take(payload, &mut at)?;
        let timestamp = walk.outline(header, Outline::from(&raw));
        if walk.refused == 0 {
            accepted(&raw, timestamp)?;
        }
    }
    if at == payload.len() {
        return Ok(());
    }
    Err(ValidationError::invalid("more bytes than the batch's records"))
}

fn walk_any(
    header: &BatchHeader,
    codec: Compression,
    payload: &[u8],
    walk: &mut Walk<'_>,
) -> Result<(), ValidationError> {
    match codec {
        Compression::None => match Usual::of(header, payload) {
            Some(usual) if walk.takes(&usual) => Ok(()),
            Some(_) | None => walk_plain(header, payload, walk, |_, _| Ok(())),
        },
        Compression::Gzip | Compression::Snappy | Compression::Lz4 | Compression::Zstd => {
            walk_compressed(header, codec, payload, walk)
        }
    }
}

/// Walks compressed v2 records while they are inflated.
fn walk_compressed(
    header: &BatchHeader,
    codec: Compression,
    payload: &[u8],
    walk: &mut Walk<'_>,
) -> Result<(), ValidationError> {
    if header.record_count < 0 {
        return Err(ValidationError::invalid("negative record count"));
    }
    let limit = walk.rules.walk_limit(payload.len());
    let mut inflater = Inflater::new(codec, 2, payload, limit)?;
    for _ in 0..header.record_count {
        let outline = inflater.next_outline()?;
        walk.outline(header, outline);
    }
    if inflater.is_at_end()? {
        return Ok(());
    }
    Err(ValidationError::invalid("more bytes than the batch's records"))
}

/// A builder for what replaces a batch.
fn builder(target: Compression, rules: &ValidationRules) -> RecordBatchBuilder {
    let builder = RecordBatchBuilder::new().compression(target).levels(rules.levels);
    match rules.timestamp_type {
        TimestampType::CreateTime => builder,
        TimestampType::LogAppendTime => builder.log_append_time(rules.now),
    }
}

fn built(
    builder: &RecordBatchBuilder,
    rules: &ValidationRules,
) -> Result<ValidatedBatch, ValidationError> {
    let (header, payload) = builder.build_parts()?;
    check_size(header.size_bytes(), rules)?;
    Ok(ValidatedBatch { header, payload: payload.into() })
}

/// Puts a v2 batch into another codec.
///
/// The records of every sane producer are, uncompressed, byte for byte what a rebuilt batch would hold:
/// numbered from 0, timed from the first. They stream from one codec to the other through small buffers.
fn recode(
    header: &BatchHeader,
    source: Compression,
    payload: &[u8],
    target: Compression,
    rules: &ValidationRules,
) -> Result<ValidatedBatch, ValidationError> {
    let mut walk = Walk::new(rules, header.attributes.timestamp_type());
    walk_any(header, source, payload, &mut walk)?;
    walk.finish()?;
    let sane = walk.in_order
        && walk.first_timestamp_delta == 0
        && header.attributes.timestamp_type() == TimestampType::CreateTime
        && !header.attributes.has_delete_horizon();
    if !sane {
        return rebuild(header, payload, target, rules);
    }
    let room = rules.max_message_bytes.saturating_sub(HEADER_BYTES);
    let mut deflater = Deflater::new(target, 2, rules.levels, room)?;
    let limit = rules.walk_limit(payload.len());
    Inflater::new(source, 2, payload, limit)?.copy_to(&mut deflater)?;
    let payload = deflater.finish()?;
    let max_timestamp = match rules.timestamp_type {
        TimestampType::CreateTime => walk.max_timestamp,
        TimestampType::LogAppendTime => rules.now.0,
    };
    let attributes = Attributes::default()
        .with_compression(target)
        .with_timestamp_type(rules.timestamp_type)
        .with_transactional(header.attributes.is_transactional())
        .with_control(header.attributes.is_control());
    let too_large = |_| ValidationError::from(BuildError::TooLarge);
    let mut header = BatchHeader {
        base_offset: 0,
        batch_length: i32::try_from(HEADER_BYTES - LOG_OVERHEAD_BYTES + payload.len())
            .map_err(too_large)?,
        partition_leader_epoch: -1,
        attributes,
        last_offset_delta: header.record_count.saturating_sub(1).max(0),
        max_timestamp,
        ..header.clone()
    };
    header.crc = header.compute_crc(&payload);
    Ok(ValidatedBatch { header, payload: payload.into() })
}

/// Writes a v2 batch anew, record by record, numbered 0, 1, 2, ...
fn rebuild(
    header: &BatchHeader,
    payload: &[u8],
    target: Compression,
    rules: &ValidationRules,
) -> Result<ValidatedBatch, ValidationError> {
    let plain = match header.attributes.compression()? {
        Compression::None => Cow::Borrowed(payload),
        codec
        @ (Compression::Gzip | Compression::Snappy | Compression::Lz4 | Compression::Zstd) => {
            Cow::Owned(codec.decompress(2, payload, rules.rebuild_limit(payload.len()))?)
        }
    };
    let mut builder = builder(target, rules);
    if header.producer_id > -1 {
        let sequence = (header.base_sequence > -1).then_some(Sequence(header.base_sequence));
        let (id, epoch) = (ProducerId(header.producer_id), ProducerEpoch(header.producer_epoch));
        builder = builder.producer(id, epoch, sequence);
    }
    if header.attributes.is_transactional() {
        builder = builder.transactional();
    }
    if header.attributes.is_control() {
        builder = builder.control();
    }
    let mut walk = Walk::new(rules, header.attributes.timestamp_type());
    let mut offset = 0;
    walk_plain(header, &plain, &mut walk, |raw, timestamp| {
        let headers = EncodedHeaders::from(&raw.headers);
        builder.append_encoded(offset, timestamp, raw.key, raw.value, headers)?;
        offset += 1;
        Ok(())
    })?;
    walk.finish()?;
    built(&builder, rules)
}

/// Turns a message set into one v2 batch, and counts its records.
fn convert(
    input: &Bytes,
    magic: u8,
    target: Compression,
    rules: &ValidationRules,
) -> Result<(ValidatedBatch, usize), ValidationError> {
    let mut builder = builder(target, rules);
    let mut offset = 0;
    for batch in Batches::new(input) {
        let batch = batch?;
        let message = match batch.legacy() {
            Some(message) if message.magic == magic => message,
            _ => return Err(ValidationError::invalid("batches of different magic")),
        };
        let mut walk = Walk::new(rules, message.timestamp_type());
        walk.index = offset;
        let mut add = |walk: &mut Walk<'_>, message: &LegacyMessage<'_>| {
            if walk.record(message.timestamp, message.key.is_some()) {
                let (at, headers) = (i64::from(offset), EncodedHeaders::default());
                builder.append_encoded(
                    at,
                    message.timestamp,
                    message.key,
                    message.value,
                    headers,
                )?;
                offset = offset.saturating_add(1);
            }
            Ok::<(), ValidationError>(())
        };
        if message.compression()? == Compression::None {
            add(&mut walk, message)?;
        } else {
            let received = message.value.map_or(0, <[u8]>::len);
            let set = message.inflate(rules.rebuild_limit(received))?;
            let numbering = InnerMessages::numbering(message, &set)?;
            let mut inner = InnerMessages::new(&set, numbering);
            while let Some(inner) = inner.next_message()? {
                if inner.magic != magic {
                    walk.refuse(Refusal::Magic);
                } else if inner.attributes & 0b111 != 0 {
                    walk.refuse(Refusal::Nested);
                }
                // The wrapper's checksum covers compressed bytes; these cover what was meant.
                if !inner.verify() {
                    return Err(RecordsError::corrupt("checksum of an inner message").into());
                }
                add(&mut walk, &inner)?;
            }
        }
        walk.finish()?;
    }
    let converted = usize::try_from(offset).unwrap_or_default();
    Ok((built(&builder, rules)?, converted))
}

#[cfg(test)]
mod tests;
mod usual;
