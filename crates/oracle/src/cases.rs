//! Cases: read from `cases/*.txt` (notation in `cases/README.md`), multiplied by versions and values.

use crate::tree;
use protocol::ApiKey;
use protocol::reflect::Api;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::RangeInclusive;
use std::path::Path;
use std::{fs, io};

/// What the step `delete` is sent in.
pub(crate) const DELETE_VERSION: i16 = 4;
/// So many cases each API and version has at least.
pub(crate) const PER_VERSION: usize = 200;

/// One file: what it needs, then cases that use it.
#[derive(Clone, Debug)]
pub(crate) struct Suite {
    pub(crate) name: String,
    pub(crate) setup: Vec<Step>,
    templates: Vec<Template>,
}

/// A case as written: for each of some versions.
#[derive(Clone, Debug)]
struct Template {
    name: String,
    versions: RangeInclusive<i16>,
    kind: TemplateKind,
}

#[derive(Clone, Debug)]
enum TemplateKind {
    Steps(Vec<Step>),
    Vary { api: ApiKey, most: usize, body: Value, tries: Vec<(Vec<Place>, Vec<Value>)> },
}

/// One case in one version.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) name: String,
    /// What it counts for.
    pub(crate) api: Option<(ApiKey, i16)>,
    pub(crate) steps: Vec<Step>,
}

/// One line of a case.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) connection: String,
    pub(crate) action: Action,
}

/// What is done.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    Call(Call),
    /// Sent; the answer is received later or never comes.
    Send(Call),
    /// The next answer, of this API and version.
    Receive(ApiKey, Option<i16>),
    /// Sent again until the answer has the value at the place.
    Until(Call, Vec<Place>, Value),
    /// These bytes, then whatever comes back.
    Raw(Vec<u8>),
    /// Keeps a value of the last answer under a name.
    Save(String, Vec<Place>),
    /// Closes our end.
    Hangup,
}

/// A request. No version is the case's.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) api: ApiKey,
    pub(crate) version: Option<i16>,
    pub(crate) body: Value,
    pub(crate) frame: Frame,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let call = |call: &Call| {
            let version = call.version.map_or_else(|| "v".to_owned(), |v| v.to_string());
            let mut body = call.body.to_string();
            if body.chars().count() > 2000 {
                body = body.chars().take(2000).chain("...".chars()).collect();
            }
            format!("{} {version} {body}", call.api.name())
        };
        write!(f, "@{} ", self.connection)?;
        match &self.action {
            Action::Call(what) => write!(f, "{}", call(what)),
            Action::Send(what) => write!(f, "send {}", call(what)),
            Action::Until(what, ..) => write!(f, "until {}", call(what)),
            Action::Receive(api, _) => write!(f, "receive {}", api.name()),
            Action::Raw(bytes) => write!(f, "raw {}", tree::hex(bytes)),
            Action::Save(name, _) => write!(f, "save {name}"),
            Action::Hangup => write!(f, "hangup"),
        }
    }
}

/// What is unusual about a request's frame.
#[derive(Clone, Debug, Default)]
pub(crate) struct Frame {
    /// `None`: the usual client id.
    pub(crate) client_id: Option<Value>,
    /// Unknown tags in the header, of flexible versions.
    pub(crate) tags: usize,
    /// Only so many bytes of the body.
    pub(crate) cut: Option<usize>,
    /// Bytes after the body.
    pub(crate) extra: usize,
    /// The version in the header, if it is not that of the body.
    pub(crate) header_version: Option<i16>,
}

/// A step into a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Field(String),
    Index(usize),
}

/// `topics[0].name`.
pub(crate) fn places(text: &str) -> Vec<Place> {
    let mut places = Vec::new();
    for part in text.split('.') {
        let mut pieces = part.split('[');
        places.extend(pieces.next().filter(|n| !n.is_empty()).map(|n| Place::Field(n.to_owned())));
        let indexes = pieces.filter_map(|piece| piece.trim_end_matches(']').parse().ok());
        places.extend(indexes.map(Place::Index));
    }
    places
}

/// What is there.
pub(crate) fn look<'v>(tree: &'v Value, places: &[Place]) -> Option<&'v Value> {
    places.iter().try_fold(tree, |tree, place| match place {
        Place::Field(name) => tree.get(name),
        Place::Index(index) => tree.get(index),
    })
}

/// Puts a value there; false if there is no such place.
fn put(tree: &mut Value, places: &[Place], value: Value) -> bool {
    let Some((last, before)) = places.split_last() else {
        *tree = value;
        return true;
    };
    let mut at = tree;
    for place in before {
        let next = match place {
            Place::Field(name) => at.get_mut(name),
            Place::Index(index) => at.get_mut(index),
        };
        let Some(next) = next else { return false };
        at = next;
    }
    match (last, at) {
        (Place::Field(name), Value::Object(fields)) => {
            fields.insert(name.clone(), value);
            true
        }
        (Place::Index(index), Value::Array(list)) => match list.get_mut(*index) {
            Some(found) => {
                *found = value;
                true
            }
            None => false,
        },
        _ => false,
    }
}

/// Reads every `*.txt` of a folder, in the order of their names.
pub(crate) fn read(folder: &Path) -> Result<Vec<Suite>, String> {
    let context = |error: io::Error| format!("{}: {error}", folder.display());
    let mut paths: Vec<_> = fs::read_dir(folder)
        .map_err(context)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()
        .map_err(context)?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "txt"));
    paths.sort();
    paths
        .iter()
        .map(|path| {
            let text = fs::read_to_string(path).map_err(context)?;
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let name = name.split_once('_').map_or(name.as_str(), |(_, name)| name).to_owned();
            parse(name, &text).map_err(|error| format!("{}: {error}", path.display()))
        })
        .collect()
}

/// Lines that start further in than the one before continue it when they begin with `|`.
fn parse(name: String, text: &str) -> Result<Suite, String> {
    let mut suite = Suite { name, setup: Vec::new(), templates: Vec::new() };
    let mut lists: BTreeMap<String, String> = BTreeMap::new();
    let mut in_setup = false;
    let mut lines: Vec<(usize, String)> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim_end();
        if line.trim().is_empty() || line.trim_start().starts_with('#') {
            continue;
        }
        match (line.trim_start().strip_prefix('|'), lines.last_mut()) {
            (Some(more), Some((_, before))) => {
                before.push(' ');
                before.push_str(more.trim());
            }
            _ => lines.push((number + 1, line.to_owned())),
        }
    }
    for (number, line) in lines {
        let wrong = |error: String| format!("line {number}: {error}");
        let words = line.trim();
        let (word, rest) = words.split_once(' ').unwrap_or((words, ""));
        if line.starts_with(' ') {
            match suite.templates.last_mut().filter(|_| !in_setup).map(|last| &mut last.kind) {
                None => suite.setup.extend(steps(words).map_err(wrong)?),
                Some(TemplateKind::Steps(into)) => into.extend(steps(words).map_err(wrong)?),
                Some(TemplateKind::Vary { body, tries, .. }) => match word {
                    "body" => *body = json(rest).map_err(wrong)?,
                    "try" => {
                        let (place, values) = rest.split_once(' ').unwrap_or((rest, ""));
                        let values = values_of(values, &lists).map_err(wrong)?;
                        tries.push((places(place), values));
                    }
                    _ => return Err(wrong(format!("{word}: expected body or try"))),
                },
            }
            continue;
        }
        in_setup = word == "setup";
        match word {
            "setup" => {}
            "list" => {
                let (name, values) = rest.split_once(' ').unwrap_or((rest, ""));
                lists.insert(name.to_owned(), values.to_owned());
            }
            "case" => {
                let (name, versions) = versions_of(rest);
                suite.templates.push(Template {
                    name,
                    versions,
                    kind: TemplateKind::Steps(Vec::new()),
                });
            }
            "vary" => {
                let (rest, versions) = versions_of(rest);
                let (api, most) = rest.split_once(' ').unwrap_or((&rest, ""));
                let api_key = api_of(api).map_err(wrong)?;
                let most = most.trim().parse().unwrap_or(PER_VERSION);
                let body = json!({});
                let kind = TemplateKind::Vary { api: api_key, most, body, tries: Vec::new() };
                suite.templates.push(Template { name: format!("vary {api}"), versions, kind });
            }
            _ => return Err(wrong(format!("{word}: expected setup, list, case or vary"))),
        }
    }
    Ok(suite)
}

/// `name [3-5]`.
fn versions_of(text: &str) -> (String, RangeInclusive<i16>) {
    let all = 0..=i16::MAX;
    let Some((name, range)) = text.rsplit_once('[') else { return (text.to_owned(), all) };
    let range = range.trim_end_matches(']');
    let (low, high) = range.split_once('-').unwrap_or((range, range));
    match (low.parse(), high.parse()) {
        (Ok(low), Ok(high)) => (name.trim().to_owned(), low..=high),
        (Ok(low), Err(_)) if high.is_empty() => (name.trim().to_owned(), low..=i16::MAX),
        _ => (text.to_owned(), all),
    }
}

fn json(text: &str) -> Result<Value, String> {
    if text.trim().is_empty() {
        return Ok(json!({}));
    }
    serde_json::from_str(text).map_err(|error| format!("{error}: {text}"))
}

/// JSON values one after the other; `@name` stands for a list.
fn values_of(text: &str, lists: &BTreeMap<String, String>) -> Result<Vec<Value>, String> {
    let mut whole = String::new();
    for word in text.split(' ') {
        match word.strip_prefix('@') {
            Some(name) => {
                let list = lists.get(name).map(String::as_str).or_else(|| builtin(name));
                whole.push_str(list.ok_or_else(|| format!("no list {name}"))?);
            }
            None => whole.push_str(word),
        }
        whole.push(' ');
    }
    serde_json::Deserializer::from_str(&whole)
        .into_iter()
        .map(|value| value.map_err(|error| format!("{error}: {whole}")))
        .collect()
}

/// Values at which numbers and names turn.
fn builtin(name: &str) -> Option<&'static str> {
    Some(match name {
        "i16" => "-2 -1 0 1 2 3 100 32767 -32768",
        "i32" => "-2 -1 0 1 2 3 100 2147483647 -2147483648",
        "i64" => "-6 -5 -4 -3 -2 -1 0 1 2 3 5 100 9223372036854775807 -9223372036854775808",
        "bool" => "true false",
        "partition" => "0 1 2 -1 7 2147483647 -2147483648",
        "badtopic" => {
            "\"nope\" \"\" \".\" \"..\" \"a/b\" \"a b\" \"ünïcode\" \"a\\u0000b\" \"__consumer_offsets_\" \
             \"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\""
        }
        "group" => "\"$case\" \"\" \"never\" \"ünïcode\" \"a/b\" \"with space\"",
        "member" => "\"\" \"nobody\" \"nobody-5f0c1f2e-0000-4000-8000-000000000000\"",
        "generation" => "-2 -1 0 1 2 2147483647 -2147483648",
        "uuid" => {
            "\"AAAAAAAAAAAAAAAAAAAAAA\" \"AAAAAAAAAAAAAAAAAAAAAQ\" \"EjRWeJCrze8SNFZ4kKvN7w\""
        }
        _ => return None,
    })
}

fn api_of(name: &str) -> Result<ApiKey, String> {
    let found = ApiKey::ALL.into_iter().find(|key| key.name() == name);
    found.ok_or_else(|| format!("no API {name}"))
}

/// The steps of one line: most lines are one, `topic` and `produce` are shorthands.
fn steps(line: &str) -> Result<Vec<Step>, String> {
    let (connection, line) = match line.strip_prefix('@').and_then(|rest| rest.split_once(' ')) {
        Some((connection, rest)) => (connection.to_owned(), rest.trim()),
        None => ("a".to_owned(), line),
    };
    let step = |action| Step { connection: connection.clone(), action };
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    Ok(match word {
        // A topic of that name may still be on its way out.
        "topic" => {
            let created = places("topics[0].error_code");
            vec![step(Action::Until(topic(rest)?, created, json!(0)))]
        }
        "delete" => {
            let body =
                json!({"topic_names": [rest], "topics": [{"name": rest}], "timeout_ms": 10_000});
            vec![step(Action::Call(plain(ApiKey::DeleteTopics, DELETE_VERSION, body)))]
        }
        "produce" => {
            let mut words = rest.splitn(3, ' ');
            let (topic, partition) =
                (words.next(), words.next().and_then(|p| p.parse::<i32>().ok()));
            let (Some(topic), Some(partition)) = (topic, partition) else {
                return Err(format!("{line}: expected produce TOPIC PARTITION RECORDS"));
            };
            let records = words.next().unwrap_or("batch:");
            let partitions = json!([{"index": partition, "records": records}]);
            let body = json!({"acks": -1, "timeout_ms": 10_000,
                "topic_data": [{"name": topic, "partition_data": partitions}]});
            vec![step(Action::Call(plain(ApiKey::Produce, 8, body)))]
        }
        "send" => vec![step(Action::Send(call(rest)?))],
        "receive" => {
            let (api, version) = rest.split_once(' ').unwrap_or((rest, "v"));
            vec![step(Action::Receive(api_of(api)?, version.parse().ok()))]
        }
        "until" => {
            let mut words = rest.splitn(3, ' ');
            let (Some(place), Some(value), Some(rest)) = (words.next(), words.next(), words.next())
            else {
                return Err(format!("{line}: expected until PLACE VALUE API VERSION BODY"));
            };
            vec![step(Action::Until(call(rest)?, places(place), json(value)?))]
        }
        "raw" => vec![step(Action::Raw(tree::unshown(&format!("0x{rest}"))?))],
        "save" => {
            let (name, place) = rest.split_once(' ').ok_or("expected save NAME PLACE")?;
            vec![step(Action::Save(name.to_owned(), places(place)))]
        }
        "hangup" => vec![step(Action::Hangup)],
        _ => vec![step(Action::Call(call(line)?))],
    })
}

fn plain(api: ApiKey, version: i16, body: Value) -> Call {
    Call { api, version: Some(version), body, frame: Frame::default() }
}

/// `NAME PARTITIONS key=value...`
fn topic(rest: &str) -> Result<Call, String> {
    let mut words = rest.split_whitespace();
    let (Some(name), Some(partitions)) = (words.next(), words.next().and_then(|p| p.parse().ok()))
    else {
        return Err(format!("topic {rest}: expected NAME PARTITIONS"));
    };
    let partitions: i32 = partitions;
    // Records of cases are old: they must not be cleaned away.
    let configs = std::iter::once(("retention.ms", "-1"))
        .chain(words.filter_map(|word| word.split_once('=')))
        .map(|(name, value)| json!({"name": name, "value": value}))
        .collect::<Vec<_>>();
    let body = json!({"timeout_ms": 10_000, "topics": [{"name": name, "num_partitions": partitions,
        "replication_factor": 1, "configs": configs}]});
    Ok(plain(ApiKey::CreateTopics, 7, body))
}

/// `API VERSION [client=..] [tags=N] [cut=N] [extra=N] [as=VERSION] BODY`
fn call(text: &str) -> Result<Call, String> {
    let (api, rest) = text.split_once(' ').unwrap_or((text, ""));
    let (version, mut rest) = rest.split_once(' ').unwrap_or((rest, ""));
    let mut frame = Frame::default();
    while let Some((word, after)) = rest
        .split_once(' ')
        .or(Some((rest, "")))
        .filter(|(word, _)| !word.starts_with('{') && word.contains('='))
    {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        let number = || value.parse::<usize>().map_err(|_| format!("{word} is no number"));
        match name {
            "client" => frame.client_id = Some(json(value)?),
            "tags" => frame.tags = number()?,
            "cut" => frame.cut = Some(number()?),
            "extra" => frame.extra = number()?,
            "as" => frame.header_version = value.parse().ok(),
            _ => return Err(format!("{word}: unknown option")),
        }
        rest = after.trim_start();
    }
    Ok(Call { api: api_of(api)?, version: version.parse().ok(), body: json(rest)?, frame })
}

impl Suite {
    /// Its cases in the versions that `served` gives. Every API and version that occurs in a `vary`
    /// gets at least [`PER_VERSION`] of them: unusual frames fill up what values do not.
    pub(crate) fn cases(&self, served: &BTreeMap<ApiKey, RangeInclusive<i16>>) -> Vec<Case> {
        let mut cases = Vec::new();
        let mut counts: BTreeMap<(ApiKey, i16), usize> = BTreeMap::new();
        let mut bases: BTreeMap<ApiKey, Value> = BTreeMap::new();
        for template in &self.templates {
            match &template.kind {
                TemplateKind::Steps(steps) => self.stepped(template, steps, served, &mut cases),
                TemplateKind::Vary { api, most, body, tries } => {
                    bases.entry(*api).or_insert_with(|| body.clone());
                    let Some(versions) = served.get(api) else { continue };
                    for version in versions.clone().filter(|v| template.versions.contains(v)) {
                        let bodies = varied(*api, version, body, tries, *most);
                        for (number, body) in bodies.into_iter().enumerate() {
                            let name = format!(
                                "{}/{}/v{version}/{}-{number:03}",
                                self.name,
                                api.name(),
                                template.name.replace(' ', "-")
                            );
                            cases.push(single(name, *api, version, body, Frame::default()));
                        }
                    }
                }
            }
        }
        for case in &cases {
            if let Some(counted) = case.api {
                *counts.entry(counted).or_default() += 1;
            }
        }
        for (api, body) in bases {
            let Some(versions) = served.get(&api) else { continue };
            for version in versions.clone() {
                let have = counts.get(&(api, version)).copied().unwrap_or(0);
                cases.extend(self.framed(api, version, &body, PER_VERSION.saturating_sub(have)));
            }
        }
        let mut seen = BTreeSet::new();
        for case in &mut cases {
            while !seen.insert(case.name.clone()) {
                case.name.push('+');
            }
        }
        cases
    }

    fn stepped(
        &self,
        template: &Template,
        steps: &[Step],
        served: &BTreeMap<ApiKey, RangeInclusive<i16>>,
        cases: &mut Vec<Case>,
    ) {
        let versioned = steps.iter().find_map(|step| match &step.action {
            Action::Call(call) | Action::Send(call) | Action::Until(call, ..) => {
                call.version.is_none().then_some(call.api)
            }
            Action::Receive(..) | Action::Raw(_) | Action::Save(..) | Action::Hangup => None,
        });
        let Some(api) = versioned else {
            let name = format!("{}/{}", self.name, template.name);
            cases.push(Case { name, api: None, steps: steps.to_vec() });
            return;
        };
        let Some(versions) = served.get(&api) else { return };
        for version in versions.clone().filter(|version| template.versions.contains(version)) {
            let steps = steps
                .iter()
                .cloned()
                .map(|mut step| {
                    match &mut step.action {
                        Action::Call(call) | Action::Send(call) | Action::Until(call, ..) => {
                            call.version.get_or_insert(version);
                        }
                        Action::Receive(_, at) => {
                            at.get_or_insert(version);
                        }
                        Action::Raw(_) | Action::Save(..) | Action::Hangup => {}
                    }
                    step
                })
                .collect();
            let name = format!("{}/{}/v{version}/{}", self.name, api.name(), template.name);
            cases.push(Case { name, api: Some((api, version)), steps });
        }
    }

    /// The usual body in unusual frames: client ids, unknown tags, cut short, too long.
    fn framed(&self, api: ApiKey, version: i16, body: &Value, count: usize) -> Vec<Case> {
        let message = &Api::of(api).request;
        let flexible = message.is_flexible(version);
        let mut bytes = Vec::new();
        // A body with names to fill in cannot be measured; nobody needs to know exactly.
        let length = match tree::encode(message, body, version, &mut bytes) {
            Ok(()) => bytes.len(),
            Err(_) => 24,
        };
        let mut frames: Vec<(String, Frame)> = vec![
            ("null client id".into(), Frame { client_id: Some(Value::Null), ..Frame::default() }),
            ("empty client id".into(), Frame { client_id: Some(json!("")), ..Frame::default() }),
            ("extra byte".into(), Frame { extra: 1, ..Frame::default() }),
            ("extra bytes".into(), Frame { extra: 1000, ..Frame::default() }),
        ];
        if flexible {
            for tags in [1, 2, 100] {
                let frame = Frame { tags, ..Frame::default() };
                frames.push((format!("{tags} unknown tags in the header"), frame));
            }
        }
        for cut in 0..length.min(64) {
            frames.push((format!("cut at {cut}"), Frame { cut: Some(cut), ..Frame::default() }));
        }
        let mut at = 1;
        while frames.len() < count {
            let text =
                "client-".to_owned() + &"ü.x/ 1".chars().cycle().take(at).collect::<String>();
            let frame = Frame { client_id: Some(json!(text)), ..Frame::default() };
            frames.push((format!("client id {at}"), frame));
            at += 1;
        }
        frames.truncate(count);
        let case = |(name, frame): (String, Frame)| {
            let name = format!("{}/{}/v{version}/{name}", self.name, api.name());
            single(name, api, version, body.clone(), frame)
        };
        frames.into_iter().map(case).collect()
    }
}

fn single(name: String, api: ApiKey, version: i16, body: Value, frame: Frame) -> Case {
    let call = Call { api, version: Some(version), body, frame };
    let step = Step { connection: "a".to_owned(), action: Action::Call(call) };
    Case { name, api: Some((api, version)), steps: vec![step] }
}

/// The body, then with one value changed, then with two, then three, until there are `most`; of two
/// and three a sample that is the same every time.
fn varied(
    api: ApiKey,
    version: i16,
    body: &Value,
    tries: &[(Vec<Place>, Vec<Value>)],
    most: usize,
) -> Vec<Value> {
    let message = &Api::of(api).request;
    let mut seen = BTreeSet::new();
    let mut bodies = Vec::new();
    let mut add = |changes: &[(usize, usize)]| {
        let mut changed = body.clone();
        for &(place, value) in changes {
            let (place, values) = &tries[place];
            if !put(&mut changed, place, values[value].clone()) {
                return false;
            }
        }
        let new = seen.insert(tree::pruned(message, &changed, version).to_string());
        if new {
            bodies.push(changed);
        }
        new
    };
    let mut left = most;
    let mut count = |new: bool| {
        left -= usize::from(new);
        left > 0
    };
    if !count(add(&[])) {
        return bodies;
    }
    let singles: Vec<(usize, usize)> = tries
        .iter()
        .enumerate()
        .flat_map(|(place, (_, values))| (0..values.len()).map(move |value| (place, value)))
        .collect();
    for &single in &singles {
        if !count(add(&[single])) {
            return bodies;
        }
    }
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = |below: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        usize::try_from(random >> 33).unwrap_or(0) % below.max(1)
    };
    // Rarely new ones means that there are no more.
    for round in 0..most * 8 {
        let wanted = if round < most * 4 { 2 } else { 3 };
        let mut changes: Vec<_> = (0..wanted).map(|_| singles[next(singles.len())]).collect();
        changes.sort_unstable();
        changes.dedup_by_key(|change| change.0);
        if !singles.is_empty() && !count(add(&changes)) {
            break;
        }
    }
    bodies
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_counts_for_each_version_of_its_first_open_request() {
        let suite = parse(
            "x".into(),
            "setup\n  topic t 1\ncase both [1-]\n  Heartbeat v {\"group_id\": \"g\"}\n",
        )
        .unwrap();
        let served = BTreeMap::from([(ApiKey::Heartbeat, 0..=2)]);
        let names: Vec<_> = suite.cases(&served).into_iter().map(|case| case.name).collect();
        assert_eq!(names, ["x/Heartbeat/v1/both", "x/Heartbeat/v2/both"]);
        assert_eq!(suite.setup.len(), 1);
    }

    #[test]
    fn values_vary_alone_and_together_and_frames_fill_up() {
        let text = "vary Heartbeat\n  body {\"group_id\": \"g\"}\n  try generation_id 1 2\n  try member_id \"a\"\n";
        let suite = parse("x".into(), text).unwrap();
        let served = BTreeMap::from([(ApiKey::Heartbeat, 0..=0)]);
        let cases = suite.cases(&served);
        assert_eq!(cases.len(), PER_VERSION);
        assert_eq!(cases.iter().filter(|case| case.name.contains("vary")).count(), 6);
    }
}
