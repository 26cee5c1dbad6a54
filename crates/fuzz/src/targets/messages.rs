//! The wire protocol.

use super::Input;
use bytes::Bytes;
use protocol::arbitrary::{Arbitrary, Random};
use protocol::{ApiKey, Message, Reader, RequestHeader, Writer};
use std::ops::RangeInclusive;
use std::sync::LazyLock;

struct Codec {
    versions: RangeInclusive<i16>,
    check: fn(Bytes, i16),
    seed: fn(&mut Random, i16) -> Bytes,
}

static CODECS: LazyLock<Vec<Codec>> = LazyLock::new(|| {
    let mut codecs = Vec::new();
    macro_rules! add {
        ($name:ident, $message:path) => {
            codecs.push(Codec {
                versions: <$message as Message>::VERSIONS,
                check: check::<$message>,
                seed: seed::<$message>,
            });
        };
    }
    protocol::for_each_message!(add);
    codecs
});

/// What can be read can be written, and is then the same.
fn check<M: Message>(body: Bytes, version: i16) {
    let Ok(message) = M::decode(&mut Reader::new(body), version) else { return };
    let written = write(&message, version);
    let again = M::decode(&mut Reader::new(written.clone()), version)
        .unwrap_or_else(|error| panic!("{} v{version} was written so that {error}", M::NAME));
    // Not the messages: a float that is not a number does not equal itself.
    assert_eq!(write(&again, version), written, "{} v{version}", M::NAME);
}

fn write<M: Message>(message: &M, version: i16) -> Bytes {
    let mut writer = Writer::new();
    message
        .encode(&mut writer, version)
        .unwrap_or_else(|error| panic!("{} v{version} was read and {error}", M::NAME));
    writer.flatten().unwrap_or_else(|error| panic!("{error}"))
}

fn seed<M: Message + Arbitrary>(random: &mut Random, version: i16) -> Bytes {
    write(&M::arbitrary(random, version), version)
}

/// One of each message and version.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut random = Random::new(1);
    let mut seeds = Vec::new();
    for (index, codec) in (0_u16..).zip(CODECS.iter()) {
        for (span, version) in (0_u8..).zip(codec.versions.clone()) {
            let body = (codec.seed)(&mut random, version);
            seeds.push([&index.to_le_bytes()[..], &[span], &body].concat());
        }
    }
    seeds
}

pub(super) fn message(input: &[u8]) {
    let mut input = Input(input);
    let codec = &CODECS[usize::from(input.u16()) % CODECS.len()];
    let (first, last) = (*codec.versions.start(), *codec.versions.end());
    let span = i16::from(input.u8()) % (last - first + 1);
    (codec.check)(Bytes::copy_from_slice(input.0), first + span);
}

pub(super) fn request(input: &[u8]) {
    let frame = Bytes::copy_from_slice(input);
    let mut reader = Reader::new(frame.clone());
    let Ok(header) = RequestHeader::decode(&mut reader) else { return };
    let body = frame.slice(reader.position()..);
    let version = header.api_version;
    macro_rules! check_if {
        ($name:ident, $request:path, $response:path) => {
            if header.api_key == ApiKey::$name && <$request as Message>::VERSIONS.contains(&version)
            {
                return check::<$request>(body, version);
            }
        };
    }
    protocol::for_each_api!(check_if);
}
