//! Records on their way through: memory or file ranges, never looked into here.

use bytes::Bytes;
use std::fmt::Debug;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// A file that records can be sent from; a segment of a log.
pub trait RecordsFile: Debug + Send + Sync {
    /// What `sendfile` needs; `None` if the file is not the operating system's.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;

    /// Fills `buffer` from `position`.
    ///
    /// # Errors
    /// If the file ends before, or the disk fails.
    fn read_exact_at(&self, buffer: &mut [u8], position: u64) -> io::Result<()>;
}

/// Part of a file. Its bytes must not change while this exists; a file that is deleted stays readable.
#[derive(Clone, Debug)]
pub struct FileRange {
    /// The file.
    pub file: Arc<dyn RecordsFile>,
    /// First byte.
    pub position: u64,
    /// Number of bytes.
    pub length: usize,
}

impl PartialEq for FileRange {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.file, &other.file)
            && (self.position, self.length) == (other.position, other.length)
    }
}

/// A run of bytes of [`Records`].
#[derive(Clone, Debug, PartialEq)]
pub enum RecordsPart {
    /// In memory.
    Bytes(Bytes),
    /// In a file.
    File(FileRange),
}

impl RecordsPart {
    /// Number of bytes.
    pub fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::File(range) => range.length,
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The contents of a `records` field: batches, whole or cut off, one after the other.
///
/// Usually one part, which takes no allocation.
#[derive(Clone, Debug, Default)]
pub struct Records(Parts);

#[derive(Clone, Debug, Default)]
enum Parts {
    #[default]
    Empty,
    One(RecordsPart),
    Many(Vec<RecordsPart>),
}

impl PartialEq for Records {
    /// Equal if the parts are; how bytes in memory are divided does count.
    fn eq(&self, other: &Self) -> bool {
        self.parts() == other.parts()
    }
}

impl Records {
    /// The parts in order, none of them empty.
    pub fn parts(&self) -> &[RecordsPart] {
        match &self.0 {
            Parts::Empty => &[],
            Parts::One(part) => std::slice::from_ref(part),
            Parts::Many(parts) => parts,
        }
    }

    /// Adds bytes at the end.
    pub fn push(&mut self, part: RecordsPart) {
        if part.is_empty() {
            return;
        }
        self.0 = match std::mem::take(&mut self.0) {
            Parts::Empty => Parts::One(part),
            Parts::One(first) => Parts::Many(vec![first, part]),
            Parts::Many(mut parts) => {
                parts.push(part);
                Parts::Many(parts)
            }
        };
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
        self.parts().iter().map(RecordsPart::len).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.parts().is_empty()
    }

    /// All of it in memory: without a copy if it is one slice, else read and joined.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn to_bytes(&self) -> io::Result<Bytes> {
        if let [RecordsPart::Bytes(bytes)] = self.parts() {
            return Ok(bytes.clone());
        }
        let mut all = Vec::with_capacity(self.len());
        for part in self.parts() {
            append(&mut all, part)?;
        }
        Ok(all.into())
    }

    /// As [`to_bytes`](Self::to_bytes), for the last who needs them.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn into_bytes(self) -> io::Result<Bytes> {
        match self.0 {
            Parts::One(RecordsPart::Bytes(bytes)) => Ok(bytes),
            parts @ (Parts::Empty | Parts::One(_) | Parts::Many(_)) => Self(parts).to_bytes(),
        }
    }
}

/// Copies a part to the end of `all`.
pub(crate) fn append(all: &mut Vec<u8>, part: &RecordsPart) -> io::Result<()> {
    match part {
        RecordsPart::Bytes(bytes) => all.extend_from_slice(bytes),
        RecordsPart::File(range) => {
            let start = all.len();
            all.resize(start + range.length, 0);
            range.file.read_exact_at(&mut all[start..], range.position)?;
        }
    }
    Ok(())
}

impl From<RecordsPart> for Records {
    fn from(part: RecordsPart) -> Self {
        Self(if part.is_empty() { Parts::Empty } else { Parts::One(part) })
    }
}

impl From<Bytes> for Records {
    fn from(bytes: Bytes) -> Self {
        RecordsPart::Bytes(bytes).into()
    }
}

impl From<FileRange> for Records {
    fn from(range: FileRange) -> Self {
        RecordsPart::File(range).into()
    }
}

impl FromIterator<RecordsPart> for Records {
    fn from_iter<I: IntoIterator<Item = RecordsPart>>(parts: I) -> Self {
        let mut records = Self::default();
        parts.into_iter().for_each(|part| records.push(part));
        records
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Held(&'static [u8]);

    impl RecordsFile for Held {
        fn descriptor(&self) -> Option<BorrowedFd<'_>> {
            None
        }

        fn read_exact_at(&self, buffer: &mut [u8], position: u64) -> io::Result<()> {
            let from = usize::try_from(position).map_err(io::Error::other)?;
            let held = self.0.get(from..from + buffer.len());
            buffer.copy_from_slice(held.ok_or(io::ErrorKind::UnexpectedEof)?);
            Ok(())
        }
    }

    #[test]
    fn parts_of_memory_and_files_are_read_in_order() {
        let range = FileRange { file: Arc::new(Held(b"0123456789")), position: 3, length: 4 };
        let mut records = Records::from(Bytes::from_static(b"ab"));
        records.push(RecordsPart::File(range));
        records.push(RecordsPart::Bytes(Bytes::new()));
        assert_eq!((records.len(), records.parts().len()), (6, 2));
        assert_eq!(&records.to_bytes().unwrap()[..], b"ab3456");
        assert!(Records::from(Bytes::new()).is_empty());
    }
}
