//! Small inputs that inflate to a GiB: refused at the limit, with little memory. A test binary of its
//! own, because it watches the process's peak memory.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use bytes::Bytes;
use model::Timestamp;
use protocol::records::validate::{ValidationRules, validate};
use protocol::records::{Compression, CompressionLevels, RecordBatchBuilder, RecordsError};

const GIB: usize = 1 << 30;
const PIECE: usize = 16 << 20;
const LIMIT: usize = 32 << 20;

/// A stream of a GiB of zeros in `codec`, made of repeated pieces where the format allows it.
fn bomb(codec: Compression) -> Vec<u8> {
    let piece = codec.compress(2, CompressionLevels::DEFAULT, &vec![0; PIECE]).unwrap();
    // LZ4 is one frame: repeat the blocks between header and end mark.
    let (head, body, tail) = match codec {
        Compression::Lz4 => (7, piece.len() - 4, 4),
        Compression::None | Compression::Gzip | Compression::Snappy | Compression::Zstd => {
            (0, piece.len(), 0)
        }
    };
    let mut out = piece[..head].to_vec();
    for _ in 0..GIB / PIECE {
        out.extend_from_slice(&piece[head..body]);
    }
    out.extend_from_slice(&piece[piece.len() - tail..]);
    out
}

/// A batch in `codec` of one record of 48 MiB of zeros: nothing is wrong with it.
fn honest(codec: Compression) -> Bytes {
    let mut builder = RecordBatchBuilder::new().compression(codec);
    builder.append(None, None, Some(&vec![0; 48 << 20])).unwrap();
    builder.build().unwrap()
}

/// Peak memory, in KiB, since the last call.
fn peak_kib() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    std::fs::write("/proc/self/clear_refs", "5").ok();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn a_gib_of_zeros_is_refused_at_the_limit_with_little_memory() {
    let codecs = [Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd];
    let bombs = codecs.map(bomb);
    // Claims 4 GiB in one raw block of 7 bytes.
    let lie = [0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0];
    peak_kib();
    let before = peak_kib();
    for (codec, bomb) in codecs.into_iter().zip(&bombs) {
        let inflated = codec.decompress(2, bomb, LIMIT);
        assert_eq!(inflated, Err(RecordsError::TooLarge { limit: LIMIT }), "{codec}");
    }
    assert!(Compression::Snappy.decompress(2, &lie, LIMIT).is_err());
    assert!(Compression::Snappy.decompress(2, &lie, usize::MAX).is_err());
    let grown = peak_kib().saturating_sub(before) / 1024;
    assert!(grown < 2 * (LIMIT >> 20) + 16, "peak grew by {grown} MiB for a limit of 32 MiB");
    drop(bombs);

    // What validation does with a batch that is only large, in place and from codec to codec.
    for codec in codecs {
        let batch = honest(codec);
        for compression in [None, Some(Compression::Lz4), Some(Compression::Zstd)] {
            let mut rules = ValidationRules::new(Timestamp(0));
            (rules.compression, rules.max_message_bytes) = (compression, 8 << 20);
            peak_kib();
            let before = peak_kib();
            validate(&batch, &rules).unwrap();
            let grown = peak_kib().saturating_sub(before) / 1024;
            // A large value's frame may have a window of 8 MiB.
            assert!(grown < 16, "{codec} to {compression:?}: peak grew by {grown} MiB of 48");
        }
    }
}
