//! TLS towards others: whom to trust, who to be, and which versions and cipher suites to speak.
//!
//! Non-obvious:
//! - What a store file contains counts, not what it is called: Java's type `JKS` reads PKCS #12 too, and its `keytool` has
//!   written PKCS #12 into files named `.jks` since Java 9.
//! - Host names are checked as ZooKeeper's own client does it: the name or the address that was connected to is
//!   enough, and a certificate without alternative names is taken by its common name.
//! - A certificate that the trust store itself holds is trusted without a chain, as in Java; its dates still count.
//! - The provider of cryptography is named wherever it is needed: none is installed for the whole process.

mod handshake_failure;
mod server_verifier;
mod store_file;
mod tls_client;

pub use handshake_failure::{connection_failure, handshake_failure};
pub use store_file::{StoreFile, StoreFileError, StoreType};
pub use tls_client::{TlsClient, TlsClientSettings, TlsError, TlsVersion};
