//! The scenarios of the benchmark table, and the rounds that measure them.

use crate::RunOptions;
use crate::cpu;
use crate::error::{BenchError, io};
use crate::load::{self, FetchOptions, LatencyOptions, Measured, ProduceOptions};
use crate::report::{Report, Sample};
use crate::servers::{Programs, Server, Subject, check_program, pause};
use platform::Clock;
use platform::clock::SystemClock;
use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

/// One scenario: a name, what it does, and the load.
struct Scenario {
    name: &'static str,
    what: &'static str,
    /// Broker settings beyond the defaults.
    settings: &'static [&'static str],
    /// Whether the null broker is measured too, for the client's own limit.
    null: bool,
    load: fn(&Server, &RunOptions) -> Result<Figures, BenchError>,
}

/// Figures of one measurement by name, such as `requests/s`.
type Figures = BTreeMap<&'static str, f64>;

const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "s1-16k",
        what: "one producer, 100 B records, batches of 16 KiB, 1 partition",
        settings: &[],
        null: true,
        load: |s, o| produce(s, o, 1, 5, 140, "none"),
    },
    Scenario {
        name: "s1-128k",
        what: "one producer, 100 B records, batches of 128 KiB, 1 partition",
        settings: &[],
        null: true,
        load: |s, o| produce(s, o, 1, 5, 1130, "none"),
    },
    Scenario {
        name: "s1-librdkafka",
        what: "librdkafka (kcat), 100 B lines, batches up to 128 KiB, linger 5 ms",
        settings: &[],
        null: true,
        load: kcat_produce,
    },
    Scenario {
        name: "s5-1",
        what: "catch-up from page cache, 1 consumer",
        settings: &[],
        null: false,
        load: |s, o| catch_up(s, o, 1),
    },
    Scenario {
        name: "s5-10",
        what: "catch-up from page cache, 10 consumers",
        settings: &[],
        null: false,
        load: |s, o| catch_up(s, o, 10),
    },
    Scenario {
        name: "s6-acks1",
        what: "end to end, 10,000 records/s of 100 B, open loop, acks=1",
        settings: &[],
        null: false,
        load: |s, o| end_to_end(s, o, 1),
    },
    Scenario {
        name: "s6-acksall",
        what: "end to end, 10,000 records/s of 100 B, open loop, acks=all",
        settings: &[],
        null: false,
        load: |s, o| end_to_end(s, o, -1),
    },
    Scenario {
        name: "s7-1",
        what: "one record a request, 1 connection x 5 in flight",
        settings: &[],
        null: true,
        load: |s, o| produce(s, o, 1, 5, 1, "none"),
    },
    Scenario {
        name: "s7-10",
        what: "one record a request, 10 connections x 5 in flight",
        settings: &[],
        null: true,
        load: |s, o| produce(s, o, 10, 5, 1, "none"),
    },
    Scenario {
        name: "s7-100",
        what: "one record a request, 100 connections x 5 in flight",
        settings: &[],
        null: true,
        load: |s, o| produce(s, o, 100, 5, 1, "none"),
    },
    Scenario {
        name: "s9",
        what: "start to first acknowledged record; idle memory and CPU",
        settings: &[],
        null: false,
        load: idle,
    },
    Scenario {
        name: "s12-lz4",
        what: "batches of 1,000 x 100 B compressed with lz4, codec kept, full validation",
        settings: &[],
        null: false,
        load: |s, o| produce(s, o, 1, 5, 1000, "lz4"),
    },
    Scenario {
        name: "s12-zstd",
        what: "batches of 1,000 x 100 B compressed with zstd, codec kept, full validation",
        settings: &[],
        null: false,
        load: |s, o| produce(s, o, 1, 5, 1000, "zstd"),
    },
    Scenario {
        name: "s12-headers",
        what: "as s12-lz4 with barnabas.record.validation=headers",
        settings: &["barnabas.record.validation=headers"],
        null: false,
        load: |s, o| produce(s, o, 1, 5, 1000, "lz4"),
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
                || options.scenarios.iter().any(|name| s.name.starts_with(name.as_str()))
        })
        .collect();
    if chosen.is_empty() {
        let names: Vec<_> = SCENARIOS.iter().map(|s| s.name).collect();
        return Err(BenchError::Usage(format!("no such scenario; there are {}", names.join(", "))));
    }
    let mut report = Report::open(&options.out)?;
    for scenario in chosen {
        eprintln!("{}: {}", scenario.name, scenario.what);
        report.begin(scenario.name, scenario.what);
        let most = options.rounds * 3;
        for round in 1..=most {
            let mut subjects = vec![Subject::Barnabas];
            if !options.alone {
                subjects.push(Subject::Kafka);
            }
            if round % 2 == 0 {
                subjects.reverse();
            }
            if scenario.null && round <= 2 {
                subjects.push(Subject::Null);
            }
            for subject in subjects {
                let figures = measure(scenario, subject, &programs, options)?;
                eprintln!("  round {round} {:9} {}", subject.name(), line(&figures));
                report.add(Sample { scenario: scenario.name, subject, round, figures })?;
            }
            if round >= options.rounds && report.has_settled(scenario.name) {
                break;
            }
        }
    }
    report.write()
}

fn line(figures: &Figures) -> String {
    figures.iter().map(|(name, value)| format!("{name} {value:.2}")).collect::<Vec<_>>().join("  ")
}

fn measure(
    scenario: &Scenario,
    subject: Subject,
    programs: &Programs,
    options: &RunOptions,
) -> Result<Figures, BenchError> {
    let clock = SystemClock::new();
    let server = Server::start(subject, programs, scenario.settings)?;
    let started = clock.now();
    let mut figures = (scenario.load)(&server, options)?;
    if scenario.name == "s9" {
        let first = figures.remove("first ack ms").unwrap_or(0.0);
        figures.insert("start to first ack ms", started.0.as_secs_f64() * 1e3 + first);
    }
    Ok(figures)
}

/// Broker on core 0, load on core 1, for the length of `work`; adds what the broker used.
fn with_cpu(
    server: &Server,
    work: impl FnOnce() -> Result<Measured, BenchError>,
) -> Result<(Measured, Duration), BenchError> {
    cpu::pin(server.pid, 0);
    cpu::pin(std::process::id(), 1);
    let before = server.cpu_time()?;
    let measured = work()?;
    Ok((measured, server.cpu_time()?.saturating_sub(before)))
}

fn produce(
    server: &Server,
    options: &RunOptions,
    connections: usize,
    in_flight: usize,
    records: usize,
    codec: &str,
) -> Result<Figures, BenchError> {
    let mut produce = ProduceOptions {
        address: server.address,
        topic: "bench".into(),
        connections,
        in_flight,
        record_bytes: 100,
        records,
        codec: codec.into(),
        seconds: options.seconds.div_ceil(2),
        acks: 1,
    };
    // A JVM needs this; it costs the other nothing.
    load::produce(&produce)?;
    produce.seconds = options.seconds;
    let (measured, used) = with_cpu(server, || load::produce(&produce))?;
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

const LINES: usize = 5_000_000;

fn kcat_produce(server: &Server, options: &RunOptions) -> Result<Figures, BenchError> {
    load::create_topic(server.address, "bench")?;
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
            .args(["-P", "-b", &server.address.to_string(), "-t", "bench", "-p", "0", "-l"])
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
    let (measured, used) = with_cpu(server, once)?;
    Ok(Figures::from([
        ("records/s", measured.requests_per_second()),
        ("MB/s", measured.megabytes_per_second()),
        ("CPU ms/MB", used.as_secs_f64() * 1e3 / measured.megabytes()),
    ]))
}

fn catch_up(
    server: &Server,
    options: &RunOptions,
    consumers: usize,
) -> Result<Figures, BenchError> {
    let produce = ProduceOptions {
        address: server.address,
        topic: "bench".into(),
        connections: 1,
        in_flight: 5,
        record_bytes: 1000,
        records: 250,
        codec: "none".into(),
        seconds: options.seconds.min(4),
        acks: 1,
    };
    load::produce(&produce)?;
    let fetch = FetchOptions {
        address: server.address,
        topic: "bench".into(),
        connections: consumers,
        fetch_bytes: 1 << 20,
    };
    load::fetch(&FetchOptions { connections: 1, ..fetch.clone() })?;
    let (measured, used) = with_cpu(server, || load::fetch(&fetch))?;
    Ok(Figures::from([
        ("MB/s", measured.megabytes_per_second()),
        ("CPU ms/MB", used.as_secs_f64() * 1e3 / measured.megabytes()),
        ("RSS MB", server.resident_bytes()? as f64 / 1e6),
    ]))
}

fn end_to_end(server: &Server, options: &RunOptions, acks: i16) -> Result<Figures, BenchError> {
    let mut latency = LatencyOptions {
        address: server.address,
        topic: "warm".into(),
        rate: 10_000,
        record_bytes: 100,
        seconds: options.seconds.max(5),
        acks,
    };
    load::latency(&latency)?;
    latency.topic = "latency".into();
    latency.seconds = options.seconds;
    let (measured, used) = with_cpu(server, || load::latency(&latency))?;
    Ok(Figures::from([
        ("p50 us", measured.latency.quantile_us(0.5)),
        ("p99 us", measured.latency.quantile_us(0.99)),
        ("p99.9 us", measured.latency.quantile_us(0.999)),
        ("CPU us/record", used.as_secs_f64() * 1e6 / measured.latency.count() as f64),
    ]))
}

fn idle(server: &Server, options: &RunOptions) -> Result<Figures, BenchError> {
    let clock = SystemClock::new();
    let first = ProduceOptions {
        address: server.address,
        topic: "first".into(),
        connections: 1,
        in_flight: 1,
        record_bytes: 100,
        records: 1,
        codec: "none".into(),
        seconds: 0,
        acks: 1,
    };
    load::produce_one(&first)?;
    let first_ack = clock.now();
    pause(Duration::from_secs(2));
    let before = server.cpu_time()?;
    pause(Duration::from_secs(options.seconds));
    let used = server.cpu_time()?.saturating_sub(before);
    Ok(Figures::from([
        ("first ack ms", first_ack.0.as_secs_f64() * 1e3),
        ("idle RSS MB", server.resident_bytes()? as f64 / 1e6),
        ("idle CPU %", used.as_secs_f64() * 100.0 / options.seconds as f64),
    ]))
}
