//! From the log's batches to a shard's groups.

use ::group::{GroupShard, Origin};
use model::Offset;
use protocol::records::{Batch, Batches, ControlRecord, RecordsError};
use tracing::warn;

/// How far batches of the coordinator's own may inflate.
const INFLATED_LIMIT: usize = 256 << 20;

/// What a load came across.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Loaded {
    pub(super) records: u64,
    pub(super) bytes: u64,
    pub(super) skipped: u64,
}

/// Takes over the batches in `bytes`; the offset to read on from, or none if there is no whole batch.
///
/// What cannot be read is skipped with a warning, as Kafka goes on without it.
pub(super) fn load_batches(
    shard: &mut GroupShard,
    bytes: &[u8],
    from: Offset,
    loaded: &mut Loaded,
) -> Option<Offset> {
    let mut next = None;
    for batch in Batches::new(bytes) {
        let batch = match batch {
            Ok(batch) => batch,
            Err(error) => {
                warn!(%error, "a batch of groups and offsets cannot be read, nor what follows it here");
                loaded.skipped += 1;
                break;
            }
        };
        loaded.bytes += batch.bytes().len() as u64;
        next = Some(Offset(batch.last_offset().0 + 1));
        if let Err(error) = load_batch(shard, &batch, from, loaded) {
            let base_offset = batch.base_offset().unwrap_or_default().0;
            warn!(%error, base_offset, "a batch of groups and offsets cannot be read");
            loaded.skipped += 1;
        }
    }
    next
}

fn load_batch(
    shard: &mut GroupShard,
    batch: &Batch<'_>,
    from: Offset,
    loaded: &mut Loaded,
) -> Result<(), RecordsError> {
    let producer = batch.header().and_then(|h| h.producer()).map(|p| p.id);
    let records = batch.records(INFLATED_LIMIT)?;
    let origin = Origin {
        base_offset: batch.base_offset().unwrap_or(batch.last_offset()),
        transaction: producer.filter(|_| batch.is_transactional()),
    };
    for record in &records {
        let record = record?;
        if record.offset < from {
            continue;
        }
        loaded.records += 1;
        if batch.is_control() {
            if let (ControlRecord::EndTransaction(end), Some(producer)) =
                (ControlRecord::parse(&record)?, producer)
            {
                shard.load_marker(producer, end.committed);
            }
        } else if let Err(error) = shard.load(origin, record.key.unwrap_or_default(), record.value)
        {
            warn!(%error, offset = record.offset.0, "a record of groups and offsets cannot be read");
            loaded.skipped += 1;
        }
    }
    Ok(())
}
