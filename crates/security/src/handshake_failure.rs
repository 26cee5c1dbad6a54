//! What the failure of a connection means to an operator.

use rustls::{AlertDescription, CertificateError, Error};
use std::io;

/// Says in words why a TLS handshake with a server failed, and what to do about it.
#[must_use]
pub fn handshake_failure(error: &io::Error) -> String {
    if matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset) {
        return format!(
            "it closed the connection during the TLS handshake, as a port without TLS does ({error})"
        );
    }
    connection_failure(error)
}

/// As [`handshake_failure`], of any later moment: what a server thinks of who connects may come only after our own
/// half of the handshake (TLS 1.3).
#[must_use]
pub fn connection_failure(error: &io::Error) -> String {
    let found = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    match found {
        Some(Error::InvalidCertificate(CertificateError::Other(why))) => why.0.to_string(),
        Some(Error::AlertReceived(alert)) => alerted(*alert),
        Some(Error::InvalidMessage(_)) => {
            "what it says is not TLS: give its port for TLS, or connect without".into()
        }
        Some(Error::PeerIncompatible(what)) => {
            format!("it speaks no version or cipher suite that is allowed here: {what:?}")
        }
        Some(other) => other.to_string(),
        None => error.to_string(),
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "an enum of others: all the rest is alike here")]
fn alerted(alert: AlertDescription) -> String {
    let what = match alert {
        AlertDescription::CertificateRequired | AlertDescription::NoCertificate => {
            "it wants to know who connects: set a key store"
        }
        AlertDescription::BadCertificate
        | AlertDescription::UnknownCA
        | AlertDescription::CertificateUnknown
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::CertificateExpired
        | AlertDescription::CertificateRevoked
        | AlertDescription::AccessDenied => {
            "it does not accept who connects: set a key store with a certificate that it trusts"
        }
        // What Java says depends on its release, where TLS 1.2 came without a certificate that it wanted.
        AlertDescription::HandshakeFailure => {
            "it wants to know who connects, or speaks no cipher suite that is allowed here: set a key store, or allow more suites"
        }
        AlertDescription::ProtocolVersion | AlertDescription::InsufficientSecurity => {
            "it speaks no version or cipher suite that is allowed here"
        }
        _ => "it gave up",
    };
    format!("{what} (alert {alert:?})")
}
