//! Our own load: one thread, prepared frames, no client library between us and the broker.

use crate::error::{BenchError, io};
use crate::histogram::Histogram;
use crate::topics::leaders;
use crate::wire::{Connection, PolledConnection, decode, frame};
use bytes::Bytes;
use bytestring::ByteString;
use model::{Instant, Offset, Timestamp};
use platform::Clock;
use platform::clock::SystemClock;
use protocol::messages::fetch_request::{FetchPartition, FetchRequest, FetchTopic};
use protocol::messages::produce_request::{PartitionProduceData, ProduceRequest, TopicProduceData};
use protocol::records::{Batches, Compression, RecordBatchBuilder};
use protocol::{Records, RecordsPart};
use std::collections::VecDeque;
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

const PRODUCE_VERSION: i16 = 9;
const FETCH_VERSION: i16 = 12;
const LARGE_REQUEST: usize = 8 << 10;

/// Where a load goes.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Target {
    /// Broker.
    #[arg(long, default_value = "127.0.0.1:9092")]
    pub(crate) address: SocketAddr,
    /// Topic; loads that write create it if it is missing.
    #[arg(long, default_value = "bench")]
    pub(crate) topic: String,
    /// With how many partitions.
    #[arg(long, default_value_t = 1)]
    pub(crate) partitions: i32,
    /// With `flush.messages=1`: what is acknowledged is on the disk.
    #[arg(long)]
    pub(crate) flushed: bool,
    /// With these settings.
    #[arg(skip)]
    pub(crate) configs: &'static [(&'static str, &'static str)],
}

impl Target {
    /// A topic with one partition.
    pub(crate) fn new(address: SocketAddr, topic: String) -> Self {
        Self { address, topic, partitions: 1, flushed: false, configs: &[] }
    }
}

/// Closed-loop produce.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct ProduceOptions {
    /// Where.
    #[command(flatten)]
    pub(crate) target: Target,
    /// Connections. They take the topic's partitions in turn, each at its leader.
    #[arg(long, default_value_t = 1)]
    pub(crate) connections: usize,
    /// Requests in flight on each.
    #[arg(long, default_value_t = 5)]
    pub(crate) in_flight: usize,
    /// Bytes of one record's value.
    #[arg(long, default_value_t = 100)]
    pub(crate) record_bytes: usize,
    /// Records of one batch.
    #[arg(long, default_value_t = 1)]
    pub(crate) records: usize,
    /// Which partitions a request has a batch for.
    #[arg(long, value_enum, default_value_t = Spread::Own)]
    pub(crate) spread: Spread,
    /// none, gzip, snappy, lz4 or zstd.
    #[arg(long, default_value = "none")]
    pub(crate) codec: String,
    /// How long.
    #[arg(long, default_value_t = 5.0)]
    pub(crate) seconds: f64,
    /// How much at most.
    #[arg(long, default_value_t = u64::MAX)]
    pub(crate) megabytes: u64,
    /// -1, 0 or 1.
    #[arg(long, default_value_t = 1, allow_hyphen_values = true)]
    pub(crate) acks: i16,
}

/// Which partitions a request of one connection has batches for.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spread {
    /// One, the connection's own.
    Own,
    /// One, each in turn, as librdkafka's producer sends.
    InTurn,
    /// All, as the Java producer does for what it has of all.
    All,
}

/// Reading a partition from its start to its end.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct FetchOptions {
    /// Where.
    #[command(flatten)]
    pub(crate) target: Target,
    /// Consumers, each reading everything.
    #[arg(long, default_value_t = 1)]
    pub(crate) connections: usize,
    /// Bytes asked for at once.
    #[arg(long, default_value_t = 1 << 20)]
    pub(crate) fetch_bytes: i32,
    /// How long, starting over at the end; 0 reads everything once.
    #[arg(long, default_value_t = 0.0)]
    pub(crate) seconds: f64,
}

/// Open-loop end-to-end latency.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct LatencyOptions {
    /// Where.
    #[command(flatten)]
    pub(crate) target: Target,
    /// Records a second.
    #[arg(long, default_value_t = 10_000)]
    pub(crate) rate: u64,
    /// Bytes of one record's value.
    #[arg(long, default_value_t = 100)]
    pub(crate) record_bytes: usize,
    /// How long.
    #[arg(long, default_value_t = 5)]
    pub(crate) seconds: u64,
    /// -1 or 1.
    #[arg(long, default_value_t = 1, allow_hyphen_values = true)]
    pub(crate) acks: i16,
}

/// Writing a partition full, every batch another.
#[derive(Clone, Debug)]
pub(crate) struct FillOptions {
    /// Where.
    pub(crate) target: Target,
    /// Bytes of one record's value.
    pub(crate) record_bytes: usize,
    /// Records of one batch.
    pub(crate) records: usize,
    /// How much, before compression.
    pub(crate) megabytes: u64,
    /// How many keys there are, each as often as the others; 0 for records without keys.
    pub(crate) keys: u64,
    /// none, gzip, snappy, lz4 or zstd.
    pub(crate) codec: String,
}

/// A consumer that reads what was filled.
#[derive(Clone, Debug)]
pub(crate) struct CatchUp {
    /// What it reads.
    pub(crate) topic: String,
    /// Records in each of its batches, which are all of the same size.
    pub(crate) batch_records: usize,
    /// Bytes asked for at once.
    pub(crate) fetch_bytes: i32,
}

/// What a load did.
#[derive(Clone, Debug, Default)]
pub(crate) struct Measured {
    pub(crate) requests: u64,
    /// Bytes of batches, headers included, as sent or received.
    pub(crate) bytes: u64,
    pub(crate) elapsed: Duration,
    pub(crate) latency: Histogram,
}

impl Measured {
    pub(crate) fn requests_per_second(&self) -> f64 {
        self.requests as f64 / self.elapsed.as_secs_f64()
    }

    pub(crate) fn megabytes(&self) -> f64 {
        self.bytes as f64 / 1e6
    }

    pub(crate) fn megabytes_per_second(&self) -> f64 {
        self.megabytes() / self.elapsed.as_secs_f64()
    }
}

impl Measured {
    /// For programs, with `bytes` and `requests` as they are and times in seconds and microseconds.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::json!({
            "requests": self.requests,
            "bytes": self.bytes,
            "seconds": self.elapsed.as_secs_f64(),
            "timed": self.latency.count(),
            "p50_us": self.latency.quantile_us(0.5),
            "p99_us": self.latency.quantile_us(0.99),
            "p999_us": self.latency.quantile_us(0.999),
        })
    }
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:.0} requests/s, {:.1} MB/s, p50 {:.0} us, p99 {:.0} us, p99.9 {:.0} us ({} requests)",
            self.requests_per_second(),
            self.megabytes_per_second(),
            self.latency.quantile_us(0.5),
            self.latency.quantile_us(0.99),
            self.latency.quantile_us(0.999),
            self.requests
        )
    }
}

pub(crate) fn runtime() -> Result<tokio::runtime::Runtime, BenchError> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(io("tokio"))
}

/// Runs `tasks` on this thread and adds up what they did.
fn gather<F>(tasks: Vec<F>) -> Result<Measured, BenchError>
where
    F: Future<Output = Result<Measured, BenchError>> + 'static,
{
    let runtime = runtime()?;
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async {
        let handles: Vec<_> = tasks.into_iter().map(tokio::task::spawn_local).collect();
        let mut all = Measured::default();
        for handle in handles {
            let one = handle.await.expect("a load task does not panic")?;
            all.requests += one.requests;
            all.bytes += one.bytes;
            all.elapsed = all.elapsed.max(one.elapsed);
            all.latency.merge(&one.latency);
        }
        Ok(all)
    })
}

/// A batch of records like lines of text, which compress to about a third.
pub(crate) fn batch(records: usize, record_bytes: usize, codec: Compression) -> Bytes {
    let mut builder = RecordBatchBuilder::new().compression(codec);
    let words: Vec<u8> = (0..u64::try_from(record_bytes * 4).expect("small"))
        .map(|i| b"abcdefghijklmnop qrstuvwxyz 0123456789"[(i * i % 37) as usize])
        .collect();
    for i in 0..records {
        let start = i * 7 % (words.len() - record_bytes);
        let value = &words[start..start + record_bytes];
        builder.append(Some(now()), None, Some(value)).expect("a batch of the benchmark fits");
    }
    builder.build().expect("a batch of the benchmark fits")
}

fn now() -> Timestamp {
    SystemClock::new().timestamp()
}

fn codec(name: &str) -> Result<Compression, BenchError> {
    Ok(match name {
        "none" => Compression::None,
        "gzip" => Compression::Gzip,
        "snappy" => Compression::Snappy,
        "lz4" => Compression::Lz4,
        "zstd" => Compression::Zstd,
        other => return Err(BenchError::Usage(format!("no codec named {other}"))),
    })
}

fn produce_frame(
    topic: &str,
    partitions: impl Iterator<Item = i32>,
    batch: &Bytes,
    acks: i16,
) -> Bytes {
    let data = partitions.map(|index| {
        let mut records = Records::default();
        records.push(RecordsPart::Bytes(batch.clone()));
        PartitionProduceData { index, records: Some(records) }
    });
    let request = ProduceRequest {
        acks,
        timeout_ms: 30_000,
        topic_data: vec![TopicProduceData {
            name: ByteString::from(topic),
            partition_data: data.collect(),
            ..TopicProduceData::default()
        }],
        ..ProduceRequest::default()
    };
    frame(&request, PRODUCE_VERSION, 1)
}

fn check_produced(answer: Bytes) -> Result<(), BenchError> {
    let answer = decode::<ProduceRequest>(answer, PRODUCE_VERSION)?;
    let codes = answer.responses.iter().flat_map(|t| &t.partition_responses).map(|p| p.error_code);
    match codes.into_iter().find(|&code| code != 0) {
        Some(code) => Err(BenchError::Broker { api: "Produce", code }),
        None => Ok(()),
    }
}

/// Sends batches, `in_flight` at a time on each connection.
pub(crate) fn produce(options: &ProduceOptions) -> Result<Measured, BenchError> {
    let leaders = leaders(&options.target)?;
    let batch = batch(options.records, options.record_bytes, codec(&options.codec)?);
    let count = i32::try_from(leaders.len()).expect("a partition's number fits");
    if options.spread != Spread::Own && leaders.iter().any(|leader| *leader != leaders[0]) {
        return Err(BenchError::Usage("--spread in-turn and all need one broker".into()));
    }
    let frame = |partitions: &mut dyn Iterator<Item = i32>| {
        produce_frame(&options.target.topic, partitions, &batch, options.acks)
    };
    let tasks = (0..options.connections).zip((0..count).zip(leaders).cycle());
    let task = |(connection, (partition, leader)): (usize, (i32, SocketAddr))| {
        let mut load =
            Requests { frames: Vec::new(), batches: 1, batch_bytes: batch.len(), next: 0 };
        match options.spread {
            Spread::Own => load.frames.push(frame(&mut std::iter::once(partition))),
            Spread::InTurn => {
                load.frames.extend((0..count).map(|index| frame(&mut std::iter::once(index))));
                // They do not all begin with the same.
                load.next = connection * load.frames.len() / options.connections;
            }
            Spread::All => {
                load.frames.push(frame(&mut (0..count)));
                load.batches = u64::try_from(count).expect("not negative");
            }
        }
        produce_on(options.clone(), leader, load)
    };
    gather(tasks.map(task).collect())
}

/// Creates the topic, sends one batch and waits for its acknowledgement.
pub(crate) fn produce_one(options: &ProduceOptions) -> Result<(), BenchError> {
    let leader = leaders(&options.target)?[0];
    let batch = batch(options.records, options.record_bytes, codec(&options.codec)?);
    runtime()?.block_on(async {
        let mut connection = Connection::open(leader).await?;
        let first = std::iter::once(0);
        let frame = produce_frame(&options.target.topic, first, &batch, options.acks);
        connection.send(&frame).await?;
        check_produced(connection.receive().await?)
    })
}

/// Fills a partition, five batches under way; what it did in bytes of records before compression.
pub(crate) fn fill(options: &FillOptions) -> Result<Measured, BenchError> {
    let leader = leaders(&options.target)?[0];
    let codec = codec(&options.codec)?;
    let bytes = (options.records * options.record_bytes) as u64;
    let batches = options.megabytes * 1_000_000 / bytes;
    let topic = &options.target.topic;
    runtime()?.block_on(async {
        let clock = SystemClock::new();
        let mut connection = Connection::open(leader).await?;
        let mut measured = Measured::default();
        let plain =
            (options.keys == 0).then(|| batch(options.records, options.record_bytes, codec));
        for number in 0..batches + 5 {
            if number < batches {
                let batch = match &plain {
                    Some(batch) => batch.clone(),
                    None => keyed_batch(options, codec, number),
                };
                let first = std::iter::once(0);
                connection.send(&produce_frame(topic, first, &batch, 1)).await?;
            }
            if number >= 5 {
                check_produced(connection.receive().await?)?;
                measured.requests += 1;
                measured.bytes += bytes;
            }
        }
        measured.elapsed = clock.now().0;
        Ok(measured)
    })
}

/// Keys in an order that repeats only after all of them.
fn keyed_batch(options: &FillOptions, codec: Compression, number: u64) -> Bytes {
    // Shares no divisor with a round number of keys.
    const STEP: u64 = 611_953;
    let mut builder = RecordBatchBuilder::new().compression(codec);
    let mut value = Vec::with_capacity(options.record_bytes + 32);
    for i in 0..options.records as u64 {
        let record = number * options.records as u64 + i;
        let key = format!("{:016}", record * STEP % options.keys);
        value.clear();
        // A third of it is not like the rest.
        while value.len() < options.record_bytes {
            let word = (record + value.len() as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            value.extend_from_slice(&word.to_be_bytes());
            value.extend_from_slice(b" is what it says");
        }
        value.truncate(options.record_bytes);
        builder
            .append(Some(now()), Some(key.as_bytes()), Some(&value))
            .expect("a batch of the benchmark fits");
    }
    builder.build().expect("a batch of the benchmark fits")
}

/// What one connection sends, over and over.
struct Requests {
    frames: Vec<Bytes>,
    /// In each.
    batches: u64,
    batch_bytes: usize,
    next: usize,
}

impl Requests {
    fn next(&mut self) -> &Bytes {
        let at = self.next % self.frames.len();
        self.next += 1;
        &self.frames[at]
    }
}

async fn produce_on(
    options: ProduceOptions,
    leader: SocketAddr,
    mut requests: Requests,
) -> Result<Measured, BenchError> {
    let clock = SystemClock::new();
    let mut connection = Connection::open(leader).await?;
    let bytes = requests.batches * requests.batch_bytes as u64;
    let mut measured = Measured::default();
    let mut sent = VecDeque::with_capacity(options.in_flight);
    let mut wanted = options.in_flight;
    let mut outgoing = Vec::new();
    let duration = Duration::from_secs_f64(options.seconds);
    let most = options.megabytes.saturating_mul(1_000_000);
    loop {
        outgoing.clear();
        let now = clock.now();
        if now.0 < duration && measured.bytes < most {
            for _ in 0..wanted {
                sent.push_back(now);
                let request = requests.next();
                // Several small requests are one call; a copy of a large one costs more than a call.
                if request.len() < LARGE_REQUEST {
                    outgoing.extend_from_slice(request);
                } else {
                    connection.send(request).await?;
                }
            }
            connection.send(&outgoing).await?;
        }
        if sent.is_empty() {
            break;
        }
        let mut answer = Some(connection.receive().await?);
        let now = clock.now();
        wanted = 0;
        while let Some(frame) = answer {
            if measured.requests % 1024 == 0 {
                check_produced(frame)?;
            }
            let at = sent.pop_front().expect("an answer to a request");
            measured.latency.record(now.since(at));
            measured.requests += 1;
            measured.bytes += bytes;
            wanted += 1;
            answer = connection.complete_frame();
        }
    }
    measured.elapsed = clock.now().0;
    Ok(measured)
}

fn fetch_frame(topic: &str, offset: Offset, bytes: i32, wait_ms: i32) -> Bytes {
    let request = FetchRequest {
        max_wait_ms: wait_ms,
        min_bytes: 1,
        max_bytes: bytes,
        session_epoch: -1,
        topics: vec![FetchTopic {
            topic: ByteString::from(topic),
            partitions: vec![FetchPartition {
                partition: 0,
                fetch_offset: offset.0,
                partition_max_bytes: bytes,
                ..FetchPartition::default()
            }],
            ..FetchTopic::default()
        }],
        ..FetchRequest::default()
    };
    frame(&request, FETCH_VERSION, 1)
}

/// What a fetch brought: the batches, and the high watermark.
fn fetched(answer: Bytes) -> Result<(Bytes, Offset), BenchError> {
    let answer = decode::<FetchRequest>(answer, FETCH_VERSION)?;
    let partition = answer
        .responses
        .into_iter()
        .flat_map(|topic| topic.partitions)
        .next()
        .ok_or_else(|| BenchError::Protocol("a fetch without a partition".into()))?;
    if partition.error_code != 0 {
        return Err(BenchError::Broker { api: "Fetch", code: partition.error_code });
    }
    let records = partition.records.unwrap_or_default().to_bytes().map_err(io("records"))?;
    Ok((records, Offset(partition.high_watermark)))
}

fn next_offset(records: &Bytes) -> Option<Offset> {
    Batches::new(records).filter_map(Result::ok).last().map(|batch| batch.last_offset() + 1)
}

/// Reads everything on each connection; again and again if there is time.
pub(crate) fn fetch(options: &FetchOptions) -> Result<Measured, BenchError> {
    gather((0..options.connections).map(|_| fetch_on(options.clone())).collect())
}

async fn fetch_on(options: FetchOptions) -> Result<Measured, BenchError> {
    let clock = SystemClock::new();
    let mut connection = Connection::open(options.target.address).await?;
    let mut measured = Measured::default();
    let mut offset = Offset(0);
    loop {
        let sent = clock.now();
        connection
            .send(&fetch_frame(&options.target.topic, offset, options.fetch_bytes, 100))
            .await?;
        let (records, high_watermark) = fetched(connection.receive().await?)?;
        measured.latency.record(clock.now().since(sent));
        measured.requests += 1;
        measured.bytes += records.len() as u64;
        let is_over = clock.now().0.as_secs_f64() >= options.seconds;
        match next_offset(&records) {
            _ if is_over && options.seconds > 0.0 => break,
            Some(next) if next < high_watermark => offset = next,
            _ if is_over => break,
            _ => offset = Offset(0),
        }
    }
    measured.elapsed = clock.now().0;
    Ok(measured)
}

/// Sends a record every `1 / rate` seconds whatever the broker does, and times each from the moment
/// when it should have been sent until a consumer holds it.
///
/// One thread looks at the clock and at both sockets in turn and never sleeps: what is measured has no
/// wake-up of the client in it, and no record is sent late because a consumer was woken first.
pub(crate) fn latency(options: &LatencyOptions) -> Result<Measured, BenchError> {
    Ok(latency_with(options, None)?.0)
}

/// As [`latency`] beside a consumer on the same thread; also how many bytes of records that one got. It begins
/// anew at the end.
pub(crate) fn latency_beside(
    options: &LatencyOptions,
    catch_up: &CatchUp,
) -> Result<(Measured, u64), BenchError> {
    latency_with(options, Some(catch_up))
}

fn latency_with(
    options: &LatencyOptions,
    catch_up: Option<&CatchUp>,
) -> Result<(Measured, u64), BenchError> {
    let leader = leaders(&options.target)?[0];
    let mut consumer = PolledConnection::open(leader)?;
    let producer = PolledConnection::open(leader)?;
    consumer.send(&fetch_frame(&options.target.topic, Offset(0), 1 << 20, 0))?;
    let (_, mut offset) = fetched(consumer.wait()?)?;
    consumer.send(&fetch_frame(&options.target.topic, offset, 1 << 20, 500))?;
    let mut reader = catch_up.map(|catch_up| Reading::start(leader, catch_up)).transpose()?;

    let clock = SystemClock::new();
    let count = options.rate * options.seconds;
    let mut pace = Pace::new(options, producer, clock.now() + Duration::from_millis(100));
    let mut measured = Measured::default();
    let warm_up = count / 10;
    let mut seen = 0;
    while seen < count || pace.answered < count {
        pace.send_what_is_due(&clock)?;
        if let Some(reader) = &mut reader {
            reader.go_on()?;
        }
        let Some(answer) = consumer.poll()? else { continue };
        let now = clock.now();
        let (records, _) = fetched(answer)?;
        for batch in Batches::new(&records).filter_map(Result::ok) {
            let wrong = |e: protocol::records::RecordsError| BenchError::Protocol(e.to_string());
            for record in batch.records(1 << 20).map_err(wrong)?.iter() {
                let record = record.map_err(wrong)?;
                if record.offset < offset {
                    continue;
                }
                let stamp = record.value.and_then(|v| v.get(..8)).unwrap_or(&[0; 8]);
                let due =
                    Duration::from_nanos(u64::from_be_bytes(stamp.try_into().expect("eight")));
                seen += 1;
                if seen > warm_up {
                    measured.latency.record(now.0.saturating_sub(due));
                }
            }
        }
        measured.requests += 1;
        measured.bytes += records.len() as u64;
        offset = next_offset(&records).unwrap_or(offset);
        consumer.send(&fetch_frame(&options.target.topic, offset, 1 << 20, 500))?;
    }
    measured.elapsed = clock.now().0;
    Ok((measured, reader.map_or(0, |reader| reader.bytes)))
}

/// A consumer that catches up, looked at in turn with others.
struct Reading<'a> {
    catch_up: &'a CatchUp,
    connection: PolledConnection,
    offset: Offset,
    bytes: u64,
}

impl<'a> Reading<'a> {
    fn start(leader: SocketAddr, catch_up: &'a CatchUp) -> Result<Self, BenchError> {
        let connection = PolledConnection::open(leader)?;
        let mut reading = Self { catch_up, connection, offset: Offset(0), bytes: 0 };
        reading.ask()?;
        Ok(reading)
    }

    fn ask(&mut self) -> Result<(), BenchError> {
        let CatchUp { topic, fetch_bytes, .. } = self.catch_up;
        self.connection.send(&fetch_frame(topic, self.offset, *fetch_bytes, 100))
    }

    /// Takes an answer if there is one, and asks for more.
    fn go_on(&mut self) -> Result<(), BenchError> {
        let Some(answer) = self.connection.poll()? else { return Ok(()) };
        let (records, high_watermark) = fetched(answer)?;
        self.bytes += records.len() as u64;
        // Without looking at each: all are of one size.
        let size = records.get(8..12).map_or(0, |length| {
            12 + u32::from_be_bytes(length.try_into().expect("four bytes")) as usize
        });
        let batches = records.len().checked_div(size).unwrap_or(0);
        let read = i64::try_from(batches * self.catch_up.batch_records).expect("small");
        self.offset = self.offset + read;
        if read == 0 || self.offset >= high_watermark {
            self.offset = Offset(0);
        }
        self.ask()
    }
}

/// The open loop's sending side.
struct Pace<'a> {
    options: &'a LatencyOptions,
    connection: PolledConnection,
    start: Instant,
    interval: Duration,
    value: Vec<u8>,
    sent: u64,
    answered: u64,
}

impl<'a> Pace<'a> {
    fn new(options: &'a LatencyOptions, connection: PolledConnection, start: Instant) -> Self {
        Self {
            options,
            connection,
            start,
            interval: Duration::from_nanos(1_000_000_000 / options.rate),
            value: vec![b'x'; options.record_bytes.max(8)],
            sent: 0,
            answered: 0,
        }
    }

    fn send_what_is_due(&mut self, clock: &SystemClock) -> Result<(), BenchError> {
        while self.sent < self.options.rate * self.options.seconds {
            let due =
                self.start + self.interval * u32::try_from(self.sent).expect("below 2^32 records");
            if due > clock.now() {
                break;
            }
            let stamp = u64::try_from(due.0.as_nanos()).expect("short");
            self.value[..8].copy_from_slice(&stamp.to_be_bytes());
            let mut builder = RecordBatchBuilder::new();
            builder.append(Some(now()), None, Some(&self.value)).expect("one record fits");
            let batch = builder.build().expect("one record fits");
            let (topic, acks) = (&self.options.target.topic, self.options.acks);
            let partition = std::iter::once(0);
            self.connection.send(&produce_frame(topic, partition, &batch, acks))?;
            self.sent += 1;
        }
        while let Some(answer) = self.connection.poll()? {
            self.answered += 1;
            if self.answered % 1024 == 1 {
                check_produced(answer)?;
            }
        }
        Ok(())
    }
}
