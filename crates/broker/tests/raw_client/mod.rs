//! A client that sends bytes: for what a well-behaved one would not do, or hides.

use protocol::{Message, Reader, Request, RequestHeader, Segment, Writer, decode_response_header};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Tests wait this long for what comes at once.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A connection.
pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    /// What requests say of the client.
    pub(crate) client_id: Option<&'static str>,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, client_id: Some("test") }
    }

    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// The next frame, without its length.
    pub(crate) fn receive_frame(&mut self) -> Vec<u8> {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length).unwrap();
        let mut frame = vec![0; u32::from_be_bytes(length) as usize];
        self.stream.read_exact(&mut frame).unwrap();
        frame
    }

    pub(crate) fn send<R: Request>(&mut self, version: i16, correlation_id: i32, body: &R) {
        let mut writer = Writer::new_frame();
        let header = RequestHeader {
            api_key: R::KEY,
            api_version: version,
            correlation_id,
            client_id: self.client_id.map(Into::into),
        };
        header.encode(&mut writer).unwrap();
        body.encode(&mut writer, version).unwrap();
        for segment in writer.finish_frame().unwrap() {
            match segment {
                Segment::Bytes(bytes) => self.send_bytes(&bytes),
                Segment::File(_) => unreachable!("a request holds no file"),
            }
        }
    }

    pub(crate) fn receive<R: Request>(&mut self, version: i16, correlation_id: i32) -> R::Response {
        let mut reader = Reader::new(self.receive_frame().into());
        let answered = decode_response_header(&mut reader, R::KEY, version).unwrap();
        assert_eq!(answered, correlation_id, "answers come in order");
        R::Response::decode(&mut reader, version).unwrap()
    }

    pub(crate) fn call<R: Request>(&mut self, version: i16, body: &R) -> R::Response {
        self.send(version, 1, body);
        self.receive::<R>(version, 1)
    }

    /// Whether the broker closes the connection and says nothing more.
    pub(crate) fn is_closed(&mut self) -> bool {
        let mut rest = Vec::new();
        match self.stream.read_to_end(&mut rest) {
            Ok(_) => rest.is_empty(),
            Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }
}
