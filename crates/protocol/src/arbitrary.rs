//! Random values of every message, for tests; behind the feature `arbitrary`.

use crate::Records;
use bytes::Bytes;
use bytestring::ByteString;
use model::TopicId;

/// A value that version `version` can carry whole.
pub trait Arbitrary: Sized {
    /// The next random value.
    fn arbitrary(random: &mut Random, version: i16) -> Self;
}

/// A seeded source of values: the same seed gives the same values (SplitMix64).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Starts from `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// Below `bound`, which is not 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.u64() % bound
    }

    fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        for byte in &mut bytes {
            *byte = self.u64().to_be_bytes()[0];
        }
        // Small numbers and all ones are where encodings differ.
        match self.below(8) {
            0 => bytes = [0; N],
            1 => bytes = [0xff; N],
            2 => bytes[..N - 1].fill(0),
            _ => {}
        }
        bytes
    }

    /// Either.
    pub fn bool(&mut self) -> bool {
        self.below(2) == 1
    }

    /// Whether a nullable value is null.
    pub fn is_null(&mut self) -> bool {
        self.below(4) == 0
    }

    /// The length of a list.
    pub fn count(&mut self) -> u64 {
        match self.below(8) {
            0 | 1 => 0,
            7 => 3,
            other => 1 + other % 2,
        }
    }

    /// Any.
    pub fn i8(&mut self) -> i8 {
        i8::from_be_bytes(self.array())
    }

    /// Any.
    pub fn i16(&mut self) -> i16 {
        i16::from_be_bytes(self.array())
    }

    /// Any.
    pub fn u16(&mut self) -> u16 {
        u16::from_be_bytes(self.array())
    }

    /// Any.
    pub fn i32(&mut self) -> i32 {
        i32::from_be_bytes(self.array())
    }

    /// Any.
    pub fn u32(&mut self) -> u32 {
        u32::from_be_bytes(self.array())
    }

    /// Any.
    pub fn i64(&mut self) -> i64 {
        i64::from_be_bytes(self.array())
    }

    /// Any but not-a-number, which equals nothing.
    pub fn f64(&mut self) -> f64 {
        f64::from(self.i32()) / 7.0
    }

    /// Any.
    pub fn uuid(&mut self) -> TopicId {
        TopicId(self.array())
    }

    /// Up to 20 characters, rarely 300.
    pub fn string(&mut self) -> ByteString {
        let length = if self.below(40) == 0 { 300 } else { self.below(20) };
        let mut letter = || match self.below(8) {
            0 => 'é',
            1 => '語',
            2 => '🦀',
            3 => '-',
            _ => 'a',
        };
        (0..length).map(|_| letter()).collect::<String>().into()
    }

    /// Up to 20 bytes, rarely 300.
    pub fn bytes(&mut self) -> Bytes {
        let length = if self.below(40) == 0 { 300 } else { self.below(20) };
        (0..length).map(|_| self.u64().to_be_bytes()[0]).collect()
    }

    /// Bytes that are no records, up to 20, rarely 3,000.
    pub fn records(&mut self) -> Records {
        let length = if self.below(8) == 0 { 3000 } else { self.below(20) };
        (0..length).map(|_| self.u64().to_be_bytes()[0]).collect::<Bytes>().into()
    }
}
