//! Writes what spans all messages: the module list, `ApiKey`, and the macros that visit each.

use super::rust::{BANNER, snake};
use super::schema::{File, Kind, Message};
use std::fmt::Write;

fn messages(files: &[File]) -> Vec<&Message> {
    let mut messages: Vec<&Message> = files.iter().flat_map(|file| &file.messages).collect();
    messages.sort_by_key(|message| snake(&message.name));
    messages
}

/// `mod.rs`.
pub(super) fn modules(files: &[File]) -> String {
    let mut out = String::from(BANNER);
    out.push_str(
        "//! Every message, one module each; the messages themselves are also reachable from here.\n\n\
         #[cfg(feature = \"arbitrary\")]\nmod arbitrary;\nmod api_key;\nmod each;\n\
         #[cfg(feature = \"reflect\")]\npub(crate) mod reflect;\n",
    );
    for message in messages(files) {
        let _ = writeln!(out, "pub mod {};", snake(&message.name));
    }
    out.push_str("\npub use api_key::ApiKey;\n");
    for message in messages(files) {
        let _ = writeln!(out, "pub use {}::{};", snake(&message.name), message.name);
    }
    out
}

/// `api_key.rs`.
pub(super) fn api_keys(files: &[File]) -> String {
    let request = |file: &File| {
        let mut all = file.messages.iter();
        all.find(|message| message.kind == Kind::Request).cloned().expect("an API has a request")
    };
    let apis: Vec<(i16, String, Message)> = files
        .iter()
        .filter_map(|file| file.api.clone().map(|(key, name)| (key, name, request(file))))
        .collect();
    let mut out = String::from(BANNER);
    out.push_str(
        "use std::ops::RangeInclusive;\n\n\
         /// What a request asks for: its key on the wire.\n\
         #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]\n\
         #[repr(i16)]\npub enum ApiKey {\n",
    );
    for (key, name, request) in &apis {
        let _ = writeln!(out, "/// {name}, versions {}.\n{name} = {key},", request.versions);
    }
    out.push_str("}\n\nimpl ApiKey {\n/// Every key, in the order of their codes.\n");
    let _ = writeln!(out, "pub const ALL: [Self; {}] = [", apis.len());
    for (_, name, _) in &apis {
        let _ = writeln!(out, "Self::{name},");
    }
    out.push_str(
        "];\n\n/// The number on the wire.\npub const fn code(self) -> i16 { self as i16 }\n\n\
         /// The key with this number, if there is one.\n\
         pub const fn from_code(code: i16) -> Option<Self> { Some(match code {\n",
    );
    for (key, name, _) in &apis {
        let _ = writeln!(out, "{key} => Self::{name},");
    }
    out.push_str(
        "_ => return None,\n}) }\n\n/// Kafka's name for it, such as `ListOffsets`.\n\
         pub const fn name(self) -> &'static str { match self {\n",
    );
    for (_, name, _) in &apis {
        let _ = writeln!(out, "Self::{name} => {name:?},");
    }
    out.push_str(
        "} }\n\n/// The versions that this crate reads and writes, early-access ones included.\n\
         pub const fn versions(self) -> RangeInclusive<i16> { match self {\n",
    );
    for (_, name, request) in &apis {
        let (low, high) = (request.versions.low, request.versions.high);
        let _ = writeln!(out, "Self::{name} => {low}..={high},");
    }
    out.push_str(
        "} }\n\n/// The newest version that Kafka does not mark as unstable.\n\
         pub const fn stable(self) -> i16 { match self {\n",
    );
    for (_, name, request) in &apis {
        let _ = writeln!(out, "Self::{name} => {},", request.stable);
    }
    out.push_str(
        "} }\n\n/// The first flexible version (KIP-482), by which headers are chosen.\n\
         pub const fn flexible(self) -> Option<i16> { match self {\n",
    );
    for (_, name, request) in &apis {
        let _ = match request.flexible {
            Some(flexible) => writeln!(out, "Self::{name} => Some({}),", flexible.low),
            None => writeln!(out, "Self::{name} => None,"),
        };
    }
    out.push_str("} }\n}\n");
    out
}

/// `each.rs`.
pub(super) fn each(files: &[File]) -> String {
    let mut out = String::from(BANNER);
    out.push_str(
        "/// Calls a macro for every API: `$visit!(Name, NameRequest, NameResponse);`, with the \
         types\n/// as paths.\n#[macro_export]\nmacro_rules! for_each_api { ($visit:ident) => {\n",
    );
    for file in files {
        if let Some((_, name)) = &file.api {
            let _ = writeln!(
                out,
                "$visit!({name}, $crate::messages::{name}Request, $crate::messages::{name}Response);"
            );
        }
    }
    out.push_str(
        "}; }\n\n/// Calls a macro for every message: `$visit!(Name, Type);`, with the type as a \
         path.\n#[macro_export]\nmacro_rules! for_each_message { ($visit:ident) => {\n",
    );
    for message in messages(files) {
        let _ = writeln!(out, "$visit!({0}, $crate::messages::{0});", message.name);
    }
    out.push_str("}; }\n");
    out
}
