//! ZooKeeper.

use crate::config::definition::{
    Area,
    Status::{Honoured, Inert, Refused},
    definitions,
};
use crate::config::range::Range::{Any, AtLeast};
use crate::config::refusal::Refusal::{KRaft, Revocation};

pub(super) const AREA: Area = Area {
    title: "ZooKeeper",
    introduction: "Metadata in an external ensemble, as Kafka keeps it; without `zookeeper.connect` a broker on its own keeps it itself.",
    definitions: definitions! {
        /// Hosts of a ZooKeeper ensemble (3.4 to 3.9), as `host:port` with commas between and a path behind, which is created
        /// if it is missing. Leave it out for a broker on its own.
        "zookeeper.connect": String = None, Any, High, ReadOnly, Honoured, removed;

        /// Silence after which ZooKeeper takes a broker for dead.
        "zookeeper.session.timeout.ms": Int = Some("18000"), Any, High, ReadOnly, Honoured, removed;

        /// How long connecting to ZooKeeper may take; as long as the session timeout if not set.
        "zookeeper.connection.timeout.ms": Int = None, Any, High, ReadOnly, Honoured, removed;

        /// Whether what is written to ZooKeeper is protected against other users of it; needs `barnabas.zookeeper.jaas.config`,
        /// or TLS with `zookeeper.ssl.keystore.location`.
        "zookeeper.set.acl": Boolean = Some("false"), Any, High, ReadOnly, Honoured, removed;

        /// Requests to ZooKeeper that may be unanswered.
        "zookeeper.max.in.flight.requests": Int = Some("10"), AtLeast(1), High, ReadOnly, Honoured, removed;

        /// Whether the connection to ZooKeeper is encrypted. Needs `zookeeper.ssl.truststore.location`, and servers with a
        /// `secureClientPort`, which `zookeeper.connect` names. While it is `false`, the other keys of TLS do nothing.
        "zookeeper.ssl.client.enable": Boolean = Some("false"), Any, Medium, ReadOnly, Honoured, removed;

        /// Java class of ZooKeeper's client socket; with TLS, Apache Kafka needs `org.apache.zookeeper.ClientCnxnSocketNetty`
        /// here. This broker takes that or nothing, and refuses TLS with a class that cannot do it.
        "zookeeper.clientCnxnSocket": String = None, Any, Medium, ReadOnly, Honoured, removed;

        /// File with the key and the certificate that this broker shows to ZooKeeper, whose servers ask for one unless told
        /// otherwise. PKCS #12 or PEM, read at start.
        "zookeeper.ssl.keystore.location": String = None, Any, Medium, ReadOnly, Honoured, removed;

        /// Password of that file and of the key in it.
        "zookeeper.ssl.keystore.password": Password = None, Any, Medium, ReadOnly, Honoured, removed;

        /// Format of that file: `PKCS12` or `PEM`. Not set, its name says so (`.p12`, `.pfx`, `.pem`). `JKS` and `.jks` are
        /// taken too, as long as PKCS #12 is in it, which keytool has written since Java 9; Java's old format is refused.
        "zookeeper.ssl.keystore.type": String = None, Any, Medium, ReadOnly, Honoured, removed;

        /// File with the certificates that are trusted for ZooKeeper: of authorities, or of the servers themselves. There
        /// is no default, unlike with Java. PKCS #12 or PEM, read at start.
        "zookeeper.ssl.truststore.location": String = None, Any, Medium, ReadOnly, Honoured, removed;

        /// Password of that file.
        "zookeeper.ssl.truststore.password": Password = None, Any, Medium, ReadOnly, Honoured, removed;

        /// Format of that file, as for `zookeeper.ssl.keystore.type`.
        "zookeeper.ssl.truststore.type": String = None, Any, Medium, ReadOnly, Honoured, removed;

        /// TLS version towards ZooKeeper, if `zookeeper.ssl.enabled.protocols` does not say more: `TLSv1.2`, `TLSv1.3`, or `TLS`
        /// for both.
        "zookeeper.ssl.protocol": String = Some("TLSv1.2"), Any, Low, ReadOnly, Honoured, removed;

        /// TLS versions that may be used towards ZooKeeper: `TLSv1.2`, `TLSv1.3`. Older ones are refused.
        "zookeeper.ssl.enabled.protocols": List = None, Any, Low, ReadOnly, Honoured, removed;

        /// Cipher suites that may be used towards ZooKeeper, by Java's names; all that this broker has if not set: AES-GCM
        /// and ChaCha20-Poly1305, for TLS 1.2 with ECDHE.
        "zookeeper.ssl.cipher.suites": List = None, Any, Low, ReadOnly, Honoured, removed;

        /// `HTTPS`, in any case: a server's certificate must be for the name in `zookeeper.connect` or for the address that it
        /// has. Empty: any certificate that is trusted will do.
        "zookeeper.ssl.endpoint.identification.algorithm": String = Some("HTTPS"), Any, Low, ReadOnly, Honoured, removed;

        /// Whether revocation lists are looked at for ZooKeeper's certificate.
        "zookeeper.ssl.crl.enable": Boolean = Some("false"), Any, Low, ReadOnly, Refused(Revocation), removed;

        /// Whether OCSP is asked about ZooKeeper's certificate.
        "zookeeper.ssl.ocsp.enable": Boolean = Some("false"), Any, Low, ReadOnly, Refused(Revocation), removed;

        /// Takes part in the migration of metadata to KRaft.
        "zookeeper.metadata.migration.enable": Boolean = Some("false"), Any, High, ReadOnly, Refused(KRaft), removed;

        /// Records per batch of that migration.
        "zookeeper.metadata.migration.min.batch.size": Int = Some("200"), AtLeast(1), Medium, ReadOnly, Inert, removed, internal;
    },
};
