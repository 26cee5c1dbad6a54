//! Reads the protocol's primitive types from one frame.

use crate::{DecodeError, DecodeErrorKind, Records};
use bytes::Bytes;
use bytestring::ByteString;
use model::TopicId;

/// Tagged fields in one structure. Kafka's messages have fewer than ten; more than this is an attack
/// on our time.
const TAGS_MAX: u32 = 1024;

/// A position in a frame. Strings, bytes and records that it returns are slices of the frame.
///
/// What it makes its caller allocate for lists is limited, whatever counts the peer claims: a count
/// must fit the rest of the frame by the least size of an element, and all lists together may take
/// 64 KiB + 8 x frame.
#[derive(Clone, Debug)]
pub struct Reader {
    frame: Bytes,
    position: usize,
    budget: usize,
}

impl Reader {
    /// At the start of `frame` (without its length prefix).
    pub fn new(frame: Bytes) -> Self {
        let budget = (64 << 10) + frame.len().saturating_mul(8);
        Self { frame, position: 0, budget }
    }

    /// Bytes not yet read.
    #[inline]
    pub fn remaining(&self) -> usize {
        self.frame.len() - self.position
    }

    /// Bytes read so far.
    pub fn position(&self) -> usize {
        self.position
    }

    /// An error at this position.
    #[cold]
    pub fn error(&self, kind: DecodeErrorKind) -> DecodeError {
        DecodeError { kind, position: self.position }
    }

    /// The next bytes, as many as a type of fixed size takes.
    #[inline]
    fn fixed<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        match self.frame[self.position..].first_chunk::<N>() {
            Some(&bytes) => {
                self.position += N;
                Ok(bytes)
            }
            None => Err(self.error(DecodeErrorKind::Truncated)),
        }
    }

    #[inline]
    fn take(&mut self, length: usize) -> Result<Bytes, DecodeError> {
        if length > self.remaining() {
            return Err(self.error(DecodeErrorKind::Truncated));
        }
        let start = self.position;
        self.position += length;
        Ok(self.frame.slice(start..self.position))
    }

    /// A byte that is not 0.
    ///
    /// # Errors
    /// If the frame ends here; so for all fixed sizes below.
    #[inline]
    pub fn bool(&mut self) -> Result<bool, DecodeError> {
        Ok(self.i8()? != 0)
    }

    /// 1 byte.
    ///
    /// # Errors
    /// If the frame ends before it.
    #[inline]
    pub fn i8(&mut self) -> Result<i8, DecodeError> {
        Ok(i8::from_be_bytes(self.fixed()?))
    }

    /// 2 bytes.
    ///
    /// # Errors
    /// If the frame ends before them.
    #[inline]
    pub fn i16(&mut self) -> Result<i16, DecodeError> {
        Ok(i16::from_be_bytes(self.fixed()?))
    }

    /// 2 bytes.
    ///
    /// # Errors
    /// If the frame ends before them.
    #[inline]
    pub fn u16(&mut self) -> Result<u16, DecodeError> {
        Ok(u16::from_be_bytes(self.fixed()?))
    }

    /// 4 bytes.
    ///
    /// # Errors
    /// If the frame ends before them.
    #[inline]
    pub fn i32(&mut self) -> Result<i32, DecodeError> {
        Ok(i32::from_be_bytes(self.fixed()?))
    }

    /// 4 bytes.
    ///
    /// # Errors
    /// If the frame ends before them.
    #[inline]
    pub fn u32(&mut self) -> Result<u32, DecodeError> {
        Ok(u32::from_be_bytes(self.fixed()?))
    }

    /// 8 bytes.
    ///
    /// # Errors
    /// If the frame ends before them.
    #[inline]
    pub fn i64(&mut self) -> Result<i64, DecodeError> {
        Ok(i64::from_be_bytes(self.fixed()?))
    }

    /// 8 bytes.
    ///
    /// # Errors
    /// If the frame ends before them.
    #[inline]
    pub fn f64(&mut self) -> Result<f64, DecodeError> {
        Ok(f64::from_be_bytes(self.fixed()?))
    }

    /// 16 bytes; [`TopicId::ZERO`] means none.
    ///
    /// # Errors
    /// If the frame ends before them.
    #[inline]
    pub fn uuid(&mut self) -> Result<TopicId, DecodeError> {
        Ok(TopicId(self.fixed()?))
    }

    /// An unsigned number of up to 32 bits, 7 to a byte, lowest first.
    ///
    /// # Errors
    /// If it takes more than 5 bytes or 32 bits.
    #[inline]
    pub fn uvarint(&mut self) -> Result<u32, DecodeError> {
        match self.frame.get(self.position) {
            Some(&byte) if byte < 0x80 => {
                self.position += 1;
                Ok(u32::from(byte))
            }
            _ => self.long_uvarint(),
        }
    }

    fn long_uvarint(&mut self) -> Result<u32, DecodeError> {
        let mut value = 0u32;
        for shift in [0, 7, 14, 21, 28] {
            let [byte] = self.fixed()?;
            if shift == 28 && byte > 0x0f {
                break;
            }
            value |= u32::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(self.error(DecodeErrorKind::Varint))
    }

    /// The length in front of a string; `None` is null. Every negative length means null, as in
    /// Kafka.
    fn string_length(&mut self, flexible: bool) -> Result<Option<usize>, DecodeError> {
        match flexible {
            true => Ok((self.uvarint()? as usize).checked_sub(1)),
            false => Ok(usize::try_from(self.i16()?).ok()),
        }
    }

    /// The length in front of bytes, records and lists; `None` is null.
    fn length(&mut self, flexible: bool) -> Result<Option<usize>, DecodeError> {
        match flexible {
            true => Ok((self.uvarint()? as usize).checked_sub(1)),
            false => Ok(usize::try_from(self.i32()?).ok()),
        }
    }

    fn not_null<T>(&self, value: Option<T>) -> Result<T, DecodeError> {
        value.ok_or_else(|| self.error(DecodeErrorKind::Null))
    }

    fn null_if(&self, allowed: bool) -> Result<(), DecodeError> {
        if allowed { Ok(()) } else { Err(self.error(DecodeErrorKind::Null)) }
    }

    fn text(&mut self, length: usize) -> Result<ByteString, DecodeError> {
        let bytes = self.take(length)?;
        ByteString::try_from(bytes).map_err(|_| self.error(DecodeErrorKind::Utf8))
    }

    /// A string.
    ///
    /// # Errors
    /// If it is null, longer than the frame, or not UTF-8 (which Kafka would mangle).
    pub fn string(&mut self, flexible: bool) -> Result<ByteString, DecodeError> {
        let length = self.string_length(flexible)?;
        let length = self.not_null(length)?;
        self.text(length)
    }

    /// A string or, if `allowed`, null.
    ///
    /// # Errors
    /// As [`string`](Self::string).
    pub fn nullable_string(
        &mut self,
        flexible: bool,
        allowed: bool,
    ) -> Result<Option<ByteString>, DecodeError> {
        match self.string_length(flexible)? {
            Some(length) => self.text(length).map(Some),
            None => self.null_if(allowed).map(|()| None),
        }
    }

    /// Bytes.
    ///
    /// # Errors
    /// If they are null or longer than the frame.
    pub fn bytes(&mut self, flexible: bool) -> Result<Bytes, DecodeError> {
        let length = self.length(flexible)?;
        let length = self.not_null(length)?;
        self.take(length)
    }

    /// Bytes or, if `allowed`, null.
    ///
    /// # Errors
    /// As [`bytes`](Self::bytes).
    pub fn nullable_bytes(
        &mut self,
        flexible: bool,
        allowed: bool,
    ) -> Result<Option<Bytes>, DecodeError> {
        match self.length(flexible)? {
            Some(length) => self.take(length).map(Some),
            None => self.null_if(allowed).map(|()| None),
        }
    }

    /// Records, unread, or, if `allowed`, null.
    ///
    /// # Errors
    /// As [`bytes`](Self::bytes).
    pub fn records(
        &mut self,
        flexible: bool,
        allowed: bool,
    ) -> Result<Option<Records>, DecodeError> {
        Ok(self.nullable_bytes(flexible, allowed)?.map(Records::from))
    }

    /// The mark in front of a structure that may be null: whether it follows.
    ///
    /// # Errors
    /// If it is null and that is not `allowed`.
    pub fn present(&mut self, allowed: bool) -> Result<bool, DecodeError> {
        match self.i8()? >= 0 {
            true => Ok(true),
            false => self.null_if(allowed).map(|()| false),
        }
    }

    /// A list. `least` is the least number of bytes that an element takes.
    ///
    /// # Errors
    /// If it is null, claims more elements than can be, or an element is wrong.
    pub fn array<T>(
        &mut self,
        flexible: bool,
        least: usize,
        element: impl FnMut(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<Vec<T>, DecodeError> {
        let count = self.length(flexible)?;
        let count = self.not_null(count)?;
        self.elements(count, least, element)
    }

    /// A list or, if `allowed`, null.
    ///
    /// # Errors
    /// As [`array`](Self::array).
    pub fn nullable_array<T>(
        &mut self,
        flexible: bool,
        allowed: bool,
        least: usize,
        element: impl FnMut(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<Option<Vec<T>>, DecodeError> {
        match self.length(flexible)? {
            Some(count) => self.elements(count, least, element).map(Some),
            None => self.null_if(allowed).map(|()| None),
        }
    }

    fn elements<T>(
        &mut self,
        count: usize,
        least: usize,
        mut element: impl FnMut(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<Vec<T>, DecodeError> {
        self.allow(count, least, size_of::<T>())?;
        let mut list = Vec::with_capacity(count);
        for _ in 0..count {
            list.push(element(self)?);
        }
        Ok(list)
    }

    /// Refuses a count that the rest of the frame cannot hold or the budget does not cover.
    fn allow(&mut self, count: usize, least: usize, size: usize) -> Result<(), DecodeError> {
        let left = count.checked_mul(size).and_then(|cost| self.budget.checked_sub(cost));
        match left {
            Some(left) if count <= self.remaining() / least.max(1) => {
                self.budget = left;
                Ok(())
            }
            _ => Err(self.error(DecodeErrorKind::TooMany(count as u64))),
        }
    }

    /// The number of tagged fields that follow.
    ///
    /// # Errors
    /// If there are more than 1024.
    pub fn tags(&mut self) -> Result<u32, DecodeError> {
        match self.uvarint()? {
            count if count <= TAGS_MAX => Ok(count),
            _ => Err(self.error(DecodeErrorKind::Tags)),
        }
    }

    /// A tag, and how many bytes will remain after its field.
    ///
    /// # Errors
    /// If the field is longer than the frame.
    pub fn tag(&mut self) -> Result<(u32, usize), DecodeError> {
        let tag = self.uvarint()?;
        let length = self.uvarint()? as usize;
        match self.remaining().checked_sub(length) {
            Some(end) => Ok((tag, end)),
            None => Err(self.error(DecodeErrorKind::Truncated)),
        }
    }

    /// Skips the rest of a field; `end` is from [`tag`](Self::tag).
    pub fn skip_to(&mut self, end: usize) {
        self.position = self.position.max(self.frame.len().saturating_sub(end));
    }

    /// Ends a field; what it holds beyond the known is skipped.
    ///
    /// # Errors
    /// If more was read than the field's stated length.
    pub fn end_tag(&mut self, end: usize) -> Result<(), DecodeError> {
        if self.remaining() < end {
            return Err(self.error(DecodeErrorKind::Tags));
        }
        self.skip_to(end);
        Ok(())
    }

    /// Skips the tagged fields of a structure that knows none.
    ///
    /// # Errors
    /// As [`tags`](Self::tags) and [`tag`](Self::tag).
    #[inline]
    pub fn skip_tags(&mut self) -> Result<(), DecodeError> {
        for _ in 0..self.tags()? {
            let (_, end) = self.tag()?;
            self.skip_to(end);
        }
        Ok(())
    }
}
