//! Frames: requests encoded once, answers counted or decoded.

use crate::error::{BenchError, io};
use bytes::{Buf, Bytes, BytesMut};
use bytestring::ByteString;
use protocol::{Message, Reader, Request, RequestHeader, Writer};
use std::io::{Read, Write};
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A request in its frame, length included.
pub(crate) fn frame<R: Request>(request: &R, version: i16, correlation_id: i32) -> Bytes {
    let mut writer = Writer::new_frame();
    let header = RequestHeader {
        api_key: R::KEY,
        api_version: version,
        correlation_id,
        client_id: Some(ByteString::from_static("barnabas-bench")),
    };
    header.encode(&mut writer).expect("the client id is short");
    request.encode(&mut writer, version).expect("the request fits its version");
    finish(writer)
}

/// A frame begun by [`Writer::new_frame`], in one piece.
pub(crate) fn finish(mut writer: Writer) -> Bytes {
    let mut whole = BytesMut::from(writer.flatten().expect("nothing is in a file").as_ref());
    let length = u32::try_from(whole.len() - 4).expect("below 4 GiB");
    whole[..4].copy_from_slice(&length.to_be_bytes());
    whole.freeze()
}

/// A connection that sends frames and reads answers.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    input: BytesMut,
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> Result<Self, BenchError> {
        let stream = TcpStream::connect(address).await.map_err(io(address.to_string()))?;
        stream.set_nodelay(true).map_err(io("TCP_NODELAY"))?;
        Ok(Self { stream, input: BytesMut::with_capacity(256 * 1024) })
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) -> Result<(), BenchError> {
        self.stream.write_all(bytes).await.map_err(io("send"))
    }

    /// The next answer without its length.
    pub(crate) async fn receive(&mut self) -> Result<Bytes, BenchError> {
        loop {
            if let Some(frame) = self.complete_frame() {
                return Ok(frame);
            }
            if self.stream.read_buf(&mut self.input).await.map_err(io("receive"))? == 0 {
                return Err(BenchError::Protocol("the broker closed the connection".into()));
            }
        }
    }

    /// An answer that has arrived already.
    pub(crate) fn complete_frame(&mut self) -> Option<Bytes> {
        take_frame(&mut self.input)
    }

    /// Sends a request and decodes its answer.
    pub(crate) async fn call<R: Request>(
        &mut self,
        request: &R,
        version: i16,
    ) -> Result<R::Response, BenchError> {
        self.send(&frame(request, version, 0)).await?;
        decode::<R>(self.receive().await?, version)
    }
}

/// The frame at the start of `input`, without its length; makes room for it if it is not whole.
fn take_frame(input: &mut BytesMut) -> Option<Bytes> {
    let length = input.get(..4)?;
    let length = u32::from_be_bytes(length.try_into().expect("four bytes")) as usize;
    if input.len() < 4 + length {
        input.reserve(4 + length - input.len());
        return None;
    }
    input.advance(4);
    Some(input.split_to(length).freeze())
}

/// A connection that is looked at again and again instead of being waited for.
#[derive(Debug)]
pub(crate) struct PolledConnection {
    stream: std::net::TcpStream,
    received: Vec<u8>,
    input: BytesMut,
}

impl PolledConnection {
    pub(crate) fn open(address: SocketAddr) -> Result<Self, BenchError> {
        let stream = std::net::TcpStream::connect(address).map_err(io(address.to_string()))?;
        stream.set_nodelay(true).map_err(io("TCP_NODELAY"))?;
        stream.set_nonblocking(true).map_err(io("O_NONBLOCK"))?;
        Ok(Self { stream, received: vec![0; 64 << 10], input: BytesMut::new() })
    }

    pub(crate) fn send(&mut self, mut bytes: &[u8]) -> Result<(), BenchError> {
        while !bytes.is_empty() {
            match self.stream.write(bytes) {
                Ok(written) => bytes = &bytes[written..],
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(BenchError::Io("send".into(), error)),
            }
        }
        Ok(())
    }

    /// The next answer, if it has arrived.
    pub(crate) fn poll(&mut self) -> Result<Option<Bytes>, BenchError> {
        if let Some(frame) = take_frame(&mut self.input) {
            return Ok(Some(frame));
        }
        match self.stream.read(&mut self.received) {
            Ok(0) => Err(BenchError::Protocol("the broker closed the connection".into())),
            Ok(read) => {
                self.input.extend_from_slice(&self.received[..read]);
                Ok(take_frame(&mut self.input))
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(BenchError::Io("receive".into(), error)),
        }
    }

    /// The next answer, however long it takes.
    pub(crate) fn wait(&mut self) -> Result<Bytes, BenchError> {
        loop {
            if let Some(frame) = self.poll()? {
                return Ok(frame);
            }
        }
    }
}

/// The body of an answer.
pub(crate) fn decode<R: Request>(frame: Bytes, version: i16) -> Result<R::Response, BenchError> {
    let mut reader = Reader::new(frame);
    let wrong = |error: &dyn std::fmt::Display| {
        BenchError::Protocol(format!("{} v{version}: {error}", R::Response::NAME))
    };
    protocol::decode_response_header(&mut reader, R::KEY, version).map_err(|e| wrong(&e))?;
    R::Response::decode(&mut reader, version).map_err(|e| wrong(&e))
}
