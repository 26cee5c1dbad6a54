//! Messages as trees: any message of the schemas to and from JSON.
//!
//! Written apart from the generated code, so that a mistake there cannot hide itself, and without its
//! refusals: what a case asks to be sent is sent, null where null is forbidden included.
//!
//! | wire | tree |
//! |---|---|
//! | numbers, bools, strings, lists, structures, null | the same in JSON |
//! | uuid | its 22 characters of base64 |
//! | bytes | text if printable, else `0x` and hex |
//! | records | a list of batches (see [`crate::records`]); to send, a line of notation |
//! | tagged field of unknown tag | `$tag N` with its bytes |

use crate::records;
use bytes::Bytes;
use protocol::Reader;
use protocol::reflect::{Field, Kind, Message};
use serde_json::{Map, Value, json};

/// Reads a message; what follows it in the frame is kept as `$rest`.
pub(crate) fn decode(message: &Message, frame: Bytes, version: i16) -> Result<Value, String> {
    let mut reader = Reader::new(frame);
    let mut tree = decode_from(message, &mut reader, version)?;
    if reader.remaining() > 0
        && let Value::Object(fields) = &mut tree
    {
        fields.insert("$rest".to_owned(), json!(reader.remaining()));
    }
    Ok(tree)
}

/// Reads a message and leaves what follows it.
pub(crate) fn decode_from(
    message: &Message,
    reader: &mut Reader,
    version: i16,
) -> Result<Value, String> {
    let flexible = message.is_flexible(version);
    Decoder { message, version, flexible }
        .structure(reader, message.fields)
        .map_err(|error| format!("{} v{version}: {error}", message.name))
}

struct Decoder<'a> {
    message: &'a Message,
    version: i16,
    flexible: bool,
}

type Decoded = Result<Value, protocol::DecodeError>;

impl Decoder<'_> {
    fn structure(&self, reader: &mut Reader, fields: &[Field]) -> Decoded {
        let mut tree = Map::new();
        for field in fields.iter().filter(|field| field.is_in(self.version)) {
            let value = match field.tag {
                Some(_) => default(field),
                None => self.value(reader, &field.kind, field.is_nullable(self.version))?,
            };
            tree.insert(field.name.to_owned(), value);
        }
        if self.flexible {
            for _ in 0..reader.tags()? {
                let (tag, end) = reader.tag()?;
                let known = fields.iter().find(|f| f.tag == Some(tag) && f.is_in(self.version));
                let (name, value) = match known {
                    Some(field) => (field.name.to_owned(), self.tagged(reader, field)?),
                    None => (format!("$tag {tag}"), json!(reader.remaining() - end)),
                };
                tree.insert(name, value);
                reader.end_tag(end)?;
            }
        }
        Ok(Value::Object(tree))
    }

    fn tagged(&self, reader: &mut Reader, field: &Field) -> Decoded {
        match field.kind {
            // A null structure is 0 in a tag.
            Kind::Struct(name) if field.is_nullable(self.version) => match reader.i8()? {
                0 => Ok(Value::Null),
                _ => self.structure(reader, self.fields(name)),
            },
            _ => self.value(reader, &field.kind, field.is_nullable(self.version)),
        }
    }

    fn fields(&self, name: &str) -> &'static [Field] {
        self.message.structure(name).expect("generated from a checked schema")
    }

    fn value(&self, reader: &mut Reader, kind: &Kind, nullable: bool) -> Decoded {
        let flexible = self.flexible;
        Ok(match kind {
            Kind::Bool => json!(reader.bool()?),
            Kind::I8 => json!(reader.i8()?),
            Kind::I16 => json!(reader.i16()?),
            Kind::U16 => json!(reader.u16()?),
            Kind::I32 => json!(reader.i32()?),
            Kind::U32 => json!(reader.u32()?),
            Kind::I64 => json!(reader.i64()?),
            Kind::F64 => json!(reader.f64()?),
            Kind::Uuid => json!(reader.uuid()?.to_string()),
            Kind::Text => reader
                .nullable_string(flexible, nullable)?
                .map_or(Value::Null, |text| json!(&*text)),
            Kind::Bytes => reader
                .nullable_bytes(flexible, nullable)?
                .map_or(Value::Null, |bytes| json!(shown(&bytes))),
            // That null stands where Kafka has empty records is for the comparison to find (B5).
            Kind::Records => reader
                .nullable_bytes(flexible, true)?
                .map_or(Value::Null, |bytes| records::tree(&bytes)),
            Kind::Array(element) => {
                let one = |reader: &mut Reader| self.value(reader, element, false);
                match reader.nullable_array(flexible, nullable, 1, one)? {
                    Some(list) => Value::Array(list),
                    None => Value::Null,
                }
            }
            Kind::Struct(name) if nullable => match reader.present(true)? {
                true => self.structure(reader, self.fields(name))?,
                false => Value::Null,
            },
            Kind::Struct(name) => self.structure(reader, self.fields(name))?,
        })
    }
}

/// What a field holds when nothing is said about it.
fn default(field: &Field) -> Value {
    if field.default == Some("null") {
        return Value::Null;
    }
    match (field.default, field.kind) {
        (Some(value), _) => serde_json::from_str(value).unwrap_or_else(|_| json!(value)),
        (None, Kind::Bool) => json!(false),
        (None, Kind::F64) => json!(0.0),
        (None, Kind::Text | Kind::Bytes) => json!(""),
        (None, Kind::Uuid) => json!(model::TopicId::ZERO.to_string()),
        (None, Kind::Records) => Value::Null,
        (None, Kind::Array(_)) => json!([]),
        (None, Kind::Struct(_)) => json!({}),
        (None, Kind::I8 | Kind::I16 | Kind::U16 | Kind::I32 | Kind::U32 | Kind::I64) => json!(0),
    }
}

/// Bytes for people: text if printable, else hex.
pub(crate) fn shown(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.chars().any(char::is_control) && !text.starts_with("0x") => {
            text.to_owned()
        }
        _ => format!("0x{}", hex(bytes)),
    }
}

/// Bytes in hex.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of [`shown`].
pub(crate) fn unshown(text: &str) -> Result<Vec<u8>, String> {
    let Some(digits) = text.strip_prefix("0x") else { return Ok(text.as_bytes().to_vec()) };
    let digits: Vec<char> = digits.chars().filter(|c| !c.is_whitespace()).collect();
    digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(&pair.iter().collect::<String>(), 16))
        .collect::<Result<_, _>>()
        .map_err(|error| format!("{text}: {error}"))
}

/// Writes a message. Fields that the version lacks are left out, those that are not given hold their
/// default; nothing else is judged.
pub(crate) fn encode(
    message: &Message,
    tree: &Value,
    version: i16,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    let encoder = Encoder { message, version, flexible: message.is_flexible(version) };
    check_names(message, tree, message.fields, message.name)?;
    encoder.structure(out, message.fields, tree)
}

/// A field that no version has is a mistake in a case.
fn check_names(
    message: &Message,
    tree: &Value,
    fields: &[Field],
    place: &str,
) -> Result<(), String> {
    match tree {
        Value::Array(list) => {
            list.iter().try_for_each(|tree| check_names(message, tree, fields, place))
        }
        Value::Object(object) => object.iter().try_for_each(|(name, value)| {
            if name.starts_with('$') {
                return Ok(());
            }
            let field = fields
                .iter()
                .find(|field| field.name == name)
                .ok_or_else(|| format!("{place} has no field {name}"))?;
            let mut kind = &field.kind;
            while let Kind::Array(element) = kind {
                kind = element;
            }
            match kind {
                Kind::Struct(inner) => {
                    let fields = message.structure(inner).unwrap_or_default();
                    check_names(message, value, fields, inner)
                }
                _ => Ok(()),
            }
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
    }
}

struct Encoder<'a> {
    message: &'a Message,
    version: i16,
    flexible: bool,
}

impl Encoder<'_> {
    fn structure(&self, out: &mut Vec<u8>, fields: &[Field], tree: &Value) -> Result<(), String> {
        let empty = Map::new();
        let given = match tree {
            Value::Object(given) => given,
            Value::Null => &empty,
            other => return Err(format!("{other} is no structure")),
        };
        let mut tags = Vec::new();
        for field in fields.iter().filter(|field| field.is_in(self.version)) {
            let nullable = field.is_nullable(self.version);
            let Some(tag) = field.tag else {
                let value = given.get(field.name).cloned().unwrap_or_else(|| default(field));
                self.value(out, field, &field.kind, nullable, &value)?;
                continue;
            };
            if let Some(value) = given.get(field.name) {
                let mut bytes = Vec::new();
                self.value(&mut bytes, field, &field.kind, nullable, value)?;
                tags.push((tag, bytes));
            }
        }
        if self.flexible {
            // Tags that nobody knows: `"$tags": {"7": "0x01"}`.
            if let Some(Value::Object(more)) = given.get("$tags") {
                for (tag, value) in more {
                    let tag = tag.parse().map_err(|_| format!("{tag} is no tag"))?;
                    tags.push((tag, unshown(value.as_str().unwrap_or_default())?));
                }
            }
            tags.sort_by_key(|(tag, _)| *tag);
            uvarint(out, tags.len());
            for (tag, bytes) in tags {
                uvarint(out, tag as usize);
                uvarint(out, bytes.len());
                out.extend_from_slice(&bytes);
            }
        }
        Ok(())
    }

    fn value(
        &self,
        out: &mut Vec<u8>,
        field: &Field,
        kind: &Kind,
        nullable: bool,
        value: &Value,
    ) -> Result<(), String> {
        let wrong = || format!("{}: {value} is no {kind:?}", field.name);
        let number = || value.as_i64().ok_or_else(wrong);
        match kind {
            Kind::Bool => match value {
                Value::Bool(value) => out.push(u8::from(*value)),
                _ => out.push(u8::try_from(number()?).map_err(|_| wrong())?),
            },
            Kind::I8 => out.extend(i8::try_from(number()?).map_err(|_| wrong())?.to_be_bytes()),
            Kind::I16 => out.extend(i16::try_from(number()?).map_err(|_| wrong())?.to_be_bytes()),
            Kind::U16 => out.extend(u16::try_from(number()?).map_err(|_| wrong())?.to_be_bytes()),
            Kind::I32 => out.extend(i32::try_from(number()?).map_err(|_| wrong())?.to_be_bytes()),
            Kind::U32 => out.extend(u32::try_from(number()?).map_err(|_| wrong())?.to_be_bytes()),
            Kind::I64 => out.extend(number()?.to_be_bytes()),
            Kind::F64 => out.extend(value.as_f64().ok_or_else(wrong)?.to_be_bytes()),
            Kind::Uuid => {
                let text = value.as_str().ok_or_else(wrong)?;
                let id: model::TopicId =
                    text.parse().map_err(|e| format!("{}: {e}", field.name))?;
                out.extend_from_slice(&id.0);
            }
            Kind::Text => self.sized(out, value, true, |text| Ok(text.as_bytes().to_vec()))?,
            Kind::Bytes => self.sized(out, value, false, unshown)?,
            Kind::Records => self.sized(out, value, false, records::encode)?,
            Kind::Array(element) => match value {
                Value::Null => self.length(out, None, false),
                Value::Array(list) => {
                    self.length(out, Some(list.len()), false);
                    for one in list {
                        self.value(out, field, element, false, one)?;
                    }
                }
                // A count that lies.
                Value::Number(_) => match self.flexible {
                    true => uvarint(out, usize::try_from(number()?).map_err(|_| wrong())?),
                    false => {
                        out.extend(i32::try_from(number()?).map_err(|_| wrong())?.to_be_bytes());
                    }
                },
                Value::Bool(_) | Value::String(_) | Value::Object(_) => return Err(wrong()),
            },
            Kind::Struct(name) => {
                let fields = self.message.structure(name).ok_or_else(wrong)?;
                match (nullable, value) {
                    (true, Value::Null) if field.tag.is_some() => out.push(0),
                    (true, Value::Null) => out.push(0xff),
                    (true, _) => {
                        out.push(1);
                        self.structure(out, fields, value)?;
                    }
                    (false, _) => self.structure(out, fields, value)?,
                }
            }
        }
        Ok(())
    }

    fn sized(
        &self,
        out: &mut Vec<u8>,
        value: &Value,
        short: bool,
        bytes: impl Fn(&str) -> Result<Vec<u8>, String>,
    ) -> Result<(), String> {
        let Some(text) = value.as_str() else {
            if !value.is_null() {
                return Err(format!("{value} is no text"));
            }
            self.length(out, None, short);
            return Ok(());
        };
        let bytes = bytes(text)?;
        self.length(out, Some(bytes.len()), short);
        out.extend_from_slice(&bytes);
        Ok(())
    }

    /// A length or count; `None` is null. Long strings wrap, as nothing is judged here.
    fn length(&self, out: &mut Vec<u8>, length: Option<usize>, short: bool) {
        match (self.flexible, short) {
            (true, _) => uvarint(out, length.map_or(0, |length| length + 1)),
            (false, true) => {
                let length = length.map_or(-1, |length| i16::try_from(length).unwrap_or(i16::MAX));
                out.extend(length.to_be_bytes());
            }
            (false, false) => {
                let length = length.map_or(-1, |length| i32::try_from(length).unwrap_or(i32::MAX));
                out.extend(length.to_be_bytes());
            }
        }
    }
}

/// An unsigned varint.
pub(crate) fn uvarint(out: &mut Vec<u8>, mut value: usize) {
    while value > 0x7f {
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
}

/// `tree` without what `version` lacks: two cases that send the same bytes are the same case.
pub(crate) fn pruned(message: &Message, tree: &Value, version: i16) -> Value {
    prune(message, message.fields, tree, version)
}

fn prune(message: &Message, fields: &[Field], tree: &Value, version: i16) -> Value {
    let Value::Object(given) = tree else { return tree.clone() };
    let flexible = message.is_flexible(version);
    let kept = given.iter().filter_map(|(name, value)| {
        let Some(field) = fields.iter().find(|field| field.name == name) else {
            return flexible.then(|| (name.clone(), value.clone()));
        };
        let mut kind = &field.kind;
        while let Kind::Array(element) = kind {
            kind = element;
        }
        let value = match kind {
            Kind::Struct(inner) => {
                let fields = message.structure(inner).unwrap_or_default();
                match value {
                    Value::Array(list) => {
                        list.iter().map(|one| prune(message, fields, one, version)).collect()
                    }
                    one => prune(message, fields, one, version),
                }
            }
            _ => value.clone(),
        };
        let kept = field.is_in(version) && (field.tag.is_some() || value != default(field));
        kept.then(|| (name.clone(), value))
    });
    Value::Object(kept.collect())
}
