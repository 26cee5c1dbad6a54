//! Kafka's own classes, of 3.9.2 and 4.4.0, read every message that we write in every version and write
//! the same bytes again.
//!
//! Needs Java and fetches Kafka's jars, so it only runs when asked to:
//! `cargo test -p oracle --features codecs --test kafka_classes -- --ignored`.

#![expect(clippy::unwrap_used, reason = "a test says so by panicking")]

mod kafka;

use bytes::Bytes;
use kafka::hex;
use protocol::arbitrary::{Arbitrary, Random};
use protocol::{Message, Writer};
use std::collections::BTreeSet;

const VALUES: u64 = 25;

/// Release, message, version and why its classes see it differently: early-access versions of 3.9 that
/// changed before they became stable.
const KNOWN: &[(&str, &str, i16)] = &[
    // Got `LeaderEpoch` in the same version.
    ("3.9.2", "ReadShareGroupStateSummaryResponse", 0),
    // Got `MetadataHash` in the same version.
    ("3.9.2", "ShareGroupMetadataValue", 0),
];

/// Our name, and the one that Kafka 3.9 had for it.
const RENAMED: &[(&str, &str)] = &[
    ("ListConfigResourcesRequest", "ListClientMetricsResourcesRequest"),
    ("ListConfigResourcesResponse", "ListClientMetricsResourcesResponse"),
];

struct Case {
    name: &'static str,
    version: i16,
    bytes: Bytes,
}

fn add<M: Message + Arbitrary>(cases: &mut Vec<Case>) {
    for version in M::VERSIONS {
        for seed in 0..VALUES {
            let message = match seed {
                0 => M::default(),
                seed => M::arbitrary(&mut Random::new(seed * 1000 + version as u64), version),
            };
            let mut writer = Writer::new();
            message.encode(&mut writer, version).unwrap();
            cases.push(Case { name: M::NAME, version, bytes: writer.flatten().unwrap() });
        }
    }
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    macro_rules! add_cases {
        ($name:ident, $message:ty) => {
            add::<$message>(&mut cases);
        };
    }
    protocol::for_each_message!(add_cases);
    cases
}

/// One answer per case.
fn rewrite(release: &str, cases: &[Case]) -> Vec<String> {
    let mut lines = String::new();
    for case in cases {
        let old = RENAMED.iter().find(|(new, _)| *new == case.name && release == "3.9.2");
        let name = old.map_or(case.name, |(_, old)| *old);
        lines.push_str(&format!("{name} {} {}\n", case.version, hex(&case.bytes)));
    }
    kafka::answers(release, &["Rewrite.java"], lines)
}

#[test]
#[ignore = "needs Java and Kafka's jars"]
fn kafka_reads_what_we_write_and_writes_it_again() {
    let cases = cases();
    let mut missing: BTreeSet<_> = cases.iter().map(|case| (case.name, case.version)).collect();
    let mut wrong = Vec::new();
    let mut known = BTreeSet::new();
    for release in ["3.9.2", "4.4.0"] {
        let answers = rewrite(release, &cases);
        assert_eq!(answers.len(), cases.len());
        for (case, answer) in cases.iter().zip(answers) {
            let Case { name, version, bytes } = case;
            if answer == "none" {
                continue;
            }
            missing.remove(&(*name, *version));
            if answer == format!("ok {}", hex(bytes)) {
                continue;
            }
            match KNOWN.iter().position(|known| *known == (release, *name, *version)) {
                Some(at) => drop(known.insert(at)),
                None => wrong.push(format!(
                    "{release} {name} v{version}\n  ours   {}\n  theirs {answer}",
                    hex(bytes)
                )),
            }
        }
    }
    let few: Vec<&String> = wrong.iter().take(5).collect();
    assert!(wrong.is_empty(), "{} differ, such as {few:#?}", wrong.len());
    assert_eq!(known.len(), KNOWN.len(), "a known difference is none any more");
    assert!(missing.is_empty(), "no release was asked about {missing:?}");
}
