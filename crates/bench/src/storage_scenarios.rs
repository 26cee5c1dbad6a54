//! What the storage layer does beside its clients: compaction, rolls, deletion, catching up.
//!
//! What disturbs is measured as a ratio: a percentile of an open loop's end-to-end latency while it goes on,
//! over the same just before it began.

use crate::RunOptions;
use crate::error::{BenchError, io};
use crate::load::{self, CatchUp, FillOptions, LatencyOptions, Target};
use crate::scenarios::{Figures, new_topic, seconds, warm_up_seconds, with_cpu};
use crate::servers::{Server, pause};
use crate::topics;
use platform::Clock;
use platform::clock::SystemClock;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Compaction begins soon, and one thread does it: Kafka waits 15 s between two looks.
pub(crate) const CLEAN_SOON: &[&str] = &["log.cleaner.backoff.ms=100"];

/// As [`CLEAN_SOON`], held to 40 MB/s of what it reads and writes.
pub(crate) const CLEAN_SLOWLY: &[&str] =
    &["log.cleaner.backoff.ms=100", "log.cleaner.io.max.bytes.per.second=40000000"];

const COMPACTED_MEGABYTES: u64 = 2_000;
const KEYS: u64 = 1_000_000;

/// Beside what is disturbed.
const RECORDS_PER_SECOND: u64 = 5_000;

/// How long compaction may take before something is wrong.
const CLEANER_PATIENCE: Duration = Duration::from_secs(900);

/// A topic that is to be compacted, filled and not compacted yet.
struct Uncleaned {
    topic: String,
    /// Before compression.
    megabytes: f64,
    checkpoint: PathBuf,
    /// Where the last segment begins, which is not compacted.
    end: u64,
}

impl Uncleaned {
    fn fill(server: &Server, codec: &str) -> Result<Self, BenchError> {
        let topic = new_topic();
        let configs = &[("cleanup.policy", "delete"), ("segment.bytes", "104857600")];
        let target = Target { configs, ..Target::new(server.address, topic.clone()) };
        let filled = load::fill(&FillOptions {
            target,
            record_bytes: 1000,
            records: 16,
            megabytes: COMPACTED_MEGABYTES,
            keys: KEYS,
            codec: codec.into(),
        })?;
        let log = find(server.folder(), &format!("{topic}-0"))
            .ok_or_else(|| BenchError::Protocol(format!("no directory of {topic}")))?;
        let mut end = 0;
        for entry in std::fs::read_dir(&log).map_err(io(log.display().to_string()))? {
            let name = entry.map_err(io("a log's directory"))?.file_name();
            let base = name.to_str().and_then(|name| name.strip_suffix(".log")?.parse().ok());
            end = end.max(base.unwrap_or(0));
        }
        let parent = log.parent().expect("a log's directory is in one");
        let checkpoint = parent.join("cleaner-offset-checkpoint");
        // What it wrote is written back before anything is timed.
        rustix::fs::sync();
        Ok(Self { topic, megabytes: filled.megabytes(), checkpoint, end })
    }

    fn start_compaction(&self, server: &Server) -> Result<(), BenchError> {
        let configs = [("cleanup.policy", "compact"), ("min.cleanable.dirty.ratio", "0.01")];
        topics::set_configs(server.address, &self.topic, &configs)
    }

    fn is_compacted(&self) -> bool {
        let text = std::fs::read_to_string(&self.checkpoint).unwrap_or_default();
        text.lines().any(|line| {
            let words: Vec<_> = line.split(' ').collect();
            words.len() == 3
                && words[0] == self.topic
                && words[2].parse().is_ok_and(|cleaned: u64| cleaned >= self.end)
        })
    }

    fn wait(&self) -> Result<(), BenchError> {
        let clock = SystemClock::new();
        while !self.is_compacted() {
            if clock.now().0 > CLEANER_PATIENCE {
                let topic = &self.topic;
                return Err(BenchError::Protocol(format!("{topic} is not compacted")));
            }
            pause(Duration::from_millis(5));
        }
        Ok(())
    }
}

/// The directory `name` in or below `folder`.
fn find(folder: &Path, name: &str) -> Option<PathBuf> {
    let entries = std::fs::read_dir(folder).ok()?;
    let folders = entries.filter_map(Result::ok).map(|entry| entry.path());
    folders.filter(|path| path.is_dir()).find_map(|path| match path.ends_with(name) {
        true => Some(path),
        false => find(&path, name),
    })
}

/// Two gigabytes, a million keys, all of the machine that the broker has.
pub(crate) fn compact(
    server: &Server,
    _: &RunOptions,
    _: usize,
    codec: &str,
) -> Result<Figures, BenchError> {
    let log = Uncleaned::fill(server, codec)?;
    server.wait_until_idle()?;
    let clock = SystemClock::new();
    let before = server.cpu_time()?;
    log.start_compaction(server)?;
    log.wait()?;
    let (elapsed, used) = (clock.now().0, server.cpu_time()?.saturating_sub(before));
    server.delete_topic(&log.topic)?;
    Ok(Figures::from([
        ("MB/s", log.megabytes / elapsed.as_secs_f64()),
        ("CPU ms/MB", used.as_secs_f64() * 1e3 / log.megabytes),
    ]))
}

fn open_loop(server: &Server, topic: String, seconds: u64) -> LatencyOptions {
    LatencyOptions {
        target: Target::new(server.address, topic),
        rate: RECORDS_PER_SECOND,
        record_bytes: 1000,
        seconds,
        acks: 1,
    }
}

/// Loads a broker until it is warm.
fn warm_up(server: &Server, options: &RunOptions, round: usize) -> Result<(), BenchError> {
    let warm = seconds(warm_up_seconds(server, options, round));
    load::latency(&open_loop(server, new_topic(), warm)).map(drop)
}

/// How an open loop beside something compares with one alone.
fn compared(alone: &load::Measured, beside: &load::Measured) -> Figures {
    let p99 = |measured: &load::Measured| measured.latency.quantile_us(0.99);
    let p999 = |measured: &load::Measured| measured.latency.quantile_us(0.999);
    Figures::from([
        ("p99 us alone", p99(alone)),
        ("p99 us", p99(beside)),
        ("p99 times", p99(beside) / p99(alone)),
        ("p99.9 us alone", p999(alone)),
        ("p99.9 us", p999(beside)),
        ("p99.9 times", p999(beside) / p999(alone)),
    ])
}

/// An open loop alone and beside throttled compaction.
pub(crate) fn beside_compaction(
    server: &Server,
    options: &RunOptions,
    round: usize,
) -> Result<Figures, BenchError> {
    let log = Uncleaned::fill(server, "none")?;
    warm_up(server, options, round)?;
    server.wait_until_idle()?;
    let span = seconds(options.seconds);
    let alone = load::latency(&open_loop(server, new_topic(), span))?;
    log.start_compaction(server)?;
    let beside = load::latency(&open_loop(server, new_topic(), span))?;
    if log.is_compacted() {
        return Err(BenchError::Protocol("compaction was over before the measurement".into()));
    }
    server.delete_topic(&log.topic)?;
    Ok(compared(&alone, &beside))
}

/// An open loop into one large segment, and one whose segments are rolled five times a second.
pub(crate) fn across_rolls(
    server: &Server,
    options: &RunOptions,
    round: usize,
) -> Result<Figures, BenchError> {
    warm_up(server, options, round)?;
    let span = seconds(options.seconds);
    let alone = load::latency(&open_loop(server, new_topic(), span))?;
    let mut rolling = open_loop(server, new_topic(), span);
    rolling.target.configs = &[("segment.bytes", "1048576")];
    let beside = load::latency(&rolling)?;
    server.delete_topic(&rolling.target.topic)?;
    Ok(compared(&alone, &beside))
}

fn fill_ten_gigabytes(server: &Server, topic: &str) -> Result<(), BenchError> {
    let filled = load::fill(&FillOptions {
        target: Target::new(server.address, topic.to_owned()),
        record_bytes: 1000,
        records: 16,
        megabytes: 10_000,
        keys: 0,
        codec: "none".into(),
    });
    filled.map(drop)
}

/// An open loop while a topic of ten gigabytes is deleted.
pub(crate) fn beside_deletion(
    server: &Server,
    options: &RunOptions,
    round: usize,
) -> Result<Figures, BenchError> {
    let large = new_topic();
    fill_ten_gigabytes(server, &large)?;
    // What the kernel still had to write back would be measured too.
    rustix::fs::sync();
    server.wait_until_idle()?;
    warm_up(server, options, round)?;
    let span = seconds(options.seconds);
    let alone = load::latency(&open_loop(server, new_topic(), span))?;
    server.delete_topic(&large)?;
    let beside = load::latency(&open_loop(server, new_topic(), span))?;
    Ok(compared(&alone, &beside))
}

/// An open loop beside a consumer that reads ten gigabytes which are not in the page cache.
pub(crate) fn beside_catch_up(
    server: &Server,
    options: &RunOptions,
    round: usize,
) -> Result<Figures, BenchError> {
    let topic = format!("large-{}", server.subject.name());
    if round == 1 {
        fill_ten_gigabytes(server, &topic)?;
    }
    warm_up(server, options, round)?;
    rustix::fs::sync();
    forget_cached(server.folder(), &topic)?;
    server.wait_until_idle()?;
    let span = seconds(options.seconds);
    let alone = load::latency(&open_loop(server, new_topic(), span))?;
    let catch_up = CatchUp { topic, batch_records: 16, fetch_bytes: 1 << 20 };
    let loaded = open_loop(server, new_topic(), span);
    let ((beside, read), used) = with_cpu(server, || load::latency_beside(&loaded, &catch_up))?;
    let mut figures = compared(&alone, &beside);
    figures.extend([
        ("MB/s read", read as f64 / 1e6 / beside.elapsed.as_secs_f64()),
        ("CPU %", used.as_secs_f64() * 100.0 / beside.elapsed.as_secs_f64()),
    ]);
    Ok(figures)
}

/// Takes a topic's files out of the page cache.
fn forget_cached(folder: &Path, topic: &str) -> Result<(), BenchError> {
    let Some(log) = find(folder, &format!("{topic}-0")) else {
        return Err(BenchError::Protocol(format!("no directory of {topic}")));
    };
    for entry in std::fs::read_dir(&log).map_err(io(log.display().to_string()))? {
        let path = entry.map_err(io("a log's directory"))?.path();
        let shown = path.display().to_string();
        let file = std::fs::File::open(&path).map_err(io(shown.clone()))?;
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)
            .map_err(|error| BenchError::Io(shown, error.into()))?;
    }
    Ok(())
}
