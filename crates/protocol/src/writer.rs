//! Writes the protocol's primitive types.

use crate::payload::append;
use crate::{EncodeError, FileRange, Records, RecordsPart};
use bytes::{BufMut, Bytes, BytesMut};
use bytestring::ByteString;
use model::TopicId;
use std::io;

/// Records from this size on are passed through; copying fewer bytes is cheaper than one more entry
/// for `writev`.
const PASS_THROUGH: usize = 1024;

/// A run of bytes to be sent.
#[derive(Clone, Debug, PartialEq)]
pub enum Segment {
    /// In memory.
    Bytes(Bytes),
    /// In a file, for `sendfile`.
    File(FileRange),
}

impl Segment {
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

/// Where a tagged field's length goes; from [`Writer::begin_tag`].
#[derive(Debug)]
pub struct TagPosition(usize);

/// Collects a message: its own bytes in one buffer, records beside it.
#[derive(Debug, Default)]
pub struct Writer {
    buffer: BytesMut,
    /// Records that stand in the middle of the buffer, in order: before which of its bytes, and what.
    payloads: Vec<(usize, RecordsPart)>,
    payload_bytes: usize,
}

impl Writer {
    /// Empty, with room for most small responses.
    pub fn new() -> Self {
        Self { buffer: BytesMut::with_capacity(256), ..Self::default() }
    }

    /// Empty, for many messages one after the other: they share buffers of 4 KiB. (The size is also what
    /// the buffer grows by when the last one is used up; from less it would grow byte by byte.)
    pub fn for_many() -> Self {
        Self { buffer: BytesMut::with_capacity(4 << 10), ..Self::default() }
    }

    /// Empty, with room for the length of a frame; end with [`finish_frame`](Self::finish_frame).
    pub fn new_frame() -> Self {
        let mut writer = Self::new();
        writer.begin_frame();
        writer
    }

    /// Makes room for the length of a frame.
    pub fn begin_frame(&mut self) {
        self.buffer.put_i32(0);
    }

    /// Number of bytes so far.
    pub fn len(&self) -> usize {
        self.buffer.len() + self.payload_bytes
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What was written, in order, none of it empty. The writer is empty again and keeps what is left
    /// of its buffer.
    pub fn finish(&mut self) -> Vec<Segment> {
        let mut segments = Vec::with_capacity(2 * self.payloads.len() + 1);
        self.finish_into(|segment| segments.push(segment));
        segments
    }

    fn finish_into(&mut self, mut take: impl FnMut(Segment)) {
        let mut rest = self.buffer.split().freeze();
        let mut done = 0;
        for (at, payload) in self.payloads.drain(..) {
            if at > done {
                take(Segment::Bytes(rest.split_to(at - done)));
                done = at;
            }
            take(match payload {
                RecordsPart::Bytes(bytes) => Segment::Bytes(bytes),
                RecordsPart::File(range) => Segment::File(range),
            });
        }
        if !rest.is_empty() {
            take(Segment::Bytes(rest));
        }
        self.payload_bytes = 0;
    }

    /// As [`finish`](Self::finish), with the length of what follows put into the room made by
    /// [`begin_frame`](Self::begin_frame).
    ///
    /// # Errors
    /// If the frame is longer than 2 GiB.
    ///
    /// # Panics
    /// If no room was made.
    pub fn finish_frame(&mut self) -> Result<Vec<Segment>, EncodeError> {
        let mut segments = Vec::with_capacity(2 * self.payloads.len() + 1);
        self.finish_frame_into(|segment| segments.push(segment))?;
        Ok(segments)
    }

    /// As [`finish_frame`](Self::finish_frame), segment by segment: most frames have one.
    ///
    /// # Errors
    /// If the frame is longer than 2 GiB.
    ///
    /// # Panics
    /// If no room was made.
    pub fn finish_frame_into(&mut self, take: impl FnMut(Segment)) -> Result<(), EncodeError> {
        let length = self.len().checked_sub(4).expect("begin_frame made room for the length");
        let prefix = i32::try_from(length).map_err(|_| EncodeError::TooLong(length))?;
        self.buffer[..4].copy_from_slice(&prefix.to_be_bytes());
        self.finish_into(take);
        Ok(())
    }

    /// What was written, in one piece, with records copied from memory or file.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn flatten(&mut self) -> io::Result<Bytes> {
        if self.payloads.is_empty() {
            return Ok(self.buffer.split().freeze());
        }
        let mut all = Vec::with_capacity(self.len());
        for segment in self.finish() {
            match segment {
                Segment::Bytes(bytes) => all.extend_from_slice(&bytes),
                Segment::File(range) => append(&mut all, &RecordsPart::File(range))?,
            }
        }
        Ok(all.into())
    }

    /// What was written by a message without records.
    ///
    /// # Panics
    /// If records in a file cannot be read.
    pub(crate) fn into_bytes(mut self) -> Bytes {
        self.flatten().expect("records in memory")
    }

    /// 1 byte.
    pub fn bool(&mut self, value: bool) {
        self.buffer.put_u8(u8::from(value));
    }

    /// 1 byte.
    pub fn i8(&mut self, value: i8) {
        self.buffer.put_i8(value);
    }

    /// 2 bytes.
    pub fn i16(&mut self, value: i16) {
        self.buffer.put_i16(value);
    }

    /// 2 bytes.
    pub fn u16(&mut self, value: u16) {
        self.buffer.put_u16(value);
    }

    /// 4 bytes.
    pub fn i32(&mut self, value: i32) {
        self.buffer.put_i32(value);
    }

    /// 4 bytes.
    pub fn u32(&mut self, value: u32) {
        self.buffer.put_u32(value);
    }

    /// 8 bytes.
    pub fn i64(&mut self, value: i64) {
        self.buffer.put_i64(value);
    }

    /// 8 bytes.
    pub fn f64(&mut self, value: f64) {
        self.buffer.put_f64(value);
    }

    /// 16 bytes.
    pub fn uuid(&mut self, value: TopicId) {
        self.buffer.put_slice(&value.0);
    }

    /// An unsigned number, 7 bits to a byte, lowest first.
    pub fn uvarint(&mut self, mut value: u32) {
        while value >= 0x80 {
            self.buffer.put_u8(value.to_le_bytes()[0] | 0x80);
            value >>= 7;
        }
        self.buffer.put_u8(value.to_le_bytes()[0]);
    }

    fn compact_length(&mut self, length: usize) -> Result<(), EncodeError> {
        let plus_one = i32::try_from(length.saturating_add(1));
        self.uvarint(plus_one.map_err(|_| EncodeError::TooLong(length))?.unsigned_abs());
        Ok(())
    }

    /// The length in front of bytes, records and lists.
    fn length(&mut self, length: usize, flexible: bool) -> Result<(), EncodeError> {
        if flexible {
            return self.compact_length(length);
        }
        self.i32(i32::try_from(length).map_err(|_| EncodeError::TooLong(length))?);
        Ok(())
    }

    fn null(&mut self, flexible: bool) {
        if flexible { self.uvarint(0) } else { self.i32(-1) }
    }

    /// A string.
    ///
    /// # Errors
    /// If it is longer than 32,767 bytes and the version is not flexible.
    pub fn string(&mut self, value: &str, flexible: bool) -> Result<(), EncodeError> {
        match flexible {
            true => self.compact_length(value.len())?,
            false => {
                let length = i16::try_from(value.len());
                self.i16(length.map_err(|_| EncodeError::TooLong(value.len()))?);
            }
        }
        self.buffer.put_slice(value.as_bytes());
        Ok(())
    }

    /// A string or null.
    ///
    /// # Errors
    /// As [`string`](Self::string).
    pub fn nullable_string(
        &mut self,
        value: Option<&ByteString>,
        flexible: bool,
    ) -> Result<(), EncodeError> {
        match (value, flexible) {
            (Some(value), _) => return self.string(value, flexible),
            (None, true) => self.uvarint(0),
            (None, false) => self.i16(-1),
        }
        Ok(())
    }

    /// Bytes.
    ///
    /// # Errors
    /// If they are longer than 2 GiB.
    pub fn bytes(&mut self, value: &Bytes, flexible: bool) -> Result<(), EncodeError> {
        self.length(value.len(), flexible)?;
        self.buffer.put_slice(value);
        Ok(())
    }

    /// Bytes or null.
    ///
    /// # Errors
    /// As [`bytes`](Self::bytes).
    pub fn nullable_bytes(
        &mut self,
        value: Option<&Bytes>,
        flexible: bool,
    ) -> Result<(), EncodeError> {
        match value {
            Some(value) => self.bytes(value, flexible),
            None => {
                self.null(flexible);
                Ok(())
            }
        }
    }

    /// Records or null. From 1 KiB on they are not copied.
    ///
    /// # Errors
    /// If they are longer than 2 GiB.
    pub fn records(&mut self, value: Option<&Records>, flexible: bool) -> Result<(), EncodeError> {
        let Some(records) = value else {
            self.null(flexible);
            return Ok(());
        };
        self.length(records.len(), flexible)?;
        for part in records.parts() {
            match part {
                RecordsPart::Bytes(bytes) if bytes.len() < PASS_THROUGH => {
                    self.buffer.put_slice(bytes);
                }
                part @ (RecordsPart::Bytes(_) | RecordsPart::File(_)) => {
                    self.payload_bytes += part.len();
                    self.payloads.push((self.buffer.len(), part.clone()));
                }
            }
        }
        Ok(())
    }

    /// A list.
    ///
    /// # Errors
    /// If it has more than 2^31-2 elements, or one cannot be written.
    pub fn array<T>(
        &mut self,
        list: &[T],
        flexible: bool,
        mut element: impl FnMut(&mut Self, &T) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        self.length(list.len(), flexible)?;
        for value in list {
            element(self, value)?;
        }
        Ok(())
    }

    /// A list or null.
    ///
    /// # Errors
    /// As [`array`](Self::array).
    pub fn nullable_array<T>(
        &mut self,
        list: Option<&[T]>,
        flexible: bool,
        element: impl FnMut(&mut Self, &T) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        match list {
            Some(list) => self.array(list, flexible, element),
            None => {
                self.null(flexible);
                Ok(())
            }
        }
    }

    /// The empty section of tagged fields.
    pub fn no_tags(&mut self) {
        self.buffer.put_u8(0);
    }

    /// Starts a tagged field, which must not hold records.
    pub fn begin_tag(&mut self, tag: u32) -> TagPosition {
        self.uvarint(tag);
        // One byte of length is nearly always enough.
        self.buffer.put_u8(0);
        TagPosition(self.buffer.len())
    }

    /// Ends a tagged field: puts its length in front of it.
    ///
    /// # Errors
    /// If it is longer than 2 GiB.
    pub fn end_tag(&mut self, start: TagPosition) -> Result<(), EncodeError> {
        let TagPosition(start) = start;
        let length = self.buffer.len() - start;
        if let Some(short) = u8::try_from(length).ok().filter(|&length| length < 0x80) {
            self.buffer[start - 1] = short;
            return Ok(());
        }
        let body = self.buffer.split_off(start);
        self.buffer.truncate(start - 1);
        self.uvarint(u32::try_from(length).map_err(|_| EncodeError::TooLong(length))?);
        self.buffer.extend_from_slice(&body);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Reader;
    use crate::payload::RecordsFile;
    use std::os::fd::BorrowedFd;
    use std::sync::Arc;

    #[derive(Debug)]
    struct Zeros;

    impl RecordsFile for Zeros {
        fn descriptor(&self) -> Option<BorrowedFd<'_>> {
            None
        }

        fn read_exact_at(&self, buffer: &mut [u8], _position: u64) -> io::Result<()> {
            buffer.fill(0);
            Ok(())
        }
    }

    #[test]
    fn large_records_and_files_stay_where_they_are() {
        let large = Bytes::from(vec![7; PASS_THROUGH]);
        let range = FileRange { file: Arc::new(Zeros), position: 5, length: 9 };
        let mut records = Records::from(large.clone());
        records.push(RecordsPart::File(range.clone()));
        let mut writer = Writer::new_frame();
        writer.i16(1);
        writer.records(Some(&records), false).unwrap();
        writer.records(Some(&Records::from(Bytes::from_static(b"small"))), false).unwrap();
        writer.records(Some(&Records::default()), false).unwrap();
        writer.records(None, false).unwrap();
        let length = writer.len();
        let segments = writer.finish_frame().unwrap();
        assert_eq!(segments.iter().map(Segment::len).sum::<usize>(), length);
        let [Segment::Bytes(start), Segment::Bytes(middle), file, Segment::Bytes(end)] =
            &segments[..]
        else {
            panic!("{segments:?}")
        };
        let prefix = i32::from_be_bytes(start[..4].try_into().unwrap());
        assert_eq!(usize::try_from(prefix), Ok(length - 4));
        assert_eq!(start[4..], [0, 1, 0, 0, 4, 9]);
        assert_eq!(middle.as_ptr(), large.as_ptr(), "not copied");
        assert_eq!(file, &Segment::File(range));
        assert_eq!(&end[..], b"\0\0\0\x05small\0\0\0\0\xff\xff\xff\xff");
        assert!(writer.is_empty(), "and can be used again");
    }

    #[test]
    fn records_in_files_are_read_to_flatten() {
        let mut records = Records::from(Bytes::from_static(b"ab"));
        records.push(RecordsPart::File(FileRange {
            file: Arc::new(Zeros),
            position: 0,
            length: 2,
        }));
        let mut writer = Writer::new();
        writer.records(Some(&records), true).unwrap();
        writer.i8(9);
        assert_eq!(&writer.flatten().unwrap()[..], b"\x05ab\0\0\x09");
    }

    #[test]
    fn a_tagged_field_of_any_length_has_its_length_in_front() {
        for length in [0, 1, 126, 127, 128, 129, 16_382, 16_383, 16_384, 70_000] {
            let mut writer = Writer::new();
            writer.uvarint(1);
            let tag = writer.begin_tag(300);
            (0..length).for_each(|_| writer.i8(5));
            writer.end_tag(tag).unwrap();
            writer.i8(-1);
            let mut reader = Reader::new(writer.flatten().unwrap());
            assert_eq!(reader.tags(), Ok(1));
            let (tag, end) = reader.tag().unwrap();
            assert_eq!((tag, reader.remaining() - end), (300, length));
            reader.skip_to(end);
            assert_eq!((reader.i8(), reader.remaining()), (Ok(-1), 0));
        }
    }

    #[test]
    fn numbers_of_variable_length_are_read_as_written() {
        for value in [0, 1, 127, 128, 16_383, 16_384, u32::MAX >> 1, u32::MAX] {
            let mut writer = Writer::new();
            writer.uvarint(value);
            let mut reader = Reader::new(writer.flatten().unwrap());
            assert_eq!((reader.uvarint(), reader.remaining()), (Ok(value), 0));
        }
    }
}
