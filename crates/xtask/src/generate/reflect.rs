//! Writes `reflect.rs`: the schemas of all APIs, records and other data as data.

use super::rust::{BANNER, field_name};
use super::schema::{Field, File, Kind, Message, Type, Versions};
use std::fmt::Write;

/// The file.
pub(super) fn file(files: &[File]) -> String {
    let mut out = String::from(BANNER);
    out.push_str(
        "//! The schemas of every API, of coordinators' records and of other data as data, for tools.\n\nuse super::ApiKey;\n\
         use crate::reflect::Kind::*;\nuse crate::reflect::{Api, Message, Record, f};\n\n\
         const MAX: i16 = i16::MAX;\n\n/// Every API, in the order of their keys.\npub static APIS: &[Api] = &[\n",
    );
    for file in files {
        let Some((_, name)) = &file.api else { continue };
        let message = |kind: &Kind| {
            let found = file.messages.iter().find(|message| message.kind == *kind);
            found.map_or_else(String::new, text)
        };
        let _ = writeln!(
            out,
            "Api {{ key: ApiKey::{name}, request: {}, response: {} }},",
            message(&Kind::Request),
            message(&Kind::Response)
        );
    }
    out.push_str("];\n\n/// Every record of coordinators, in the order of their names.\npub static RECORDS: &[Record] = &[\n");
    for file in files {
        let find = |wanted: fn(&Kind) -> Option<i16>| {
            file.messages.iter().find_map(|message| Some((wanted(&message.kind)?, message)))
        };
        let key = find(|kind| if let Kind::Key(number) = kind { Some(*number) } else { None });
        let value = find(|kind| matches!(kind, Kind::Value).then_some(0));
        if let (Some((number, key)), Some((_, value))) = (key, value) {
            let _ = writeln!(
                out,
                "Record {{ kind: {number}, key: {}, value: {} }},",
                text(key),
                text(value)
            );
        }
    }
    out.push_str("];\n\n/// Every other message, in the order of their names.\npub static DATA: &[Message] = &[\n");
    for message in files.iter().flat_map(|file| &file.messages) {
        if message.kind == Kind::Data {
            let _ = writeln!(out, "{},", text(message));
        }
    }
    out.push_str("];\n");
    out
}

fn text(message: &Message) -> String {
    let structs: Vec<String> = message
        .structs
        .iter()
        .map(|inner| format!("({:?}, {})", inner.name, fields(&inner.fields)))
        .collect();
    format!(
        "Message {{ name: {:?}, versions: ({}), flexible: {:?}, fields: {}, structs: &[{}] }}",
        message.name,
        range(message.versions),
        message.flexible.map(|flexible| flexible.low),
        fields(&message.fields),
        structs.join(", ")
    )
}

fn range(Versions { low, high }: Versions) -> String {
    match high {
        i16::MAX => format!("{low}, MAX"),
        high => format!("{low}, {high}"),
    }
}

fn fields(fields: &[Field]) -> String {
    let one = |field: &Field| {
        let (name, kind) = (field_name(field), kind(&field.kind));
        let mut text = format!("f({name:?}, {kind}, {})", range(field.versions));
        if let Some(versions) = field.nullable {
            let _ = write!(text, ".null({})", range(versions));
        }
        if let Some(tag) = field.tag {
            let _ = write!(text, ".tag({tag})");
        }
        if let Some(default) = &field.default {
            let _ = write!(text, ".default({default:?})");
        }
        text
    };
    format!("&[{}]", fields.iter().map(one).collect::<Vec<_>>().join(", "))
}

fn kind(of: &Type) -> String {
    match of {
        Type::Array(element) => format!("Array(&{})", kind(element)),
        Type::Struct(name) => format!("Struct({name:?})"),
        Type::String => "Text".to_owned(),
        Type::Bool
        | Type::I8
        | Type::I16
        | Type::U16
        | Type::I32
        | Type::U32
        | Type::I64
        | Type::F64
        | Type::Bytes
        | Type::Uuid
        | Type::Records => format!("{of:?}"),
    }
}
