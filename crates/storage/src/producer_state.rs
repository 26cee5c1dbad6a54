//! What a log knows of the producers that write to it (KIP-98): enough to tell a retry from new
//! records, and where transactions are open.
//!
//! Checked and changed when an append is *reserved*: until it is published the changes are
//! provisional, and a failed write throws the whole state away.

use crate::append::{AppendOrigin, Duplicate, Verification, VerificationGuard};
use crate::error::AppendError;
use crate::transaction_index::TransactionEntry;
use model::{Bug, Offset, ProducerEpoch, ProducerId, Sequence, Timestamp};
use protocol::records::{BatchHeader, EndTransaction};
use std::collections::BTreeMap;
use std::time::Duration;

/// So many batches of a producer are remembered; a client may have that many in flight.
const REMEMBERED: usize = 5;

/// One producer, as `DescribeProducers` answers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerDescription {
    /// The producer.
    pub producer_id: ProducerId,
    /// Its latest epoch.
    pub epoch: ProducerEpoch,
    /// The last sequence of that epoch, if a batch of it is remembered.
    pub last_sequence: Option<Sequence>,
    /// The largest timestamp of its last batch.
    pub last_timestamp: Timestamp,
    /// The coordinator epoch of its last marker.
    pub coordinator_epoch: Option<i32>,
    /// First offset of its open transaction.
    pub current_transaction_first_offset: Option<Offset>,
}

/// A remembered batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RememberedBatch {
    pub(crate) last_sequence: i32,
    pub(crate) last_offset: i64,
    /// Last offset less first offset; also last sequence less first sequence.
    pub(crate) offset_delta: i32,
    pub(crate) timestamp: i64,
}

impl RememberedBatch {
    fn of(header: &BatchHeader) -> Self {
        Self {
            last_sequence: header.last_sequence().map_or(-1, |sequence| sequence.0),
            last_offset: header.last_offset().0,
            offset_delta: header.last_offset_delta,
            timestamp: header.max_timestamp,
        }
    }

    fn first_sequence(&self) -> i32 {
        Sequence(self.last_sequence).plus(-self.offset_delta).0
    }

    fn duplicate(&self) -> Duplicate {
        Duplicate {
            first_offset: Offset(self.last_offset - i64::from(self.offset_delta)),
            last_offset: Offset(self.last_offset),
            timestamp: Timestamp(self.timestamp),
        }
    }
}

/// The newest batches, oldest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Remembered {
    batches: [RememberedBatch; REMEMBERED],
    count: u8,
}

impl Remembered {
    fn push(&mut self, batch: RememberedBatch) {
        if usize::from(self.count) == REMEMBERED {
            self.batches.rotate_left(1);
            self.count -= 1;
        }
        self.batches[usize::from(self.count)] = batch;
        self.count += 1;
    }

    fn as_slice(&self) -> &[RememberedBatch] {
        &self.batches[..usize::from(self.count)]
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Producer {
    pub(crate) epoch: i16,
    /// -1 if no marker was seen.
    pub(crate) coordinator_epoch: i32,
    pub(crate) last_timestamp: i64,
    pub(crate) transaction_first_offset: Option<Offset>,
    remembered: Remembered,
}

impl Producer {
    const UNKNOWN: Self = Self {
        epoch: -1,
        coordinator_epoch: -1,
        last_timestamp: -1,
        transaction_first_offset: None,
        remembered: Remembered {
            batches: [RememberedBatch {
                last_sequence: 0,
                last_offset: 0,
                offset_delta: 0,
                timestamp: 0,
            }; REMEMBERED],
            count: 0,
        },
    };

    pub(crate) fn last_batch(&self) -> Option<&RememberedBatch> {
        self.remembered.as_slice().last()
    }

    fn set_epoch(&mut self, epoch: i16) {
        if self.epoch != epoch {
            self.epoch = epoch;
            self.remembered = Remembered::default();
        }
    }

    fn find_duplicate(&self, header: &BatchHeader) -> Option<Duplicate> {
        if header.producer_epoch != self.epoch {
            return None;
        }
        let last = Sequence(header.base_sequence).plus(header.last_offset_delta).0;
        let all = self.remembered.as_slice();
        let forgotten = if Bug::Kafka5494.is_planted() { all.len().saturating_sub(1) } else { 0 };
        all[forgotten..]
            .iter()
            .find(|batch| {
                batch.last_sequence == last && batch.first_sequence() == header.base_sequence
            })
            .map(RememberedBatch::duplicate)
    }

    fn is_expired(&self, now: Timestamp, expiration: Duration) -> bool {
        self.transaction_first_offset.is_none()
            && i128::from(now.0) - i128::from(self.last_timestamp)
                >= i128::try_from(expiration.as_millis()).unwrap_or(i128::MAX)
    }
}

/// A verification under way, from the produce request to the first record of the transaction.
#[derive(Clone, Copy, Debug)]
struct VerificationEntry {
    guard: VerificationGuard,
    epoch: i16,
    /// The lowest sequence that was seen meanwhile: nothing above may be the transaction's first.
    lowest_sequence: i32,
    supports_epoch_bump: bool,
    at: Timestamp,
}

/// A transaction that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EndedTransaction {
    producer_id: ProducerId,
    first_offset: Offset,
    marker_offset: Offset,
    committed: bool,
}

/// Why a batch has to be checked: leaders check what followers must take as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Leader(AppendOrigin),
    Replication,
}

/// A batch of a producer, with its offsets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProducerBatch<'a> {
    pub(crate) header: &'a BatchHeader,
    /// Of a control batch: how the transaction ended, and the marker's timestamp.
    pub(crate) marker: Option<(EndTransaction, i64)>,
}

/// The newest batches of producers as they lie in the log: a snapshot has only the last of each.
#[derive(Debug, Default)]
pub(crate) struct Recollection {
    /// With the epoch of the batches.
    producers: BTreeMap<ProducerId, (i16, Remembered)>,
}

impl Recollection {
    /// Takes the next batch.
    pub(crate) fn note(&mut self, header: &BatchHeader) {
        if header.producer_id < 0 || header.attributes.is_control() {
            return;
        }
        let entry = self.producers.entry(ProducerId(header.producer_id)).or_default();
        if entry.0 != header.producer_epoch {
            *entry = (header.producer_epoch, Remembered::default());
        }
        entry.1.push(RememberedBatch::of(header));
    }
}

/// All producers of a log.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProducerState {
    producers: BTreeMap<ProducerId, Producer>,
    verifications: BTreeMap<ProducerId, VerificationEntry>,
    next_guard: u64,
    /// Open transactions by first offset.
    open: BTreeMap<Offset, ProducerId>,
    /// Transactions that ended at a marker (the value) that is not below the high watermark.
    ended: BTreeMap<Offset, Offset>,
}

/// The effects of an append, checked and not yet applied.
#[derive(Debug, Default)]
pub(crate) struct ProducerUpdate {
    producers: Vec<(ProducerId, Producer, bool)>,
    started: Vec<(Offset, ProducerId)>,
    ended: Vec<EndedTransaction>,
    verified: Vec<ProducerId>,
}

impl ProducerState {
    /// Whether an epoch of the producer is known; without, any of its batches may be the first.
    pub(crate) fn knows(&self, id: ProducerId) -> bool {
        self.producers.get(&id).is_some_and(|producer| producer.epoch != -1)
    }

    /// The remembered batch that the client's batch repeats.
    pub(crate) fn find_duplicate(&self, header: &BatchHeader) -> Option<Duplicate> {
        self.producers.get(&ProducerId(header.producer_id))?.find_duplicate(header)
    }

    /// Checks a batch after those in `update`, and adds its effects (log-format 4.5).
    pub(crate) fn check(
        &self,
        update: &mut ProducerUpdate,
        batch: ProducerBatch<'_>,
        origin: Origin,
        verification: Verification,
    ) -> Result<(), AppendError> {
        let header = batch.header;
        let id = ProducerId(header.producer_id);
        let is_leader = origin != Origin::Replication;
        let at = match update.producers.iter().position(|entry| entry.0 == id) {
            Some(at) => at,
            None => {
                let known = self.producers.get(&id);
                let is_unknown = !self.knows(id);
                update.producers.push((
                    id,
                    known.copied().unwrap_or(Producer::UNKNOWN),
                    is_unknown,
                ));
                update.producers.len() - 1
            }
        };
        let (_, producer, was_unknown) = &mut update.producers[at];
        let stale = || AppendError::InvalidProducerEpoch {
            producer_id: id,
            epoch: ProducerEpoch(header.producer_epoch),
            current: ProducerEpoch(producer.epoch),
        };
        let invalid = |reason| AppendError::InvalidTransactionState { producer_id: id, reason };

        if header.attributes.is_control() {
            // Compaction may have removed the record of a marker.
            let Some((marker, timestamp)) = batch.marker else { return Ok(()) };
            if is_leader && header.producer_epoch < producer.epoch {
                return Err(stale());
            }
            if is_leader && marker.coordinator_epoch < producer.coordinator_epoch {
                return Err(AppendError::TransactionCoordinatorFenced {
                    producer_id: id,
                    epoch: marker.coordinator_epoch,
                    current: producer.coordinator_epoch,
                });
            }
            producer.set_epoch(header.producer_epoch);
            producer.coordinator_epoch = marker.coordinator_epoch;
            producer.last_timestamp = timestamp;
            if let Some(first_offset) = producer.transaction_first_offset.take() {
                update.ended.push(EndedTransaction {
                    producer_id: id,
                    first_offset,
                    marker_offset: header.base_offset(),
                    committed: marker.committed,
                });
            }
            update.verified.push(id);
            return Ok(());
        }

        let is_transactional = header.attributes.is_transactional();
        let is_open = producer.transaction_first_offset.is_some();
        if is_leader
            && is_transactional
            && !is_open
            && let Verification::Required(guard) = verification
        {
            if header.producer_epoch < producer.epoch {
                return Err(stale());
            }
            let expected = self.verifications.get(&id).map(|entry| entry.guard);
            if expected.is_none() || guard != expected {
                return Err(invalid(
                    "the partition was not verified to be part of the transaction",
                ));
            }
        }
        if is_leader && header.producer_epoch < producer.epoch {
            return Err(stale());
        }
        if origin == Origin::Leader(AppendOrigin::Client) {
            let out_of_order = |last| AppendError::OutOfOrderSequence {
                producer_id: id,
                sequence: Sequence(header.base_sequence),
                last,
            };
            if let Some(entry) = self.verifications.get(&id)
                && (header.base_sequence > entry.lowest_sequence
                    || (entry.supports_epoch_bump && *was_unknown && header.base_sequence != 0))
            {
                return Err(out_of_order(Some(Sequence(entry.lowest_sequence))));
            }
            let last = producer.last_batch().map(|batch| Sequence(batch.last_sequence));
            let follows = if header.producer_epoch == producer.epoch {
                *was_unknown || header.base_sequence == last.map_or(0, |last| last.plus(1).0)
            } else {
                header.base_sequence == 0 || producer.epoch == -1
            };
            if !follows {
                return Err(out_of_order(last));
            }
        }
        producer.set_epoch(header.producer_epoch);
        producer.remembered.push(RememberedBatch::of(header));
        producer.last_timestamp = header.max_timestamp;
        if is_open && !is_transactional {
            if is_leader {
                return Err(invalid("a batch outside of the producer's open transaction"));
            }
        } else if !is_open && is_transactional {
            producer.transaction_first_offset = Some(header.base_offset());
            update.started.push((header.base_offset(), id));
            update.verified.push(id);
        }
        Ok(())
    }

    /// Applies what was checked; returns the aborted transactions for the transaction index.
    pub(crate) fn apply(&mut self, update: ProducerUpdate) -> Vec<TransactionEntry> {
        for (id, producer, _) in update.producers {
            self.producers.insert(id, producer);
        }
        self.open.extend(update.started);
        for id in update.verified {
            self.verifications.remove(&id);
        }
        let mut aborted = Vec::new();
        for ended in update.ended {
            self.open.remove(&ended.first_offset);
            if !ended.committed {
                aborted.push(TransactionEntry {
                    producer_id: ended.producer_id,
                    first_offset: ended.first_offset,
                    last_offset: ended.marker_offset,
                    last_stable_offset: self
                        .open
                        .first_key_value()
                        .map_or(ended.marker_offset + 1, |(first, _)| *first),
                });
            }
            self.ended.insert(ended.first_offset, ended.marker_offset);
        }
        aborted
    }

    /// Takes a batch that is in the log already.
    pub(crate) fn replay(&mut self, batch: ProducerBatch<'_>) -> Vec<TransactionEntry> {
        let mut update = ProducerUpdate::default();
        self.check(&mut update, batch, Origin::Replication, Verification::NotRequired)
            .expect("replication accepts every batch");
        self.apply(update)
    }

    /// The first offset of a transaction that is open, or whose marker is not below the high watermark.
    pub(crate) fn first_unstable_offset(&self) -> Option<Offset> {
        let open = self.open.first_key_value().map(|(first, _)| *first);
        let ended = self.ended.first_key_value().map(|(first, _)| *first);
        open.into_iter().chain(ended).min()
    }

    /// Forgets ended transactions whose marker is committed.
    pub(crate) fn high_watermark_moved(&mut self, high_watermark: Offset) {
        if !self.ended.is_empty() {
            self.ended.retain(|_, marker| *marker >= high_watermark);
        }
    }

    /// Forgets ended transactions that lie below the log start.
    pub(crate) fn log_start_moved(&mut self, log_start: Offset) {
        self.ended.retain(|_, marker| *marker >= log_start);
    }

    pub(crate) fn has_open_transaction(&self, id: ProducerId) -> bool {
        self.producers.get(&id).is_some_and(|producer| producer.transaction_first_offset.is_some())
    }

    pub(crate) fn begin_verification(
        &mut self,
        id: ProducerId,
        epoch: ProducerEpoch,
        sequence: Sequence,
        supports_epoch_bump: bool,
        now: Timestamp,
    ) -> Option<VerificationGuard> {
        if self.has_open_transaction(id) {
            return None;
        }
        match self.verifications.get_mut(&id) {
            Some(entry) if entry.epoch == epoch.0 => {
                entry.lowest_sequence = entry.lowest_sequence.min(sequence.0);
                entry.at = now;
                Some(entry.guard)
            }
            _ => {
                self.next_guard += 1;
                let guard = VerificationGuard(self.next_guard);
                let entry = VerificationEntry {
                    guard,
                    epoch: epoch.0,
                    lowest_sequence: sequence.0,
                    supports_epoch_bump,
                    at: now,
                };
                self.verifications.insert(id, entry);
                Some(guard)
            }
        }
    }

    pub(crate) fn expire(&mut self, now: Timestamp, expiration: Duration) {
        self.producers.retain(|_, producer| !producer.is_expired(now, expiration));
        self.verifications.retain(|_, entry| {
            i128::from(now.0) - i128::from(entry.at.0)
                < i128::try_from(expiration.as_millis()).unwrap_or(i128::MAX)
        });
    }

    /// Adds a producer of a snapshot, unless it has expired.
    pub(crate) fn load(
        &mut self,
        id: ProducerId,
        mut producer: Producer,
        last_batch: Option<RememberedBatch>,
        now: Timestamp,
        expiration: Duration,
    ) {
        if producer.is_expired(now, expiration) {
            return;
        }
        if let Some(batch) = last_batch {
            producer.remembered.push(batch);
        }
        if let Some(first) = producer.transaction_first_offset {
            self.open.insert(first, id);
        }
        self.producers.insert(id, producer);
    }

    /// Completes what a snapshot told: a client that had several batches in flight when the broker
    /// ended sends all of them again, and those that are in the log must be known.
    pub(crate) fn complete(&mut self, recollection: &Recollection) {
        for (id, (epoch, remembered)) in &recollection.producers {
            let Some(producer) = self.producers.get_mut(id) else { continue };
            let last = remembered.as_slice().last();
            if producer.epoch == *epoch && last.is_some() && last == producer.last_batch() {
                producer.remembered = *remembered;
            }
        }
    }

    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = (ProducerId, &Producer)> {
        self.producers.iter().map(|(id, producer)| (*id, producer))
    }

    pub(crate) fn describe(&self) -> Vec<ProducerDescription> {
        self.iter()
            .map(|(producer_id, producer)| ProducerDescription {
                producer_id,
                epoch: ProducerEpoch(producer.epoch),
                last_sequence: producer.last_batch().map(|batch| Sequence(batch.last_sequence)),
                last_timestamp: Timestamp(producer.last_timestamp),
                coordinator_epoch: (producer.coordinator_epoch >= 0)
                    .then_some(producer.coordinator_epoch),
                current_transaction_first_offset: producer.transaction_first_offset,
            })
            .collect()
    }

    /// A producer without remembered batches.
    pub(crate) fn bare(
        epoch: i16,
        coordinator_epoch: i32,
        last_timestamp: i64,
        transaction_first_offset: Option<Offset>,
    ) -> Producer {
        Producer {
            epoch,
            coordinator_epoch,
            last_timestamp,
            transaction_first_offset,
            ..Producer::UNKNOWN
        }
    }
}
