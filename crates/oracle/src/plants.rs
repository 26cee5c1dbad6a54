//! Faults planted in our answers, as read from the socket, to see that the comparison finds them.

use serde_json::{Value, json};

/// One fault. Planted by [`Plant::apply`], which says whether there was anything to spoil.
#[derive(Clone, Copy)]
pub(crate) struct Plant {
    pub(crate) name: &'static str,
    spoil: fn(&mut Value) -> bool,
}

impl Plant {
    pub(crate) fn apply(&self, seen: &mut [Value]) -> bool {
        seen.iter_mut().any(|observed| match observed.get_mut("answer") {
            Some(answer) => (self.spoil)(answer),
            None => false,
        })
    }
}

/// All of them.
pub(crate) const PLANTS: &[Plant] = &[
    Plant { name: "an error code is off by one", spoil: |a| number(a, "error_code", |n| n + 1) },
    Plant {
        name: "unknown topic becomes unknown server error",
        spoil: |a| number(a, "error_code", |n| if n == 3 { -1 } else { n }),
    },
    Plant {
        name: "success becomes a retriable error",
        spoil: |a| number(a, "error_code", |n| if n == 0 { 5 } else { n }),
    },
    Plant {
        name: "an error is forgotten",
        spoil: |a| number(a, "error_code", |n| if n > 0 { 0 } else { n }),
    },
    Plant {
        name: "an offset is off by one",
        spoil: |a| number(a, "offset", |n| n + 1) || number(a, "base_offset", |n| n + 1),
    },
    Plant {
        name: "the high watermark is off by one",
        spoil: |a| number(a, "high_watermark", |n| n + 1),
    },
    Plant {
        name: "the log start offset is 0 where unknown",
        spoil: |a| number(a, "log_start_offset", |n| if n == -1 { 0 } else { n }),
    },
    Plant { name: "a throttle time of 1 ms", spoil: |a| number(a, "throttle_time_ms", |n| n + 1) },
    Plant {
        name: "the leader epoch is missing",
        spoil: |a| number(a, "leader_epoch", |n| if n >= 0 { -1 } else { n }),
    },
    Plant { name: "the leader is another broker", spoil: |a| number(a, "leader_id", |n| n + 1) },
    Plant { name: "another port", spoil: |a| number(a, "port", |n| n + 1) },
    Plant { name: "a partition is missing", spoil: |a| shorten(a, "partition") },
    Plant { name: "a topic is missing", spoil: |a| shorten(a, "topics") },
    Plant {
        name: "a topic comes twice",
        spoil: |a| {
            lists(a, &mut |name, list| {
                let last = list.last().cloned().filter(|_| name == "topics");
                list.extend(last.clone());
                last.is_some()
            })
        },
    },
    Plant {
        name: "null instead of empty text",
        spoil: |a| any(a, &mut |_, value| value == "" && replace(value, Value::Null)),
    },
    Plant {
        name: "an empty list instead of null",
        spoil: |a| any(a, &mut |_, value| value.is_null() && replace(value, json!([]))),
    },
    Plant {
        name: "null records instead of empty ones",
        spoil: |a| {
            any(a, &mut |name, value| {
                name == "records" && *value == json!([]) && replace(value, Value::Null)
            })
        },
    },
    Plant {
        name: "a record's value is changed",
        spoil: |a| {
            any(a, &mut |name, value| {
                name == "value" && value.is_string() && replace(value, json!("?"))
            })
        },
    },
    Plant {
        name: "two records change places",
        spoil: |a| {
            lists(a, &mut |name, list| {
                let swap = name == "records" && list.len() > 1 && list[0] != list[1];
                if swap {
                    list.swap(0, 1);
                }
                swap
            })
        },
    },
    Plant {
        name: "the CRC of a batch is wrong",
        spoil: |a| {
            any(a, &mut |name, value| {
                name == "crc_is_right" && *value == json!(true) && replace(value, json!(false))
            })
        },
    },
    Plant {
        name: "a timestamp is off by one",
        spoil: |a| number(a, "timestamp", |n| if (0..1_000_000).contains(&n) { n + 1 } else { n }),
    },
    Plant { name: "an API is not advertised", spoil: |a| shorten(a, "api_keys") },
    Plant {
        name: "bytes after the answer",
        spoil: |a| match a {
            Value::Object(fields) => fields.insert("$rest".into(), json!(1)).is_none(),
            _ => false,
        },
    },
    Plant {
        name: "a tag of a later version leaks",
        spoil: |a| match a {
            Value::Object(fields) => fields.insert("$tag 0".into(), json!(5)).is_none(),
            _ => false,
        },
    },
    Plant {
        name: "a member id is another's",
        spoil: |a| {
            any(a, &mut |name, value| {
                let is_id = name == "member_id" && value.as_str().is_some_and(|id| id.len() > 36);
                is_id && replace(value, json!("x-00000000-0000-4000-8000-000000000000-x"))
            })
        },
    },
    Plant {
        name: "a topic id is another's",
        spoil: |a| {
            any(a, &mut |name, value| {
                let is_id = name == "topic_id" && *value != json!("AAAAAAAAAAAAAAAAAAAAAA");
                is_id && replace(value, json!("AAAAAAAAAAAAAAAAAAAAAg"))
            })
        },
    },
    Plant {
        name: "a message is missing",
        spoil: |a| {
            any(a, &mut |name, value| {
                name == "error_message" && value.is_string() && replace(value, Value::Null)
            })
        },
    },
];

fn replace(at: &mut Value, with: Value) -> bool {
    *at = with;
    true
}

/// Visits every field until `visit` says that it has changed one.
fn any(tree: &mut Value, visit: &mut dyn FnMut(&str, &mut Value) -> bool) -> bool {
    match tree {
        Value::Object(fields) => {
            fields.iter_mut().any(|(name, value)| visit(name, value) || any(value, visit))
        }
        Value::Array(list) => list.iter_mut().any(|value| any(value, visit)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Changes the first number of that name which `change` changes.
fn number(tree: &mut Value, wanted: &str, change: fn(i64) -> i64) -> bool {
    any(tree, &mut |name, value| match value.as_i64() {
        Some(number) if name == wanted && change(number) != number => {
            replace(value, json!(change(number)))
        }
        _ => false,
    })
}

fn lists(tree: &mut Value, visit: &mut dyn FnMut(&str, &mut Vec<Value>) -> bool) -> bool {
    any(tree, &mut |name, value| match value {
        Value::Array(list) => visit(name, list),
        _ => false,
    })
}

/// Takes the first element of the first list whose name starts so.
fn shorten(tree: &mut Value, start: &str) -> bool {
    lists(tree, &mut |name, list| {
        let has = name.starts_with(start) && !list.is_empty();
        if has {
            list.remove(0);
        }
        has
    })
}
