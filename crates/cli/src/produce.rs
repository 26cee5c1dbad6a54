//! `barnabas produce`: lines or files become records.

use crate::lines::{self, Input};
use crate::session::{Failure, Target, key_value, run, say};
use clap::{Args, ValueEnum};
use client::{Acks, Producer, ProducerOptions, ToSend};
use indicatif::{HumanBytes, HumanCount, ProgressBar, ProgressStyle};
use platform::Clock;
use platform::clock::SystemClock;
use protocol::records::{Compression, Header};
use serde_json::json;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::error::TryRecvError;

/// Send lines or files as records.
///
/// Each line of the files, or of standard input, becomes the value of a record.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  cat lines.txt | barnabas produce greetings
  barnabas produce greetings lines.txt more.txt -z zstd
  echo 'user1:hello' | barnabas produce greetings -K :
  echo 'user1:' | barnabas produce state -K : --empty-is-null
  barnabas produce pictures --whole-file *.png")]
pub(crate) struct Produce {
    #[command(flatten)]
    target: Target,
    /// The topic.
    topic: String,
    /// Files to read instead of standard input; - is standard input.
    files: Vec<PathBuf>,
    /// The partition; else the key's, else in turn.
    #[arg(short, long)]
    partition: Option<i32>,
    /// What stands between key and value in a line. Lines without it have no key.
    #[arg(short = 'K', long, value_name = "TEXT")]
    key_delimiter: Option<String>,
    /// The key of all records.
    #[arg(short, long, conflicts_with = "key_delimiter")]
    key: Option<String>,
    /// A header of all records. May be repeated.
    #[arg(short = 'H', long = "header", value_name = "NAME=VALUE", value_parser = key_value)]
    headers: Vec<(String, String)>,
    /// Send null for empty values: tombstones, in a compacted topic.
    #[arg(short = 'Z', long)]
    empty_is_null: bool,
    /// Make one record of each file.
    #[arg(short, long)]
    whole_file: bool,
    /// The codec: none, gzip, snappy, lz4 or zstd.
    #[arg(short = 'z', long, default_value = "none", value_name = "CODEC")]
    compression: Compression,
    /// Who must have a record before it counts as sent.
    #[arg(long, value_enum, default_value = "all")]
    acks: AcksArgument,
    /// Say nothing at the end.
    #[arg(short, long)]
    quiet: bool,
    /// Say at the end how much was sent, as JSON on standard output.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum AcksArgument {
    /// All in-sync replicas.
    #[value(alias = "-1")]
    All,
    /// The leader.
    #[value(name = "1")]
    Leader,
    /// Nobody.
    #[value(name = "0")]
    None,
}

impl Produce {
    pub(crate) fn run(self) -> ExitCode {
        run(self.produce())
    }

    async fn produce(self) -> Result<(), Failure> {
        if self.files.is_empty() && io::stdin().is_terminal() && !self.quiet {
            eprintln!("reading lines; end with Ctrl-D");
        }
        let clock = Arc::new(SystemClock::new());
        let start = clock.now();
        let client = self.target.connect().await?;
        let options = ProducerOptions {
            acks: match self.acks {
                AcksArgument::All => Acks::All,
                AcksArgument::Leader => Acks::Leader,
                AcksArgument::None => Acks::None,
            },
            compression: self.compression,
            ..self.target.producer_options()
        };
        let mut producer =
            Producer::new(client, options, Arc::<SystemClock>::clone(&clock)).await?;
        let progress = producer.progress();
        let bar = self.progress_bar();
        let headers: Vec<_> = self
            .headers
            .iter()
            .map(|(key, value)| Header { key: key.as_bytes(), value: Some(value.as_bytes()) })
            .collect();
        let mut input = lines::read(self.files.clone(), self.whole_file);
        loop {
            let chunk = match input.try_recv() {
                Ok(chunk) => chunk,
                Err(TryRecvError::Disconnected) => break,
                Err(TryRecvError::Empty) => {
                    // Whoever feeds us pauses: send what there is.
                    producer.push().await?;
                    match input.recv().await {
                        Some(chunk) => chunk,
                        None => break,
                    }
                }
            };
            match chunk {
                Input::Lines(lines) => {
                    for line in lines::split(&lines) {
                        let (key, value) = self.split(line);
                        self.send(&mut producer, key, value, &headers).await?;
                    }
                }
                Input::Whole(bytes) => {
                    let key = self.key.as_deref().map(str::as_bytes);
                    self.send(&mut producer, key, &bytes, &headers).await?;
                }
                Input::Failed(text) => {
                    // What was read before is not to be lost.
                    producer.flush().await?;
                    return Err(Failure::Failed(text));
                }
            }
            bar.set_message(format!(
                "{} records, {}",
                HumanCount(progress.records()),
                HumanBytes(progress.bytes())
            ));
        }
        let sent = producer.flush().await;
        bar.finish_and_clear();
        sent?;
        let seconds = clock.now().since(start).as_secs_f64();
        self.report(progress.records(), progress.bytes(), seconds)
    }

    async fn send(
        &self,
        producer: &mut Producer,
        key: Option<&[u8]>,
        value: &[u8],
        headers: &[Header<'_>],
    ) -> Result<(), Failure> {
        let value = (!value.is_empty() || !self.empty_is_null).then_some(value);
        let partition = self.partition;
        let record = ToSend { partition, key, value, headers, timestamp: None };
        Ok(producer.send(&self.topic, record).await?)
    }

    /// Key and value of a line.
    fn split<'a>(&'a self, line: &'a [u8]) -> (Option<&'a [u8]>, &'a [u8]) {
        let Some(delimiter) = self.key_delimiter.as_deref().filter(|text| !text.is_empty()) else {
            return (self.key.as_deref().map(str::as_bytes), line);
        };
        let delimiter = delimiter.as_bytes();
        match line.windows(delimiter.len()).position(|window| window == delimiter) {
            Some(at) => (Some(&line[..at]), &line[at + delimiter.len()..]),
            None => (None, line),
        }
    }

    /// Shown after a moment, to people only.
    fn progress_bar(&self) -> ProgressBar {
        if self.quiet || self.json || !io::stderr().is_terminal() || io::stdin().is_terminal() {
            return ProgressBar::hidden();
        }
        let bar = ProgressBar::new_spinner();
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}, {elapsed}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(100));
        bar
    }

    fn report(&self, records: u64, bytes: u64, seconds: f64) -> Result<(), Failure> {
        if self.json {
            return say(json!({
                "topic": self.topic,
                "records": records,
                "batch_bytes": bytes,
                "seconds": seconds,
            }));
        }
        if !self.quiet {
            eprintln!(
                "{} records sent to {} in {seconds:.2} s ({} of batches)",
                HumanCount(records),
                self.topic,
                HumanBytes(bytes),
            );
        }
        Ok(())
    }
}
