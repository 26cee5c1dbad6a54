//! What differs from cluster to cluster, replaced by what it is.
//!
//! Nothing is ignored: an id becomes the place it has among the ids of its case, so that one id which
//! means two topics, or two which mean one, still shows.

use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A day: what a clock says now lies this close to when the run began.
const DAY_MS: i64 = 86_400_000;
/// Lists whose order says something.
pub(crate) const ORDERED: &[&str] = &["records", "headers"];

const ZERO: &str = "AAAAAAAAAAAAAAAAAAAAAA";

/// What is known of a broker's cluster.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    port: String,
    folder: String,
    topics: BTreeMap<String, String>,
    now: i64,
}

impl Names {
    pub(crate) fn new(port: u16, folder: &str) -> Self {
        let now = platform::Clock::timestamp(&platform::clock::SystemClock::new()).0;
        Self { port: port.to_string(), folder: folder.to_owned(), topics: BTreeMap::new(), now }
    }

    /// The id of a topic that an answer has named.
    pub(crate) fn id_of(&self, topic: &str) -> Option<String> {
        self.topics.iter().find(|(_, name)| *name == topic).map(|(id, _)| id.clone())
    }

    /// Notes which id belongs to which topic.
    pub(crate) fn learn(&mut self, answer: &Value) {
        match answer {
            Value::Array(list) => list.iter().for_each(|one| self.learn(one)),
            Value::Object(fields) => {
                if let (Some(Value::String(name)), Some(Value::String(id))) =
                    (fields.get("name"), fields.get("topic_id"))
                    && id != ZERO
                    && fields.get("error_code") == Some(&json!(0))
                {
                    self.topics.retain(|_, known| known != name);
                    self.topics.insert(id.clone(), name.clone());
                }
                fields.values().for_each(|one| self.learn(one));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    /// The answers of one case.
    pub(crate) fn normal(&self, seen: &[Value]) -> Vec<Value> {
        let mut bound = Bound::default();
        seen.iter().map(|value| self.value("", value, &mut bound)).collect()
    }

    fn value(&self, field: &str, value: &Value, bound: &mut Bound) -> Value {
        match value {
            Value::Array(list) => {
                let mut list: Vec<_> =
                    list.iter().map(|one| self.value(field, one, bound)).collect();
                // Kafka answers in the order of its hash maps; records have an order.
                if !ORDERED.contains(&field) && list.iter().all(Value::is_object) {
                    list.sort_by_cached_key(|one| (identity(one), one.to_string()));
                }
                Value::Array(list)
            }
            Value::Object(fields) => Value::Object(
                fields
                    .iter()
                    .map(|(name, one)| (name.clone(), self.value(name, one, bound)))
                    .collect(),
            ),
            Value::String(text) => Value::String(self.text(field, text, bound)),
            Value::Number(number) => self.number(field, number.as_i64(), value, bound),
            Value::Null | Value::Bool(_) => value.clone(),
        }
    }

    fn number(&self, field: &str, number: Option<i64>, value: &Value, bound: &mut Bound) -> Value {
        let Some(number) = number else { return value.clone() };
        match field {
            "port" if number.to_string() == self.port => json!("<port>"),
            "session_id" if number != 0 => json!(bound.name("session", &number.to_string())),
            "total_bytes" | "usable_bytes" if number > 0 => json!("<disk>"),
            _ if field.contains("timestamp") || field == "log_append_time_ms" => {
                if (number - self.now).abs() < DAY_MS { json!("<now>") } else { value.clone() }
            }
            _ => value.clone(),
        }
    }

    fn text(&self, field: &str, text: &str, bound: &mut Bound) -> String {
        match field {
            "topic_id" | "cluster_id" | "topic_ids" if text == ZERO => "<none>".to_owned(),
            "topic_id" | "topic_ids" => match self.topics.get(text) {
                Some(topic) => format!("<id of {topic}>"),
                None if text.starts_with("AAAAAAAA") || text.starts_with("EjRWeJ") => {
                    text.to_owned()
                }
                None => bound.name("topic id", text),
            },
            "cluster_id" => bound.name("cluster", text),
            _ => {
                let text = bound.uuids(text);
                let text = text.replace(&self.folder, "<folder>");
                let text = text.replace(&format!(":{}", self.port), ":<port>");
                self.times(&text)
            }
        }
    }
}

impl Names {
    /// Replaces milliseconds of today.
    fn times(&self, text: &str) -> String {
        let mut out = String::new();
        let mut rest = text;
        while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
            let digits = rest[start..].find(|c: char| !c.is_ascii_digit());
            let end = digits.map_or(rest.len(), |length| start + length);
            let number = &rest[start..end];
            let is_now = number.len() == 13
                && number.parse::<i64>().is_ok_and(|n| (n - self.now).abs() < DAY_MS);
            out.push_str(&rest[..start]);
            out.push_str(if is_now { "<now>" } else { number });
            rest = &rest[end..];
        }
        out + rest
    }
}

/// What makes an element of a list the same element in another answer.
pub(crate) fn identity(element: &Value) -> String {
    const FIELDS: &[&str] = &[
        "api_key",
        "name",
        "topic",
        "topic_name",
        "topic_id",
        "partition",
        "partition_index",
        "index",
        "partition_id",
        "node_id",
        "broker_id",
        "group_id",
        "member_id",
        "resource_type",
        "resource_name",
        "log_dir",
        "key",
        "producer_id",
        "batch_index",
        "coordinator_key",
    ];
    FIELDS
        .iter()
        .filter_map(|field| element.get(field))
        .map(|value| match value {
            // As numbers sort.
            Value::Number(number) => format!("{:>20}|", number.to_string()),
            other => format!("{other}|"),
        })
        .collect()
}

/// The ids of one case, by first appearance.
#[derive(Debug, Default)]
struct Bound(BTreeMap<String, Vec<String>>);

impl Bound {
    fn name(&mut self, kind: &str, id: &str) -> String {
        let known = self.0.entry(kind.to_owned()).or_default();
        let place = known.iter().position(|known| known == id).unwrap_or_else(|| {
            known.push(id.to_owned());
            known.len() - 1
        });
        format!("<{kind} {}>", place + 1)
    }

    /// Replaces what looks like `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx`.
    fn uuids(&mut self, text: &str) -> String {
        const LENGTH: usize = 36;
        let is_uuid = |part: &str| {
            part.bytes().enumerate().all(|(at, byte)| match at {
                8 | 13 | 18 | 23 => byte == b'-',
                _ => byte.is_ascii_hexdigit(),
            })
        };
        let mut out = String::new();
        let mut at = 0;
        while at < text.len() {
            match text.get(at..at + LENGTH) {
                Some(part) if is_uuid(part) => {
                    out.push_str(&self.name("uuid", part));
                    at += LENGTH;
                }
                _ => {
                    let next = text[at..].chars().next().expect("on a boundary, before the end");
                    out.push(next);
                    at += next.len_utf8();
                }
            }
        }
        out
    }
}

#[test]
fn ids_keep_their_relations() {
    let names = Names::new(9092, "/data");
    let (a, b) = ("5f0c1f2e-0000-4000-8000-000000000000", "6f0c1f2e-0000-4000-8000-000000000000");
    let seen = [json!({"member_id": format!("c-{a}"), "leader": format!("c-{b}")})];
    let same = [json!({"member_id": format!("c-{b}"), "leader": format!("c-{b}")})];
    assert_eq!(names.normal(&seen)[0], json!({"member_id": "c-<uuid 2>", "leader": "c-<uuid 1>"}));
    assert_ne!(names.normal(&seen), names.normal(&same));
}

#[test]
fn lists_are_compared_without_their_order_and_records_with_it() {
    let names = Names::new(9092, "/data");
    let list = |a: &str, b: &str, field: &str| [json!({field: [{"name": a}, {"name": b}]})];
    assert_eq!(names.normal(&list("x", "y", "topics")), names.normal(&list("y", "x", "topics")));
    assert_ne!(names.normal(&list("x", "y", "records")), names.normal(&list("y", "x", "records")));
}
