//! `cargo xtask schema-check`: our schemas against the ones inside Kafka's jars.
//!
//! For every message of both releases and every version that a release has: the fields, their order,
//! types, nullability, tags and defaults must be ours; over all versions, the ranges, early-access
//! marks and what may be ignored. Where the releases contradict each other, [`KNOWN`] says so.

use crate::generate::schema::{Field, Kind, Message, Type, Versions};
use crate::generate::{read_schemas, root};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

const RELEASES: [&str; 2] = ["3.9.2", "4.4.0"];

/// What may differ: release, message and version. Early-access versions of 3.9 changed before they
/// became stable.
const KNOWN: &[(&str, &str, i16)] =
    &[("3.9.2", "ReadShareGroupStateSummaryResponse", 0), ("3.9.2", "ShareGroupMetadataValue", 0)];

/// Newer name, older name, of messages, structures and fields.
const RENAMED: &[(&str, &str)] = &[
    ("ListConfigResourcesRequest", "ListClientMetricsResourcesRequest"),
    ("ListConfigResourcesResponse", "ListClientMetricsResourcesResponse"),
    ("ConfigResources", "ClientMetricsResources"),
    ("ConfigResource", "ClientMetricsResource"),
    ("GenerationIdOrMemberEpoch", "GenerationId"),
    ("ReplicaEpoch", "CandidateEpoch"),
    ("ReplicaId", "CandidateId"),
    ("ReplicaDirectoryId", "CandidateDirectoryId"),
];

/// The same, where the older name is used elsewhere too.
const RENAMED_IN: &[(&str, &str, &str)] =
    &[("ListConfigResourcesResponse", "ResourceName", "Name")];

/// Only in these messages is a name of [`RENAMED`] an old one.
const RENAMED_MESSAGES: [&str; 4] = [
    "ListConfigResourcesRequest",
    "ListConfigResourcesResponse",
    "TxnOffsetCommitRequest",
    "VoteRequest",
];

fn newer(message: &str, name: &str) -> String {
    let here = RENAMED_IN.iter().find(|(at, _, old)| *at == message && *old == name);
    if let Some((_, new, _)) = here {
        return (*new).to_owned();
    }
    let known = RENAMED.iter().find(|(_, old)| *old == name);
    match known {
        Some((new, _)) if RENAMED_MESSAGES.contains(&message) => (*new).to_owned(),
        _ => name.to_owned(),
    }
}

/// Compares; the error lists every difference.
pub(crate) fn run() -> Result<(), String> {
    let mut ours = BTreeMap::new();
    for file in read_schemas()? {
        for message in file.messages {
            let key = file.api.as_ref().map(|(key, _)| *key);
            ours.insert(message.name.clone(), (key, message));
        }
    }
    let mut check =
        Check { ours, wrong: Vec::new(), seen: BTreeMap::new(), known: BTreeSet::new() };
    let mut compared = 0;
    for release in RELEASES {
        for schema in schemas_in_jars(release)? {
            compared += check.message(release, &schema)?;
        }
    }
    check.over_all_versions();
    if check.known.len() != KNOWN.len() {
        check.wrong.push("a known difference is none any more".to_owned());
    }
    match check.wrong.is_empty() {
        true => {
            println!("{} messages, {compared} versions: all the same", check.ours.len());
            Ok(())
        }
        false => Err(check.wrong.join("\n")),
    }
}

/// The JSON of every schema in a release's jars.
fn schemas_in_jars(release: &str) -> Result<Vec<Value>, String> {
    let peer = root().join("tools/kafka-peer");
    let folder = output(Command::new(peer).args(["jars", release]))?;
    let script = "
import glob, json, re, sys, zipfile
found = []
for path in sorted(glob.glob(sys.argv[1] + '/kafka*.jar')):
    with zipfile.ZipFile(path) as jar:
        for name in jar.namelist():
            if 'message/' in name and name.endswith('.json'):
                text = jar.read(name).decode()
                found.append(json.loads(re.sub(r'^\\s*//.*$', '', text, flags=re.M)))
json.dump(found, sys.stdout)
";
    let text = output(Command::new("python3").args(["-c", script, folder.trim()]))?;
    let schemas: Vec<Value> = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    match schemas.len() {
        0..200 => Err(format!("{release}: only {} schemas in {folder}", schemas.len())),
        _ => Ok(schemas),
    }
}

fn output(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    match output.status.success() {
        true => String::from_utf8(output.stdout).map_err(|error| error.to_string()),
        false => Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr))),
    }
}

struct Check {
    ours: BTreeMap<String, (Option<i16>, Message)>,
    wrong: Vec<String>,
    /// What the releases say together.
    seen: BTreeMap<String, Seen>,
    known: BTreeSet<usize>,
}

struct Seen {
    versions: Versions,
    newest_is_unstable: bool,
    /// Fields (by their path) that some release calls ignorable, and all that some release has.
    ignorable: BTreeSet<String>,
    fields: BTreeSet<String>,
}

fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key).and_then(Value::as_str)
}

fn versions(value: &Value, key: &str) -> Option<Versions> {
    text(value, key).filter(|text| *text != "none").and_then(Versions::parse)
}

impl Check {
    /// Returns the number of versions compared.
    fn message(&mut self, release: &str, schema: &Value) -> Result<usize, String> {
        let old_name = text(schema, "name").ok_or("a schema without a name")?;
        let name =
            RENAMED.iter().find(|(_, old)| *old == old_name).map_or(old_name, |(new, _)| new);
        let Some(mut range) = versions(schema, "validVersions") else { return Ok(0) };
        let Some((api, ours)) = self.ours.get(name) else {
            self.wrong.push(format!("{release} {name}: missing"));
            return Ok(0);
        };
        // In 3.9 a record's type is the version of its key.
        let is_key = matches!(ours.kind, Kind::Key(_));
        let key_version = range.high;
        if is_key {
            range = Versions { low: 0, high: 0 };
        }
        let their_api = schema.get("apiKey").and_then(Value::as_i64);
        let our_api = match ours.kind {
            Kind::Key(number) => Some(number),
            Kind::Request | Kind::Response | Kind::Header | Kind::Data | Kind::Value => *api,
        };
        if their_api.is_some() && our_api.is_some() && their_api != our_api.map(i64::from) {
            self.wrong.push(format!("{release} {name}: key {their_api:?}, ours {our_api:?}"));
        }
        let flexible = versions(schema, "flexibleVersions").and_then(|f| f.intersect(range));
        let our_flexible = ours.flexible.and_then(|f| f.intersect(range));
        if flexible != our_flexible {
            self.wrong.push(format!("{release} {name}: flexible {flexible:?}"));
        }
        let theirs = Theirs::new(schema, name);
        for version in range.low..=range.high {
            let their_version = if is_key { key_version } else { version };
            let mut expected = Vec::new();
            theirs.describe(schema, their_version, "", &mut expected);
            let mut described = Vec::new();
            describe(ours, &ours.fields, version, "", &mut described);
            if release != RELEASES[RELEASES.len() - 1] {
                // A later release may add a tagged field to an old version.
                let is_later =
                    |line: &String| line.contains(" tag=Some") && !expected.contains(line);
                described.retain(|line| !is_later(line));
            }
            if expected != described {
                let here = (release, name, version);
                match KNOWN.iter().position(|known| *known == here) {
                    Some(at) => drop(self.known.insert(at)),
                    None => self.wrong.push(format!(
                        "{release} {name} v{version}:\n  theirs {expected:#?}\n  ours {described:#?}"
                    )),
                }
            }
        }
        let unstable = schema.get("latestVersionUnstable").and_then(Value::as_bool) == Some(true);
        let seen = self.seen.entry(name.to_owned()).or_insert(Seen {
            versions: range,
            newest_is_unstable: false,
            ignorable: BTreeSet::new(),
            fields: BTreeSet::new(),
        });
        // The newer release comes last and has the last word.
        seen.newest_is_unstable = unstable;
        seen.versions = seen.versions.hull(range);
        theirs.note(schema, "", seen);
        Ok(usize::try_from(range.high - range.low + 1).unwrap_or(0))
    }

    fn over_all_versions(&mut self) {
        let unstable: BTreeSet<String> = self
            .seen
            .iter()
            .filter(|(_, seen)| seen.newest_is_unstable)
            .filter_map(|(name, _)| name.strip_suffix("Request").map(str::to_owned))
            .collect();
        for (name, (_, ours)) in &self.ours {
            let Some(seen) = self.seen.get(name) else {
                self.wrong.push(format!("{name}: in no release"));
                continue;
            };
            if seen.versions != ours.versions {
                self.wrong.push(format!("{name}: versions {}", seen.versions));
            }
            let api = name.trim_end_matches("Request").trim_end_matches("Response");
            let newest = ours.versions.high - i16::from(unstable.contains(api));
            if newest != ours.stable {
                self.wrong.push(format!("{name}: stable up to {newest}"));
            }
            let mut paths = Vec::new();
            walk(ours, &ours.fields, "", &mut paths);
            for (path, field) in &paths {
                if field.ignorable != seen.ignorable.contains(path) {
                    self.wrong.push(format!("{name}: {path} is ignorable, or is not"));
                }
                if !seen.fields.contains(path) {
                    self.wrong.push(format!("{name}: {path} is in no release"));
                }
            }
        }
    }
}

/// Every field by its path.
fn walk<'a>(
    message: &'a Message,
    fields: &'a [Field],
    path: &str,
    all: &mut Vec<(String, &'a Field)>,
) {
    for field in fields {
        let path = format!("{path}.{}", field.name);
        if let Some(name) = field.kind.structure() {
            let inner = message.structs.iter().find(|inner| inner.name == name);
            walk(message, &inner.expect("checked when parsed").fields, &path, all);
        }
        all.push((path, field));
    }
}

/// The fields of one version, one line each.
fn describe(
    message: &Message,
    fields: &[Field],
    version: i16,
    path: &str,
    lines: &mut Vec<String>,
) {
    for field in fields.iter().filter(|field| field.versions.contains(version)) {
        let path = format!("{path}.{}", field.name);
        let null = field.nullable.is_some_and(|nullable| nullable.contains(version));
        let default = field.default.as_deref().unwrap_or("-");
        let (tag, rigid) = (field.tag, field.rigid);
        lines.push(line(&path, &notation(&field.kind), null, tag, default, rigid));
        if let Some(name) = field.kind.structure() {
            let inner = message.structs.iter().find(|inner| inner.name == name);
            let inner = inner.expect("checked when parsed");
            describe(message, &inner.fields, version, &path, lines);
        }
    }
}

fn line(
    path: &str,
    kind: &str,
    null: bool,
    tag: Option<u32>,
    default: &str,
    rigid: bool,
) -> String {
    format!("{path} {kind} null={null} tag={tag:?} default={default} rigid={rigid}")
}

fn notation(kind: &Type) -> String {
    match kind {
        Type::Bool => "bool".into(),
        Type::I8 => "int8".into(),
        Type::I16 => "int16".into(),
        Type::U16 => "uint16".into(),
        Type::I32 => "int32".into(),
        Type::U32 => "uint32".into(),
        Type::I64 => "int64".into(),
        Type::F64 => "float64".into(),
        Type::String => "string".into(),
        Type::Bytes => "bytes".into(),
        Type::Uuid => "uuid".into(),
        Type::Records => "records".into(),
        Type::Array(element) => format!("[]{}", notation(element)),
        Type::Struct(name) => name.clone(),
    }
}

/// A schema of Kafka's.
struct Theirs<'a> {
    message: &'a str,
    structs: BTreeMap<&'a str, &'a Value>,
}

impl<'a> Theirs<'a> {
    fn new(schema: &'a Value, message: &'a str) -> Self {
        let structs = schema.get("commonStructs").and_then(Value::as_array);
        let named = structs.into_iter().flatten().filter_map(|s| Some((text(s, "name")?, s)));
        Self { message, structs: named.collect() }
    }

    fn fields(&self, holder: &'a Value) -> impl Iterator<Item = &'a Value> + use<'a> {
        holder.get("fields").and_then(Value::as_array).into_iter().flatten()
    }

    /// What holds the fields of a field's structure.
    fn inner(&self, field: &'a Value) -> Option<&'a Value> {
        let kind = text(field, "type")?.trim_start_matches("[]");
        match field.get("fields") {
            Some(_) => Some(field),
            None => self.structs.get(kind).copied(),
        }
    }

    fn name(&self, field: &Value) -> String {
        let name = newer(self.message, text(field, "name").unwrap_or_default());
        let mut letters = name.chars();
        letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
    }

    fn versions(field: &Value) -> Option<Versions> {
        versions(field, "versions").or_else(|| versions(field, "taggedVersions"))
    }

    fn describe(&self, holder: &'a Value, version: i16, path: &str, lines: &mut Vec<String>) {
        for field in self.fields(holder) {
            if !Self::versions(field).is_some_and(|versions| versions.contains(version)) {
                continue;
            }
            let path = format!("{path}.{}", self.name(field));
            let kind = text(field, "type").unwrap_or_default();
            let (list, kind) = kind.strip_prefix("[]").map_or(("", kind), |kind| ("[]", kind));
            let kind = format!("{list}{}", newer(self.message, kind));
            let null = versions(field, "nullableVersions").is_some_and(|n| n.contains(version));
            let tagged = versions(field, "taggedVersions").is_some_and(|t| t.contains(version));
            // Written as a number or as text.
            let tag = field.get("tag").map(|tag| tag.to_string().replace('"', ""));
            let tag = tag.and_then(|tag| tag.parse().ok());
            let default = default(field, &kind);
            let rigid = text(field, "flexibleVersions") == Some("none");
            let tag = tag.filter(|_| tagged);
            lines.push(line(&path, &kind, null, tag, &default, rigid));
            if let Some(inner) = self.inner(field) {
                self.describe(inner, version, &path, lines);
            }
        }
    }

    /// Notes what does not depend on the version.
    fn note(&self, holder: &'a Value, path: &str, seen: &mut Seen) {
        for field in self.fields(holder) {
            let path = format!("{path}.{}", self.name(field));
            if field.get("ignorable").and_then(Value::as_bool) == Some(true) {
                seen.ignorable.insert(path.clone());
            }
            if let Some(inner) = self.inner(field) {
                self.note(inner, &path, seen);
            }
            seen.fields.insert(path);
        }
    }
}

/// The default as our notation says it: `-` if it is zero, false or empty.
fn default(field: &Value, kind: &str) -> String {
    let plain = match field.get("default") {
        None | Some(Value::Null) => return "-".into(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    let number = match plain.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16).ok(),
        None => plain.parse().ok(),
    };
    match (kind, number) {
        (_, Some(0)) => "-".into(),
        (_, Some(number)) => number.to_string(),
        ("bool", _) if plain == "false" => "-".into(),
        _ if plain.is_empty() => "-".into(),
        _ => plain,
    }
}

#[test]
#[ignore = "fetches the jars of two releases"]
fn our_schemas_are_those_of_kafka() {
    run().unwrap();
}
