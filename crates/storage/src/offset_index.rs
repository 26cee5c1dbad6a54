//! The offset index (`.index`): where in the segment a batch near an offset starts.
//!
//! Entry: `relative offset i32 | position i32`, offsets strictly rising. The offset is the *last* of
//! the batch at the position, so a search goes to the entry with the largest offset not above its
//! target and walks forward from there.

use crate::entry_file::{Entry, EntryFile};
use crate::files::Kind;

/// One entry; the offset is relative to the segment's base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OffsetEntry {
    pub(crate) relative_offset: i32,
    pub(crate) position: u32,
}

impl Entry for OffsetEntry {
    const SIZE: usize = 8;
    const KIND: Kind = Kind::OffsetIndex;

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.relative_offset.to_be_bytes());
        out.extend_from_slice(&self.position.to_be_bytes());
    }

    fn decode(bytes: &[u8]) -> Self {
        let field = |at: usize| [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
        Self {
            relative_offset: i32::from_be_bytes(field(0)),
            position: u32::from_be_bytes(field(4)),
        }
    }
}

pub(crate) type OffsetIndex = EntryFile<OffsetEntry>;
