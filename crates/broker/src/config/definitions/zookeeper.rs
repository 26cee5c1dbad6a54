//! ZooKeeper.

use crate::config::definition::{
    Area,
    Status::{Honoured, Inert, Refused},
    definitions,
};
use crate::config::range::Range::{Any, AtLeast};
use crate::config::refusal::Refusal::{KRaft, ZooKeeperTls};

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

        /// Whether what is written to ZooKeeper is protected against other users of it; needs `barnabas.zookeeper.jaas.config`.
        "zookeeper.set.acl": Boolean = Some("false"), Any, High, ReadOnly, Honoured, removed;

        /// Requests to ZooKeeper that may be unanswered.
        "zookeeper.max.in.flight.requests": Int = Some("10"), AtLeast(1), High, ReadOnly, Honoured, removed;

        /// Whether the connection to ZooKeeper is encrypted.
        "zookeeper.ssl.client.enable": Boolean = Some("false"), Any, Medium, ReadOnly, Refused(ZooKeeperTls), removed;

        /// Java class of ZooKeeper's client socket.
        "zookeeper.clientCnxnSocket": String = None, Any, Medium, ReadOnly, Inert, removed;

        /// File with the key for ZooKeeper.
        "zookeeper.ssl.keystore.location": String = None, Any, Medium, ReadOnly, Refused(ZooKeeperTls), removed;

        /// Password of that file.
        "zookeeper.ssl.keystore.password": Password = None, Any, Medium, ReadOnly, Refused(ZooKeeperTls), removed;

        /// Format of that file.
        "zookeeper.ssl.keystore.type": String = None, Any, Medium, ReadOnly, Inert, removed;

        /// File with the certificates that are trusted for ZooKeeper.
        "zookeeper.ssl.truststore.location": String = None, Any, Medium, ReadOnly, Refused(ZooKeeperTls), removed;

        /// Password of that file.
        "zookeeper.ssl.truststore.password": Password = None, Any, Medium, ReadOnly, Refused(ZooKeeperTls), removed;

        /// Format of that file.
        "zookeeper.ssl.truststore.type": String = None, Any, Medium, ReadOnly, Inert, removed;

        /// TLS version towards ZooKeeper.
        "zookeeper.ssl.protocol": String = Some("TLSv1.2"), Any, Low, ReadOnly, Inert, removed;

        /// TLS versions that may be used towards ZooKeeper.
        "zookeeper.ssl.enabled.protocols": List = None, Any, Low, ReadOnly, Inert, removed;

        /// Cipher suites that may be used towards ZooKeeper.
        "zookeeper.ssl.cipher.suites": List = None, Any, Low, ReadOnly, Inert, removed;

        /// Whether ZooKeeper's host name is compared with its certificate.
        "zookeeper.ssl.endpoint.identification.algorithm": String = Some("HTTPS"), Any, Low, ReadOnly, Inert, removed;

        /// Whether revocation lists are looked at for ZooKeeper's certificate.
        "zookeeper.ssl.crl.enable": Boolean = Some("false"), Any, Low, ReadOnly, Inert, removed;

        /// Whether OCSP is asked about ZooKeeper's certificate.
        "zookeeper.ssl.ocsp.enable": Boolean = Some("false"), Any, Low, ReadOnly, Inert, removed;

        /// Takes part in the migration of metadata to KRaft.
        "zookeeper.metadata.migration.enable": Boolean = Some("false"), Any, High, ReadOnly, Refused(KRaft), removed;

        /// Records per batch of that migration.
        "zookeeper.metadata.migration.min.batch.size": Int = Some("200"), AtLeast(1), Medium, ReadOnly, Inert, removed, internal;
    },
};
