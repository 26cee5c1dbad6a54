//! Medians and extremes: one JSON line per measurement, a table for `docs/benchmarks.md`, a plot.

use crate::error::{BenchError, io};
use crate::servers::Subject;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// One measurement.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) scenario: &'static str,
    pub(crate) subject: Subject,
    pub(crate) round: usize,
    pub(crate) figures: BTreeMap<&'static str, f64>,
}

/// What is demanded of our median.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bar {
    pub(crate) figure: &'static str,
    pub(crate) limit: Limit,
}

/// A demand.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Limit {
    /// Of Kafka's median; or 90 % of the null broker's, where the client can do no more.
    RatioFrom(f64),
    /// Of Kafka's median.
    RatioTo(f64),
    /// In the figure's own unit.
    UpTo(f64),
}

/// All measurements of a run.
#[derive(Debug)]
pub(crate) struct Report {
    folder: PathBuf,
    lines: File,
    scenarios: Vec<(&'static str, &'static str, &'static [Bar])>,
    samples: Vec<Sample>,
}

impl Report {
    pub(crate) fn open(folder: &Path) -> Result<Self, BenchError> {
        fs::create_dir_all(folder).map_err(io(folder.display().to_string()))?;
        let path = folder.join("samples.jsonl");
        let lines = OpenOptions::new().create(true).append(true).open(&path);
        Ok(Self {
            folder: folder.to_path_buf(),
            lines: lines.map_err(io(path.display().to_string()))?,
            scenarios: Vec::new(),
            samples: Vec::new(),
        })
    }

    pub(crate) fn begin(&mut self, name: &'static str, what: &'static str, bars: &'static [Bar]) {
        self.scenarios.push((name, what, bars));
    }

    pub(crate) fn add(&mut self, sample: Sample) -> Result<(), BenchError> {
        let line = serde_json::json!({
            "scenario": sample.scenario, "subject": sample.subject.name(), "round": sample.round,
            "figures": sample.figures,
        });
        writeln!(self.lines, "{line}").map_err(io("samples.jsonl"))?;
        self.samples.push(sample);
        Ok(())
    }

    /// Whether the medians of every subject moved by less than 5 % with the last round.
    pub(crate) fn has_settled(&self, scenario: &str) -> bool {
        [Subject::Barnabas, Subject::Kafka].into_iter().all(|subject| {
            let Some(name) = self.main_figure(scenario) else { return true };
            let mut values = self.values(scenario, subject, name);
            let all = median(&values);
            values.pop();
            values.is_empty() || (median(&values) / all - 1.0).abs() < 0.05
        })
    }

    fn main_figure(&self, scenario: &str) -> Option<&'static str> {
        let first = self.samples.iter().find(|s| s.scenario == scenario)?;
        let wanted = ["requests/s", "records/s", "MB/s", "p50 us", "start to first ack ms"];
        wanted.into_iter().find(|name| first.figures.contains_key(name))
    }

    fn values(&self, scenario: &str, subject: Subject, figure: &str) -> Vec<f64> {
        let mine = self.samples.iter().filter(|s| s.scenario == scenario && s.subject == subject);
        mine.filter_map(|s| s.figures.get(figure).copied()).collect()
    }

    /// Writes `table.md` and `plot.svg` and prints the table.
    pub(crate) fn write(&self) -> Result<(), BenchError> {
        let table = self.table();
        print!("{table}");
        for (name, text) in [("table.md", table), ("plot.svg", self.plot())] {
            let path = self.folder.join(name);
            fs::write(&path, text).map_err(io(path.display().to_string()))?;
        }
        Ok(())
    }

    fn table(&self) -> String {
        let mut text = String::from(
            "| scenario | figure | Barnabas median (min to max) | Apache Kafka median (min to max) | ratio | null broker | rounds | bar |\n|---|---|---|---|---|---|---|---|\n",
        );
        for row in self.rows() {
            let ratio = if row.kafka.is_empty() {
                String::new()
            } else {
                format!("{:.2}", median(&row.barnabas) / median(&row.kafka))
            };
            let null = if row.null.is_empty() { String::new() } else { number(median(&row.null)) };
            writeln!(
                text,
                "| {} | {} | {} | {} | {ratio} | {null} | {} | {} |",
                row.scenario,
                row.figure,
                spread(&row.barnabas),
                spread(&row.kafka),
                row.barnabas.len(),
                row.verdict()
            )
            .expect("a string takes everything");
        }
        for (name, what, _) in &self.scenarios {
            writeln!(text, "\n{name}: {what}").expect("a string takes everything");
        }
        text
    }

    fn rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        for &(scenario, _, bars) in &self.scenarios {
            let figures = self.samples.iter().find(|s| s.scenario == scenario);
            for &figure in figures.iter().flat_map(|s| s.figures.keys()) {
                rows.push(Row {
                    scenario,
                    figure,
                    bar: bars.iter().find(|bar| bar.figure == figure).map(|bar| bar.limit),
                    barnabas: self.values(scenario, Subject::Barnabas, figure),
                    kafka: self.values(scenario, Subject::Kafka, figure),
                    null: self.values(scenario, Subject::Null, figure),
                });
            }
        }
        rows
    }

    /// Horizontal bars of ours relative to Kafka's, on a logarithmic axis: 1/100 to 100.
    fn plot(&self) -> String {
        let rows: Vec<_> = self.rows().into_iter().filter(|r| !r.kafka.is_empty()).collect();
        let (width, left, bar) = (900.0, 300.0, 18.0);
        let height = 60.0 + bar * rows.len() as f64;
        let x = |ratio: f64| {
            left + (ratio.log10().clamp(-2.0, 2.0) + 2.0) / 4.0 * (width - left - 60.0)
        };
        let mut svg = format!(
            "<svg xmlns='http://www.w3.org/2000/svg' width='{width}' height='{height}' font-family='sans-serif' font-size='11'>\n<rect width='100%' height='100%' fill='white'/>\n<text x='10' y='18' font-size='14'>Barnabas relative to Apache Kafka (1 = equal; logarithmic)</text>\n"
        );
        for tick in [0.01, 0.1, 1.0, 10.0, 100.0] {
            let at = x(tick);
            let _ = writeln!(
                svg,
                "<line x1='{at}' x2='{at}' y1='40' y2='{height}' stroke='#bbb'/><text x='{at}' y='36' text-anchor='middle'>{tick}</text>"
            );
        }
        for (index, row) in rows.iter().enumerate() {
            let ratio = median(&row.barnabas) / median(&row.kafka);
            let (y, one, end) = (48.0 + bar * index as f64, x(1.0), x(ratio));
            let (from, to) = if end < one { (end, one) } else { (one, end) };
            let good = row.figure.ends_with("/s") == (ratio > 1.0);
            let color = if good { "#2a7" } else { "#c63" };
            let _ = writeln!(
                svg,
                "<text x='{}' y='{}' text-anchor='end'>{} {}</text><rect x='{from}' y='{y}' width='{}' height='{}' fill='{color}'/><text x='{}' y='{}'>{ratio:.2}</text>",
                left - 6.0,
                y + 11.0,
                row.scenario,
                row.figure,
                (to - from).max(1.0),
                bar - 5.0,
                to + 4.0,
                y + 11.0
            );
        }
        svg.push_str("</svg>\n");
        svg
    }
}

struct Row {
    scenario: &'static str,
    figure: &'static str,
    bar: Option<Limit>,
    barnabas: Vec<f64>,
    kafka: Vec<f64>,
    null: Vec<f64>,
}

impl Row {
    /// The bar and whether our median meets it.
    fn verdict(&self) -> String {
        let Some(bar) = self.bar else { return String::new() };
        let ours = median(&self.barnabas);
        let ratio = ours / median(&self.kafka);
        let (text, met) = match bar {
            Limit::RatioFrom(least) => {
                let of_client = ours / median(&self.null);
                (format!("at least {least:.2}x"), ratio >= least || of_client >= 0.9)
            }
            Limit::RatioTo(most) => (format!("at most {most:.3}x"), ratio <= most),
            Limit::UpTo(most) => (format!("at most {most}"), ours <= most),
        };
        format!("{text}: {}", if met { "met" } else { "**not met**" })
    }
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[n / 2],
        n => (sorted[n / 2 - 1] + sorted[n / 2]) / 2.0,
    }
}

fn spread(values: &[f64]) -> String {
    if values.is_empty() {
        return String::new();
    }
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    format!("{} ({} to {})", number(median(values)), number(least), number(most))
}

fn number(value: f64) -> String {
    if value >= 100.0 { format!("{value:.0}") } else { format!("{value:.2}") }
}

#[test]
fn a_median_is_the_middle() {
    assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
    assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
}
