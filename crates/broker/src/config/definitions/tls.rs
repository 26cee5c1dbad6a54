//! TLS.

use crate::config::definition::{
    Area,
    Status::{Inert, Refused},
    definitions,
};
use crate::config::range::Range::{Any, OneOf};
use crate::config::refusal::Refusal::Tls;

pub(super) const AREA: Area = Area {
    title: "TLS",
    introduction: "Encryption of connections. Refused in this version.",
    definitions: definitions! {
        /// Whether clients must, may or need not show a certificate.
        "ssl.client.auth": String = Some("none"), OneOf(&["required", "requested", "none"]), Medium, PerBroker, Refused(Tls);

        /// Rules that shorten a certificate's name to a user name.
        "ssl.principal.mapping.rules": String = Some("DEFAULT"), Any, Low, ReadOnly, Refused(Tls);

        /// Whether a reloaded keystore may name another subject.
        "ssl.allow.dn.changes": Boolean = Some("false"), Any, Low, ReadOnly, Inert;

        /// Whether a reloaded keystore may drop alternative names.
        "ssl.allow.san.changes": Boolean = Some("false"), Any, Low, ReadOnly, Inert;

        /// TLS version of the JVM's context.
        "ssl.protocol": String = Some("TLSv1.3"), Any, Medium, PerBroker, Inert;

        /// JVM provider of TLS.
        "ssl.provider": String = None, Any, Medium, PerBroker, Inert;

        /// TLS versions that connections may use.
        "ssl.enabled.protocols": List = Some("TLSv1.2,TLSv1.3"), Any, Medium, PerBroker, Inert;

        /// Format of the keystore: JKS, PKCS12 or PEM.
        "ssl.keystore.type": String = Some("JKS"), Any, Medium, PerBroker, Refused(Tls);

        /// File with the broker's key and certificates.
        "ssl.keystore.location": String = None, Any, Medium, PerBroker, Refused(Tls);

        /// Password of the keystore.
        "ssl.keystore.password": Password = None, Any, Medium, PerBroker, Refused(Tls);

        /// Password of the private key.
        "ssl.key.password": Password = None, Any, Medium, PerBroker, Refused(Tls);

        /// The private key itself, as PEM.
        "ssl.keystore.key": Password = None, Any, Medium, PerBroker, Refused(Tls);

        /// The certificate chain itself, as PEM.
        "ssl.keystore.certificate.chain": Password = None, Any, Medium, PerBroker, Refused(Tls);

        /// Format of the truststore: JKS, PKCS12 or PEM.
        "ssl.truststore.type": String = Some("JKS"), Any, Medium, PerBroker, Refused(Tls);

        /// File with the certificates that are trusted.
        "ssl.truststore.location": String = None, Any, Medium, PerBroker, Refused(Tls);

        /// Password of the truststore.
        "ssl.truststore.password": Password = None, Any, Medium, PerBroker, Refused(Tls);

        /// The trusted certificates themselves, as PEM.
        "ssl.truststore.certificates": Password = None, Any, Medium, PerBroker, Refused(Tls);

        /// JVM algorithm that picks a key.
        "ssl.keymanager.algorithm": String = Some("SunX509"), Any, Medium, PerBroker, Inert;

        /// JVM algorithm that checks a peer's certificate.
        "ssl.trustmanager.algorithm": String = Some("PKIX"), Any, Medium, PerBroker, Inert;

        /// Whether a peer's host name is compared with its certificate; empty turns that off.
        "ssl.endpoint.identification.algorithm": String = Some("https"), Any, Low, PerBroker, Inert;

        /// JVM source of random numbers for TLS.
        "ssl.secure.random.implementation": String = None, Any, Low, PerBroker, Inert;

        /// Cipher suites that connections may use; empty allows all.
        "ssl.cipher.suites": List = Some(""), Any, Medium, PerBroker, Inert;

        /// Java class that makes TLS engines.
        "ssl.engine.factory.class": Class = None, Any, Low, PerBroker, Refused(Tls);
    },
};
