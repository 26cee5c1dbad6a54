//! Where records live and what is done about them.

use crate::config::values::Values;
use std::path::PathBuf;
use std::time::Duration;

/// Broker-wide settings of the log. What a topic may override is in `storage::LogConfig`: see
/// [`BrokerConfig::log_config`](crate::config::BrokerConfig::log_config).
#[derive(Clone, Debug, PartialEq)]
pub struct LogSettings {
    /// `log.dirs`, else `log.dir`; never empty.
    pub directories: Vec<PathBuf>,
    /// `log.flush.scheduler.interval.ms`: how often to look for logs whose flush is due; `None` means never.
    pub flush_scheduler_interval: Option<Duration>,
    /// `log.flush.offset.checkpoint.interval.ms`
    pub recovery_point_checkpoint_interval: Duration,
    /// `log.flush.start.offset.checkpoint.interval.ms`
    pub log_start_checkpoint_interval: Duration,
    /// `log.retention.check.interval.ms`
    pub retention_check_interval: Duration,
    /// `log.initial.task.delay.ms`: from start to the first of these rounds.
    pub initial_task_delay: Duration,
    /// `num.recovery.threads.per.data.dir`
    pub recovery_threads_per_directory: usize,
    /// `log.dir.failure.timeout.ms`
    pub directory_failure_timeout: Duration,
    /// The compaction settings.
    pub cleaner: CleanerSettings,
    /// `barnabas.log.scrub.*`
    pub scrub: ScrubSettings,
    /// `barnabas.disk.reserve.bytes`; `None` to go by the volume's size.
    pub disk_reserve_bytes: Option<u64>,
    /// `barnabas.record.validation`
    pub record_validation: RecordValidation,
}

/// `log.cleaner.*` settings of the broker.
#[derive(Clone, Debug, PartialEq)]
pub struct CleanerSettings {
    /// `log.cleaner.enable`
    pub enabled: bool,
    /// `log.cleaner.threads`
    pub threads: usize,
    /// `log.cleaner.io.max.bytes.per.second`; infinite if unlimited.
    pub io_max_bytes_per_second: f64,
    /// `log.cleaner.dedupe.buffer.size`: for all threads together.
    pub dedupe_buffer_bytes: u64,
    /// `log.cleaner.io.buffer.size`: for all threads together.
    pub io_buffer_bytes: usize,
    /// `log.cleaner.io.buffer.load.factor`
    pub dedupe_buffer_load_factor: f64,
    /// `log.cleaner.backoff.ms`
    pub backoff: Duration,
}

/// `barnabas.log.scrub.*`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScrubSettings {
    /// `barnabas.log.scrub.interval.ms`; `None` for never.
    pub interval: Option<Duration>,
    /// `barnabas.log.scrub.max.bytes.per.second`
    pub bytes_per_second: u64,
}

/// How much of a produced batch is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordValidation {
    /// Everything that Kafka checks, inside compressed batches too.
    Full,
    /// Headers, lengths and checksums; records inside a compressed batch are taken as sent where the topic allows it.
    Headers,
}

impl LogSettings {
    pub(in crate::config) fn read(values: &Values) -> Self {
        Self {
            directories: directories(values),
            flush_scheduler_interval: values.millis_or_never("log.flush.scheduler.interval.ms"),
            recovery_point_checkpoint_interval: values
                .millis("log.flush.offset.checkpoint.interval.ms"),
            log_start_checkpoint_interval: values
                .millis("log.flush.start.offset.checkpoint.interval.ms"),
            retention_check_interval: values.millis("log.retention.check.interval.ms"),
            initial_task_delay: values.millis("log.initial.task.delay.ms"),
            recovery_threads_per_directory: values.size("num.recovery.threads.per.data.dir"),
            directory_failure_timeout: values.millis("log.dir.failure.timeout.ms"),
            cleaner: CleanerSettings {
                enabled: values.boolean("log.cleaner.enable"),
                threads: values.size("log.cleaner.threads"),
                io_max_bytes_per_second: match values.f64("log.cleaner.io.max.bytes.per.second") {
                    f64::MAX => f64::INFINITY,
                    rate => rate,
                },
                dedupe_buffer_bytes: values.u64("log.cleaner.dedupe.buffer.size"),
                io_buffer_bytes: values.size("log.cleaner.io.buffer.size"),
                dedupe_buffer_load_factor: values.f64("log.cleaner.io.buffer.load.factor"),
                backoff: values.millis("log.cleaner.backoff.ms"),
            },
            scrub: ScrubSettings {
                interval: Some(values.millis("barnabas.log.scrub.interval.ms"))
                    .filter(|interval| !interval.is_zero()),
                bytes_per_second: values.u64("barnabas.log.scrub.max.bytes.per.second"),
            },
            disk_reserve_bytes: u64::try_from(values.i64("barnabas.disk.reserve.bytes")).ok(),
            record_validation: match values.text("barnabas.record.validation").as_deref() {
                Some("headers") => RecordValidation::Headers,
                _ => RecordValidation::Full,
            },
        }
    }
}

/// Kafka splits at commas and drops blanks around and between.
fn directories(values: &Values) -> Vec<PathBuf> {
    let text = values.text("log.dirs").or_else(|| values.text("log.dir")).unwrap_or_default();
    text.split(',').map(str::trim).filter(|path| !path.is_empty()).map(PathBuf::from).collect()
}
