//! `cargo xtask differential`: the same bytes to Apache Kafka and to us, answers compared field by field.
//!
//! ```text
//! cases/*.txt -> cases   every case in every version that both serve
//!             -> side    one broker: sends, receives, keeps what later steps need (tree, records)
//!             -> normal  what differs from cluster to cluster, replaced by what it is
//!             -> compare field by field; allowed.txt says what may differ and why
//! plants                 spoils our answers to see that the comparison notices
//! ```
//!
//! # Non-obvious
//! - Both brokers see every case in the same order, so both are in the same state; a first difference
//!   in a suite may cause the ones after it.
//! - Kafka's answers can be recorded and compared again without a JVM, also with Kafka's own.

#![expect(clippy::wildcard_enum_match_arm, reason = "of JSON's kinds one or two matter at a time")]

mod cases;
mod compare;
mod frames;
mod normal;
mod plants;
mod records;
mod servers;
mod side;
mod started;
mod tree;

use cases::{Case, Suite};
use clap::{Parser, ValueEnum};
use compare::{Allowances, Difference, differences};
use protocol::ApiKey;
use serde_json::{Value, json};
use servers::Server;
use side::Side;
use std::collections::BTreeMap;
use std::io::Write;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc;

/// Sends the same requests to Apache Kafka and to Barnabas and compares the answers.
#[derive(Parser)]
#[command(name = "cargo xtask differential")]
struct Options {
    /// Release of Apache Kafka: 3.9.2 on ZooKeeper, or 4.4.0 for the versions that 3.9 lacks.
    #[arg(long, default_value = "3.9.2")]
    against: String,
    /// Only cases whose name contains this.
    #[arg(long)]
    case: Option<String>,
    /// Only cases of this API.
    #[arg(long)]
    api: Option<String>,
    /// Print the cases' names and do nothing.
    #[arg(long)]
    list: bool,
    /// Spoil our answers, to see that each fault is found.
    #[arg(long)]
    plants: bool,
    /// Keep Kafka's answers in the output folder.
    #[arg(long)]
    record: bool,
    /// Whose answers are right.
    #[arg(long, default_value = "kafka")]
    theirs: Source,
    /// Whose answers are judged.
    #[arg(long, default_value = "barnabas")]
    ours: Source,
    /// Read frames as hex, or JSON to write, from standard input, and print the other; nothing is started.
    #[arg(long)]
    frames: bool,
    /// Say what both answered to each case.
    #[arg(long)]
    verbose: bool,
    /// The broker to judge.
    #[arg(long, default_value = "target/ci/barnabas")]
    binary: PathBuf,
    /// The script that starts Apache Kafka.
    #[arg(long, default_value = "tools/kafka-peer")]
    peer: PathBuf,
    /// Folder of cases and of `allowed.txt`.
    #[arg(long, default_value = "crates/oracle")]
    folder: PathBuf,
    /// First of the ports that the brokers take.
    #[arg(long, default_value_t = 21800)]
    port: u16,
}

/// Where answers come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Source {
    Kafka,
    Barnabas,
    /// What `--record` kept.
    Recorded,
    /// Nobody, to record only.
    Nobody,
}

const OUT: &str = "target/differential";

fn main() -> ExitCode {
    let options = Options::parse();
    if options.frames {
        return match frames::answer(std::io::stdin().lock(), std::io::stdout().lock()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("error: {error}");
                ExitCode::from(2)
            }
        };
    }
    let result = started::end_on_signals()
        .map_err(|error| format!("signals: {error}"))
        .and_then(|()| run(&options));
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

/// Someone who answers.
enum Answers {
    Live { side: Box<Side>, _server: Server },
    Recorded(BTreeMap<String, Vec<Value>>),
    Nobody,
}

impl Answers {
    fn open(source: Source, options: &Options, port: u16) -> Result<Self, String> {
        let server = match source {
            Source::Barnabas => Server::ours(&options.binary, port)?,
            Source::Kafka => Server::kafka(&options.peer, &options.against, port)?,
            Source::Recorded => return read_recording(options).map(Self::Recorded),
            Source::Nobody => return Ok(Self::Nobody),
        };
        let side = Side::new(server.address, &server.folder.display().to_string());
        Ok(Self::Live { side: Box::new(side), _server: server })
    }

    fn served(&mut self, against: &str) -> Result<BTreeMap<ApiKey, (i16, i16)>, String> {
        match self {
            Self::Live { side, .. } => {
                let served = side.served()?;
                side.settle()?;
                // Kafka 4 has no such controllers.
                if served.contains_key(&ApiKey::StopReplica) && against.starts_with("3.") {
                    side.learn_epochs()?;
                }
                Ok(served)
            }
            Self::Recorded(recording) => {
                let rows = recording.get("served").ok_or("the recording lacks what is served")?;
                let row = |row: &Value| {
                    let number = |at: usize| row[at].as_i64().and_then(|n| i16::try_from(n).ok());
                    Some((ApiKey::from_code(number(0)?)?, (number(1)?, number(2)?)))
                };
                Ok(rows.iter().filter_map(row).collect())
            }
            Self::Nobody => {
                let all = ApiKey::ALL.into_iter();
                Ok(all.map(|key| (key, (*key.versions().start(), key.stable()))).collect())
            }
        }
    }

    /// What it shows in a case: as read, if live, and in normal form.
    fn run(&mut self, case: &Case) -> Result<(Vec<Value>, Vec<Value>), String> {
        match self {
            Self::Live { side, .. } => {
                let seen = side.run(case)?;
                let normal = side.names.normal(&seen);
                Ok((seen, normal))
            }
            Self::Recorded(recording) => {
                let missing = || vec![json!({ "not recorded": true })];
                let seen = recording.get(&case.name).cloned().unwrap_or_else(missing);
                Ok((seen.clone(), seen))
            }
            Self::Nobody => Ok((Vec::new(), Vec::new())),
        }
    }

    fn normal(&self, seen: &[Value]) -> Vec<Value> {
        match self {
            Self::Live { side, .. } => side.names.normal(seen),
            Self::Recorded(_) | Self::Nobody => normal::Names::new(1, "?").normal(seen),
        }
    }
}

fn recording_path(options: &Options) -> PathBuf {
    PathBuf::from(format!("{OUT}/kafka-{}.jsonl", options.against))
}

fn read_recording(options: &Options) -> Result<BTreeMap<String, Vec<Value>>, String> {
    let path = recording_path(options);
    let text = std::fs::read_to_string(&path)
        .map_err(|error| format!("{}: {error}; run with --record first", path.display()))?;
    text.lines()
        .map(|line| {
            serde_json::from_str::<(String, Vec<Value>)>(line).map_err(|error| error.to_string())
        })
        .collect()
}

/// The versions to compare: what both serve; against 4.x only those that 3.9 lacks.
fn versions(
    theirs: &BTreeMap<ApiKey, (i16, i16)>,
    ours: &BTreeMap<ApiKey, (i16, i16)>,
    against: &str,
) -> BTreeMap<ApiKey, RangeInclusive<i16>> {
    let mut versions = BTreeMap::new();
    for (&key, &(low, high)) in ours {
        let Some(&(their_low, their_high)) = theirs.get(&key) else { continue };
        let mut low = low.max(their_low);
        if !against.starts_with("3.")
            && let Some((_, newest)) = NEWEST_OF_3_9.iter().find(|(api, _)| *api == key)
        {
            low = low.max(newest + 1);
        }
        if low <= high.min(their_high) {
            versions.insert(key, low..=high.min(their_high));
        }
    }
    versions
}

/// What 3.9.2 serves on ZooKeeper, of what 4.4 serves in newer versions.
const NEWEST_OF_3_9: &[(ApiKey, i16)] = &[
    (ApiKey::Produce, 11),
    (ApiKey::Fetch, 17),
    (ApiKey::ListOffsets, 9),
    (ApiKey::Metadata, 12),
    (ApiKey::OffsetCommit, 9),
    (ApiKey::OffsetFetch, 9),
    (ApiKey::FindCoordinator, 6),
    (ApiKey::JoinGroup, 9),
    (ApiKey::Heartbeat, 4),
    (ApiKey::LeaveGroup, 5),
    (ApiKey::SyncGroup, 5),
    (ApiKey::DescribeGroups, 5),
    (ApiKey::ListGroups, 5),
    (ApiKey::ApiVersions, 4),
    (ApiKey::CreateTopics, 7),
    (ApiKey::DeleteTopics, 6),
    (ApiKey::DeleteRecords, 2),
    (ApiKey::InitProducerId, 5),
    (ApiKey::OffsetForLeaderEpoch, 4),
    (ApiKey::DescribeConfigs, 4),
    (ApiKey::AlterConfigs, 2),
    (ApiKey::AlterReplicaLogDirs, 2),
    (ApiKey::DescribeLogDirs, 4),
    (ApiKey::CreatePartitions, 3),
    (ApiKey::DeleteGroups, 2),
    (ApiKey::ElectLeaders, 2),
    (ApiKey::IncrementalAlterConfigs, 1),
    (ApiKey::AlterPartitionReassignments, 0),
    (ApiKey::ListPartitionReassignments, 0),
    (ApiKey::OffsetDelete, 0),
    (ApiKey::DescribeCluster, 1),
    (ApiKey::DescribeProducers, 0),
];

fn run(options: &Options) -> Result<bool, String> {
    std::fs::create_dir_all(OUT).map_err(|error| format!("{OUT}: {error}"))?;
    let suites = cases::read(&options.folder.join("cases"))?;
    let allowed_path = options.folder.join(match options.against.starts_with("3.") {
        true => "allowed.txt",
        false => "allowed-4.txt",
    });
    let text = std::fs::read_to_string(&allowed_path)
        .map_err(|error| format!("{}: {error}", allowed_path.display()))?;
    let allowances = Allowances::parse(&text)?;
    if options.list {
        let all = ApiKey::ALL.into_iter().map(|key| (key, 0..=key.stable())).collect();
        for case in chosen(&suites, &all, options) {
            println!("{}", case.name);
            if options.verbose {
                case.steps.iter().for_each(|step| println!("  {step}"));
            }
        }
        return Ok(true);
    }
    let mut ours = Answers::open(options.ours, options, options.port)?;
    let mut theirs = Answers::open(options.theirs, options, options.port + 10)?;
    let (they_serve, we_serve) = (theirs.served(&options.against)?, ours.served(&options.against)?);
    let served = versions(&they_serve, &we_serve, &options.against);
    let cases = chosen(&suites, &served, options);
    let mut report = Report::new(options, allowances, &they_serve)?;
    let (send, receive) = mpsc::sync_channel(256);
    std::thread::scope(|scope| {
        // Goes away with this closure: if our side fails, nobody waits for room in the channel.
        let receive = receive;
        let theirs_cases = &cases;
        scope.spawn(move || {
            for case in theirs_cases {
                let answer = theirs.run(case);
                // Nobody listens any more if our side has failed.
                if send.send(answer).is_err() {
                    break;
                }
            }
        });
        for (at, case) in cases.iter().enumerate() {
            if at % 1000 == 0 {
                eprintln!("{at} of {} cases", cases.len());
            }
            let (seen, our_answer) = ours.run(case)?;
            let (_, their_answer) = receive.recv().map_err(|error| error.to_string())??;
            let our_answer = match ours {
                Answers::Nobody => their_answer.clone(),
                Answers::Live { .. } | Answers::Recorded(_) => our_answer,
            };
            if !compares(case, &options.against) {
                report.keep(case, &their_answer)?;
                continue;
            }
            let passed = report.case(case, &their_answer, &our_answer)?;
            if passed && options.plants {
                report.plant(&ours, case, &seen, &their_answer);
            }
        }
        Ok::<(), String>(())
    })?;
    report.finish(&cases)
}

/// Against 4.x only what counts for a newer version of an API: a setup's requests, and those that count for none, are
/// of versions that are compared with 3.9.
fn compares(case: &Case, against: &str) -> bool {
    case.api.is_some() || against.starts_with("3.")
}

/// The cases that were asked for, each suite's setup before its first.
fn chosen(
    suites: &[Suite],
    served: &BTreeMap<ApiKey, RangeInclusive<i16>>,
    options: &Options,
) -> Vec<Case> {
    let mut chosen = Vec::new();
    for suite in suites {
        let wanted = |case: &Case| {
            options.case.as_ref().is_none_or(|part| case.name.contains(part))
                && options.api.as_ref().is_none_or(|name| {
                    case.api.is_some_and(|(api, _)| api.name().eq_ignore_ascii_case(name))
                })
        };
        let is_compared = |case: &Case| wanted(case) && compares(case, &options.against);
        let cases: Vec<_> = suite.cases(served).into_iter().filter(is_compared).collect();
        if !cases.is_empty() {
            let name = format!("{}/setup", suite.name);
            chosen.push(Case { name, api: None, steps: suite.setup.clone() });
            chosen.extend(cases);
        }
    }
    chosen
}

struct Report<'o> {
    options: &'o Options,
    allowances: Allowances,
    results: std::io::BufWriter<std::fs::File>,
    recording: Option<std::io::BufWriter<std::fs::File>>,
    passed: usize,
    failed: usize,
    allowed: usize,
    /// By API and what differs: how often, in which versions, and the first case.
    found: BTreeMap<(String, Difference), (usize, Vec<i16>, String)>,
    planted: Vec<(usize, usize)>,
}

impl<'o> Report<'o> {
    fn new(
        options: &'o Options,
        allowances: Allowances,
        served: &BTreeMap<ApiKey, (i16, i16)>,
    ) -> Result<Self, String> {
        let create = |path: PathBuf| {
            let file = std::fs::File::create(&path);
            file.map(std::io::BufWriter::new)
                .map_err(|error| format!("{}: {error}", path.display()))
        };
        let mut recording = None;
        if options.record {
            let mut file = create(recording_path(options))?;
            let rows: Vec<_> =
                served.iter().map(|(key, (low, high))| json!([key.code(), low, high])).collect();
            line(&mut file, &json!(["served", rows]))?;
            recording = Some(file);
        }
        Ok(Self {
            options,
            allowances,
            results: create(PathBuf::from(OUT).join(match options.ours {
                Source::Nobody => "recorded.jsonl",
                Source::Kafka | Source::Barnabas | Source::Recorded => "results.jsonl",
            }))?,
            recording,
            passed: 0,
            failed: 0,
            allowed: 0,
            found: BTreeMap::new(),
            planted: vec![(0, 0); plants::PLANTS.len()],
        })
    }

    /// Records the answer, if recording.
    fn keep(&mut self, case: &Case, theirs: &[Value]) -> Result<(), String> {
        match &mut self.recording {
            Some(recording) => line(recording, &json!([case.name, theirs])),
            None => Ok(()),
        }
    }

    fn case(&mut self, case: &Case, theirs: &[Value], ours: &[Value]) -> Result<bool, String> {
        self.keep(case, theirs)?;
        if self.options.verbose {
            println!("{}", case.name);
            case.steps.iter().for_each(|step| println!("  {step}"));
            println!("  theirs {}", json!(theirs));
            println!("  ours   {}", json!(ours));
        }
        let api = case.api.map(|(api, version)| (api.name(), version));
        let all = differences(theirs, ours);
        let count = all.len();
        let unexplained: Vec<_> = all
            .into_iter()
            .filter(|difference| !self.allowances.allows(&case.name, api, difference))
            .collect();
        self.allowed += count - unexplained.len();
        let passed = unexplained.is_empty();
        line(
            &mut self.results,
            &json!({
                "case": case.name,
                "api": api.map(|(name, _)| name),
                "version": api.map(|(_, version)| version),
                "result": if passed { "pass" } else { "fail" },
                "allowed": count - unexplained.len(),
                "differences": unexplained.iter().map(ToString::to_string).collect::<Vec<_>>(),
            }),
        )?;
        match passed {
            true => self.passed += 1,
            false => self.failed += 1,
        }
        for mut difference in unexplained {
            difference.of.clear();
            let name = api.map_or_else(|| case.name.clone(), |(name, _)| name.to_owned());
            let entry = self.found.entry((name, difference));
            let (times, versions, _) = entry.or_insert_with(|| (0, Vec::new(), case.name.clone()));
            *times += 1;
            versions.extend(api.map(|(_, version)| version).filter(|v| !versions.contains(v)));
        }
        Ok(passed)
    }

    /// Spoils an answer that passed in each way in which that is possible.
    fn plant(&mut self, ours: &Answers, case: &Case, seen: &[Value], theirs: &[Value]) {
        let api = case.api.map(|(api, version)| (api.name(), version));
        // Where anything may differ, nothing can be found.
        let is_open = |d: &Difference| {
            self.allowances.find(&case.name, api, d).is_some_and(compare::Allowance::is_open)
        };
        if differences(theirs, &ours.normal(seen)).iter().any(is_open) {
            return;
        }
        for (plant, (planted, caught)) in plants::PLANTS.iter().zip(&mut self.planted) {
            let mut spoilt = seen.to_vec();
            if *planted < 100 && plant.apply(&mut spoilt) {
                *planted += 1;
                let found = differences(theirs, &ours.normal(&spoilt));
                let is_new = |d: &Difference| self.allowances.find(&case.name, api, d).is_none();
                let is_caught = found.iter().any(is_new);
                *caught += usize::from(is_caught);
                if !is_caught {
                    println!("not caught in {}: {}", case.name, plant.name);
                }
            }
        }
    }

    fn finish(mut self, cases: &[Case]) -> Result<bool, String> {
        self.results.flush().map_err(|error| error.to_string())?;
        if let Some(recording) = &mut self.recording {
            recording.flush().map_err(|error| error.to_string())?;
        }
        for ((api, difference), (times, versions, first)) in &self.found {
            println!("{api} v{versions:?} {difference} ({times} times, first in {first})");
        }
        let filtered = self.options.case.is_some() || self.options.api.is_some();
        let mut good = self.failed == 0;
        if !filtered && self.options.ours == Source::Barnabas {
            for unused in self.allowances.unused() {
                println!("allowance that nothing needs: {unused}");
                good = false;
            }
        }
        let mut counts: BTreeMap<(ApiKey, i16), usize> = BTreeMap::new();
        cases
            .iter()
            .filter_map(|case| case.api)
            .for_each(|api| *counts.entry(api).or_default() += 1);
        if !filtered {
            for ((api, version), count) in &counts {
                if *count < cases::PER_VERSION {
                    println!("{} v{version} has only {count} cases", api.name());
                }
            }
        }
        if self.options.plants {
            for (plant, (planted, caught)) in plants::PLANTS.iter().zip(&self.planted) {
                let fine = planted == caught && *planted > 0;
                good &= fine;
                let verdict = if fine { "caught" } else { "MISSED" };
                println!("{verdict} {caught} of {planted}: {}", plant.name);
            }
        }
        println!(
            "{} APIs in {} versions, {} differences allowed by {} allowances, results in \
             {OUT}/results.jsonl",
            counts.keys().map(|(api, _)| api).collect::<std::collections::BTreeSet<_>>().len(),
            counts.len(),
            self.allowed,
            self.allowances.len(),
        );
        println!("{} passed, {} failed", self.passed, self.failed);
        Ok(good)
    }
}

fn line(file: &mut impl Write, value: &Value) -> Result<(), String> {
    writeln!(file, "{value}").map_err(|error| error.to_string())
}
