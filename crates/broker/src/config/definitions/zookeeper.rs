//! ZooKeeper.

use crate::config::definition::{
    Area,
    Status::{Inert, Refused},
    definitions,
};
use crate::config::range::Range::{Any, AtLeast};
use crate::config::refusal::Refusal::{KRaft, ZooKeeper};

pub(super) const AREA: Area = Area {
    title: "ZooKeeper",
    introduction: "Metadata in an external ensemble. This version keeps its metadata itself.",
    definitions: definitions! {
        /// Hosts of a ZooKeeper ensemble, as `host:port` with commas between and a path behind. Leave it out for a broker
        /// on its own.
        "zookeeper.connect": String = None, Any, High, ReadOnly, Refused(ZooKeeper), removed;

        /// Silence after which ZooKeeper takes a broker for dead.
        "zookeeper.session.timeout.ms": Int = Some("18000"), Any, High, ReadOnly, Inert, removed;

        /// How long connecting to ZooKeeper may take; as long as the session timeout if not set.
        "zookeeper.connection.timeout.ms": Int = None, Any, High, ReadOnly, Inert, removed;

        /// Whether what is written to ZooKeeper is protected against other users of it.
        "zookeeper.set.acl": Boolean = Some("false"), Any, High, ReadOnly, Refused(ZooKeeper), removed;

        /// Requests to ZooKeeper that may be unanswered.
        "zookeeper.max.in.flight.requests": Int = Some("10"), AtLeast(1), High, ReadOnly, Inert, removed;

        /// Whether the connection to ZooKeeper is encrypted.
        "zookeeper.ssl.client.enable": Boolean = Some("false"), Any, Medium, ReadOnly, Refused(ZooKeeper), removed;

        /// Java class of ZooKeeper's client socket.
        "zookeeper.clientCnxnSocket": String = None, Any, Medium, ReadOnly, Inert, removed;

        /// File with the key for ZooKeeper.
        "zookeeper.ssl.keystore.location": String = None, Any, Medium, ReadOnly, Refused(ZooKeeper), removed;

        /// Password of that file.
        "zookeeper.ssl.keystore.password": Password = None, Any, Medium, ReadOnly, Refused(ZooKeeper), removed;

        /// Format of that file.
        "zookeeper.ssl.keystore.type": String = None, Any, Medium, ReadOnly, Inert, removed;

        /// File with the certificates that are trusted for ZooKeeper.
        "zookeeper.ssl.truststore.location": String = None, Any, Medium, ReadOnly, Refused(ZooKeeper), removed;

        /// Password of that file.
        "zookeeper.ssl.truststore.password": Password = None, Any, Medium, ReadOnly, Refused(ZooKeeper), removed;

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
