//! Reads the schema notation (`crates/protocol/schemas/README.md`) into a model.

use std::collections::BTreeMap;
use std::fmt;

/// Inclusive range of versions; an open end is [`i16::MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Versions {
    pub(crate) low: i16,
    pub(crate) high: i16,
}

impl Versions {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let number = |text: &str| text.parse::<i16>().ok().filter(|&n| n >= 0);
        if let Some(low) = text.strip_suffix('+') {
            return Some(Self { low: number(low)?, high: i16::MAX });
        }
        let (low, high) = text.split_once('-').unwrap_or((text, text));
        Some(Self { low: number(low)?, high: number(high)? }).filter(|v| v.low <= v.high)
    }

    pub(crate) fn intersect(self, other: Self) -> Option<Self> {
        let both = Self { low: self.low.max(other.low), high: self.high.min(other.high) };
        (both.low <= both.high).then_some(both)
    }

    pub(crate) fn hull(self, other: Self) -> Self {
        Self { low: self.low.min(other.low), high: self.high.max(other.high) }
    }

    pub(crate) fn covers(self, other: Self) -> bool {
        self.low <= other.low && self.high >= other.high
    }

    pub(crate) fn contains(self, version: i16) -> bool {
        (self.low..=self.high).contains(&version)
    }
}

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self { low, high: i16::MAX } => write!(f, "{low}+"),
            Self { low, high } if low == high => write!(f, "{low}"),
            Self { low, high } => write!(f, "{low}-{high}"),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Bool,
    I8,
    I16,
    U16,
    I32,
    U32,
    I64,
    F64,
    String,
    Bytes,
    Uuid,
    Records,
    Array(Box<Type>),
    Struct(String),
}

impl Type {
    fn parse(text: &str) -> Self {
        if let Some(element) = text.strip_prefix("[]") {
            return Self::Array(Box::new(Self::parse(element)));
        }
        match text {
            "bool" => Self::Bool,
            "i8" => Self::I8,
            "i16" => Self::I16,
            "u16" => Self::U16,
            "i32" => Self::I32,
            "u32" => Self::U32,
            "i64" => Self::I64,
            "f64" => Self::F64,
            "string" => Self::String,
            "bytes" => Self::Bytes,
            "uuid" => Self::Uuid,
            "records" => Self::Records,
            name => Self::Struct(name.to_owned()),
        }
    }

    /// The structure that this is or is a list of.
    pub(crate) fn structure(&self) -> Option<&str> {
        match self {
            Self::Struct(name) => Some(name),
            Self::Array(element) => element.structure(),
            Self::Bool | Self::I8 | Self::I16 | Self::U16 | Self::I32 | Self::U32 | Self::I64 => {
                None
            }
            Self::F64 | Self::String | Self::Bytes | Self::Uuid | Self::Records => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) kind: Type,
    pub(crate) versions: Versions,
    pub(crate) nullable: Option<Versions>,
    pub(crate) tag: Option<u32>,
    pub(crate) default: Option<String>,
    pub(crate) ignorable: bool,
    pub(crate) rigid: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Request,
    Response,
    Header,
    Data,
    /// With the type that is written before it.
    Key(i16),
    Value,
}

/// A message and the structures in it, outermost first.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) versions: Versions,
    pub(crate) stable: i16,
    pub(crate) flexible: Option<Versions>,
    pub(crate) fields: Vec<Field>,
    pub(crate) structs: Vec<Struct>,
}

#[derive(Clone, Debug)]
pub(crate) struct Struct {
    pub(crate) name: String,
    pub(crate) fields: Vec<Field>,
    /// The versions in which the message can hold one.
    pub(crate) versions: Versions,
}

/// One file: an API, a coordinator's record, or a single message.
#[derive(Clone, Debug)]
pub(crate) struct File {
    pub(crate) api: Option<(i16, String)>,
    pub(crate) messages: Vec<Message>,
}

/// Parses one file; the error names the line.
pub(crate) fn parse(text: &str) -> Result<File, String> {
    let mut file = File { api: None, messages: Vec::new() };
    // Where a line of a given depth adds its field: `None` is the message itself.
    let mut owners: Vec<Option<String>> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let wrong = |what: &str| format!("line {}: {what}: {line}", number + 1);
        let words: Vec<&str> = line.split_whitespace().collect();
        let indent = line.len() - line.trim_start().len();
        let depth = indent / 2;
        match words[..] {
            [] => {}
            ["api", key, name] => {
                let key = key.parse().map_err(|_| wrong("bad key"))?;
                file.api = Some((key, name.to_owned()));
            }
            [kind, name, ref rest @ ..] if depth == 0 => {
                file.messages.push(parse_message(kind, name, rest).map_err(|e| wrong(&e))?);
                owners = vec![None];
            }
            ["struct", name, _versions] if depth == 1 => {
                let message = file.messages.last_mut().ok_or_else(|| wrong("no message"))?;
                push_struct(message, name).map_err(|e| wrong(&e))?;
                owners = vec![None, Some(name.to_owned())];
            }
            _ => {
                let field = parse_field(&words).map_err(|e| wrong(&e))?;
                let message = file.messages.last_mut().ok_or_else(|| wrong("no message"))?;
                if indent % 2 != 0 || depth > owners.len() {
                    return Err(wrong("bad indent"));
                }
                owners.truncate(depth);
                let owner = owners.last().cloned().flatten();
                let inner = field.kind.structure().map(str::to_owned);
                match owner {
                    None => message.fields.push(field),
                    Some(name) => {
                        let known = message.structs.iter().any(|s| s.name == name);
                        if !known {
                            push_struct(message, &name).map_err(|e| wrong(&e))?;
                        }
                        let holder = message.structs.iter_mut().find(|s| s.name == name);
                        holder.expect("just made sure").fields.push(field);
                    }
                }
                owners.push(inner);
            }
        }
    }
    for message in &mut file.messages {
        resolve(message)?;
    }
    Ok(file)
}

fn push_struct(message: &mut Message, name: &str) -> Result<(), String> {
    if message.structs.iter().any(|s| s.name == name) {
        return Err(format!("{name} is defined twice"));
    }
    let versions = message.versions;
    message.structs.push(Struct { name: name.to_owned(), fields: Vec::new(), versions });
    Ok(())
}

fn parse_message(kind: &str, name: &str, rest: &[&str]) -> Result<Message, String> {
    let (kind, rest) = match (kind, rest) {
        ("request", _) => (Kind::Request, rest),
        ("response", _) => (Kind::Response, rest),
        ("header", _) => (Kind::Header, rest),
        ("data", _) => (Kind::Data, rest),
        ("value", _) => (Kind::Value, rest),
        ("key", [number, rest @ ..]) => {
            (Kind::Key(number.parse().map_err(|_| "bad record type")?), rest)
        }
        _ => return Err(format!("unknown kind {kind}")),
    };
    let (mut versions, mut flexible, mut stable) = (None, None, None);
    for pair in rest.chunks(2) {
        match pair {
            ["versions", range] => versions = Versions::parse(range),
            ["flexible", range] => flexible = Some(Versions::parse(range).ok_or("bad range")?),
            ["stable", number] => stable = number.parse().ok(),
            _ => return Err(format!("unknown words {pair:?}")),
        }
    }
    let versions = versions.ok_or("no versions")?;
    Ok(Message {
        name: name.to_owned(),
        kind,
        versions,
        stable: stable.unwrap_or(versions.high),
        flexible: flexible.and_then(|flexible| flexible.intersect(versions)),
        fields: Vec::new(),
        structs: Vec::new(),
    })
}

fn parse_field(words: &[&str]) -> Result<Field, String> {
    let [name, kind, versions, rest @ ..] = words else { return Err("not a field".into()) };
    let versions = Versions::parse(versions).ok_or("bad versions")?;
    let mut field = Field {
        name: (*name).to_owned(),
        kind: Type::parse(kind),
        versions,
        nullable: None,
        tag: None,
        default: None,
        ignorable: false,
        rigid: false,
    };
    let mut rest = rest.iter().peekable();
    while let Some(&word) = rest.next() {
        match word {
            "ignorable" => field.ignorable = true,
            "rigid" => field.rigid = true,
            "nullable" => {
                let only = rest.next_if(|next| next.starts_with(|c: char| c.is_ascii_digit()));
                let range = only.map(|range| Versions::parse(range).ok_or("bad range"));
                field.nullable = Some(range.transpose()?.unwrap_or(versions));
            }
            "tag" => {
                let number = rest.next().and_then(|number| number.parse().ok());
                field.tag = Some(number.ok_or("bad tag")?);
            }
            "default" => field.default = Some((*rest.next().ok_or("no default")?).to_owned()),
            word => return Err(format!("unknown word {word}")),
        }
    }
    Ok(field)
}

/// Works out in which versions each structure occurs, and checks that all are defined and used.
fn resolve(message: &mut Message) -> Result<(), String> {
    let mut uses: BTreeMap<String, Versions> = BTreeMap::new();
    let mut open = vec![(message.fields.clone(), message.versions)];
    while let Some((fields, outer)) = open.pop() {
        for field in fields {
            // A structure with several users may have fields that only some of them see.
            let Some(within) = field.versions.intersect(outer) else { continue };
            let Some(name) = field.kind.structure() else { continue };
            let Some(inner) = message.structs.iter().find(|s| s.name == name) else {
                return Err(format!("{} has no structure {name}", message.name));
            };
            let hull = uses.get(name).map_or(within, |seen| seen.hull(within));
            uses.insert(name.to_owned(), hull);
            open.push((inner.fields.clone(), within));
        }
    }
    for inner in &mut message.structs {
        let used = uses.get(&inner.name);
        inner.versions =
            *used.ok_or_else(|| format!("{}.{} is not used", message.name, inner.name))?;
    }
    let outer = (&message.fields, message.versions);
    let inner = message.structs.iter().map(|inner| (&inner.fields, inner.versions));
    for (fields, versions) in std::iter::once(outer).chain(inner) {
        if let Some(field) = fields.iter().find(|f| f.versions.intersect(versions).is_none()) {
            return Err(format!("{}.{} is in no version", message.name, field.name));
        }
    }
    Ok(())
}

#[test]
fn a_range_of_versions_is_read_as_it_is_written() {
    for text in ["0+", "3", "2-7"] {
        assert_eq!(Versions::parse(text).unwrap().to_string(), text);
    }
    assert!(["", "x", "5-2", "-1"].iter().all(|text| Versions::parse(text).is_none()));
}

#[test]
fn a_structure_is_known_by_where_it_stands() {
    let text = "\
api 9 Thing

request ThingRequest versions 0-4 flexible 3+ stable 3
  Name string 1+ nullable 2+ default null ignorable
  Parts []Part 2+
    Size i32 2+ default -1
  Home Place 0+
  struct Place 0+
    Host string 0+ tag 7
";
    let file = parse(text).unwrap();
    assert_eq!(file.api, Some((9, "Thing".to_owned())));
    let message = &file.messages[0];
    assert_eq!((message.stable, message.versions.high), (3, 4));
    assert_eq!(message.fields.len(), 3);
    assert_eq!(message.fields[0].nullable, Versions::parse("2+"));
    let names: Vec<&str> = message.structs.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(names, ["Part", "Place"]);
    assert_eq!(message.structs[0].versions.to_string(), "2-4");
    assert_eq!(message.structs[1].fields[0].tag, Some(7));
    assert!(parse("data Odd versions 0\n  Part Missing 0+\n").is_err());
}
