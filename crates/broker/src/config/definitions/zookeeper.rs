//! ZooKeeper.

use crate::config::definition::{Area, Status::Honoured, definitions};
use crate::config::range::Range::{Any, AtLeast};

pub(super) const AREA: Area = Area {
    title: "ZooKeeper",
    introduction: "Metadata in an external ensemble. This version keeps its metadata itself.",
    definitions: definitions! {
        /// -
        "zookeeper.connect": String = None, Any, High, ReadOnly, Honoured, removed;

        /// -
        "zookeeper.session.timeout.ms": Int = Some("18000"), Any, High, ReadOnly, Honoured, removed;

        /// -
        "zookeeper.connection.timeout.ms": Int = None, Any, High, ReadOnly, Honoured, removed;

        /// -
        "zookeeper.set.acl": Boolean = Some("false"), Any, High, ReadOnly, Honoured, removed;

        /// -
        "zookeeper.max.in.flight.requests": Int = Some("10"), AtLeast(1), High, ReadOnly, Honoured, removed;

        /// -
        "zookeeper.ssl.client.enable": Boolean = Some("false"), Any, Medium, ReadOnly, Honoured, removed;

        /// -
        "zookeeper.clientCnxnSocket": String = None, Any, Medium, ReadOnly, Honoured, removed;

        /// -
        "zookeeper.ssl.keystore.location": String = None, Any, Medium, ReadOnly, Honoured, removed;

        /// -
        "zookeeper.ssl.keystore.password": Password = None, Any, Medium, ReadOnly, Honoured, removed;

        /// -
        "zookeeper.ssl.keystore.type": String = None, Any, Medium, ReadOnly, Honoured, removed;

        /// -
        "zookeeper.ssl.truststore.location": String = None, Any, Medium, ReadOnly, Honoured, removed;

        /// -
        "zookeeper.ssl.truststore.password": Password = None, Any, Medium, ReadOnly, Honoured, removed;

        /// -
        "zookeeper.ssl.truststore.type": String = None, Any, Medium, ReadOnly, Honoured, removed;

        /// -
        "zookeeper.ssl.protocol": String = Some("TLSv1.2"), Any, Low, ReadOnly, Honoured, removed;

        /// -
        "zookeeper.ssl.enabled.protocols": List = None, Any, Low, ReadOnly, Honoured, removed;

        /// -
        "zookeeper.ssl.cipher.suites": List = None, Any, Low, ReadOnly, Honoured, removed;

        /// -
        "zookeeper.ssl.endpoint.identification.algorithm": String = Some("HTTPS"), Any, Low, ReadOnly, Honoured, removed;

        /// -
        "zookeeper.ssl.crl.enable": Boolean = Some("false"), Any, Low, ReadOnly, Honoured, removed;

        /// -
        "zookeeper.ssl.ocsp.enable": Boolean = Some("false"), Any, Low, ReadOnly, Honoured, removed;

        /// -
        "zookeeper.metadata.migration.enable": Boolean = Some("false"), Any, High, ReadOnly, Honoured, removed;

        /// -
        "zookeeper.metadata.migration.min.batch.size": Int = Some("200"), AtLeast(1), Medium, ReadOnly, Honoured, removed, internal;
    },
};
