//! `barnabas consume`: prints records.

use crate::format::{self, Format};
use crate::session::{Failure, Target, run};
use clap::Args;
use client::{
    Client, Consumer, ConsumerOptions, EARLIEST, Fetched, GroupConsumer, GroupOptions, Isolation,
    LATEST, OffsetReset, list_offsets,
};
use model::{Instant, TopicPartition};
use platform::Clock;
use platform::clock::SystemClock;
use std::collections::BTreeMap;
use std::io::{self, BufWriter, Stdout, Write};
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;
use tokio::signal::ctrl_c;

/// How often a member of a group commits.
const COMMIT_INTERVAL: Duration = Duration::from_secs(1);

/// Print records.
///
/// Without --group: all partitions, from now on. With it: the group's committed offsets decide, and
/// its members share the partitions.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  barnabas consume greetings
  barnabas consume greetings --from-beginning --exit > lines.txt
  barnabas consume greetings -p 0 -o -10              the last ten of partition 0
  barnabas consume greetings -o @1700000000000        from a time on, in ms
  barnabas consume greetings -f '%p@%o %k: %s\\n'
  barnabas consume greetings --json | jq .value
  barnabas consume orders refunds --group billing

Letters of --format: %t topic, %p partition, %o offset, %k key, %K its length, %s value, %S its
length, %T timestamp, %h headers, %% a percent sign; \\n \\t \\r \\0 \\\\.")]
pub(crate) struct Consume {
    #[command(flatten)]
    target: Target,
    /// The topics.
    #[arg(required = true)]
    topics: Vec<String>,
    /// Start with the first record; in a group, where it has no committed offset.
    #[arg(short = 'B', long)]
    from_beginning: bool,
    /// Only this partition.
    #[arg(short, long, conflicts_with = "group")]
    partition: Option<i32>,
    /// Where to start: beginning, end, an offset, -N for the last N, @MS for a time.
    #[arg(short, long, allow_hyphen_values = true, conflicts_with_all = ["group", "from_beginning"])]
    offset: Option<Start>,
    /// Consume as a member of this group.
    #[arg(short, long)]
    group: Option<String>,
    /// Stop after so many records.
    #[arg(short = 'n', long, value_name = "COUNT")]
    max_messages: Option<u64>,
    /// Stop at the records that are last when the command starts.
    #[arg(short, long)]
    exit: bool,
    /// How to print a record.
    #[arg(short, long, value_parser = Format::parse, conflicts_with = "json")]
    format: Option<Format>,
    /// Print a JSON object per record and line.
    #[arg(long)]
    json: bool,
    /// Leave out records of open and aborted transactions.
    #[arg(long)]
    read_committed: bool,
}

/// Where to start in a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    Beginning,
    End,
    At(i64),
    Last(i64),
    Time(i64),
}

impl FromStr for Start {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("{text:?} is no place to start: beginning, end, an offset, -N, or @MS");
        let number = |text: &str| text.parse::<i64>().ok().filter(|&n| n >= 0).ok_or_else(wrong);
        match text {
            "beginning" | "earliest" => Ok(Self::Beginning),
            "end" | "latest" => Ok(Self::End),
            _ => match (text.strip_prefix('@'), text.strip_prefix('-')) {
                (Some(time), _) => number(time).map(Self::Time),
                (None, Some(count)) => number(count).map(Self::Last),
                (None, None) => number(text).map(Self::At),
            },
        }
    }
}

type Offsets = BTreeMap<TopicPartition, i64>;

impl Consume {
    pub(crate) fn run(self) -> ExitCode {
        run(async move {
            let client = self.target.connect().await?;
            let printer = Printer {
                out: BufWriter::with_capacity(256 * 1024, io::stdout()),
                format: if self.json {
                    None
                } else {
                    self.format.clone().or(Some(Format::lines()))
                },
                left: self.max_messages.unwrap_or(u64::MAX),
            };
            match &self.group {
                Some(group) => self.in_group(client, group, printer).await,
                None => self.alone(client, printer).await,
            }
        })
    }

    fn options(&self) -> ConsumerOptions {
        ConsumerOptions {
            isolation: self.isolation(),
            reset: match self.from_beginning {
                true => OffsetReset::Earliest,
                false => OffsetReset::Latest,
            },
            ..ConsumerOptions::default()
        }
    }

    fn isolation(&self) -> Isolation {
        match self.read_committed {
            true => Isolation::ReadCommitted,
            false => Isolation::ReadUncommitted,
        }
    }

    async fn alone(&self, client: Client, mut printer: Printer) -> Result<(), Failure> {
        let mut partitions = Vec::new();
        for topic in &self.topics {
            let count = client.leaders(topic, false).await?.leaders.len();
            let all = (0i32..).take(count).map(|at| TopicPartition::new(topic.as_str(), at));
            partitions.extend(all.filter(|at| self.partition.is_none_or(|p| p == at.partition)));
            if let Some(partition) = self.partition
                && usize::try_from(partition).map_or(true, |at| at >= count)
            {
                let text = format!("topic {topic} has no partition {partition}: it has {count}");
                return Err(Failure::Failed(text));
            }
        }
        let mut positions = self.starts(&client, &partitions).await?;
        let mut ends = match self.exit {
            true => Some(self.offsets(&client, &partitions, LATEST).await?),
            false => None,
        };
        if let Some(ends) = &mut ends {
            ends.retain(|partition, end| positions.get(partition).is_some_and(|at| at < end));
            positions.retain(|partition, _| ends.contains_key(partition));
        }
        let mut consumer = Consumer::new(client, self.options());
        consumer.assign(positions);
        let mut interrupted = std::pin::pin!(ctrl_c());
        while printer.left > 0 && ends.as_ref().is_none_or(|ends| !ends.is_empty()) {
            let fetched = tokio::select! {
                fetched = consumer.poll() => fetched?,
                _ = &mut interrupted => break,
            };
            let end = ends.as_ref().and_then(|ends| ends.get(&fetched.partition).copied());
            printer.print(&fetched, end)?;
            if let Some(ends) = &mut ends
                && end.is_none_or(|end| fetched.next_offset >= end)
            {
                ends.remove(&fetched.partition);
                consumer.pause(&fetched.partition);
            }
        }
        printer.finish()
    }

    async fn in_group(
        &self,
        client: Client,
        group: &str,
        mut printer: Printer,
    ) -> Result<(), Failure> {
        let clock = SystemClock::new();
        let options = GroupOptions { consumer: self.options(), ..GroupOptions::default() };
        let mut member = GroupConsumer::new(client.clone(), group, self.topics.clone(), options);
        let mut interrupted = std::pin::pin!(ctrl_c());
        let mut ends: Option<Offsets> = None;
        let mut committed_at = Instant::default();
        while printer.left > 0 && ends.as_ref().is_none_or(|ends| !ends.is_empty()) {
            let fetched = tokio::select! {
                fetched = member.poll() => fetched?,
                _ = &mut interrupted => break,
            };
            let Some(fetched) = fetched else {
                if self.exit {
                    let assigned: Vec<_> = member.assignment().iter().cloned().collect();
                    let mut found = self.offsets(&client, &assigned, LATEST).await?;
                    let positions: Offsets =
                        member.positions().map(|(at, offset)| (at.clone(), offset)).collect();
                    found.retain(|at, end| positions.get(at).is_some_and(|offset| offset < end));
                    ends = Some(found);
                }
                continue;
            };
            let next = printer.print(&fetched, None)?;
            member.stop_at(&fetched.partition, next);
            if let Some(ends) = &mut ends
                && ends.get(&fetched.partition).is_some_and(|end| fetched.next_offset >= *end)
            {
                ends.remove(&fetched.partition);
            }
            if clock.now().since(committed_at) >= COMMIT_INTERVAL {
                committed_at = clock.now();
                // If the group has moved on, the next poll joins it again.
                if let Err(error) = member.commit().await
                    && error.code().is_none()
                {
                    return Err(error.into());
                }
            }
        }
        let printed = printer.finish();
        member.leave().await?;
        printed
    }

    async fn offsets(
        &self,
        client: &Client,
        partitions: &[TopicPartition],
        timestamp: i64,
    ) -> Result<Offsets, Failure> {
        let wanted: Vec<_> = partitions.iter().map(|at| (at.clone(), timestamp)).collect();
        Ok(list_offsets(client, &wanted, self.isolation()).await?)
    }

    async fn starts(
        &self,
        client: &Client,
        partitions: &[TopicPartition],
    ) -> Result<Offsets, Failure> {
        let start = match (self.offset, self.from_beginning) {
            (Some(start), _) => start,
            (None, true) => Start::Beginning,
            (None, false) => Start::End,
        };
        match start {
            Start::Beginning => self.offsets(client, partitions, EARLIEST).await,
            Start::End => self.offsets(client, partitions, LATEST).await,
            Start::At(offset) => Ok(partitions.iter().map(|at| (at.clone(), offset)).collect()),
            Start::Last(count) => {
                let starts = self.offsets(client, partitions, EARLIEST).await?;
                let mut ends = self.offsets(client, partitions, LATEST).await?;
                for (partition, end) in &mut ends {
                    let start = starts.get(partition).copied().unwrap_or_default();
                    *end = end.saturating_sub(count).max(start);
                }
                Ok(ends)
            }
            Start::Time(at) => {
                let mut found = self.offsets(client, partitions, at).await?;
                let ends = self.offsets(client, partitions, LATEST).await?;
                for (partition, offset) in &mut found {
                    if *offset < 0 {
                        *offset = ends.get(partition).copied().unwrap_or_default();
                    }
                }
                Ok(found)
            }
        }
    }
}

struct Printer {
    out: BufWriter<Stdout>,
    /// JSON if none.
    format: Option<Format>,
    left: u64,
}

impl Printer {
    /// Prints what may still be printed, up to `end`, and returns where to go on.
    fn print(&mut self, fetched: &Fetched, end: Option<i64>) -> Result<i64, Failure> {
        let mut written = Ok(());
        let mut next = fetched.next_offset;
        let (out, left) = (&mut self.out, &mut self.left);
        fetched.for_each(|record| {
            if *left == 0 || end.is_some_and(|end| record.offset.0 >= end) {
                next = record.offset.0;
                return false;
            }
            *left -= 1;
            written = match &self.format {
                Some(format) => format.write(out, &fetched.partition, record),
                None => writeln!(out, "{}", format::json(&fetched.partition, record)),
            };
            written.is_ok()
        })?;
        written?;
        self.out.flush()?;
        Ok(next)
    }

    fn finish(mut self) -> Result<(), Failure> {
        Ok(self.out.flush()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_to_start_are_read() {
        let cases = [
            ("beginning", Start::Beginning),
            ("end", Start::End),
            ("0", Start::At(0)),
            ("-10", Start::Last(10)),
            ("@5", Start::Time(5)),
        ];
        for (text, start) in cases {
            assert_eq!(text.parse(), Ok(start));
        }
        for text in ["", "-", "@", "--1", "x", "9223372036854775808"] {
            assert!(text.parse::<Start>().is_err(), "{text}");
        }
    }
}
