//! The manual, `docs/configuration.md`, written from the definitions.

use super::alter::FIXED_HERE;
use super::definition::{Definition, Importance, Kind, Origin, Scope, Status};
use super::definitions::areas;
use super::properties::WITHOUT_A_FILE;
use std::fmt::Write;

/// Every key as Markdown, by area.
#[must_use]
pub fn manual() -> String {
    let mut text = String::from(INTRODUCTION);
    for (key, value) in WITHOUT_A_FILE {
        writeln!(text, "{key}={value}").expect("a String takes everything");
    }
    text.push_str("```\n");
    for area in areas() {
        write!(text, "\n## {}\n\n{}\n", area.title, area.introduction)
            .expect("a String takes everything");
        for definition in area.definitions {
            write_key(&mut text, definition).expect("a String takes everything");
        }
    }
    text
}

const INTRODUCTION: &str = "<!-- Written by `UPDATE=1 cargo test -p broker manual`; edit crates/broker/src/config/definitions instead. -->
# Configuration

`barnabas serve` reads `server.properties` as Kafka does; `--set key=value` goes on top. What a key's status means:

| status | a value other than the default |
|---|---|
| honoured | does what it says |
| refused | stops the start (exit code 2): ignoring it could weaken security or lose data |
| harmless | is accepted with a warning and does nothing |
| inert | is accepted; it tunes something that this broker does not have, or does in another way |

Keys that neither Kafka nor this broker knows are accepted with a warning. *Read-only* keys need a restart; *per broker*
and *cluster-wide* ones can be changed with `AlterConfigs`. With a file Kafka's defaults hold: a single broker should set
`offsets.topic.replication.factor=1`, or consumer groups find no coordinator, as with Kafka. Without a file the broker
runs with

```properties
";

fn write_key(text: &mut String, definition: &Definition) -> std::fmt::Result {
    write!(
        text,
        "\n### `{}`\n\n{}\n\n{}",
        definition.name,
        definition.doc(),
        kind(definition.kind)
    )?;
    match definition.default {
        None => text.push_str(", no default"),
        Some("") => text.push_str(", default empty"),
        Some(default) => write!(text, ", default `{default}`")?,
    }
    let range = definition.range.to_string();
    if !range.is_empty() {
        write!(text, ", {range}")?;
    }
    let importance = match definition.importance {
        Importance::High => "high",
        Importance::Medium => "medium",
        Importance::Low => "low",
    };
    let scope = match definition.scope {
        Scope::ReadOnly => "read-only",
        Scope::PerBroker | Scope::ClusterWide if FIXED_HERE.contains(&definition.name) => {
            "read-only"
        }
        Scope::PerBroker => "per broker",
        Scope::ClusterWide => "cluster-wide",
    };
    let origin = match definition.origin {
        Origin::Both => "",
        Origin::Kafka3 => "; removed in Kafka 4",
        Origin::Kafka4 => "; since Kafka 4",
        Origin::Barnabas => "; not a key of Kafka's",
    };
    write!(text, "; importance {importance}; {scope}{origin}. ")?;
    match definition.status {
        Status::Honoured => text.push_str("**Honoured.**\n"),
        Status::Harmless => text.push_str("**Harmless.**\n"),
        Status::Inert => text.push_str("**Inert.**\n"),
        Status::Refused(refusal) => writeln!(text, "**Refused**: asks for {}.", refusal.feature())?,
    }
    Ok(())
}

fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Boolean => "Boolean",
        Kind::String => "String",
        Kind::Int => "Integer (32 bits)",
        Kind::Short => "Integer (16 bits)",
        Kind::Long => "Integer (64 bits)",
        Kind::Double => "Fraction",
        Kind::List => "List",
        Kind::Class => "Java class",
        Kind::Password => "Password",
    }
}
