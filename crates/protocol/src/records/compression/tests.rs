use super::*;
use proptest::prelude::*;

const ALL: [Compression; 5] = [
    Compression::None,
    Compression::Gzip,
    Compression::Snappy,
    Compression::Lz4,
    Compression::Zstd,
];

fn compress(codec: Compression, magic: u8, input: &[u8]) -> Vec<u8> {
    codec.compress(magic, CompressionLevels::DEFAULT, input).unwrap()
}

/// Compressible and not, of several blocks.
fn sample() -> Vec<u8> {
    let mut out: Vec<u8> = (0..100_000u32).flat_map(|i| (i / 100).to_be_bytes()).collect();
    let mut state = 1u32;
    out.extend((0..200_000).map(|_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    }));
    out
}

#[test]
fn what_is_compressed_inflates_again_in_every_magic() {
    for codec in ALL {
        for magic in 0..=2 {
            for input in [Vec::new(), vec![7], vec![0; 65_536], vec![1; 65_537], sample()] {
                let squeezed = compress(codec, magic, &input);
                let back = codec.decompress(magic, &squeezed, input.len());
                assert_eq!(back.as_ref(), Ok(&input), "{codec}, magic {magic}");
                if let Some(limit) = input.len().checked_sub(1) {
                    let refused = codec.decompress(magic, &squeezed, limit);
                    assert_eq!(refused, Err(RecordsError::TooLarge { limit }), "{codec}");
                }
            }
        }
    }
}

#[test]
fn a_cut_stream_is_an_error() {
    let input = sample();
    for codec in [Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd] {
        let squeezed = compress(codec, 2, &input);
        let none = usize::from(codec == Compression::Zstd); // no bytes are no frames
        for end in [none, 1, 3, 6, 20, squeezed.len() / 2, squeezed.len() - 1] {
            let cut = codec.decompress(2, &squeezed[..end], usize::MAX);
            assert!(cut.is_err(), "{codec} cut at {end}");
        }
    }
}

#[test]
fn an_lz4_frame_starts_as_kafkas_does() {
    let squeezed = compress(Compression::Lz4, 2, b"abc");
    assert_eq!(squeezed[..7], [0x04, 0x22, 0x4d, 0x18, 0x60, 0x40, 0x82]);
    assert_eq!(squeezed[squeezed.len() - 4..], [0; 4], "end mark");
}

#[test]
fn the_lz4_header_checksum_of_magic_0_is_wrong_and_not_read() {
    let old = compress(Compression::Lz4, 0, b"abc");
    assert_eq!(old[6], XX_OVER_ALL_SIX);
    assert_eq!(Compression::Lz4.decompress(0, &old, 9).as_deref(), Ok(&b"abc"[..]));
    assert!(Compression::Lz4.decompress(1, &old, 9).is_err(), "magic 1 verifies it");
    let new = compress(Compression::Lz4, 1, b"abc");
    assert!(Compression::Lz4.decompress(0, &new, 9).is_ok());
}

/// What Kafka 3.9.2 wrote into `old0.log`.
const XX_OVER_ALL_SIX: u8 = 0x1a;

#[test]
fn lz4_frames_with_options_are_read_as_kafka_reads_them() {
    let with = |flags: u8, middle: &[u8], block: &[u8], tail: &[u8]| {
        let mut frame = vec![0x04, 0x22, 0x4d, 0x18, flags, 0x70];
        frame.extend_from_slice(middle);
        frame.push(twox_hash::XxHash32::oneshot(0, &frame[4..]).to_le_bytes()[1]);
        frame.extend_from_slice(block);
        frame.extend_from_slice(tail);
        Compression::Lz4.decompress(2, &frame, 100)
    };
    let stored = [3, 0, 0, 0x80, b'a', b'b', b'c'];
    let hash = twox_hash::XxHash32::oneshot(0, b"abc").to_le_bytes();
    let sealed = [&stored[..], &hash].concat();
    let abc = Ok(b"abc".to_vec());
    assert_eq!(with(0x60, &[], &stored, &[0; 4]), abc);
    assert_eq!(with(0x68, &[9; 8], &stored, &[0; 4]), abc, "content size is not looked at");
    assert_eq!(with(0x64, &[], &stored, &[0, 0, 0, 0, 1, 2, 3, 4]), abc, "nor its checksum");
    assert_eq!(with(0x70, &[], &sealed, &[0; 4]), abc, "a block checksum is");
    assert!(with(0x70, &[], &[&stored[..], &[0; 4]].concat(), &[0; 4]).is_err());
    assert!(with(0x40, &[], &stored, &[0; 4]).is_err(), "linked blocks");
    assert!(with(0x61, &[], &stored, &[0; 4]).is_err(), "reserved bit");
    assert!(with(0xa0, &[], &stored, &[0; 4]).is_err(), "version 2");
    assert!(with(0x60, &[], &stored, &[]).is_err(), "no end mark");
}

#[test]
fn snappy_is_read_framed_joined_and_raw() {
    let framed = compress(Compression::Snappy, 2, &[5; 40_000]);
    assert_eq!(framed[..16], *b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01");
    let joined = [&framed[..], &framed].concat();
    let back = Compression::Snappy.decompress(2, &joined, 80_000);
    assert_eq!(back, Ok(vec![5; 80_000]), "a header may come again");
    let raw = snap::raw::Encoder::new().compress_vec(&[5; 40_000]).unwrap();
    assert_eq!(Compression::Snappy.decompress(2, &raw, 40_000), Ok(vec![5; 40_000]));
    let huge = [&framed[..16], &[0x7f, 0xff, 0xff, 0xff, 0]].concat();
    assert!(Compression::Snappy.decompress(2, &huge, usize::MAX).is_err());
}

#[test]
fn members_and_frames_may_follow_one_another() {
    for codec in [Compression::Gzip, Compression::Zstd] {
        let twice = [compress(codec, 2, b"one "), compress(codec, 2, b"two")].concat();
        assert_eq!(codec.decompress(2, &twice, 9).as_deref(), Ok(&b"one two"[..]), "{codec}");
    }
    let trailing = [compress(Compression::Gzip, 2, b"one"), vec![0; 9]].concat();
    assert!(Compression::Gzip.decompress(2, &trailing, 9).is_ok(), "as Java's reader does");
}

#[test]
fn zstd_streams_without_a_content_size_are_read() {
    let mut encoder = zstd::stream::Encoder::new(Vec::new(), 19).unwrap();
    encoder.write_all(&sample()).unwrap();
    let squeezed = encoder.finish().unwrap();
    assert_eq!(Compression::Zstd.decompress(2, &squeezed, 1 << 20), Ok(sample()));
}

proptest! {
    #[test]
    fn random_bytes_never_panic(
        codec in 0u8..5, magic in 0u8..3, mut bytes in proptest::collection::vec(any::<u8>(), 0..300),
        flips in proptest::collection::vec((any::<u16>(), any::<u8>()), 0..4),
    ) {
        let codec = Compression::from_id(codec).unwrap();
        let _ = codec.decompress(magic, &bytes, 1 << 16);
        // Nearly right is more interesting than noise.
        let mut squeezed = compress(codec, magic, &bytes.repeat(20));
        for (at, with) in flips {
            let at = usize::from(at) % squeezed.len().max(1);
            if let Some(byte) = squeezed.get_mut(at) { *byte ^= with; }
        }
        let _ = codec.decompress(magic, &squeezed, 1 << 16);
        bytes.extend_from_slice(&squeezed);
        let _ = codec.decompress(magic, &bytes, 1 << 16);
    }
}
