//! Writes `arbitrary.rs`: random values of every structure that a version can carry.

#![expect(clippy::wildcard_enum_match_arm, reason = "only lists are treated apart")]

use super::rust::{BANNER, default_value, field_name, has_plain_default, snake};
use super::schema::{Field, File, Message, Type, Versions};
use std::fmt::Write;

/// The file. A field that the version lacks keeps its default, so that what is written can be read
/// back equal.
pub(super) fn file(files: &[File]) -> String {
    let mut out = String::from(BANNER);
    out.push_str(
        "//! Random values of every message, for tests.\n\nuse super::*;\n\
         use crate::arbitrary::{Arbitrary, Random};\n\
         use model::TopicId;\n\n",
    );
    for message in files.iter().flat_map(|file| &file.messages) {
        structure(&mut out, message, &message.name, &message.fields, true);
        for inner in &message.structs {
            structure(&mut out, message, &inner.name, &inner.fields, false);
        }
    }
    out
}

fn structure(out: &mut String, message: &Message, name: &str, fields: &[Field], outer: bool) {
    let path = match outer {
        true => name.to_owned(),
        false => format!("{}::{name}", snake(&message.name)),
    };
    let used = |any: bool| if any { "" } else { "_" };
    let _ = writeln!(
        out,
        "impl Arbitrary for {path} {{ fn arbitrary({}random: &mut Random, {}version: i16) -> Self {{",
        used(!fields.is_empty()),
        used(fields.iter().any(|field| needs_version(message, field))),
    );
    if fields.is_empty() {
        out.push_str("Self::default() } }\n\n");
        return;
    }
    out.push_str("Self {\n");
    for field in fields {
        let value = value(message, field);
        let name = field_name(field);
        let default = match (has_plain_default(field), field.nullable) {
            (true, _) => "Default::default()".to_owned(),
            (false, Some(_)) => "Some(Default::default())".to_owned(),
            (false, None) => default_value(field),
        };
        let _ = match within(field.versions, message.versions) {
            None => writeln!(out, "{name}: {value},"),
            Some(within) => {
                writeln!(out, "{name}: if {within} {{ {value} }} else {{ {default} }},")
            }
        };
    }
    out.push_str("} } }\n\n");
}

/// The condition under which `version` is in `range`; `None` if it always is.
fn within(range: Versions, all: Versions) -> Option<String> {
    match range {
        range if range.covers(all) => None,
        Versions { low, high: i16::MAX } => Some(format!("version >= {low}")),
        Versions { low: 0, high: 0 } => Some("version == 0".into()),
        Versions { low: 0, high } => Some(format!("version <= {high}")),
        Versions { low, high } => Some(format!("({low}..={high}).contains(&version)")),
    }
}

fn needs_version(message: &Message, field: &Field) -> bool {
    !field.versions.covers(message.versions)
        || field.kind.structure().is_some()
        || field.nullable.is_some_and(|nullable| !nullable.covers(message.versions))
}

fn value(message: &Message, field: &Field) -> String {
    let one = |kind: &Type| match kind {
        Type::Bool => "random.bool()".to_owned(),
        Type::I8 => "random.i8()".to_owned(),
        Type::I16 => "random.i16()".to_owned(),
        Type::U16 => "random.u16()".to_owned(),
        Type::I32 => "random.i32()".to_owned(),
        Type::U32 => "random.u32()".to_owned(),
        Type::I64 => "random.i64()".to_owned(),
        Type::F64 => "random.f64()".to_owned(),
        Type::String => "random.string()".to_owned(),
        Type::Bytes => "random.bytes()".to_owned(),
        Type::Uuid => "random.uuid()".to_owned(),
        Type::Records => "random.records()".to_owned(),
        Type::Struct(_) => "Arbitrary::arbitrary(random, version)".to_owned(),
        Type::Array(_) => unreachable!("no lists of lists"),
    };
    let full = match &field.kind {
        Type::Array(element) => format!("(0..random.count()).map(|_| {}).collect()", one(element)),
        kind => one(kind),
    };
    match field.nullable {
        None if field.kind == Type::Records => format!("Some({full})"),
        None => full,
        Some(nullable) => {
            let within = within(nullable, message.versions);
            let within = within.map_or(String::new(), |within| format!("{within} && "));
            format!("if {within}random.is_null() {{ None }} else {{ Some({full}) }}")
        }
    }
}
