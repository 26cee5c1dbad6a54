//! Frames: requests encoded once, answers counted or decoded.

use crate::error::{BenchError, io};
use bytes::{Buf, Bytes, BytesMut};
use bytestring::ByteString;
use protocol::{Message, Reader, Request, RequestHeader, Writer};
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

    /// Takes what has arrived, without waiting.
    pub(crate) fn try_receive(&mut self) -> Result<(), BenchError> {
        match self.stream.try_read_buf(&mut self.input) {
            Ok(0) => Err(BenchError::Protocol("the broker closed the connection".into())),
            Ok(_) => Ok(()),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(BenchError::Io("receive".into(), error)),
        }
    }

    /// An answer that has arrived already.
    pub(crate) fn complete_frame(&mut self) -> Option<Bytes> {
        let length = self.input.get(..4)?;
        let length = u32::from_be_bytes(length.try_into().expect("four bytes")) as usize;
        if self.input.len() < 4 + length {
            self.input.reserve(4 + length - self.input.len());
            return None;
        }
        self.input.advance(4);
        Some(self.input.split_to(length).freeze())
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

/// The body of an answer.
pub(crate) fn decode<R: Request>(frame: Bytes, version: i16) -> Result<R::Response, BenchError> {
    let mut reader = Reader::new(frame);
    let wrong = |error: &dyn std::fmt::Display| {
        BenchError::Protocol(format!("{} v{version}: {error}", R::Response::NAME))
    };
    protocol::decode_response_header(&mut reader, R::KEY, version).map_err(|e| wrong(&e))?;
    R::Response::decode(&mut reader, version).map_err(|e| wrong(&e))
}
