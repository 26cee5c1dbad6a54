//! Files with keys and certificates, as Java programs are given them.

use p12_keystore::{KeyStore, KeyStoreEntry, Pkcs12Archive, Pkcs12ImportPolicy};
use pkcs8::EncryptedPrivateKeyInfoRef;
use rustls::pki_types::{
    CertificateDer, PrivateKeyDer, PrivatePkcs1KeyDer, PrivatePkcs8KeyDer, PrivateSec1KeyDer,
};
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::str::FromStr;
use x509_parser::pem::Pem;

/// No store is larger; what is was named by mistake.
const LARGEST: u64 = 16 << 20;
/// How a store of Java's own format begins.
const JKS_MAGIC: &[u8] = &[0xfe, 0xed, 0xfe, 0xed];
/// How DER begins, and so PKCS #12.
const DER_SEQUENCE: u8 = 0x30;

/// Java's name of a file's format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreType {
    /// Text: certificates, and a private key before or behind them.
    Pem,
    /// What `keytool` and `openssl pkcs12` write.
    Pkcs12,
    /// Java's name for its own old format, under which it reads PKCS #12 as well.
    Jks,
}

impl FromStr for StoreType {
    type Err = String;

    /// In any case, as Java reads it.
    fn from_str(text: &str) -> Result<Self, String> {
        match text.to_ascii_uppercase().as_str() {
            "PEM" => Ok(Self::Pem),
            "PKCS12" => Ok(Self::Pkcs12),
            "JKS" => Ok(Self::Jks),
            _ => Err(format!(
                "{text} is no type of key store that is understood; give PKCS12 or PEM"
            )),
        }
    }
}

/// A file with keys or certificates.
#[derive(Clone, PartialEq, Eq)]
pub struct StoreFile {
    /// Where it is.
    pub path: PathBuf,
    /// What its contents are encrypted with.
    pub password: Option<String>,
    /// What it is; `None`: what its name ends with says so (`.pem`, `.p12`, `.pfx`, `.jks`). Source: ZooKeeper's
    /// `KeyStoreFileType`.
    pub kind: Option<StoreType>,
}

impl fmt::Debug for StoreFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({:?})", self.path.display(), self.kind)
    }
}

/// Why a store file cannot be used. All but the remedy is in the message.
#[derive(Debug, thiserror::Error)]
#[error("{}: {what}", path.display())]
pub struct StoreFileError {
    path: PathBuf,
    what: String,
    remedy: &'static str,
}

impl StoreFileError {
    /// What to do about it.
    #[must_use]
    pub fn remedy(&self) -> &'static str {
        self.remedy
    }
}

/// Who to be: a chain of certificates, one's own first, and its key.
pub(crate) struct Identity {
    pub(crate) chain: Vec<CertificateDer<'static>>,
    pub(crate) key: PrivateKeyDer<'static>,
}

impl StoreFile {
    /// The private key in it, with the certificates that belong to it.
    pub(crate) fn identity(&self) -> Result<Identity, StoreFileError> {
        let bytes = self.read()?;
        match self.format(&bytes)? {
            Format::Pem => self.pem_identity(&bytes),
            Format::Pkcs12 => self.pkcs12_identity(&bytes),
        }
    }

    /// All certificates in it.
    pub(crate) fn certificates(&self) -> Result<Vec<CertificateDer<'static>>, StoreFileError> {
        let bytes = self.read()?;
        let found: Vec<_> = match self.format(&bytes)? {
            Format::Pem => self.pem(&bytes)?.into_iter().filter_map(as_certificate).collect(),
            Format::Pkcs12 => {
                let archive = Pkcs12Archive::from_pkcs12(&bytes, self.password())
                    .map_err(|error| self.pkcs12_error(&error))?;
                let certificates = archive.certs.iter();
                certificates.map(|bag| CertificateDer::from(bag.cert.as_der().to_vec())).collect()
            }
        };
        if found.is_empty() {
            let remedy = "put the certificates of those who are to be trusted into it";
            return Err(self.error("it holds no certificate", remedy));
        }
        Ok(found)
    }

    /// An error about this file.
    pub(crate) fn error(&self, what: impl Into<String>, remedy: &'static str) -> StoreFileError {
        StoreFileError { path: self.path.clone(), what: what.into(), remedy }
    }

    fn password(&self) -> &str {
        self.password.as_deref().unwrap_or_default()
    }

    fn read(&self) -> Result<Vec<u8>, StoreFileError> {
        let refuse = |error: io::Error| {
            self.error(
                format!("cannot be read: {error}"),
                "name a file that exists and that this process may read",
            )
        };
        let found = std::fs::metadata(&self.path).map_err(refuse)?;
        if !found.is_file() || found.len() > LARGEST {
            return Err(self.error(
                format!("is no file, or has more than {} MiB", LARGEST >> 20),
                "name a file with keys or certificates",
            ));
        }
        std::fs::read(&self.path).map_err(refuse)
    }

    fn format(&self, bytes: &[u8]) -> Result<Format, StoreFileError> {
        let kind = match self.kind {
            Some(kind) => kind,
            None => self.kind_by_name()?,
        };
        let other = "set its type, or convert it: keytool -importkeystore -deststoretype pkcs12";
        match kind {
            StoreType::Pem => Ok(Format::Pem),
            StoreType::Pkcs12 | StoreType::Jks if bytes.starts_with(JKS_MAGIC) => Err(self.error(
                "is in Java's own old format (JKS), which this version does not read",
                "convert it: keytool -importkeystore -srckeystore OLD -destkeystore NEW -deststoretype pkcs12",
            )),
            StoreType::Pkcs12 | StoreType::Jks if bytes.first() == Some(&DER_SEQUENCE) => {
                Ok(Format::Pkcs12)
            }
            StoreType::Pkcs12 | StoreType::Jks => Err(self.error("is not PKCS #12", other)),
        }
    }

    fn kind_by_name(&self) -> Result<StoreType, StoreFileError> {
        let ending = self.path.extension().unwrap_or_default().to_string_lossy();
        match ending.to_ascii_lowercase().as_str() {
            "pem" => Ok(StoreType::Pem),
            "p12" | "pfx" => Ok(StoreType::Pkcs12),
            "jks" => Ok(StoreType::Jks),
            _ => Err(self.error(
                "what it is cannot be told from its name, which ends with none of .p12, .pfx, .jks and .pem",
                "set its type: PKCS12 or PEM",
            )),
        }
    }

    fn pem(&self, bytes: &[u8]) -> Result<Vec<Pem>, StoreFileError> {
        let all: Result<Vec<_>, _> = Pem::iter_from_buffer(bytes).collect();
        all.map_err(|error| {
            let remedy =
                "give text with -----BEGIN CERTIFICATE----- and the like, or set the file's type";
            self.error(format!("is not PEM: {error}"), remedy)
        })
    }

    fn pem_identity(&self, bytes: &[u8]) -> Result<Identity, StoreFileError> {
        let mut chain = Vec::new();
        let mut key = None;
        for pem in self.pem(bytes)? {
            let found: PrivateKeyDer<'static> = match pem.label.as_str() {
                "PRIVATE KEY" => PrivatePkcs8KeyDer::from(pem.contents).into(),
                "RSA PRIVATE KEY" => PrivatePkcs1KeyDer::from(pem.contents).into(),
                "EC PRIVATE KEY" => PrivateSec1KeyDer::from(pem.contents).into(),
                "ENCRYPTED PRIVATE KEY" => self.decrypt(&pem.contents)?,
                _ => {
                    chain.extend(as_certificate(pem));
                    continue;
                }
            };
            key.get_or_insert(found);
        }
        match key {
            Some(key) if !chain.is_empty() => Ok(Identity { chain, key }),
            _ => Err(self.no_identity()),
        }
    }

    fn decrypt(&self, der: &[u8]) -> Result<PrivateKeyDer<'static>, StoreFileError> {
        let unreadable = |error: &dyn fmt::Display| {
            self.error(
                format!("its private key cannot be decrypted: {error}"),
                "give the password that it was encrypted with (PKCS #8, PBES2)",
            )
        };
        let encrypted =
            EncryptedPrivateKeyInfoRef::try_from(der).map_err(|error| unreadable(&error))?;
        let key = encrypted.decrypt(self.password()).map_err(|error| unreadable(&error))?;
        Ok(PrivatePkcs8KeyDer::from(key.as_bytes().to_vec()).into())
    }

    fn pkcs12_identity(&self, bytes: &[u8]) -> Result<Identity, StoreFileError> {
        let store = KeyStore::from_pkcs12(bytes, self.password(), Pkcs12ImportPolicy::Strict)
            .map_err(|error| self.pkcs12_error(&error))?;
        let mut found: Vec<_> = store
            .entries()
            .filter_map(|(alias, entry)| match entry {
                KeyStoreEntry::PrivateKeyChain(chain) => Some((alias, chain)),
                KeyStoreEntry::Certificate(_) | KeyStoreEntry::Secret(_) => None,
            })
            .collect();
        found.sort_by_key(|(alias, _)| alias.as_str());
        match found[..] {
            [] => Err(self.no_identity()),
            [(_, one)] => Ok(Identity {
                chain: one
                    .certs()
                    .iter()
                    .map(|one| CertificateDer::from(one.as_der().to_vec()))
                    .collect(),
                key: PrivatePkcs8KeyDer::from(one.key().as_der().to_vec()).into(),
            }),
            [..] => {
                let aliases: Vec<_> = found.iter().map(|(alias, _)| alias.as_str()).collect();
                Err(self.error(
                    format!("it holds several private keys: {}", aliases.join(", ")),
                    "give a file with the one that is to be used",
                ))
            }
        }
    }

    fn no_identity(&self) -> StoreFileError {
        self.error(
            "it holds no private key with its certificate",
            "put both into it, the certificate of its issuer behind",
        )
    }

    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "an enum of others: all the rest is alike here"
    )]
    fn pkcs12_error(&self, error: &p12_keystore::error::Error) -> StoreFileError {
        use p12_keystore::error::Error;
        match error {
            Error::MacError(_) | Error::Pkcs5Error(_) | Error::UnpadError => self.error(
                "the password is wrong, or the file is damaged",
                "give the password that the file was made with",
            ),
            other => self.error(
                format!("is not PKCS #12 that this version understands: {other}"),
                "make it anew: keytool -importkeystore -deststoretype pkcs12",
            ),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Pem,
    Pkcs12,
}

fn as_certificate(pem: Pem) -> Option<CertificateDer<'static>> {
    ["CERTIFICATE", "X509 CERTIFICATE", "TRUSTED CERTIFICATE"]
        .contains(&pem.label.as_str())
        .then(|| CertificateDer::from(pem.contents))
}
