//! Frames of real Kafka brokers (`golden/README.md`) are read whole and written back byte for byte.

#![expect(clippy::unwrap_used, reason = "a test says so by panicking")]

use bytes::Bytes;
use protocol::messages::ApiKey;
use protocol::{Message, Reader, RequestHeader, Writer};
use protocol::{decode_response_header, encode_response_header};
use std::path::Path;

fn bytes(hex: &str) -> Bytes {
    let pairs = hex.trim().as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
    pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}

fn reread<M: Message>(reader: &mut Reader, writer: &mut Writer, version: i16) {
    let message = M::decode(reader, version).unwrap_or_else(|error| panic!("{}: {error}", M::NAME));
    message.encode(writer, version).unwrap();
}

/// Reads a body of `key` and writes it.
fn body(key: ApiKey, is_request: bool, version: i16, reader: &mut Reader, writer: &mut Writer) {
    macro_rules! reread_if {
        ($name:ident, $request:ty, $response:ty) => {
            if key == ApiKey::$name {
                match is_request {
                    true => reread::<$request>(reader, writer, version),
                    false => reread::<$response>(reader, writer, version),
                }
            }
        };
    }
    protocol::for_each_api!(reread_if);
}

#[test]
fn frames_of_real_brokers_are_read_and_written_back() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut exchanges = 0;
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "hex") {
            continue;
        }
        let name = path.display().to_string();
        let text = std::fs::read_to_string(&path).unwrap();
        let mut last = None;
        for line in text.lines() {
            if let Some(hex) = line.strip_prefix("request ") {
                let frame = bytes(hex);
                let mut reader = Reader::new(frame.clone());
                let header = RequestHeader::decode(&mut reader).unwrap();
                let mut writer = Writer::new();
                header.encode(&mut writer).unwrap();
                body(header.api_key, true, header.api_version, &mut reader, &mut writer);
                assert_eq!(reader.remaining(), 0, "{name}");
                assert_eq!(writer.flatten().unwrap(), frame, "{name}");
                last = Some(header);
            } else if let Some(hex) = line.strip_prefix("response ") {
                let frame = bytes(hex);
                let request = last.as_ref().expect("a request stands before its response");
                let (key, version) = (request.api_key, request.api_version);
                let mut reader = Reader::new(frame.clone());
                let id = decode_response_header(&mut reader, key, version).unwrap();
                assert_eq!(id, request.correlation_id, "{name}");
                let mut writer = Writer::new();
                encode_response_header(&mut writer, key, version, id).unwrap();
                body(key, false, version, &mut reader, &mut writer);
                assert_eq!(reader.remaining(), 0, "{name}");
                assert_eq!(writer.flatten().unwrap(), frame, "{name}");
                exchanges += 1;
            }
        }
    }
    assert!(exchanges >= 40, "only {exchanges} exchanges were found");
}
