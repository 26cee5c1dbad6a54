//! The side that connects.

use crate::server_verifier::{ServerVerifier, Trusted};
use crate::store_file::{StoreFile, StoreFileError};
use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, SupportedCipherSuite, SupportedProtocolVersion};
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;

/// A version of TLS that is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsVersion {
    /// `TLSv1.2`
    Tls12,
    /// `TLSv1.3`
    Tls13,
}

impl FromStr for TlsVersion {
    type Err = String;

    /// Java's names.
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "TLSv1.2" => Ok(Self::Tls12),
            "TLSv1.3" => Ok(Self::Tls13),
            _ => Err(format!("{text} is not spoken; give TLSv1.2, TLSv1.3 or both")),
        }
    }
}

impl TlsVersion {
    fn supported(self) -> &'static SupportedProtocolVersion {
        match self {
            Self::Tls12 => &rustls::version::TLS12,
            Self::Tls13 => &rustls::version::TLS13,
        }
    }
}

/// How to connect by TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsClientSettings {
    /// Who is trusted: servers whose certificate is in it, or was issued by one in it.
    pub trust_store: StoreFile,
    /// Who to be, for servers that ask.
    pub key_store: Option<StoreFile>,
    /// At least one.
    pub versions: Vec<TlsVersion>,
    /// Names of cipher suites, as in Java and in IANA's list; empty for all.
    pub cipher_suites: Vec<String>,
    /// Whether the server's certificate must be for the name or the address that was connected to.
    pub check_host_name: bool,
}

/// Which setting keeps connections from being made, and why.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The file with those who are trusted.
    #[error("{0}")]
    TrustStore(#[source] StoreFileError),
    /// The file with the own key.
    #[error("{0}")]
    KeyStore(#[source] StoreFileError),
    /// The cipher suites; what is wrong with them.
    #[error("{0}")]
    CipherSuites(String),
}

/// Connects by TLS. Files were read when it was made.
#[derive(Clone)]
pub struct TlsClient {
    /// Lacks the verifier of one connection.
    config: Arc<ClientConfig>,
    trusted: Arc<Trusted>,
    check_host_name: bool,
}

impl fmt::Debug for TlsClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsClient")
            .field("trusted", &self.trusted)
            .field("check_host_name", &self.check_host_name)
            .finish_non_exhaustive()
    }
}

impl TlsClient {
    /// Reads the files that `settings` name.
    ///
    /// # Errors
    /// [`TlsError`], each naming the file and what is wrong with it.
    ///
    /// # Panics
    /// Without a version.
    pub fn new(settings: &TlsClientSettings) -> Result<Self, TlsError> {
        assert!(!settings.versions.is_empty(), "{settings:?}");
        let provider = Arc::new(CryptoProvider {
            cipher_suites: cipher_suites(&settings.cipher_suites)?,
            ..aws_lc_rs::default_provider()
        });
        let versions: Vec<_> = settings.versions.iter().map(|one| one.supported()).collect();
        let trusted = Arc::new(Trusted::read(&settings.trust_store, &provider)?);
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&versions)
            .map_err(|error| TlsError::CipherSuites(format!("with these versions: {error}")))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(ServerVerifier::nobody(&trusted)));
        let mut config = match &settings.key_store {
            None => builder.with_no_client_auth(),
            Some(file) => {
                let identity = file.identity().map_err(TlsError::KeyStore)?;
                builder.with_client_auth_cert(identity.chain, identity.key).map_err(|error| {
                    let what = format!("its key cannot be used with its certificate: {error}");
                    TlsError::KeyStore(file.error(what, "give a key and the certificate for it"))
                })?
            }
        };
        // Every connection checks whom it is with.
        config.resumption = Resumption::disabled();
        Ok(Self { config: Arc::new(config), trusted, check_host_name: settings.check_host_name })
    }

    /// What to use for one connection to `address`, of a server that is called `name`.
    #[must_use]
    pub fn to(&self, name: &str, address: IpAddr) -> (Arc<ClientConfig>, ServerName<'static>) {
        let mut config = ClientConfig::clone(&self.config);
        let address_name = ServerName::IpAddress(address.into());
        let server_name =
            ServerName::try_from(name.to_owned()).unwrap_or_else(|_| address_name.clone());
        let verifier = if self.check_host_name {
            ServerVerifier::of(&self.trusted, name, vec![server_name.clone(), address_name])
        } else {
            ServerVerifier::of_anybody(&self.trusted)
        };
        config.dangerous().set_certificate_verifier(Arc::new(verifier));
        (Arc::new(config), server_name)
    }
}

/// The suites that are named, all without a name; refuses one that is not known.
fn cipher_suites(names: &[String]) -> Result<Vec<SupportedCipherSuite>, TlsError> {
    let all = aws_lc_rs::ALL_CIPHER_SUITES;
    if names.is_empty() {
        return Ok(all.to_vec());
    }
    let find = |name: &String| {
        all.iter().find(|suite| java_name(suite) == *name).copied().ok_or_else(|| {
            let known: Vec<_> = all.iter().map(java_name).collect();
            TlsError::CipherSuites(format!("{name} is not known; there are {}", known.join(", ")))
        })
    };
    names.iter().map(find).collect()
}

fn java_name(suite: &SupportedCipherSuite) -> String {
    let name = suite.suite().as_str().unwrap_or_default();
    match name.strip_prefix("TLS13_") {
        Some(rest) => format!("TLS_{rest}"),
        None => name.to_owned(),
    }
}

#[cfg(test)]
mod tests;
