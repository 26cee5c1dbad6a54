//! Two answers to one request, field by field, and what may differ between them.

use crate::normal::{ORDERED, identity};
use serde_json::Value;
use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::ops::RangeInclusive;

/// One field that differs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Difference {
    /// `answer.topics[].name`, without positions in lists.
    pub(crate) path: String,
    /// What Kafka said; `absent` if it said nothing.
    pub(crate) theirs: String,
    /// What we said.
    pub(crate) ours: String,
    /// What the innermost element of a list is about in which it lies: a setting's name.
    pub(crate) of: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: theirs {}, ours {}", self.path, self.theirs, self.ours)
    }
}

/// All that differs in what was seen in a case.
pub(crate) fn differences(theirs: &[Value], ours: &[Value]) -> Vec<Difference> {
    let mut found = Vec::new();
    let (theirs, ours) = (Value::Array(theirs.to_vec()), Value::Array(ours.to_vec()));
    compare(("", ""), Some(&theirs), Some(&ours), &mut found);
    for difference in &mut found {
        difference.path = difference.path.trim_start_matches("[]").trim_start_matches('.').into();
    }
    found
}

/// `place` is a path and what the element there is about.
fn compare(
    place: (&str, &str),
    theirs: Option<&Value>,
    ours: Option<&Value>,
    found: &mut Vec<Difference>,
) {
    let (path, of) = place;
    match (theirs, ours) {
        (Some(theirs), Some(ours)) if theirs == ours => {}
        (Some(Value::Object(theirs)), Some(Value::Object(ours))) => {
            let names = theirs.keys().chain(ours.keys().filter(|name| !theirs.contains_key(*name)));
            for name in names {
                compare((&format!("{path}.{name}"), of), theirs.get(name), ours.get(name), found);
            }
        }
        (Some(Value::Array(theirs)), Some(Value::Array(ours))) => {
            let path = format!("{path}[]");
            for (theirs, ours) in aligned(&path, theirs, ours) {
                let of = theirs.or(ours).map(identity).unwrap_or_default();
                let of = of.replace(['"', '|'], " ");
                compare((&path, of.trim()), theirs, ours, found);
            }
        }
        _ => {
            let text = |value: Option<&Value>| value.map_or("absent".to_owned(), Value::to_string);
            found.push(Difference {
                path: path.to_owned(),
                theirs: text(theirs),
                ours: text(ours),
                of: of.to_owned(),
            });
        }
    }
}

/// Elements of two lists that are about the same thing, side by side.
fn aligned<'v>(
    path: &str,
    theirs: &'v [Value],
    ours: &'v [Value],
) -> Vec<(Option<&'v Value>, Option<&'v Value>)> {
    let name = path.rsplit('.').next().unwrap_or(path).trim_end_matches("[]");
    let has_identity = |list: &[Value]| list.iter().all(|one| !identity(one).is_empty());
    if ORDERED.contains(&name) || !has_identity(theirs) || !has_identity(ours) {
        let length = theirs.len().max(ours.len());
        return (0..length).map(|at| (theirs.get(at), ours.get(at))).collect();
    }
    let mut left: BTreeMap<String, VecDeque<&Value>> = BTreeMap::new();
    ours.iter().for_each(|one| left.entry(identity(one)).or_default().push_back(one));
    let mut pairs = Vec::new();
    for one in theirs {
        let same = left.get_mut(&identity(one)).and_then(VecDeque::pop_front);
        pairs.push((Some(one), same));
    }
    pairs.extend(left.into_values().flatten().map(|one| (None, Some(one))));
    pairs
}

/// A difference that may be, and why: a line of `allowed.txt`.
#[derive(Clone, Debug)]
pub(crate) struct Allowance {
    line: usize,
    text: String,
    api: String,
    versions: RangeInclusive<i16>,
    path: String,
    theirs: Option<String>,
    ours: Option<String>,
    of: Option<String>,
    case: Option<String>,
    used: Cell<usize>,
}

impl Allowance {
    /// Whether it is for whole answers.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.path.as_str(), "answer" | "answer.*")
    }
}

/// All of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Allowances(Vec<Allowance>);

impl Allowances {
    /// Lines of `API VERSIONS PATH [theirs=JSON] [ours=JSON] [of=NAME] [case=PART] : reason`; `*` is any.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let lines = text.lines().enumerate();
        let lines = lines.filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
        lines.map(|(at, line)| allowance(at + 1, line)).collect::<Result<_, _>>().map(Self)
    }

    /// Whether the difference may be; notes the use.
    pub(crate) fn allows(
        &self,
        case: &str,
        api: Option<(&str, i16)>,
        difference: &Difference,
    ) -> bool {
        let found = self.find(case, api, difference);
        if let Some(found) = found {
            found.used.set(found.used.get() + 1);
        }
        found.is_some()
    }

    /// The line by which the difference may be.
    pub(crate) fn find(
        &self,
        case: &str,
        api: Option<(&str, i16)>,
        difference: &Difference,
    ) -> Option<&Allowance> {
        self.0.iter().find(|allowance| {
            let api_fits = allowance.api == "*"
                || api.is_some_and(|(name, version)| {
                    name == allowance.api && allowance.versions.contains(&version)
                });
            api_fits
                && fits(&allowance.path, &difference.path)
                && allowance.theirs.as_ref().is_none_or(|theirs| fits(theirs, &difference.theirs))
                && allowance.ours.as_ref().is_none_or(|ours| fits(ours, &difference.ours))
                && allowance.of.as_ref().is_none_or(|of| fits(of, &difference.of))
                && allowance.case.as_ref().is_none_or(|part| case.contains(part))
        })
    }

    /// Those that nothing needed.
    pub(crate) fn unused(&self) -> Vec<String> {
        let unused = self.0.iter().filter(|allowance| allowance.used.get() == 0);
        unused.map(|allowance| format!("line {}: {}", allowance.line, allowance.text)).collect()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

/// `*` at the end stands for anything.
fn fits(pattern: &str, text: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => text.starts_with(start),
        None => pattern == text,
    }
}

fn allowance(line: usize, text: &str) -> Result<Allowance, String> {
    let wrong = |what: &str| format!("allowed.txt, line {line}: {what}: {text}");
    let (what, reason) = text.split_once(" : ").ok_or_else(|| wrong("no reason"))?;
    if reason.trim().is_empty() {
        return Err(wrong("no reason"));
    }
    let mut words = what.split_whitespace();
    let (Some(api), Some(versions), Some(path)) = (words.next(), words.next(), words.next()) else {
        return Err(wrong("expected API VERSIONS PATH"));
    };
    let (low, high) = versions.split_once('-').unwrap_or((versions, versions));
    let versions = match (low, high) {
        ("*", _) => 0..=i16::MAX,
        (low, "") => low.parse().map_err(|_| wrong("bad versions"))?..=i16::MAX,
        (low, high) => {
            low.parse().map_err(|_| wrong("bad versions"))?
                ..=high.parse().map_err(|_| wrong("bad versions"))?
        }
    };
    let rest = words.collect::<Vec<_>>().join(" ");
    let option = |name: &str| {
        let start = rest.find(&format!("{name}="))? + name.len() + 1;
        let end = [" theirs=", " ours=", " of=", " case="]
            .iter()
            .filter_map(|next| rest[start..].find(next))
            .min()
            .map_or(rest.len(), |length| start + length);
        Some(rest[start..end].trim().to_owned())
    };
    Ok(Allowance {
        line,
        text: text.to_owned(),
        api: api.to_owned(),
        versions,
        path: path.to_owned(),
        theirs: option("theirs"),
        ours: option("ours"),
        of: option("of"),
        case: option("case"),
        used: Cell::new(0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn elements_are_matched_by_what_they_are_about() {
        let theirs =
            [json!({"answer": {"topics": [{"name": "a", "error_code": 0}, {"name": "b"}]}})];
        let ours = [json!({"answer": {"topics": [{"name": "a", "error_code": 3}]}})];
        let found: Vec<_> = differences(&theirs, &ours).iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                "answer.topics[].error_code: theirs 0, ours 3",
                r#"answer.topics[]: theirs {"name":"b"}, ours absent"#
            ]
        );
    }

    #[test]
    fn an_allowance_can_be_for_one_element() {
        let list = |read_only| {
            [
                json!({"configs": [{"name": "a.b", "read_only": true}, {"name": "c", "read_only": read_only}]}),
            ]
        };
        let found = differences(&list(false), &list(true));
        let allowed = |text: &str| {
            let allowances = Allowances::parse(text).unwrap();
            allowances.allows("case", Some(("Fetch", 0)), &found[0])
        };
        assert!(allowed("Fetch * configs[].read_only ours=true of=c : because"));
        assert!(!allowed("Fetch * configs[].read_only ours=true of=a.* : because"));
    }

    #[test]
    fn an_allowance_is_for_its_versions_and_must_be_used() {
        let text =
            "# comment\nFetch 4-11 answer.x theirs=1 ours=2 : because\nFetch * answer.y : why\n";
        let allowed = Allowances::parse(text).unwrap();
        let difference = Difference {
            path: "answer.x".into(),
            theirs: "1".into(),
            ours: "2".into(),
            of: String::new(),
        };
        assert!(!allowed.allows("c", Some(("Fetch", 12)), &difference));
        assert!(allowed.allows("c", Some(("Fetch", 4)), &difference));
        assert_eq!(allowed.unused(), ["line 3: Fetch * answer.y : why"]);
        assert!(Allowances::parse("Fetch * answer.x").is_err());
    }
}
