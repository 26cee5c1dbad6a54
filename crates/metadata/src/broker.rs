//! Live brokers and where they listen.

use model::BrokerId;
use std::fmt;
use std::str::FromStr;

/// How bytes travel on a listener; the discriminants are Kafka's wire ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i16)]
pub enum SecurityProtocol {
    /// Neither encrypted nor authenticated.
    Plaintext = 0,
    /// TLS.
    Ssl = 1,
    /// SASL without encryption.
    SaslPlaintext = 2,
    /// SASL over TLS.
    SaslSsl = 3,
}

impl SecurityProtocol {
    /// The id on the wire.
    #[must_use]
    pub fn id(self) -> i16 {
        self as i16
    }

    /// The protocol with this id on the wire.
    #[must_use]
    pub fn from_id(id: i16) -> Option<Self> {
        [Self::Plaintext, Self::Ssl, Self::SaslPlaintext, Self::SaslSsl]
            .into_iter()
            .find(|p| p.id() == id)
    }

    /// Kafka's name, as in `listener.security.protocol.map`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Plaintext => "PLAINTEXT",
            Self::Ssl => "SSL",
            Self::SaslPlaintext => "SASL_PLAINTEXT",
            Self::SaslSsl => "SASL_SSL",
        }
    }
}

impl fmt::Display for SecurityProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for SecurityProtocol {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        [Self::Plaintext, Self::Ssl, Self::SaslPlaintext, Self::SaslSsl]
            .into_iter()
            .find(|p| p.name().eq_ignore_ascii_case(name))
            .ok_or_else(|| format!("no security protocol {name:?}"))
    }
}

/// An address that a broker advertises on one of its listeners.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The listener's name, upper-case as in registrations, e.g. `PLAINTEXT`.
    pub listener: String,
    /// The host that clients are to connect to; without brackets.
    pub host: String,
    /// The port; an `i32` because Kafka's readers accept -1.
    pub port: i32,
    /// How bytes travel there.
    pub security_protocol: SecurityProtocol,
}

/// A live broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerImage {
    /// Its `broker.id`.
    pub id: BrokerId,
    /// Its `broker.rack`.
    pub rack: Option<String>,
    /// Its addresses, one per listener.
    pub endpoints: Vec<Endpoint>,
}

impl BrokerImage {
    /// The address on `listener`; `None` if this broker lacks that listener.
    #[must_use]
    pub fn endpoint(&self, listener: &str) -> Option<&Endpoint> {
        self.endpoints.iter().find(|e| e.listener.eq_ignore_ascii_case(listener))
    }
}
