//! The schemas as data, for tools that walk any message: what [`messages`](crate::messages) is
//! generated from, with names as there.

use crate::ApiKey;
pub use crate::messages::reflect::{APIS, DATA, RECORDS};

/// A request and its response.
#[derive(Clone, Copy, Debug)]
pub struct Api {
    /// Its key.
    pub key: ApiKey,
    /// What is asked.
    pub request: Message,
    /// What is answered, in the same version.
    pub response: Message,
}

impl Api {
    /// The API with this key. Every key has one.
    #[must_use]
    pub fn of(key: ApiKey) -> &'static Self {
        APIS.iter().find(|api| api.key == key).expect("generated from the same schemas")
    }
}

/// A record of a coordinator's topic.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    /// The type, which stands before the key's body. Two topics may use the same number.
    pub kind: i16,
    /// Its key, in version 0.
    pub key: Message,
    /// Its value, in the version that stands before it.
    pub value: Message,
}

/// One message: the union of its versions.
#[derive(Clone, Copy, Debug)]
pub struct Message {
    /// Kafka's name.
    pub name: &'static str,
    /// First and last version.
    pub versions: (i16, i16),
    /// The first version with compact lengths and tagged fields.
    pub flexible: Option<i16>,
    /// Its own fields.
    pub fields: &'static [Field],
    /// The structures in it, by name.
    pub structs: &'static [(&'static str, &'static [Field])],
}

impl Message {
    /// Whether `version` has compact lengths and tagged fields.
    #[must_use]
    pub fn is_flexible(&self, version: i16) -> bool {
        self.flexible.is_some_and(|first| version >= first)
    }

    /// The fields of the structure `name`.
    #[must_use]
    pub fn structure(&self, name: &str) -> Option<&'static [Field]> {
        self.structs.iter().find(|(found, _)| *found == name).map(|(_, fields)| *fields)
    }
}

/// One field, in the order of the wire.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// The name of the field of the Rust structure.
    pub name: &'static str,
    /// What it holds.
    pub kind: Kind,
    /// First and last version with it.
    pub versions: (i16, i16),
    /// First and last version in which it may be null.
    pub nullable: Option<(i16, i16)>,
    /// Its tag, if it is a tagged field.
    pub tag: Option<u32>,
    /// The default as the schema writes it, if it is neither zero nor empty.
    pub default: Option<&'static str>,
}

/// A field as the generated table writes it.
pub(crate) const fn f(name: &'static str, kind: Kind, low: i16, high: i16) -> Field {
    let versions = (low, high);
    Field { name, kind, versions, nullable: None, tag: None, default: None }
}

impl Field {
    pub(crate) const fn null(mut self, low: i16, high: i16) -> Self {
        self.nullable = Some((low, high));
        self
    }

    pub(crate) const fn tag(mut self, tag: u32) -> Self {
        self.tag = Some(tag);
        self
    }

    pub(crate) const fn default(mut self, value: &'static str) -> Self {
        self.default = Some(value);
        self
    }

    /// Whether `version` has the field.
    #[must_use]
    pub fn is_in(&self, version: i16) -> bool {
        within(self.versions, version)
    }

    /// Whether null may stand here in `version`.
    #[must_use]
    pub fn is_nullable(&self, version: i16) -> bool {
        self.nullable.is_some_and(|versions| within(versions, version))
    }
}

fn within((low, high): (i16, i16), version: i16) -> bool {
    (low..=high).contains(&version)
}

/// The type of a field.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "Kafka's primitive types")]
pub enum Kind {
    Bool,
    I8,
    I16,
    U16,
    I32,
    U32,
    I64,
    F64,
    Text,
    Bytes,
    Uuid,
    Records,
    /// A list of this.
    Array(&'static Kind),
    /// A structure of the message, by name.
    Struct(&'static str),
}
