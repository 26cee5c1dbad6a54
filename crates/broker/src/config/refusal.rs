//! Why a key stops the start, and what to do instead.

/// What a refused key asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// TLS on a listener or to a peer.
    Tls,
    /// SASL on a listener or to a peer.
    Sasl,
    /// Access control.
    Authorizer,
    /// Delegation tokens.
    Tokens,
    /// A policy class that may veto topics or settings.
    Policy,
    /// A quota callback class.
    QuotaCallback,
    /// Another Java class to be loaded.
    JavaClass,
    /// Remote log storage.
    TieredStorage,
    /// The `KRaft` quorum and its roles.
    KRaft,
    /// Asking whether a certificate was revoked.
    Revocation,
    /// A separate listener for the controller.
    ControlPlane,
    /// A limit on connections that is not enforced.
    ConnectionLimit,
    /// Log directories that take no new partitions.
    Cordon,
}

impl Refusal {
    /// What is missing, to follow "asks for".
    #[must_use]
    pub fn feature(self) -> &'static str {
        match self {
            Self::Tls => "TLS, which this version does not speak",
            Self::Sasl => "SASL authentication, which this version does not speak",
            Self::Authorizer => {
                "access control, which this version does not have: everybody could read and write"
            }
            Self::Tokens => "delegation tokens, which this version does not issue",
            Self::Policy => {
                "a policy class, which this broker cannot load: what the policy forbids would be allowed"
            }
            Self::QuotaCallback => {
                "a quota callback class, which this broker cannot load: its limits would not hold"
            }
            Self::JavaClass => "a Java class, which this broker cannot load",
            Self::TieredStorage => {
                "tiered storage, which this version does not have: remote segments would be unreadable"
            }
            Self::KRaft => "a KRaft quorum, which this broker does not take part in",
            Self::Revocation => {
                "a check for revoked certificates, which this version does not make: they would be accepted"
            }
            Self::ControlPlane => {
                "a listener of its own for the controller, which one broker does not have"
            }
            Self::ConnectionLimit => "a connection limit that this version does not enforce",
            Self::Cordon => "cordoned log directories, which would still receive partitions",
        }
    }

    /// What the operator can do about it.
    #[must_use]
    pub fn remedy(self) -> &'static str {
        match self {
            Self::Tls | Self::Sasl => {
                "use PLAINTEXT listeners on a trusted network, or a TLS proxy in front, and remove the key"
            }
            Self::Authorizer => {
                "remove the key and restrict access by network, or keep Apache Kafka for now"
            }
            Self::Tokens | Self::Policy | Self::QuotaCallback | Self::JavaClass => {
                "remove the key if you can do without"
            }
            Self::TieredStorage => {
                "remove the key; bring remote data back to local disks first if there is any"
            }
            Self::KRaft => {
                "remove the key: metadata is kept by the broker itself, below the first log directory"
            }
            Self::Revocation => {
                "remove the key, and take the certificate of its authority out of the trust store where it must not be trusted"
            }
            Self::ControlPlane | Self::ConnectionLimit | Self::Cordon => "remove the key",
        }
    }
}
