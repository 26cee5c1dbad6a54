//! The records of Kafka's own topics, as JSON.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use protocol::reflect::{DATA, Field, Kind, Message, RECORDS, Record};
use protocol::{DecodeError, Reader};
use serde_json::{Map, Value, json};

/// A topic whose records have schemas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Topic {
    Offsets,
    Transactions,
    ShareStates,
}

impl Topic {
    pub(crate) fn of(name: &str) -> Option<Self> {
        match name {
            "__consumer_offsets" => Some(Self::Offsets),
            "__transaction_state" => Some(Self::Transactions),
            "__share_group_state" => Some(Self::ShareStates),
            _ => None,
        }
    }

    /// Types of records are numbered per topic.
    fn has(self, record: &Record) -> bool {
        let of_record = match record.key.name {
            "TransactionLogKey" => Self::Transactions,
            "ShareSnapshotKey" | "ShareUpdateKey" => Self::ShareStates,
            _ => Self::Offsets,
        };
        of_record == self
    }
}

/// Reads records of one topic.
#[derive(Debug)]
pub(crate) struct Decoder(Topic);

impl Decoder {
    pub(crate) fn new(topic: Topic) -> Self {
        Self(topic)
    }

    /// Key and value; `None` if the key is of no type that is known. A value that cannot be read is
    /// `{"undecodable": why, "base64": ...}`.
    pub(crate) fn decode(
        &self,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
    ) -> Option<(Value, Value)> {
        let key = key?;
        let kind = i16::from_be_bytes(*key.first_chunk()?);
        let record = RECORDS.iter().find(|record| record.kind == kind && self.0.has(record))?;
        // The old key of offsets has the value of the new one, whichever version that says.
        let values = match record.key.name {
            "LegacyOffsetCommitKey" => {
                RECORDS.iter().find(|record| record.key.name == "OffsetCommitKey")?
            }
            _ => record,
        };
        let mut shown = Map::from_iter([("type".to_owned(), json!(kind))]);
        shown.insert("name".to_owned(), json!(record.key.name));
        let mut reader = Reader::new(Bytes::copy_from_slice(&key[2..]));
        let mut tree = read(&record.key, &mut reader, 0).ok()?;
        shown.append(&mut tree);
        let value = value.map_or(Value::Null, |value| {
            versioned(&values.value, value, false).unwrap_or_else(
                |why| json!({ "undecodable": why, "base64": STANDARD.encode(value) }),
            )
        });
        Some((Value::Object(shown), value))
    }
}

/// A message after its version. `newest`: a version newer than any known is read as the newest known.
fn versioned(message: &Message, bytes: &[u8], newest: bool) -> Result<Value, String> {
    let said = |error: DecodeError| error.to_string();
    let mut reader = Reader::new(Bytes::copy_from_slice(bytes));
    let version = reader.i16().map_err(said)?;
    let (lowest, highest) = message.versions;
    let read_as = if newest { version.min(highest) } else { version };
    if read_as < lowest || read_as > highest {
        return Err(format!("{} has no version {version}", message.name));
    }
    let mut shown = Map::from_iter([("version".to_owned(), json!(version))]);
    let mut tree = read(message, &mut reader, read_as).map_err(said)?;
    if message.name == "GroupMetadataValue" {
        read_protocol(&mut tree);
    }
    shown.append(&mut tree);
    Ok(Value::Object(shown))
}

/// What consumers tell each other in a classic group. Other protocols' bytes stay as they are.
fn read_protocol(group: &mut Map<String, Value>) {
    if group.get("protocol_type") != Some(&json!("consumer")) {
        return;
    }
    let members = group.get_mut("members").and_then(Value::as_array_mut);
    for member in members.into_iter().flatten() {
        for (field, name) in [
            ("subscription", "ConsumerProtocolSubscription"),
            ("assignment", "ConsumerProtocolAssignment"),
        ] {
            let bytes = member[field]["base64"].as_str().map(|text| STANDARD.decode(text));
            let message = DATA.iter().find(|message| message.name == name);
            if let (Some(Ok(bytes)), Some(message)) = (bytes, message)
                && let Ok(tree) = versioned(message, &bytes, true)
            {
                member[field] = tree;
            }
        }
    }
}

type Decoded<T> = Result<T, DecodeError>;

fn read(message: &Message, reader: &mut Reader, version: i16) -> Decoded<Map<String, Value>> {
    let flexible = message.is_flexible(version);
    Walk { message, version, flexible }.structure(reader, message.fields)
}

struct Walk<'a> {
    message: &'a Message,
    version: i16,
    flexible: bool,
}

impl Walk<'_> {
    fn structure(&self, reader: &mut Reader, fields: &[Field]) -> Decoded<Map<String, Value>> {
        let mut tree = Map::new();
        let plain = |field: &&Field| field.is_in(self.version) && field.tag.is_none();
        for field in fields.iter().filter(plain) {
            let nullable = field.is_nullable(self.version);
            tree.insert(field.name.to_owned(), self.value(reader, &field.kind, nullable)?);
        }
        if self.flexible {
            for _ in 0..reader.tags()? {
                let (tag, end) = reader.tag()?;
                let known = |field: &&Field| field.tag == Some(tag) && field.is_in(self.version);
                if let Some(field) = fields.iter().find(known) {
                    tree.insert(field.name.to_owned(), self.tagged(reader, field)?);
                }
                reader.end_tag(end)?;
            }
        }
        Ok(tree)
    }

    fn tagged(&self, reader: &mut Reader, field: &Field) -> Decoded<Value> {
        let nullable = field.is_nullable(self.version);
        // In a tag, 0 stands for a null structure.
        if let (Kind::Struct(name), true) = (field.kind, nullable) {
            return match reader.i8()? {
                0 => Ok(Value::Null),
                _ => self.named(reader, name),
            };
        }
        self.value(reader, &field.kind, nullable)
    }

    fn named(&self, reader: &mut Reader, name: &str) -> Decoded<Value> {
        let fields = self.message.structure(name).expect("generated from a checked schema");
        self.structure(reader, fields).map(Value::Object)
    }

    fn value(&self, reader: &mut Reader, kind: &Kind, nullable: bool) -> Decoded<Value> {
        let flexible = self.flexible;
        let bytes = |bytes: Bytes| json!({ "base64": STANDARD.encode(bytes) });
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
            Kind::Bytes | Kind::Records => {
                reader.nullable_bytes(flexible, nullable)?.map_or(Value::Null, bytes)
            }
            Kind::Array(element) => {
                let one = |reader: &mut Reader| self.value(reader, element, false);
                reader.nullable_array(flexible, nullable, 1, one)?.map_or(Value::Null, Value::Array)
            }
            Kind::Struct(_) if nullable && !reader.present(true)? => Value::Null,
            Kind::Struct(name) => self.named(reader, name)?,
        })
    }
}
