//! Every input that is kept, or that fuzzing begins with, is read without a finding; and so is noise made from them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use fuzz::{TARGETS, Target, seeds};
use protocol::arbitrary::Random;
use std::fs;
use std::path::Path;

/// Inputs of noise for each target.
const NOISE: u64 = 300;

fn below(random: &mut Random, bound: usize) -> usize {
    usize::try_from(random.below(u64::try_from(bound.max(1)).unwrap())).unwrap()
}

fn changed(seed: &[u8], random: &mut Random) -> Vec<u8> {
    let mut input = seed.to_vec();
    for _ in 0..=below(random, 4) {
        let at = below(random, input.len() + 1);
        match below(random, 4) {
            0 => input.truncate(at),
            1 => input.insert(at, random.u64().to_le_bytes()[0]),
            2 => {
                let end = input.len().min(at + 4);
                input[at..end].fill([0, 0x7f, 0x80, 0xff][below(random, 4)]);
            }
            _ => {
                if let Some(byte) = input.get_mut(at) {
                    *byte ^= 1 << below(random, 8);
                }
            }
        }
    }
    input
}

/// Runs `input`, and says which it was if it is a finding.
fn check(target: &Target, what: &str, input: &[u8]) {
    let ran = std::panic::catch_unwind(|| target.check(input));
    let hex: String = input.iter().take(2000).map(|byte| format!("{byte:02x}")).collect();
    assert!(ran.is_ok(), "{} of {}: {hex}", what, target.name);
}

/// One test: what an input holds is measured for the whole process.
#[test]
fn no_input_that_is_kept_is_a_finding() {
    for target in TARGETS {
        target.prepare();
        let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target.name);
        let mut inputs: Vec<_> = fs::read_dir(kept)
            .into_iter()
            .flatten()
            .map(|entry| fs::read(entry.unwrap().path()).unwrap())
            .collect();
        for input in &inputs {
            check(target, "a kept input", input);
        }
        inputs.extend(seeds(target.name).unwrap());
        inputs.sort();
        for input in &inputs {
            check(target, "a seed", input);
        }
        let mut random = Random::new(1);
        for _ in 0..NOISE {
            let seed = inputs.get(below(&mut random, inputs.len())).map_or(&[][..], |seed| seed);
            check(target, "noise", &changed(seed, &mut random));
        }
    }
}
