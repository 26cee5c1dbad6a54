//! What a connection has to send, and how it is sent: memory in gathered writes, file ranges from
//! 16 KiB up by `sendfile`, smaller ones and files without descriptor through memory.

use crate::request::Response;
use bytes::{Buf, Bytes};
use protocol::{FileRange, Segment};
use rustix::net::{SendAncillaryBuffer, SendFlags};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;

/// From here up `sendfile` costs less than a copy.
const SENDFILE_FROM: usize = 16 << 10;

/// How much of a file without descriptor is copied at a time.
const COPY_CHUNK: usize = 256 << 10;

/// Slices per gathered write.
const SLICES: usize = 64;

/// So little is copied together: that costs less than what the kernel takes for a list of slices.
const COPIED: usize = 4 << 10;

thread_local! {
    static COPY: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Bytes and file ranges that wait to be sent, in order.
#[derive(Debug, Default)]
pub struct Output {
    segments: VecDeque<Segment>,
    len: usize,
}

/// How far a write came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Everything is sent.
    Done,
    /// The turn's share is sent; there is more.
    MoreToSend,
    /// The socket takes no more for now.
    Blocked,
}

impl Output {
    /// Adds an answer.
    pub(crate) fn push(&mut self, response: Response) {
        for segment in response.first.into_iter().chain(response.rest) {
            let len = segment_len(&segment);
            if len > 0 {
                self.len += len;
                self.segments.push_back(segment);
            }
        }
    }

    /// Bytes that wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Takes everything, as bytes: for transports that are not sockets.
    ///
    /// # Errors
    /// Those of reading a file range.
    pub fn take(&mut self) -> io::Result<Vec<Bytes>> {
        self.len = 0;
        let segments = self.segments.drain(..);
        segments
            .map(|segment| match segment {
                Segment::Bytes(bytes) => Ok(bytes),
                Segment::File(range) => read(&range, range.length),
            })
            .collect()
    }

    /// Sends what `socket` takes, but at most about `share` bytes.
    ///
    /// # Errors
    /// Those of the socket and of reading files; both are fatal to the connection.
    pub(crate) fn write_to(
        &mut self,
        socket: BorrowedFd<'_>,
        mut share: usize,
    ) -> io::Result<Progress> {
        while !self.segments.is_empty() {
            if share == 0 {
                return Ok(Progress::MoreToSend);
            }
            self.read_unsendable_front(share)?;
            let sent = match self.segments.front() {
                Some(Segment::File(range)) => send_file(socket, range, share),
                Some(Segment::Bytes(_)) => self.send_gathered(socket),
                None => break,
            };
            match sent {
                Ok(sent) => {
                    self.advance(sent);
                    share = share.saturating_sub(sent);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(Progress::Blocked);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Progress::Done)
    }

    /// Reads the ranges that go through memory, as far as the next gathered write reaches.
    fn read_unsendable_front(&mut self, share: usize) -> io::Result<()> {
        let mut ahead = 0;
        for at in 0..SLICES {
            if ahead >= share {
                break;
            }
            let (bytes, rest) = match self.segments.get(at) {
                None => break,
                Some(Segment::Bytes(bytes)) => {
                    ahead += bytes.len();
                    continue;
                }
                Some(Segment::File(range)) if is_for_sendfile(range) => break,
                Some(Segment::File(range)) => {
                    let length = range.length.min(COPY_CHUNK);
                    (read(range, length)?, after(range, length))
                }
            };
            ahead += bytes.len();
            self.segments[at] = Segment::Bytes(bytes);
            if rest.length > 0 {
                self.segments.insert(at + 1, Segment::File(rest));
            }
        }
        Ok(())
    }

    /// One write of the bytes up to the next file range; says so to the kernel, that a header is not
    /// sent in a packet of its own before its records.
    fn send_gathered(&self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        let mut slices = [IoSlice::new(&[]); SLICES];
        let mut count = 0;
        let mut flags = SendFlags::NOSIGNAL;
        for segment in &self.segments {
            match segment {
                Segment::Bytes(bytes) if count < SLICES => {
                    slices[count] = IoSlice::new(bytes);
                    count += 1;
                }
                Segment::Bytes(_) | Segment::File(_) => {
                    flags |= SendFlags::MORE;
                    break;
                }
            }
        }
        let slices = &slices[..count];
        if let [slice] = slices {
            return Ok(rustix::net::send(socket, slice, flags)?);
        }
        if slices.iter().map(|slice| slice.len()).sum::<usize>() <= COPIED {
            return COPY.with_borrow_mut(|copy| {
                copy.clear();
                slices.iter().for_each(|slice| copy.extend_from_slice(slice));
                Ok(rustix::net::send(socket, copy, flags)?)
            });
        }
        let mut control = SendAncillaryBuffer::default();
        Ok(rustix::net::sendmsg(socket, slices, &mut control, flags)?)
    }

    fn advance(&mut self, mut sent: usize) {
        self.len -= sent;
        while sent > 0 {
            let front = self.segments.front_mut().expect("no more is sent than was there");
            let len = segment_len(front);
            if sent < len {
                match front {
                    Segment::Bytes(bytes) => bytes.advance(sent),
                    Segment::File(range) => *range = after(range, sent),
                }
                return;
            }
            sent -= len;
            self.segments.pop_front();
        }
    }
}

fn segment_len(segment: &Segment) -> usize {
    match segment {
        Segment::Bytes(bytes) => bytes.len(),
        Segment::File(range) => range.length,
    }
}

fn is_for_sendfile(range: &FileRange) -> bool {
    range.length >= SENDFILE_FROM && range.file.descriptor().is_some()
}

/// The range without its first `length` bytes.
fn after(range: &FileRange, length: usize) -> FileRange {
    FileRange {
        file: std::sync::Arc::clone(&range.file),
        position: range.position + length as u64,
        length: range.length - length,
    }
}

fn read(range: &FileRange, length: usize) -> io::Result<Bytes> {
    let mut buffer = vec![0; length];
    range.file.read_exact_at(&mut buffer, range.position)?;
    Ok(buffer.into())
}

fn send_file(socket: BorrowedFd<'_>, range: &FileRange, share: usize) -> io::Result<usize> {
    let file = range.file.descriptor().expect("only ranges of files with one are left to sendfile");
    let mut position = range.position;
    let count = range.length.min(share);
    match rustix::fs::sendfile(socket, file, Some(&mut position), count)? {
        0 => Err(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            "a segment file is shorter than it was",
        )),
        sent => Ok(sent),
    }
}
