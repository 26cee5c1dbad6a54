//! How `consume` prints a record.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use model::TopicPartition;
use protocol::records::Record;
use serde_json::{Value, json};
use std::io::{self, Write};

/// A piece of a format.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(Vec<u8>),
    Topic,
    Partition,
    Offset,
    Key,
    KeyLength,
    Value,
    ValueLength,
    Timestamp,
    Headers,
}

/// A format such as `%t-%p@%o: %s\n`, with the letters of kcat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Format(Vec<Piece>);

impl Format {
    /// The value and a newline.
    pub(crate) fn lines() -> Self {
        Self(vec![Piece::Value, Piece::Text(b"\n".to_vec())])
    }

    /// Reads a format; `%%` is a percent sign, and `\n`, `\t`, `\r`, `\0`, `\\` are what they are in C.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut plain = String::new();
        let mut characters = text.chars();
        while let Some(character) = characters.next() {
            let piece = match character {
                '\\' => {
                    plain.push(match characters.next() {
                        Some('n') => '\n',
                        Some('t') => '\t',
                        Some('r') => '\r',
                        Some('0') => '\0',
                        Some('\\') => '\\',
                        other => return Err(unknown('\\', other)),
                    });
                    continue;
                }
                '%' => match characters.next() {
                    Some('%') => {
                        plain.push('%');
                        continue;
                    }
                    Some('t') => Piece::Topic,
                    Some('p') => Piece::Partition,
                    Some('o') => Piece::Offset,
                    Some('k') => Piece::Key,
                    Some('K') => Piece::KeyLength,
                    Some('s') => Piece::Value,
                    Some('S') => Piece::ValueLength,
                    Some('T') => Piece::Timestamp,
                    Some('h') => Piece::Headers,
                    other => return Err(unknown('%', other)),
                },
                other => {
                    plain.push(other);
                    continue;
                }
            };
            if !plain.is_empty() {
                pieces.push(Piece::Text(std::mem::take(&mut plain).into_bytes()));
            }
            pieces.push(piece);
        }
        if !plain.is_empty() {
            pieces.push(Piece::Text(plain.into_bytes()));
        }
        Ok(Self(pieces))
    }

    /// Prints a record. Null prints as nothing, its length as -1.
    pub(crate) fn write(
        &self,
        out: &mut impl Write,
        at: &TopicPartition,
        record: &Record<'_>,
    ) -> io::Result<()> {
        for piece in &self.0 {
            match piece {
                Piece::Text(text) => out.write_all(text)?,
                Piece::Topic => out.write_all(at.topic.as_bytes())?,
                Piece::Partition => write!(out, "{}", at.partition)?,
                Piece::Offset => write!(out, "{}", record.offset)?,
                Piece::Key => out.write_all(record.key.unwrap_or_default())?,
                Piece::Value => out.write_all(record.value.unwrap_or_default())?,
                Piece::KeyLength => write_length(out, record.key)?,
                Piece::ValueLength => write_length(out, record.value)?,
                Piece::Timestamp => match record.timestamp {
                    Some(timestamp) => write!(out, "{timestamp}")?,
                    None => out.write_all(b"-1")?,
                },
                Piece::Headers => {
                    for (at, header) in record.headers.clone().enumerate() {
                        if at > 0 {
                            out.write_all(b",")?;
                        }
                        out.write_all(header.key)?;
                        out.write_all(b"=")?;
                        out.write_all(header.value.unwrap_or(b"NULL"))?;
                    }
                }
            }
        }
        Ok(())
    }
}

fn unknown(escape: char, letter: Option<char>) -> String {
    let letter = letter.map(String::from).unwrap_or_default();
    format!(
        "{escape}{letter} is not known: %t topic, %p partition, %o offset, %k key, %K its length, %s value, %S its length, %T timestamp, %h headers, %% percent; \\n \\t \\r \\0 \\\\"
    )
}

fn write_length(out: &mut impl Write, field: Option<&[u8]>) -> io::Result<()> {
    match field {
        Some(field) => write!(out, "{}", field.len()),
        None => out.write_all(b"-1"),
    }
}

/// Text, or `{"base64": ...}` for bytes that are none.
pub(crate) fn text(field: Option<&[u8]>) -> Value {
    field.map_or(Value::Null, |field| match std::str::from_utf8(field) {
        Ok(text) => text.into(),
        Err(_) => json!({ "base64": STANDARD.encode(field) }),
    })
}

/// A record for programs.
pub(crate) fn json(at: &TopicPartition, record: &Record<'_>) -> Value {
    let header = |header: protocol::records::Header<'_>| json!({ "name": text(Some(header.key)), "value": text(header.value) });
    json!({
        "topic": &*at.topic,
        "partition": at.partition,
        "offset": record.offset.0,
        "timestamp": record.timestamp.map(|timestamp| timestamp.0),
        "key": text(record.key),
        "value": text(record.value),
        "headers": record.headers.clone().map(header).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Offset, Timestamp};

    #[test]
    fn a_format_prints_what_its_letters_say() {
        let record = Record {
            offset: Offset(7),
            timestamp: Some(Timestamp(5)),
            key: None,
            value: Some(b"\xffv"),
            headers: protocol::records::Headers::default(),
        };
        let at = TopicPartition::new("t", 2);
        let format = Format::parse(r"%t-%p@%o %K:%k %S:%s %T%%\n").unwrap();
        let mut out = Vec::new();
        format.write(&mut out, &at, &record).unwrap();
        assert_eq!(out, b"t-2@7 -1: 2:\xffv 5%\n");
        assert_eq!(json(&at, &record)["value"], json!({ "base64": "/3Y=" }));
        assert_eq!(json(&at, &record)["key"], Value::Null);
    }

    #[test]
    fn unknown_letters_are_named() {
        assert!(Format::parse("%x").unwrap_err().starts_with("%x is not known"));
        assert!(Format::parse("%").is_err());
        assert!(Format::parse(r"\q").is_err());
    }
}
