//! What one configuration key is: the single source for parsing, `DescribeConfigs` and the manual.

use super::range::Range;
use super::refusal::Refusal;

/// One key. The facts are Kafka 3.9's where 3.9 knows the key, otherwise 4.4's; the text is ours.
#[derive(Debug)]
pub struct Definition {
    /// The key as written in `server.properties`.
    pub name: &'static str,
    /// How its value is parsed and reported.
    pub kind: Kind,
    /// The value if nobody sets one; `None` is Kafka's null.
    pub default: Option<&'static str>,
    /// What a value must satisfy beyond its type.
    pub range: Range,
    /// How much a user should care, in Kafka's grades.
    pub importance: Importance,
    /// Who may change it in a running broker.
    pub scope: Scope,
    /// What this broker does with it.
    pub status: Status,
    /// Which lines of Kafka know it.
    pub origin: Origin,
    /// Left out of `DescribeConfigs` unless set, and of Kafka's manual.
    pub internal: bool,
    /// What it does, in one or two sentences.
    doc: &'static str,
}

impl Definition {
    pub(super) const fn new(
        (name, doc): (&'static str, &'static str),
        kind: Kind,
        default: Option<&'static str>,
        range: Range,
        importance: Importance,
        scope: Scope,
        status: Status,
    ) -> Self {
        Self {
            name,
            kind,
            default,
            range,
            importance,
            scope,
            status,
            origin: Origin::Both,
            internal: false,
            doc,
        }
    }

    pub(super) const fn internal(mut self) -> Self {
        self.internal = true;
        self
    }

    pub(super) const fn removed(mut self) -> Self {
        self.origin = Origin::Kafka3;
        self
    }

    pub(super) const fn newer(mut self) -> Self {
        self.origin = Origin::Kafka4;
        self
    }

    pub(super) const fn ours(mut self) -> Self {
        self.origin = Origin::Barnabas;
        self
    }

    /// What the key does.
    #[must_use]
    pub fn doc(&self) -> &'static str {
        self.doc.trim()
    }

    /// Whether `DescribeConfigs` shows it even if nobody sets it: Kafka 3.9's keys, and ours.
    #[must_use]
    pub fn is_reported(&self) -> bool {
        !self.internal && self.origin != Origin::Kafka4
    }

    /// Whether it can be set only dynamically: the replication throttles, which `server.properties` does not know.
    #[must_use]
    pub fn is_dynamic_only(&self) -> bool {
        self.internal && self.scope != Scope::ReadOnly
    }

    /// Whether its value may never be shown.
    #[must_use]
    pub fn sensitive(&self) -> bool {
        self.kind == Kind::Password
    }
}

/// Kafka's `ConfigDef.Type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `true` or `false`, in any case.
    Boolean,
    /// Text, trimmed.
    String,
    /// 32 bits, signed.
    Int,
    /// 16 bits, signed.
    Short,
    /// 64 bits, signed.
    Long,
    /// Double precision.
    Double,
    /// Comma separated.
    List,
    /// The name of a Java class.
    Class,
    /// Text that is never shown.
    Password,
}

impl Kind {
    /// Kafka's name, as in its error messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Boolean => "BOOLEAN",
            Self::String => "STRING",
            Self::Int => "INT",
            Self::Short => "SHORT",
            Self::Long => "LONG",
            Self::Double => "DOUBLE",
            Self::List => "LIST",
            Self::Class => "CLASS",
            Self::Password => "PASSWORD",
        }
    }

    /// The code in a `DescribeConfigs` answer (`DescribeConfigsResponse.ConfigType`).
    #[must_use]
    pub fn code(self) -> i8 {
        match self {
            Self::Boolean => 1,
            Self::String => 2,
            Self::Int => 3,
            Self::Short => 4,
            Self::Long => 5,
            Self::Double => 6,
            Self::List => 7,
            Self::Class => 8,
            Self::Password => 9,
        }
    }
}

/// Kafka's grades.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Importance {
    /// Look at it before production.
    High,
    /// Worth knowing.
    Medium,
    /// For special needs.
    Low,
}

/// Who may change a key in a running broker (KIP-226).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Only `server.properties` and a restart.
    ReadOnly,
    /// `AlterConfigs` for one broker.
    PerBroker,
    /// `AlterConfigs` for one broker or for all.
    ClusterWide,
}

/// What this broker does with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Does what it says.
    Honoured,
    /// Set to anything but its default, it stops the start: ignoring it could weaken security or lose data.
    Refused(Refusal),
    /// Accepted with a warning: it asks for something that we do not have and nobody gets hurt.
    Harmless,
    /// Accepted silently: it tunes something that this broker does not have, or does in another way.
    Inert,
}

/// Which lines of Kafka know a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// 3.9 and 4.4.
    Both,
    /// 3.9 only.
    Kafka3,
    /// 4.x only.
    Kafka4,
    /// Ours.
    Barnabas,
}

/// Builds a table of [`Definition`]s: the doc comment is the key's documentation.
///
/// `"name": Kind = default, range, importance, scope, status [, flag]*;`
macro_rules! definitions {
    ($($(#[doc = $doc:literal])+ $name:literal: $kind:ident = $default:expr, $range:expr, $importance:ident, $scope:ident,
        $status:expr $(, $flag:ident)*;)*) => {
        &[$($crate::config::definition::Definition::new(
            ($name, concat!($($doc),+)),
            $crate::config::definition::Kind::$kind,
            $default,
            $range,
            $crate::config::definition::Importance::$importance,
            $crate::config::definition::Scope::$scope,
            $status,
        )$(.$flag())*),*]
    };
}
pub(super) use definitions;

/// Keys that belong together.
#[derive(Debug)]
pub struct Area {
    /// A heading.
    pub title: &'static str,
    /// What they are about.
    pub introduction: &'static str,
    /// The keys.
    pub definitions: &'static [Definition],
}
