//! The scenarios of the benchmark table, and the rounds that measure them.

use crate::RunOptions;
use crate::cpu;
use crate::error::{BenchError, io};
use crate::load::{self, FetchOptions, LatencyOptions, Measured, ProduceOptions, Spread, Target};
use crate::report::{Bar, Limit, Report, Sample};
use crate::servers::{Programs, Server, Subject, check_program, pause};
use crate::storage_scenarios::{
    CLEAN_SLOWLY, CLEAN_SOON, across_rolls, beside_catch_up, beside_compaction, beside_deletion,
    compact,
};
use crate::topics::leaders;
use platform::Clock;
use platform::clock::SystemClock;
use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Where brokers run, and where the load does.
const BROKER_CORE: usize = 0;
const CLIENT_CORE: usize = 1;

/// Figures of one measurement by name, such as `requests/s`.
pub(crate) type Figures = BTreeMap<&'static str, f64>;

/// One scenario: a name, what it does, the load, and what is demanded.
struct Scenario {
    name: &'static str,
    what: &'static str,
    /// Broker settings beyond the defaults.
    settings: &'static [&'static str],
    /// Whether the null broker is measured too, for the client's own limit.
    null: bool,
    load: Load,
    /// What is demanded of our median.
    bars: &'static [Bar],
}

enum Load {
    /// Each subject runs through all rounds, on a core of its own; the number is the round.
    Steady(fn(&Server, &RunOptions, usize) -> Result<Figures, BenchError>),
    /// Started anew for each measurement, on whatever core is free. The time is when it was started.
    Fresh(fn(&Server, &RunOptions, &SystemClock) -> Result<Figures, BenchError>),
}

const LATENCY_BARS: &[Bar] =
    &[cost("p50 us", 1.0 / 2.0), cost("p99 us", 1.0 / 4.0), cost("p99.9 us", 1.0 / 10.0)];

/// At least `ratio` times Kafka's, or 90 % of what the client does with the null broker.
const fn rate(figure: &'static str, ratio: f64) -> Bar {
    Bar { figure, limit: Limit::RatioFrom(ratio) }
}

/// At most `ratio` times Kafka's.
const fn cost(figure: &'static str, ratio: f64) -> Bar {
    Bar { figure, limit: Limit::RatioTo(ratio) }
}

/// At most `value`, whatever Kafka's is.
const fn at_most(figure: &'static str, value: f64) -> Bar {
    Bar { figure, limit: Limit::UpTo(value) }
}

const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "s1-16k",
        what: "one producer, 100 B records, batches of 16 KiB, 1 partition",
        settings: &[],
        null: true,
        load: Load::Steady(|s, o, n| produce(s, o, n, 1, 5, 140, "none")),
        bars: &[rate("MB/s", 1.3), cost("CPU ms/MB", 1.0 / 3.0)],
    },
    Scenario {
        name: "s1-128k",
        what: "one producer, 100 B records, batches of 128 KiB, 1 partition",
        settings: &[],
        null: true,
        load: Load::Steady(|s, o, n| produce(s, o, n, 1, 5, 1130, "none")),
        bars: &[rate("MB/s", 1.3), cost("CPU ms/MB", 1.0 / 3.0)],
    },
    Scenario {
        name: "s1-librdkafka",
        what: "librdkafka (kcat), 100 B lines, batches up to 128 KiB, linger 5 ms",
        settings: &[],
        null: true,
        load: Load::Steady(kcat_produce),
        bars: &[rate("records/s", 1.3), cost("CPU ms/MB", 1.0 / 3.0)],
    },
    Scenario {
        name: "s5-1",
        what: "catch-up from page cache, 1 consumer",
        settings: &[],
        null: true,
        load: Load::Steady(|s, o, n| catch_up(s, o, n, 1)),
        bars: &[rate("MB/s", 1.2), cost("CPU ms/MB", 1.0 / 3.0)],
    },
    Scenario {
        name: "s5-10",
        what: "catch-up from page cache, 10 consumers",
        settings: &[],
        null: true,
        load: Load::Steady(|s, o, n| catch_up(s, o, n, 10)),
        bars: &[rate("MB/s", 1.2), cost("CPU ms/MB", 1.0 / 3.0)],
    },
    Scenario {
        name: "s6-acks1",
        what: "end to end, 10,000 records/s of 100 B, open loop, acks=1",
        settings: &[],
        null: false,
        load: Load::Steady(|s, o, n| end_to_end(s, o, n, 1)),
        bars: LATENCY_BARS,
    },
    Scenario {
        name: "s6-acksall",
        what: "end to end, 10,000 records/s of 100 B, open loop, acks=all",
        settings: &[],
        null: false,
        load: Load::Steady(|s, o, n| end_to_end(s, o, n, -1)),
        bars: LATENCY_BARS,
    },
    Scenario {
        name: "s7-1",
        what: "one record a request, 1 connection x 5 in flight",
        settings: &[],
        null: true,
        load: Load::Steady(|s, o, n| produce(s, o, n, 1, 5, 1, "none")),
        bars: &[rate("requests/s", 4.0), cost("CPU us/request", 1.0 / 4.0)],
    },
    Scenario {
        name: "s7-10",
        what: "one record a request, 10 connections x 5 in flight",
        settings: &[],
        null: true,
        load: Load::Steady(|s, o, n| produce(s, o, n, 10, 5, 1, "none")),
        bars: &[rate("requests/s", 4.0), cost("CPU us/request", 1.0 / 8.0)],
    },
    Scenario {
        name: "s7-100",
        what: "one record a request, 100 connections x 5 in flight",
        settings: &[],
        null: true,
        load: Load::Steady(|s, o, n| produce(s, o, n, 100, 5, 1, "none")),
        bars: &[rate("requests/s", 4.0), cost("CPU us/request", 1.0 / 8.0)],
    },
    Scenario {
        name: "s9",
        what: "start to first acknowledged record; idle memory and CPU",
        settings: &[],
        null: false,
        load: Load::Fresh(idle),
        bars: &[
            cost("start to first ack ms", 1.0 / 30.0),
            at_most("idle RSS MB", 20.0),
            at_most("idle CPU %", 0.2),
        ],
    },
    Scenario {
        name: "s12-lz4",
        what: "batches of 1,000 x 100 B compressed with lz4, codec kept, full validation",
        settings: &[],
        null: false,
        load: Load::Steady(|s, o, n| produce(s, o, n, 1, 5, 1000, "lz4")),
        bars: &[cost("CPU ms/MB", 1.0 / 2.0)],
    },
    Scenario {
        name: "s12-zstd",
        what: "batches of 1,000 x 100 B compressed with zstd, codec kept, full validation",
        settings: &[],
        null: false,
        load: Load::Steady(|s, o, n| produce(s, o, n, 1, 5, 1000, "zstd")),
        bars: &[cost("CPU ms/MB", 1.0 / 2.0)],
    },
    Scenario {
        name: "s12-headers",
        what: "as s12-lz4 with barnabas.record.validation=headers",
        settings: &["barnabas.record.validation=headers"],
        null: false,
        load: Load::Steady(|s, o, n| produce(s, o, n, 1, 5, 1000, "lz4")),
        bars: &[cost("CPU ms/MB", 1.0 / 5.0)],
    },
    Scenario {
        name: "s11-none",
        what: "compaction of 2 GB with 1,000,000 keys, records of 1,000 B, on one core",
        settings: CLEAN_SOON,
        null: false,
        load: Load::Steady(|s, o, n| compact(s, o, n, "none")),
        bars: &[rate("MB/s", 4.0)],
    },
    Scenario {
        name: "s11-lz4",
        what: "as s11-none, compressed with lz4",
        settings: CLEAN_SOON,
        null: false,
        load: Load::Steady(|s, o, n| compact(s, o, n, "lz4")),
        bars: &[rate("MB/s", 4.0)],
    },
    Scenario {
        name: "s11-beside",
        what: "5,000 records/s of 1,000 B, open loop, beside compaction at 40 MB/s",
        settings: CLEAN_SLOWLY,
        null: false,
        load: Load::Steady(beside_compaction),
        bars: &[at_most("p99 times", 1.25)],
    },
    Scenario {
        name: "rolls",
        what: "5,000 records/s of 1,000 B, open loop, in segments of 1 MiB beside one of 1 GiB",
        settings: &[],
        null: false,
        load: Load::Steady(across_rolls),
        bars: &[at_most("p99 times", 1.5)],
    },
    Scenario {
        name: "deletion",
        what: "5,000 records/s of 1,000 B, open loop, while 10 GB are deleted",
        settings: &[],
        null: false,
        load: Load::Steady(beside_deletion),
        bars: &[at_most("p99 times", 1.5)],
    },
    Scenario {
        name: "catch-up",
        what: "5,000 records/s of 1,000 B, open loop, beside a consumer of 10 GB from the disk",
        settings: &[],
        null: false,
        load: Load::Steady(beside_catch_up),
        bars: &[at_most("p99.9 times", 2.0), cost("p99.9 us", 1.0 / 5.0)],
    },
    Scenario {
        name: "s14-1",
        what: "flush.messages=1: one record a request, 10 connections x 5 in flight, 1 partition",
        settings: &[],
        null: false,
        load: Load::Steady(|s, o, n| produce_flushed(s, o, n, 1, Spread::Own)),
        bars: &[rate("requests/s", 5.0)],
    },
    Scenario {
        name: "s14-100",
        what: "flush.messages=1: 10 connections x 5 in flight, 100 partitions, one record for each in every request",
        settings: &[],
        null: false,
        load: Load::Steady(|s, o, n| produce_flushed(s, o, n, 100, Spread::All)),
        bars: &[rate("requests/s", 20.0)],
    },
    Scenario {
        name: "s14-100-in-turn",
        what: "flush.messages=1: 10 connections x 5 in flight, 100 partitions in turn, one record a request",
        settings: &[],
        null: false,
        load: Load::Steady(|s, o, n| produce_flushed(s, o, n, 100, Spread::InTurn)),
        bars: &[],
    },
];

/// Measures the scenarios asked for and writes the report.
pub(crate) fn run(options: &RunOptions) -> Result<(), BenchError> {
    check_program(&options.binary, "build it with `cargo build --release`")?;
    check_program(&options.peer, "run from the root of the project")?;
    let programs = Programs {
        barnabas: options.binary.clone(),
        peer: options.peer.clone(),
        kafka_version: options.against.clone(),
    };
    let chosen: Vec<_> = SCENARIOS
        .iter()
        .filter(|s| {
            options.scenarios.is_empty()
                || options
                    .scenarios
                    .iter()
                    .any(|name| s.name == name || s.name.starts_with(&format!("{name}-")))
        })
        .collect();
    if chosen.is_empty() {
        let names: Vec<_> = SCENARIOS.iter().map(|s| s.name).collect();
        return Err(BenchError::Usage(format!("no such scenario; there are {}", names.join(", "))));
    }
    let mut report = Report::open(&options.out)?;
    let mut kafka = None;
    for scenario in chosen {
        eprintln!("{}: {}", scenario.name, scenario.what);
        report.begin(scenario.name, scenario.what, scenario.bars);
        match scenario.load {
            Load::Steady(load) => {
                let servers = start_pinned(scenario, &programs, options, &mut kafka)?;
                run_steady(scenario, load, &servers, options, &mut report)?;
                kafka = servers.into_iter().find(|server| server.subject == Subject::Kafka);
            }
            Load::Fresh(load) => run_fresh(scenario, load, &programs, options, &mut report)?,
        }
    }
    report.write()
}

/// The order of a round: who was last in one is first in the next.
fn subjects(options: &RunOptions, round: usize) -> Vec<Subject> {
    let mut subjects = vec![Subject::Barnabas];
    if !options.alone {
        subjects.push(Subject::Kafka);
    }
    if round.is_multiple_of(2) {
        subjects.reverse();
    }
    subjects
}

/// Starts the subjects of a scenario on the brokers' core. Apache Kafka is started once for all
/// scenarios with the same settings and loaded until its code is compiled.
fn start_pinned(
    scenario: &Scenario,
    programs: &Programs,
    options: &RunOptions,
    kafka: &mut Option<Server>,
) -> Result<Vec<Server>, BenchError> {
    let mut wanted = subjects(options, 1);
    if scenario.null {
        wanted.push(Subject::Null);
    }
    let mut servers = Vec::new();
    for subject in wanted {
        let is_meant = |server: &Server| {
            let kafkas = |settings: &[&'static str]| -> Vec<_> {
                settings.iter().copied().filter(|s| !s.starts_with("barnabas.")).collect()
            };
            subject == Subject::Kafka && kafkas(server.settings) == kafkas(scenario.settings)
        };
        let known = kafka.take_if(|server| is_meant(server));
        if subject == Subject::Kafka {
            // One with other settings ends.
            *kafka = None;
        }
        let is_new = known.is_none();
        let server = match known {
            Some(server) => server,
            None => {
                cpu::pin_self(BROKER_CORE);
                let server = Server::start(subject, programs, scenario.settings);
                cpu::pin_self(CLIENT_CORE);
                server?
            }
        };
        if is_new && subject == Subject::Kafka {
            warm_up(&server, options)?;
        }
        servers.push(server);
    }
    Ok(servers)
}

fn warm_up(server: &Server, options: &RunOptions) -> Result<(), BenchError> {
    let mut produce = ProduceOptions {
        target: Target::new(server.address, new_topic()),
        connections: 10,
        in_flight: 5,
        record_bytes: 100,
        spread: Spread::Own,
        records: 10,
        codec: "none".into(),
        seconds: options.warm_up / 2.0,
        megabytes: u64::MAX,
        acks: 1,
    };
    load::produce(&produce)?;
    (produce.records, produce.connections) = (140, 1);
    load::produce(&produce)?;
    server.delete_topic(&produce.target.topic)
}

/// A name that was not used before in this run.
pub(crate) fn new_topic() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("bench-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

fn run_steady(
    scenario: &Scenario,
    load: fn(&Server, &RunOptions, usize) -> Result<Figures, BenchError>,
    servers: &[Server],
    options: &RunOptions,
    report: &mut Report,
) -> Result<(), BenchError> {
    for round in 1..=options.rounds.max(options.max_rounds) {
        let mut order = subjects(options, round);
        // The client's limit does not change.
        order.extend((scenario.null && round <= 2).then_some(Subject::Null));
        for subject in order {
            servers.iter().try_for_each(Server::wait_until_idle)?;
            let server = servers.iter().find(|server| server.subject == subject);
            let figures = load(server.expect("it was started"), options, round)?;
            eprintln!("  round {round} {:9} {}", subject.name(), line(&figures));
            report.add(Sample { scenario: scenario.name, subject, round, figures })?;
        }
        if round >= options.rounds && report.has_settled(scenario.name) {
            break;
        }
    }
    Ok(())
}

fn run_fresh(
    scenario: &Scenario,
    load: fn(&Server, &RunOptions, &SystemClock) -> Result<Figures, BenchError>,
    programs: &Programs,
    options: &RunOptions,
    report: &mut Report,
) -> Result<(), BenchError> {
    cpu::unpin_self();
    for round in 1..=options.rounds {
        for subject in subjects(options, round) {
            let (server, since_start) = Server::start_timed(subject, programs, scenario.settings)?;
            let figures = load(&server, options, &since_start)?;
            eprintln!("  round {round} {:9} {}", subject.name(), line(&figures));
            report.add(Sample { scenario: scenario.name, subject, round, figures })?;
        }
    }
    Ok(())
}

fn line(figures: &Figures) -> String {
    figures.iter().map(|(name, value)| format!("{name} {value:.2}")).collect::<Vec<_>>().join("  ")
}

/// Adds what the broker used during `work`.
pub(crate) fn with_cpu<T>(
    server: &Server,
    work: impl FnOnce() -> Result<T, BenchError>,
) -> Result<(T, Duration), BenchError> {
    let before = server.cpu_time()?;
    let measured = work()?;
    Ok((measured, server.cpu_time()?.saturating_sub(before)))
}

/// How long to load a broker before it is measured: at first a JVM compiles its code.
pub(crate) fn warm_up_seconds(server: &Server, options: &RunOptions, round: usize) -> f64 {
    let compiles = round == 1 && server.subject == Subject::Kafka;
    if compiles { options.warm_up / 5.0 } else { options.seconds / 4.0 }
}

fn produce(
    server: &Server,
    options: &RunOptions,
    round: usize,
    connections: usize,
    in_flight: usize,
    records: usize,
    codec: &str,
) -> Result<Figures, BenchError> {
    let mut produce = ProduceOptions {
        target: Target::new(server.address, new_topic()),
        connections,
        in_flight,
        record_bytes: 100,
        spread: Spread::Own,
        records,
        codec: codec.into(),
        seconds: warm_up_seconds(server, options, round),
        megabytes: MOST_MEGABYTES,
        acks: 1,
    };
    load::produce(&produce)?;
    server.delete_topic(&produce.target.topic)?;
    server.wait_until_idle()?;
    produce.target.topic = new_topic();
    produce.seconds = options.seconds;
    leaders(&produce.target)?;
    let (measured, used) = with_cpu(server, || load::produce(&produce))?;
    server.delete_topic(&produce.target.topic)?;
    let cpu_us = used.as_secs_f64() * 1e6;
    Ok(Figures::from([
        ("requests/s", measured.requests_per_second()),
        ("MB/s", measured.megabytes_per_second()),
        ("CPU us/request", cpu_us / measured.requests as f64),
        ("CPU ms/MB", cpu_us / 1e3 / measured.megabytes()),
        ("p50 us", measured.latency.quantile_us(0.5)),
        ("p99 us", measured.latency.quantile_us(0.99)),
        ("RSS MB", server.resident_bytes()? as f64 / 1e6),
    ]))
}

/// What is acknowledged is on the disk.
fn produce_flushed(
    server: &Server,
    options: &RunOptions,
    round: usize,
    partitions: i32,
    spread: Spread,
) -> Result<Figures, BenchError> {
    let topic = new_topic();
    let target = Target { partitions, flushed: true, ..Target::new(server.address, topic) };
    let mut produce = ProduceOptions {
        target,
        connections: 10,
        in_flight: 5,
        record_bytes: 100,
        spread,
        records: 1,
        codec: "none".into(),
        seconds: warm_up_seconds(server, options, round),
        megabytes: MOST_MEGABYTES,
        acks: -1,
    };
    load::produce(&produce)?;
    produce.seconds = options.seconds;
    let (measured, used) = with_cpu(server, || load::produce(&produce))?;
    server.delete_topic(&produce.target.topic)?;
    Ok(Figures::from([
        ("requests/s", measured.requests_per_second()),
        ("CPU us/request", used.as_secs_f64() * 1e6 / measured.requests as f64),
        ("p50 us", measured.latency.quantile_us(0.5)),
        ("p99 us", measured.latency.quantile_us(0.99)),
    ]))
}

/// Less than what makes the kernel slow writers down (`vm.dirty_ratio`).
const MOST_MEGABYTES: u64 = 3_000;

const LINES: usize = 3_000_000;

fn kcat_produce(
    server: &Server,
    options: &RunOptions,
    round: usize,
) -> Result<Figures, BenchError> {
    let topic = new_topic();
    leaders(&Target::new(server.address, topic.clone()))?;
    let input = options.out.join("lines.txt");
    if !input.exists() {
        let mut file = std::io::BufWriter::new(
            std::fs::File::create(&input).map_err(io(input.display().to_string()))?,
        );
        for line in 0..LINES {
            writeln!(file, "{line:010} {:088}", line * 7919).map_err(io("lines"))?;
        }
    }
    let once = || -> Result<Measured, BenchError> {
        let clock = SystemClock::new();
        let status = Command::new("kcat")
            .args(["-P", "-b", &server.address.to_string(), "-t", &topic, "-p", "0", "-l"])
            .arg(&input)
            .args(["-X", "linger.ms=5", "-X", "batch.size=131072", "-X", "acks=1"])
            .args(["-X", "queue.buffering.max.messages=1000000"])
            .stdout(Stdio::null())
            .status()
            .map_err(io("kcat"))?;
        if !status.success() {
            return Err(BenchError::Protocol("kcat could not produce".into()));
        }
        Ok(Measured {
            requests: LINES as u64,
            bytes: LINES as u64 * 99,
            elapsed: clock.now().0,
            ..Measured::default()
        })
    };
    if round == 1 {
        once()?;
    }
    let (measured, used) = with_cpu(server, once)?;
    server.delete_topic(&topic)?;
    Ok(Figures::from([
        ("records/s", measured.requests_per_second()),
        ("MB/s", measured.megabytes_per_second()),
        ("CPU ms/MB", used.as_secs_f64() * 1e3 / measured.megabytes()),
    ]))
}

fn catch_up(
    server: &Server,
    options: &RunOptions,
    round: usize,
    consumers: usize,
) -> Result<Figures, BenchError> {
    let produce = ProduceOptions {
        target: Target::new(server.address, format!("catch-up-{consumers}")),
        connections: 1,
        in_flight: 5,
        record_bytes: 1000,
        spread: Spread::Own,
        records: 250,
        codec: "none".into(),
        seconds: 60.0,
        megabytes: 1_000,
        acks: 1,
    };
    if round == 1 && server.subject != Subject::Null {
        load::produce(&produce)?;
    }
    let mut fetch = FetchOptions {
        target: Target::new(server.address, format!("catch-up-{consumers}")),
        connections: consumers,
        fetch_bytes: 1 << 20,
        seconds: warm_up_seconds(server, options, round),
    };
    load::fetch(&fetch)?;
    fetch.seconds = options.seconds;
    let (measured, used) = with_cpu(server, || load::fetch(&fetch))?;
    Ok(Figures::from([
        ("MB/s", measured.megabytes_per_second()),
        ("CPU ms/MB", used.as_secs_f64() * 1e3 / measured.megabytes()),
        ("RSS MB", server.resident_bytes()? as f64 / 1e6),
    ]))
}

/// Whole seconds.
pub(crate) fn seconds(seconds: f64) -> u64 {
    Duration::from_secs_f64(seconds.ceil()).as_secs()
}

fn end_to_end(
    server: &Server,
    options: &RunOptions,
    round: usize,
    acks: i16,
) -> Result<Figures, BenchError> {
    let mut latency = LatencyOptions {
        target: Target::new(server.address, new_topic()),
        rate: 10_000,
        record_bytes: 100,
        seconds: seconds(warm_up_seconds(server, options, round)),
        acks,
    };
    load::latency(&latency)?;
    latency.target.topic = new_topic();
    latency.seconds = seconds(options.seconds);
    let (measured, used) = with_cpu(server, || load::latency(&latency))?;
    Ok(Figures::from([
        ("p50 us", measured.latency.quantile_us(0.5)),
        ("p99 us", measured.latency.quantile_us(0.99)),
        ("p99.9 us", measured.latency.quantile_us(0.999)),
        ("CPU us/record", used.as_secs_f64() * 1e6 / measured.latency.count() as f64),
    ]))
}

fn idle(
    server: &Server,
    options: &RunOptions,
    since_start: &SystemClock,
) -> Result<Figures, BenchError> {
    let first = ProduceOptions {
        target: Target::new(server.address, "first".into()),
        connections: 1,
        in_flight: 1,
        record_bytes: 100,
        spread: Spread::Own,
        records: 1,
        codec: "none".into(),
        seconds: 0.0,
        megabytes: 1,
        acks: 1,
    };
    load::produce_one(&first)?;
    let first_ack = since_start.now();
    pause(Duration::from_secs(1));
    let (clock, before) = (SystemClock::new(), server.cpu_time()?);
    pause(Duration::from_secs_f64(options.seconds));
    let used = server.cpu_time()?.saturating_sub(before);
    Ok(Figures::from([
        ("start to first ack ms", first_ack.0.as_secs_f64() * 1e3),
        ("idle RSS MB", server.resident_bytes()? as f64 / 1e6),
        ("idle CPU %", used.as_secs_f64() * 100.0 / clock.now().0.as_secs_f64()),
    ]))
}
