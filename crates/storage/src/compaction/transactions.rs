//! Which batches belong to aborted transactions, and which markers have outlived their transactions
//! (log-format 8.3).

use crate::transaction_index::TransactionEntry;
use model::{Offset, ProducerId};
use protocol::records::{Batch, BatchHeader, RecordsError};
use std::collections::{BTreeMap, BTreeSet};

/// The transactions that are open where the pass through a log stands.
#[derive(Debug)]
pub(crate) struct OpenTransactions {
    /// Aborted ones that begin further on, last first.
    ahead: Vec<TransactionEntry>,
    /// With whether a batch of it was seen.
    aborted: BTreeMap<ProducerId, (TransactionEntry, bool)>,
    /// Others, of which a batch was seen.
    committed: BTreeSet<ProducerId>,
}

/// What a marker means for compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Marker {
    /// Its transaction has, or had in this pass, records: it stays. If it aborts them readers still have
    /// to know.
    Needed(Option<TransactionEntry>),
    /// No batch of its transaction is left.
    Outlived,
}

impl OpenTransactions {
    /// At the start of a pass through a log that has these aborted transactions.
    pub(crate) fn new(mut aborted: Vec<TransactionEntry>) -> Self {
        aborted.sort_by_key(|entry| (entry.first_offset, entry.last_offset));
        aborted.dedup();
        aborted.reverse();
        Self { ahead: aborted, aborted: BTreeMap::new(), committed: BTreeSet::new() }
    }

    /// Takes the next batch of records; whether it was aborted.
    pub(crate) fn batch(&mut self, header: &BatchHeader) -> bool {
        self.advance(header.base_offset(), header.last_offset());
        if !header.attributes.is_transactional() {
            return false;
        }
        let producer = ProducerId(header.producer_id);
        match self.aborted.get_mut(&producer) {
            Some((_, was_seen)) => {
                *was_seen = true;
                true
            }
            None => {
                self.committed.insert(producer);
                false
            }
        }
    }

    /// Takes the next control batch.
    pub(crate) fn marker(
        &mut self,
        header: &BatchHeader,
        batch: &Batch<'_>,
    ) -> Result<Marker, RecordsError> {
        self.advance(header.base_offset(), header.last_offset());
        let producer = ProducerId(header.producer_id);
        // Control batches are small; no limit is ever reached.
        let records = batch.records(1 << 20)?;
        // An empty one has been compacted before.
        let Some(record) = records.iter().next().transpose()? else { return Ok(Marker::Outlived) };
        let kind = record.key.and_then(|key| key.get(2..4)).map(|kind| [kind[0], kind[1]]);
        Ok(match kind.map(i16::from_be_bytes) {
            Some(0) => match self.aborted.remove(&producer) {
                Some((entry, true)) => Marker::Needed(Some(entry)),
                Some((_, false)) | None => Marker::Outlived,
            },
            Some(1) if !self.committed.remove(&producer) => Marker::Outlived,
            _ => Marker::Needed(None),
        })
    }

    fn advance(&mut self, base: Offset, last: Offset) {
        while let Some(entry) = self.ahead.pop_if(|entry| entry.first_offset <= last) {
            // One whose marker lies behind cannot concern what comes.
            if entry.last_offset >= base {
                self.aborted.entry(entry.producer_id).or_insert((entry, false));
            }
        }
    }
}
