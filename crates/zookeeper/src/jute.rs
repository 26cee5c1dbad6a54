//! Jute, the encoding of ZooKeeper's protocol: big-endian numbers, strings and buffers with their length.

use bytes::{BufMut, Bytes, BytesMut};

/// Bytes that are not what their sender says they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not ZooKeeper's protocol: {0}")]
pub(crate) struct Malformed(pub(crate) &'static str);

/// Reads a frame. Never takes a length at its word: what is not there is an error, and nothing is
/// reserved by a count alone.
#[derive(Debug)]
pub(crate) struct Reader(Bytes);

impl Reader {
    pub(crate) fn new(frame: Bytes) -> Self {
        Self(frame)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (head, _) = self.0.split_first_chunk::<N>().ok_or(Malformed("a frame ends early"))?;
        let head = *head;
        self.0 = self.0.slice(N..);
        Ok(head)
    }

    pub(crate) fn bool(&mut self) -> Result<bool, Malformed> {
        Ok(self.take::<1>()?[0] != 0)
    }

    pub(crate) fn i32(&mut self) -> Result<i32, Malformed> {
        Ok(i32::from_be_bytes(self.take()?))
    }

    pub(crate) fn i64(&mut self) -> Result<i64, Malformed> {
        Ok(i64::from_be_bytes(self.take()?))
    }

    /// A buffer, a part of the frame; `None` for null.
    pub(crate) fn buffer(&mut self) -> Result<Option<Bytes>, Malformed> {
        let length = self.i32()?;
        if length == -1 {
            return Ok(None);
        }
        let length = usize::try_from(length).map_err(|_| Malformed("a negative length"))?;
        if length > self.0.len() {
            return Err(Malformed("a length beyond its frame"));
        }
        Ok(Some(self.0.split_to(length)))
    }

    /// A string; null is empty. Java writes characters outside the basic plane in its own way: what is
    /// not UTF-8 is replaced, so that one odd node name does not make all others unreadable.
    pub(crate) fn string(&mut self) -> Result<String, Malformed> {
        let bytes = self.buffer()?.unwrap_or_default();
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The elements of a vector; null is empty. `shortest` is the least that an element takes.
    pub(crate) fn vector<T>(
        &mut self,
        shortest: usize,
        mut element: impl FnMut(&mut Self) -> Result<T, Malformed>,
    ) -> Result<Vec<T>, Malformed> {
        let count = self.i32()?;
        if count == -1 {
            return Ok(Vec::new());
        }
        let count = usize::try_from(count).map_err(|_| Malformed("a negative count"))?;
        if count.saturating_mul(shortest) > self.0.len() {
            return Err(Malformed("a count beyond its frame"));
        }
        (0..count).map(|_| element(self)).collect()
    }
}

/// Writes a frame: the length that precedes it is filled in by [`Writer::finish`].
#[derive(Debug)]
pub(crate) struct Writer(BytesMut);

impl Writer {
    pub(crate) fn new() -> Self {
        let mut bytes = BytesMut::with_capacity(128);
        bytes.put_i32(0);
        Self(bytes)
    }

    pub(crate) fn bool(&mut self, value: bool) {
        self.0.put_u8(value.into());
    }

    pub(crate) fn i32(&mut self, value: i32) {
        self.0.put_i32(value);
    }

    pub(crate) fn i64(&mut self, value: i64) {
        self.0.put_i64(value);
    }

    pub(crate) fn length(&mut self, length: usize) {
        self.i32(i32::try_from(length).expect("requests are refused long before 2 GiB"));
    }

    pub(crate) fn buffer(&mut self, bytes: Option<&[u8]>) {
        match bytes {
            None => self.i32(-1),
            Some(bytes) => {
                self.length(bytes.len());
                self.0.extend_from_slice(bytes);
            }
        }
    }

    pub(crate) fn string(&mut self, text: &str) {
        self.buffer(Some(text.as_bytes()));
    }

    /// The frame with its length in front.
    pub(crate) fn finish(mut self) -> Bytes {
        let length = u32::try_from(self.0.len() - 4).expect("as in `length`");
        self.0[..4].copy_from_slice(&length.to_be_bytes());
        self.0.freeze()
    }
}

#[test]
fn a_length_or_count_beyond_the_frame_is_an_error_and_reserves_nothing() {
    let frame = |value: i32| Reader::new(Bytes::copy_from_slice(&value.to_be_bytes()));
    assert!(frame(i32::MAX).buffer().is_err() && frame(-2).buffer().is_err());
    assert!(frame(i32::MAX).vector(4, Reader::i32).is_err());
    assert!(frame(-2).vector(4, Reader::i32).is_err());
    assert_eq!(frame(-1).buffer(), Ok(None));
    assert_eq!(frame(-1).vector(4, Reader::i32), Ok(Vec::new()));
    assert!(frame(0).i64().is_err());
}
