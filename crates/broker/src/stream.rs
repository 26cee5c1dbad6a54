//! What a reactor reads and writes: a socket, or a stream of a simulated network.

use crate::output::{Output, Progress};
use platform::network::ByteStream;
use rustix::buffer::spare_capacity;
use rustix::net::RecvFlags;
use std::io;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// One connection's way to its client.
#[derive(Debug)]
pub(crate) enum Stream {
    /// A socket that does not block.
    Socket(mio::net::TcpStream),
    /// A simulated one.
    Virtual(VirtualStream),
}

/// A stream of a simulated network. It takes whatever is written at once.
#[derive(Debug)]
pub(crate) struct VirtualStream {
    bytes: Box<dyn ByteStream>,
    /// Woken when there may be more to read.
    waker: Waker,
}

impl VirtualStream {
    /// Nobody is woken before [`Self::set_waker`].
    pub(crate) fn new(bytes: Box<dyn ByteStream>) -> Self {
        Self { bytes, waker: Waker::noop().clone() }
    }

    /// Who is woken when there may be more to read.
    pub(crate) fn set_waker(&mut self, waker: Waker) {
        self.waker = waker;
    }
}

impl Stream {
    /// Appends what has arrived to `buffer`, as far as it has room; 0 is the end.
    ///
    /// # Errors
    /// `WouldBlock` if nothing has arrived; else the connection's end.
    #[inline]
    pub(crate) fn receive(&mut self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        match self {
            Self::Socket(socket) => {
                let received =
                    rustix::net::recv(socket.as_fd(), spare_capacity(buffer), RecvFlags::empty());
                Ok(received.map(|(length, _)| length)?)
            }
            Self::Virtual(stream) => stream.receive(buffer),
        }
    }

    /// Sends what is taken of `output`, but at most about `share` bytes.
    ///
    /// # Errors
    /// Those of the connection and of reading files; both are its end.
    #[inline]
    pub(crate) fn send(&mut self, output: &mut Output, share: usize) -> io::Result<Progress> {
        match self {
            Self::Socket(socket) => output.write_to(socket.as_fd(), share),
            Self::Virtual(stream) => stream.send(output),
        }
    }
}

impl VirtualStream {
    /// As with a socket that is read to its end: when this returns less than there is room for, the waker is
    /// to be woken by what comes.
    fn receive(&mut self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        let before = buffer.len();
        let mut chunk = [0; 4 << 10];
        loop {
            let room = chunk.len().min(buffer.capacity() - buffer.len());
            if room == 0 {
                return Ok(buffer.len() - before);
            }
            let mut read = ReadBuf::new(&mut chunk[..room]);
            let mut context = Context::from_waker(&self.waker);
            let polled = Pin::new(&mut self.bytes).poll_read(&mut context, &mut read);
            let received = buffer.len() - before;
            match polled {
                Poll::Pending if received == 0 => return Err(io::ErrorKind::WouldBlock.into()),
                Poll::Pending => return Ok(received),
                Poll::Ready(Ok(())) if !read.filled().is_empty() => {
                    buffer.extend_from_slice(read.filled());
                }
                Poll::Ready(end) if received == 0 => return end.map(|()| 0),
                // The end is found again by the next read.
                Poll::Ready(_) => {
                    self.waker.wake_by_ref();
                    return Ok(received);
                }
            }
        }
    }

    fn send(&mut self, output: &mut Output) -> io::Result<Progress> {
        for bytes in output.take()? {
            let mut context = Context::from_waker(&self.waker);
            match Pin::new(&mut self.bytes).poll_write(&mut context, &bytes) {
                Poll::Ready(written) => assert_eq!(written?, bytes.len(), "it takes everything"),
                Poll::Pending => unreachable!("it takes everything at once"),
            }
        }
        Ok(Progress::Done)
    }
}
