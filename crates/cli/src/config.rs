//! `barnabas config`: the manual of all keys, from the definitions that the broker itself reads.

use crate::session::{Failure, run, say, say_json, say_table};
use broker::config::{
    Definition, Importance, Origin, Scope, Status, areas, broker_definition, topic_definition,
};
use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};
use std::process::ExitCode;

/// Explain the keys of server.properties and of topics.
#[derive(Args, Debug)]
pub(crate) struct Config {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List keys.
    #[command(after_help = "Examples:
  barnabas config list
  barnabas config list retention
  barnabas config list --status refused")]
    List {
        /// Only keys that contain this.
        filter: Option<String>,
        /// Only keys that this broker treats so.
        #[arg(long, value_enum)]
        status: Option<StatusArgument>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Explain keys.
    Describe {
        /// The keys.
        #[arg(required = true)]
        keys: Vec<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum StatusArgument {
    /// Does what it says.
    Honoured,
    /// Stops the start unless it has its default.
    Refused,
    /// Is accepted with a warning and does nothing.
    Harmless,
    /// Is accepted and does nothing, because this broker works in another way.
    Inert,
}

impl StatusArgument {
    const fn of(status: Status) -> Self {
        match status {
            Status::Honoured => Self::Honoured,
            Status::Refused(_) => Self::Refused,
            Status::Harmless => Self::Harmless,
            Status::Inert => Self::Inert,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Honoured => "honoured",
            Self::Refused => "refused",
            Self::Harmless => "harmless",
            Self::Inert => "inert",
        }
    }
}

impl Config {
    pub(crate) fn run(self) -> ExitCode {
        run(async move {
            match self.command {
                Command::List { filter, status, json } => list(filter.as_deref(), status, json),
                Command::Describe { keys, json } => describe(&keys, json),
            }
        })
    }
}

fn default(definition: &Definition) -> String {
    match definition.default {
        None => "(none)".into(),
        Some("") => "(empty)".into(),
        Some(default) => default.into(),
    }
}

fn list(filter: Option<&str>, status: Option<StatusArgument>, json: bool) -> Result<(), Failure> {
    let shown = |definition: &&Definition| {
        filter.is_none_or(|filter| definition.name.contains(filter))
            && status.is_none_or(|status| StatusArgument::of(definition.status) == status)
    };
    let rows = areas().flat_map(|area| {
        area.definitions.iter().filter(shown).map(move |definition| (area.title, definition))
    });
    if json {
        let rows = rows.map(|(area, definition)| definition_json(Some(area), definition));
        return say_json(&rows.collect());
    }
    let rows = rows.map(|(area, definition)| {
        vec![
            definition.name.to_owned(),
            definition.kind.name().to_lowercase(),
            default(definition),
            StatusArgument::of(definition.status).name().to_owned(),
            area.to_owned(),
        ]
    });
    say_table(&["KEY", "TYPE", "DEFAULT", "STATUS", "AREA"], rows)
}

const fn importance(importance: Importance) -> &'static str {
    match importance {
        Importance::High => "high",
        Importance::Medium => "medium",
        Importance::Low => "low",
    }
}

const fn scope(scope: Scope) -> &'static str {
    match scope {
        Scope::ReadOnly => "server.properties and a restart",
        Scope::PerBroker => "one broker, while it runs",
        Scope::ClusterWide => "one broker or all, while they run",
    }
}

const fn origin(origin: Origin) -> &'static str {
    match origin {
        Origin::Both => "Kafka 3.9 and 4.x",
        Origin::Kafka3 => "Kafka 3.9",
        Origin::Kafka4 => "Kafka 4.x",
        Origin::Barnabas => "Barnabas",
    }
}

fn definition_json(area: Option<&str>, definition: &Definition) -> Value {
    json!({
        "key": definition.name,
        "area": area,
        "type": definition.kind.name().to_lowercase(),
        "default": definition.default,
        "range": definition.range.to_string(),
        "importance": importance(definition.importance),
        "changed_by": scope(definition.scope),
        "status": StatusArgument::of(definition.status).name(),
        "known_to": origin(definition.origin),
        "doc": definition.doc(),
    })
}

fn describe(keys: &[String], json: bool) -> Result<(), Failure> {
    let mut found = Vec::new();
    for key in keys {
        let of_topic = topic_definition(key).map(|definition| ("topics", definition));
        let of_broker = broker_definition(key).map(|definition| ("brokers", definition));
        let before = found.len();
        found.extend(of_topic.into_iter().chain(of_broker));
        if found.len() == before {
            let text = format!("there is no key {key}; see: barnabas config list");
            return Err(Failure::Usage(text));
        }
    }
    if json {
        let rows = found.into_iter().map(|(of, definition)| {
            let mut row = definition_json(None, definition);
            row["of"] = of.into();
            row
        });
        return say_json(&rows.collect());
    }
    for (at, (of, definition)) in found.into_iter().enumerate() {
        if at > 0 {
            say("")?;
        }
        say(format_args!("{} (of {of})", definition.name))?;
        say(format_args!("  {}", definition.doc().replace('\n', "\n ")))?;
        say(format_args!("  type        {}", definition.kind.name().to_lowercase()))?;
        say(format_args!("  default     {}", default(definition)))?;
        let range = definition.range.to_string();
        if !range.is_empty() {
            say(format_args!("  range       {range}"))?;
        }
        say(format_args!("  importance  {}", importance(definition.importance)))?;
        if of == "brokers" {
            say(format_args!("  changed by  {}", scope(definition.scope)))?;
        }
        say(format_args!("  known to    {}", origin(definition.origin)))?;
        let status = StatusArgument::of(definition.status).name();
        match definition.status {
            Status::Refused(refusal) => {
                let (feature, remedy) = (refusal.feature(), refusal.remedy());
                say(format_args!("  status      {status}: {feature}; {remedy}"))?;
            }
            Status::Honoured | Status::Harmless | Status::Inert => {
                say(format_args!("  status      {status}"))?;
            }
        }
    }
    Ok(())
}
