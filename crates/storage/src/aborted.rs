//! Which transactions the markers of a segment abort, told by batches alone: what its transaction index must say.

use crate::checkpoint::read_file;
use crate::compaction::SegmentView;
use crate::error::DiskError;
use crate::files::PartitionDirectory;
use crate::producer_state::ProducerState;
use crate::recovery::Producers;
use crate::scan::{Scanner, producer_batch};
use crate::snapshot;
use crate::transaction_index::TransactionEntry;
use model::Timestamp;
use protocol::records::BatchHeader;
use std::time::Duration;

/// The transactions that are open where a pass through a log stands.
#[derive(Debug)]
pub(crate) struct AbortedReplay {
    state: ProducerState,
    /// All that came before was seen: a transaction that is not known has no records.
    is_exact: bool,
}

impl AbortedReplay {
    /// At the start of `segments[at]`: from the newest producer snapshot at the start of a segment, and the batches after
    /// it.
    ///
    /// # Errors
    /// The disk's.
    pub(crate) fn before(
        directory: &PartitionDirectory,
        segments: &[SegmentView],
        at: usize,
    ) -> Result<Self, DiskError> {
        let mut first = 0;
        let mut replay = Self { state: ProducerState::default(), is_exact: true };
        for (candidate, segment) in segments.iter().enumerate().take(at + 1).rev() {
            let path = Producers::path(directory, segment.base());
            let bytes = read_file(directory.disk().as_ref(), &path)?;
            // No producer has expired whose transaction may be open.
            let decoded =
                bytes.and_then(|bytes| snapshot::decode(&bytes, Timestamp(0), Duration::MAX));
            if let Some(state) = decoded {
                (first, replay.state) = (candidate, state);
                break;
            }
        }
        for segment in &segments[first..at] {
            let mut scanner = Scanner::whole(&segment.files, 0, segment.size)?;
            while let Some((batch, bytes)) = scanner.next_valid()? {
                if let Some(header) = &batch.header {
                    replay.is_exact &= replay.next(header, bytes).is_ok();
                }
            }
            replay.is_exact &= scanner.position() == segment.size;
        }
        Ok(replay)
    }

    /// Whether nothing before was missing.
    pub(crate) fn is_exact(&self) -> bool {
        self.is_exact
    }

    /// Takes the next batch; what it aborts.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub(crate) fn next(
        &mut self,
        header: &BatchHeader,
        batch: &[u8],
    ) -> Result<Vec<TransactionEntry>, String> {
        let producer = producer_batch(header, batch)?;
        Ok(producer.map_or_else(Vec::new, |producer| self.state.replay(producer)))
    }
}
