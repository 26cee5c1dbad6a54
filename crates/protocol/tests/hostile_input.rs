//! No bytes from outside make decoding panic, or allocate more than its budget.

#![expect(clippy::cast_possible_truncation, reason = "bytes of larger numbers")]

use bytes::Bytes;
use protocol::messages::{ApiVersionsRequest, FetchRequest, JoinGroupRequest};
use protocol::messages::{MetadataRequest, ProduceRequest};
use protocol::{DecodeErrorKind, Message, Reader, RequestHeader};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Remembers how much the current thread holds, and the most that it held.
struct Counting;

thread_local! {
    static HELD: Cell<(isize, isize)> = const { Cell::new((0, 0)) };
}

fn note(change: isize) {
    // Not there while a thread ends.
    let _ = HELD.try_with(|held| {
        let (now, most) = held.get();
        held.set((now + change, most.max(now + change)));
    });
}

#[expect(unsafe_code, reason = "an allocator that counts cannot be written otherwise")]
// SAFETY: all calls go to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size() as isize);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        note(-(layout.size() as isize));
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Runs `work` and returns the most bytes that it held at once.
fn most_held<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = HELD.with(|held| {
        let (now, _) = held.get();
        held.set((now, now));
        now
    });
    let result = work();
    let most = HELD.with(|held| held.get().1);
    (result, usize::try_from(most - before).unwrap_or(0))
}

fn budget(frame: usize) -> usize {
    // The last part is for errors and the frame's own reference counts.
    (64 << 10) + 8 * frame + 1024
}

/// Decodes and returns what is wrong; memory stays within the budget.
fn refusal<M: Message>(version: i16, body: impl Into<Bytes>) -> DecodeErrorKind {
    let body = body.into();
    let length = body.len();
    let (result, held) = most_held(|| M::decode(&mut Reader::new(body), version));
    assert!(held <= budget(length), "{} held {held} bytes for a body of {length}", M::NAME);
    result.expect_err("hostile input is refused").kind
}

#[test]
fn claimed_counts_are_checked_against_the_frame() {
    use DecodeErrorKind::{Null, TooMany, Truncated, Varint};
    let too_many = |kind| matches!(kind, TooMany(_));
    // Each of these makes a decoder that believes its input allocate between 3 and 400 gigabytes.
    assert!(too_many(refusal::<MetadataRequest>(0, &b"\x7f\xff\xff\xff"[..])));
    assert!(too_many(refusal::<MetadataRequest>(0, &b"\x03\x37\xf9\x80\0"[..])));
    assert!(too_many(refusal::<MetadataRequest>(9, &b"\xff\xff\xff\xff\x0f"[..])));
    assert_eq!(refusal::<MetadataRequest>(9, &b"\xff\xff\xff\xff\x1f"[..]), Varint);
    assert_eq!(refusal::<MetadataRequest>(9, &b"\xff\xff\xff\xff\xff\xff\x01"[..]), Varint);
    let produce = |count: &[u8]| [&b"\0\0\x01\0\0\0\0"[..], count].concat();
    assert!(too_many(refusal::<ProduceRequest>(9, produce(b"\xff\xff\xff\xff\x0f"))));
    assert!(too_many(refusal::<ProduceRequest>(9, produce(b"\x80\xc2\xd7\x2f"))));
    // Records, strings and bytes that end beyond the frame.
    let records = b"\0\0\x01\0\0\0\0\x02\x02t\x02\0\0\0\0\xff\xff\xff\xff\x07";
    assert_eq!(refusal::<ProduceRequest>(9, &records[..]), Truncated);
    assert_eq!(refusal::<JoinGroupRequest>(0, &b"\x7f\xffg"[..]), Truncated);
    assert_eq!(refusal::<JoinGroupRequest>(6, &b"\xff\xff\xff\xff\x0fg"[..]), Truncated);
    // Null where none may be, and lengths below null.
    assert_eq!(refusal::<MetadataRequest>(0, &b"\xff\xff\xff\xff"[..]), Null);
    assert_eq!(refusal::<MetadataRequest>(0, &b"\0\0\0\x01\xff\xff"[..]), Null);
    assert_eq!(refusal::<MetadataRequest>(0, &b"\x80\0\0\0"[..]), Null);
    assert_eq!(refusal::<JoinGroupRequest>(0, &b"\x80\0"[..]), Null);
}

#[test]
fn a_frame_of_tiny_elements_stays_within_the_budget() {
    // One byte on the wire for an element that takes dozens in memory.
    for count in [100, 10_000, 1 << 20, 8 << 20] {
        let mut body = Vec::new();
        let mut rest = count as u32 + 1;
        while rest >= 0x80 {
            body.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        body.push(rest as u8);
        body.resize(body.len() + 3 * count, 0);
        let length = body.len();
        let (_, held) = most_held(|| MetadataRequest::decode(&mut Reader::new(body.into()), 9));
        assert!(held <= budget(length), "{held} bytes for a body of {length}");
    }
}

#[test]
fn tagged_fields_are_limited_and_stay_in_the_frame() {
    use DecodeErrorKind::{Tags, Truncated};
    let start = b"\x02a\x02b";
    let body = |rest: &[u8]| [&start[..], rest].concat();
    assert_eq!(refusal::<ApiVersionsRequest>(3, body(b"\xff\xff\xff\xff\x0f")), Tags);
    assert_eq!(refusal::<ApiVersionsRequest>(3, body(b"\x01\x05\x10abc")), Truncated);
    assert_eq!(refusal::<ApiVersionsRequest>(3, body(b"\x01\x05\xff\xff\xff\xff\x0f")), Truncated);
    // Four million empty ones, before anyone has logged in.
    let mut many = body(b"\x80\x92\xf4\x01");
    many.resize(many.len() + 8_000_000, 0);
    assert_eq!(refusal::<ApiVersionsRequest>(3, many), Tags);
    // Unknown ones are skipped.
    let read = ApiVersionsRequest::decode(&mut Reader::new(body(b"\x01\x63\x03abc").into()), 3);
    assert_eq!(read.unwrap().client_software_name, "a");
    // A known one whose content is longer than it says: ClusterId of Fetch.
    let mut fetch = vec![0; 4 + 4 + 4 + 4 + 1 + 4 + 4];
    fetch.extend_from_slice(b"\x01\x01\x01\x01\0\x01\x05abcd");
    assert_eq!(refusal::<FetchRequest>(12, fetch), Tags);
}

#[test]
fn text_must_be_utf8() {
    let body = b"\0\0\0\x01\0\x02\xc3\x28";
    assert_eq!(refusal::<MetadataRequest>(0, &body[..]), DecodeErrorKind::Utf8);
}

#[test]
fn a_frame_too_short_for_a_header_is_refused() {
    for length in 0..10 {
        let mut reader = Reader::new(vec![0; length].into());
        assert_eq!(
            RequestHeader::decode(&mut reader).unwrap_err().kind,
            DecodeErrorKind::Truncated
        );
    }
}

/// SplitMix64.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut bits = *state;
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// Bytes that get past the first length more often than even chances would.
fn noise(state: &mut u64) -> Bytes {
    let length = next(state) % 200;
    let small = next(state) % 4;
    let byte = |state: &mut u64| match next(state) % 4 {
        kind if kind < small => (next(state) % 4) as u8,
        _ => next(state) as u8,
    };
    (0..length).map(|_| byte(state)).collect()
}

#[test]
fn random_bytes_never_panic_and_what_is_read_can_be_written() {
    let rounds = std::env::var("ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(12);
    let state = &mut 7;
    let mut read = 0u32;
    for _ in 0..rounds {
        macro_rules! decode_noise {
            ($name:ident, $message:ty) => {
                for version in <$message>::VERSIONS {
                    let bytes = noise(state);
                    let length = bytes.len();
                    let (message, held) =
                        most_held(|| <$message>::decode(&mut Reader::new(bytes), version));
                    assert!(held <= budget(length), "{} held {held}", stringify!($name));
                    if let Ok(message) = message {
                        let mut writer = protocol::Writer::new();
                        message.encode(&mut writer, version).unwrap();
                        let again = writer.flatten().unwrap();
                        let again = <$message>::decode(&mut Reader::new(again), version).unwrap();
                        // Not compared: a float that is not a number does not equal itself.
                        let _ = again;
                        read += 1;
                    }
                }
            };
        }
        protocol::for_each_message!(decode_noise);
    }
    assert!(read > 0, "noise should sometimes be a message");
}
