//! What makes a configuration unfit to start with: values out of range, refused keys, keys that contradict each other.

use super::definition::{Definition, Status};
use super::error::{Problem, Warning};
use super::layers::{Properties, definition_of, listener_key};
use super::range::invalid_value;
use super::refusal::Refusal;
use super::settings::parse_overrides;
use super::topic::broker_key_of;
use super::value::Value;
use super::values::Values;

/// Parses `text` and checks its range.
///
/// # Errors
/// Kafka's message; a password is not in it.
pub(super) fn check_value(definition: &Definition, key: &str, text: &str) -> Result<Value, String> {
    let value = Value::parse(definition.kind, text)
        .map_err(|reason| invalid_value(text.trim(), key, &reason))?;
    definition.range.check(key, &value)?;
    Ok(value)
}

/// Every value that does not parse or is out of range.
pub(super) fn check_values(set: &Properties) -> Vec<Problem> {
    set.iter()
        .filter_map(|(key, text)| {
            let definition = definition_of(key)?;
            let message = check_value(definition, key, text).err()?;
            let range = definition.range.to_string();
            let range = if range.is_empty() {
                format!("a value of type {}", definition.kind.name())
            } else {
                range
            };
            let default = definition
                .default
                .map(|default| format!(" (default {default})"))
                .unwrap_or_default();
            Some(Problem::new(
                key.clone(),
                message,
                format!("give {range}{default}, or remove the key"),
            ))
        })
        .collect()
}

/// Keys that stop the start, and keys worth a warning. Values have been checked.
pub(super) fn check_statuses(set: &Properties) -> (Vec<Problem>, Vec<Warning>) {
    let (mut problems, mut warnings) = (Vec::new(), Vec::new());
    for (key, text) in set {
        let Some(definition) = definition_of(key) else {
            if !key.starts_with("config.providers") {
                warnings.push(Warning { key: key.clone(), message: unknown(key) });
            }
            continue;
        };
        if is_default(definition, text) {
            continue;
        }
        match status_of(definition, key) {
            Status::Refused(refusal) => {
                let message = format!("asks for {}", refusal.feature());
                problems.push(Problem::new(key.clone(), message, refusal.remedy()));
            }
            Status::Harmless => {
                warnings.push(Warning {
                    key: key.clone(),
                    message: "accepted, but this broker does nothing with it".into(),
                });
            }
            Status::Honoured | Status::Inert => {}
        }
    }
    (problems, warnings)
}

/// What we do with `key`, which may be a listener's own form of `definition`. Only security settings and the connection
/// limits mean anything there, to Kafka too; the limit of a single listener is not enforced.
pub(super) fn status_of(definition: &Definition, key: &str) -> Status {
    match (definition.status, listener_key(key)) {
        (Status::Honoured, Some("max.connections")) => Status::Refused(Refusal::ConnectionLimit),
        (Status::Honoured, Some(_)) => Status::Harmless,
        (status, _) => status,
    }
}

/// A topic's key in a broker's file is a common slip, and its loss may cost records.
fn unknown(key: &str) -> String {
    match broker_key_of(key) {
        Some(broker_key) => format!("a key of topics, ignored here; the broker's is {broker_key}"),
        None => "unknown to Kafka and to this broker; ignored".into(),
    }
}

/// Whether `text` asks for nothing: the default, or blank where the default is null.
fn is_default(definition: &Definition, text: &str) -> bool {
    let parsed = Value::parse(definition.kind, text);
    match definition.default {
        Some(default) => parsed == Value::parse(definition.kind, default),
        None => matches!(parsed, Ok(Value::Text(text)) if text.is_empty()),
    }
}

/// Rules between keys; each key has passed [`check_values`]. The words are Kafka's.
pub(super) fn check_together(values: &Values) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut require = |holds: bool, key: &str, message: &str, remedy: &str| {
        if !holds {
            problems.push(Problem::new(key, message.to_owned(), remedy));
        }
    };
    let number = |name| values.i64(name);

    let id = number("broker.id");
    if values.boolean("broker.id.generation.enable") {
        require(
            (-1..=number("reserved.broker.max.id")).contains(&id),
            "broker.id",
            "broker.id must be greater than or equal to -1 and not greater than reserved.broker.max.id",
            "choose a smaller id, raise reserved.broker.max.id, or set broker.id.generation.enable=false",
        );
    } else {
        require(
            id >= 0,
            "broker.id",
            "broker.id must be greater than or equal to 0",
            "set broker.id",
        );
    }
    require(
        values.boolean("barnabas.leader.lease.enable")
            || !values.boolean("barnabas.fast.failure.detection"),
        "barnabas.fast.failure.detection",
        "removing a broker's registration before its session expires needs barnabas.leader.lease.enable: without, \
         a leader that is alive after all would go on beside its successor",
        "set both, or set barnabas.fast.failure.detection=false",
    );
    let at_least =
        |name: &str, least: i64| values.optional_i64(name).is_none_or(|millis| millis >= least);
    require(
        at_least("log.roll.ms", 1),
        "log.roll.ms",
        "log.roll.ms must be greater than or equal to 1",
        "give at least 1",
    );
    require(
        at_least("log.roll.jitter.ms", 0),
        "log.roll.jitter.ms",
        "log.roll.jitter.ms must be greater than or equal to 0",
        "give at least 0",
    );
    let retention = ["log.retention.ms", "log.retention.minutes", "log.retention.hours"]
        .into_iter()
        .find_map(|name| values.optional_i64(name).map(|value| (name, value)));
    if let Some((name, value)) = retention {
        require(
            value != 0,
            name,
            "log.retention.ms must be unlimited (-1) or, greater than or equal to 1",
            "give -1 to keep records for ever, or at least 1",
        );
    }
    let directories =
        values.text("log.dirs").or_else(|| values.text("log.dir")).unwrap_or_default();
    require(
        directories.split(',').any(|path| !path.trim().is_empty()),
        "log.dirs",
        "At least one log directory must be defined via log.dirs or log.dir.",
        "name a directory",
    );
    let mut names: Vec<_> =
        directories.split(',').map(str::trim).filter(|path| !path.is_empty()).collect();
    names.sort_unstable();
    let all = names.len();
    names.dedup();
    require(
        names.len() == all,
        "log.dirs",
        "a directory is named twice",
        "name each directory once",
    );
    if values.boolean("log.cleaner.enable") {
        let threads = number("log.cleaner.threads").max(1);
        require(
            number("log.cleaner.dedupe.buffer.size") / threads > 1024 * 1024,
            "log.cleaner.dedupe.buffer.size",
            "log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.",
            "raise it or lower log.cleaner.threads",
        );
    }
    let wait = number("replica.fetch.wait.max.ms");
    require(
        wait <= number("replica.socket.timeout.ms"),
        "replica.socket.timeout.ms",
        "replica.socket.timeout.ms should always be at least replica.fetch.wait.max.ms to prevent unnecessary socket timeouts",
        "raise it or lower replica.fetch.wait.max.ms",
    );
    require(
        wait <= number("replica.lag.time.max.ms"),
        "replica.fetch.wait.max.ms",
        "replica.fetch.wait.max.ms should always be less than or equal to replica.lag.time.max.ms to prevent frequent changes in ISR",
        "lower it or raise replica.lag.time.max.ms",
    );
    require(
        (-1..=number("offsets.topic.replication.factor"))
            .contains(&number("offsets.commit.required.acks")),
        "offsets.commit.required.acks",
        "offsets.commit.required.acks must be greater or equal to -1 and less or equal to offsets.topic.replication.factor",
        "give -1, so that a commit counts once every in-sync replica has it",
    );
    require(
        (0..=4).contains(&number("offsets.topic.compression.codec")),
        "offsets.topic.compression.codec",
        &format!("Unknown compression type id: {}", number("offsets.topic.compression.codec")),
        "give 0 (none), 1 (gzip), 2 (snappy), 3 (lz4) or 4 (zstd)",
    );
    let queued = number("queued.max.request.bytes");
    require(
        queued <= 0 || queued >= number("socket.request.max.bytes"),
        "queued.max.request.bytes",
        "queued.max.request.bytes must be larger or equal to socket.request.max.bytes",
        "raise it or lower socket.request.max.bytes",
    );
    let idle = number("connections.max.idle.ms");
    if idle > 0 {
        require(
            number("connection.failed.authentication.delay.ms") < idle,
            "connection.failed.authentication.delay.ms",
            &format!(
                "connection.failed.authentication.delay.ms={} should always be less than connections.max.idle.ms={idle} to prevent failed authentication responses from timing out",
                number("connection.failed.authentication.delay.ms")
            ),
            "lower it or raise connections.max.idle.ms",
        );
    }
    require(
        number("log.cleaner.min.compaction.lag.ms") <= number("log.cleaner.max.compaction.lag.ms"),
        "log.cleaner.min.compaction.lag.ms",
        &format!(
            "conflict topic config setting min.compaction.lag.ms ({}) > max.compaction.lag.ms ({})",
            number("log.cleaner.min.compaction.lag.ms"),
            number("log.cleaner.max.compaction.lag.ms")
        ),
        "lower it or raise log.cleaner.max.compaction.lag.ms",
    );
    let overrides = values.text("max.connections.per.ip.overrides").unwrap_or_default();
    require(
        parse_overrides(&overrides).is_some(),
        "max.connections.per.ip.overrides",
        &invalid_value(&overrides, "max.connections.per.ip.overrides", "each item is host:count"),
        "write host:count pairs with commas between, for example 127.0.0.1:200",
    );
    require(
        number("max.connections.per.ip") > 0 || !overrides.is_empty(),
        "max.connections.per.ip",
        "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides property is set.",
        "give at least 1, or name the hosts that may connect in max.connections.per.ip.overrides",
    );
    problems
}
