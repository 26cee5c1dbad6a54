//! Whether a server is who it should be.

use crate::store_file::StoreFile;
use crate::tls_client::TlsError;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use x509_parser::extensions::GeneralName;
use x509_parser::parse_x509_certificate;
use x509_parser::prelude::X509Certificate;

/// Those who are trusted.
pub(crate) struct Trusted {
    /// For messages.
    path: PathBuf,
    certificates: Vec<CertificateDer<'static>>,
    roots: RootCertStore,
    algorithms: WebPkiSupportedAlgorithms,
}

impl fmt::Debug for Trusted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} certificates of {}", self.certificates.len(), self.path.display())
    }
}

impl Trusted {
    pub(crate) fn read(file: &StoreFile, provider: &CryptoProvider) -> Result<Self, TlsError> {
        let certificates = file.certificates().map_err(TlsError::TrustStore)?;
        let mut roots = RootCertStore::empty();
        for (n, certificate) in certificates.iter().enumerate() {
            roots.add(certificate.clone()).map_err(|error| {
                let what = format!("its certificate {} cannot be used: {error}", n + 1);
                TlsError::TrustStore(file.error(what, "remove it from the file, or replace it"))
            })?;
        }
        let algorithms = provider.signature_verification_algorithms;
        Ok(Self { path: file.path.clone(), certificates, roots, algorithms })
    }
}

/// Checks the server of one connection.
#[derive(Debug)]
pub(crate) struct ServerVerifier {
    trusted: Arc<Trusted>,
    /// What the server was called, for messages and for common names.
    host: String,
    /// Any of them is enough.
    names: Vec<ServerName<'static>>,
    anybody: bool,
}

/// Why a server is refused: what was wrong with its certificate, and what to do.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Refused(String);

impl ServerVerifier {
    /// Of a server that is called `host` and must be one of `names`.
    pub(crate) fn of(trusted: &Arc<Trusted>, host: &str, names: Vec<ServerName<'static>>) -> Self {
        Self { trusted: Arc::clone(trusted), host: host.to_owned(), names, anybody: false }
    }

    /// Of a server that must only be trusted.
    pub(crate) fn of_anybody(trusted: &Arc<Trusted>) -> Self {
        Self { anybody: true, ..Self::nobody(trusted) }
    }

    /// Refuses every server.
    pub(crate) fn nobody(trusted: &Arc<Trusted>) -> Self {
        Self::of(trusted, "", Vec::new())
    }

    fn check_trust(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), Error> {
        let Trusted { certificates, roots, algorithms, .. } = &*self.trusted;
        if certificates.contains(certificate) {
            return check_dates(&parse(certificate)?, now);
        }
        let parsed = ParsedCertificate::try_from(certificate)?;
        verify_server_cert_signed_by_trust_anchor(
            &parsed,
            roots,
            intermediates,
            now,
            algorithms.all,
        )
    }

    fn check_name(&self, certificate: &CertificateDer<'_>) -> Result<(), Error> {
        if self.anybody {
            return Ok(());
        }
        let parsed = ParsedCertificate::try_from(certificate)?;
        if self.names.iter().any(|name| verify_server_name(&parsed, name).is_ok()) {
            return Ok(());
        }
        let parsed = parse(certificate)?;
        let mut presented = alternative_names(&parsed);
        if presented.is_empty() {
            let common = parsed.subject().iter_common_name().filter_map(|one| one.as_str().ok());
            presented = common.map(str::to_owned).collect();
            if presented.iter().any(|name| is_called(name, &self.host)) {
                return Ok(());
            }
        }
        let presented = if presented.is_empty() { "nobody".into() } else { presented.join(", ") };
        Err(refused(format!(
            "its certificate is for {presented}, not for {}: connect to it by a name that its certificate has, or \
             give it one with this name among its alternative names",
            self.host
        )))
    }

    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "an enum of others: all the rest is alike here"
    )]
    fn explain(&self, error: Error) -> Error {
        let Error::InvalidCertificate(what) = &error else { return error };
        let path = self.trusted.path.display();
        let text = match what {
            CertificateError::UnknownIssuer => format!(
                "nobody in the trust store {path} has issued its certificate: add the certificate of its authority"
            ),
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "its certificate has expired: renew it, unless it is this host's clock that is wrong".into()
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                "its certificate is not valid yet: wait, unless it is this host's clock that is wrong".into()
            }
            CertificateError::Other(_) => return error,
            other => format!("its certificate is no good: {other}"),
        };
        refused(text)
    }
}

impl ServerCertVerifier for ServerVerifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.check_trust(certificate, intermediates, now)
            .and_then(|()| self.check_name(certificate))
            .map_err(|error| self.explain(error))?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.trusted.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.trusted.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.trusted.algorithms.supported_schemes()
    }
}

fn refused(text: String) -> Error {
    Error::InvalidCertificate(CertificateError::Other(rustls::OtherError(Arc::new(Refused(text)))))
}

fn parse<'a>(certificate: &'a CertificateDer<'_>) -> Result<X509Certificate<'a>, Error> {
    let parsed = parse_x509_certificate(certificate);
    let bad = |_| Error::InvalidCertificate(CertificateError::BadEncoding);
    parsed.map(|(_, certificate)| certificate).map_err(bad)
}

fn check_dates(certificate: &X509Certificate<'_>, now: UnixTime) -> Result<(), Error> {
    let seconds = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    let at = |time: i64| {
        UnixTime::since_unix_epoch(Duration::from_secs(u64::try_from(time).unwrap_or(0)))
    };
    let validity = certificate.validity();
    let (from, to) = (validity.not_before.timestamp(), validity.not_after.timestamp());
    let what = if seconds < from {
        CertificateError::NotValidYetContext { time: now, not_before: at(from) }
    } else if seconds > to {
        CertificateError::ExpiredContext { time: now, not_after: at(to) }
    } else {
        return Ok(());
    };
    Err(Error::InvalidCertificate(what))
}

/// Names and addresses that a certificate is for, common names aside.
#[expect(clippy::wildcard_enum_match_arm, reason = "an enum of others: all the rest is alike here")]
fn alternative_names(certificate: &X509Certificate<'_>) -> Vec<String> {
    let Ok(Some(found)) = certificate.subject_alternative_name() else { return Vec::new() };
    let name = |name: &GeneralName<'_>| match name {
        GeneralName::DNSName(name) => (*name).to_owned(),
        GeneralName::IPAddress(bytes) => match <[u8; 4]>::try_from(*bytes) {
            Ok(four) => std::net::Ipv4Addr::from(four).to_string(),
            Err(_) => <[u8; 16]>::try_from(*bytes)
                .map_or_else(|_| "?".into(), |all| std::net::Ipv6Addr::from(all).to_string()),
        },
        other => other.to_string(),
    };
    found.value.general_names.iter().map(name).collect()
}

/// Whether a common name is `host`'s; `*` is any first part of it.
fn is_called(common_name: &str, host: &str) -> bool {
    let (name, host) = (common_name.to_ascii_lowercase(), host.to_ascii_lowercase());
    let wild = || {
        let (_, behind) = host.split_once('.')?;
        let rest = name.strip_prefix("*.")?;
        // Not a whole top-level domain, and no address.
        Some(rest == behind && rest.contains('.') && host.parse::<std::net::IpAddr>().is_err())
    };
    name == host || wild() == Some(true)
}

#[test]
fn a_common_name_is_one_host_or_one_domains() {
    for (name, host) in [("a.b.c", "A.B.c"), ("*.b.c", "x.b.c"), ("127.0.0.1", "127.0.0.1")] {
        assert!(is_called(name, host), "{name} {host}");
    }
    for (name, host) in
        [("a", "b"), ("*.b.c", "x.y.b.c"), ("*.c", "b.c"), ("*.0.0.1", "127.0.0.1"), ("*", "a")]
    {
        assert!(!is_called(name, host), "{name} {host}");
    }
}
