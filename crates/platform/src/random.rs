//! Randomness: the only module that asks the system for entropy.

use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};

/// A source of random numbers.
pub trait Random: Debug + Send + Sync {
    /// Uniform 64 bits.
    fn next_u64(&self) -> u64;

    /// Fills `buffer` with random bytes.
    fn fill(&self, buffer: &mut [u8]) {
        for chunk in buffer.chunks_mut(8) {
            let bytes = self.next_u64().to_le_bytes();
            chunk.copy_from_slice(&bytes[..chunk.len()]);
        }
    }

    /// Uniform in `0..bound`; 0 if `bound` is 0. The bias is below `bound / 2^64`.
    fn below(&self, bound: u64) -> u64 {
        u64::try_from((u128::from(self.next_u64()) * u128::from(bound)) >> 64)
            .expect("the high half")
    }
}

/// The operating system's generator.
#[derive(Debug, Default)]
pub struct SystemRandom;

impl Random for SystemRandom {
    fn next_u64(&self) -> u64 {
        let mut bytes = [0; 8];
        self.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }

    fn fill(&self, mut buffer: &mut [u8]) {
        while !buffer.is_empty() {
            let filled =
                rustix::rand::getrandom(&mut *buffer, rustix::rand::GetRandomFlags::empty())
                    .expect(
                        "getrandom(2) exists since Linux 3.17 and does not fail for a valid buffer",
                    );
            buffer = &mut buffer[filled..];
        }
    }
}

/// The same numbers for the same seed (splitmix64); for tests and simulation.
#[derive(Debug)]
pub struct SeededRandom(AtomicU64);

impl SeededRandom {
    /// A generator whose numbers `seed` decides.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }
}

impl Random for SeededRandom {
    fn next_u64(&self) -> u64 {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut z = self.0.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[test]
fn a_seed_decides_the_numbers() {
    let draw = |seed| {
        (0..4)
            .map(|_| 0)
            .scan(SeededRandom::new(seed), |r, _: i32| Some(r.next_u64()))
            .collect::<Vec<_>>()
    };
    assert_eq!(draw(7), draw(7));
    assert_ne!(draw(7), draw(8));
    assert!((0..1000).all(|_| SystemRandom.below(3) < 3));
}
