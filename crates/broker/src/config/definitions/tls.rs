//! TLS.

use crate::config::definition::{Area, Status::Honoured, definitions};
use crate::config::range::Range::{Any, OneOf};

pub(super) const AREA: Area = Area {
    title: "TLS",
    introduction: "Encryption of connections. Refused in this version.",
    definitions: definitions! {
        /// -
        "ssl.client.auth": String = Some("none"), OneOf(&["required", "requested", "none"]), Medium, PerBroker, Honoured;

        /// -
        "ssl.principal.mapping.rules": String = Some("DEFAULT"), Any, Low, ReadOnly, Honoured;

        /// -
        "ssl.allow.dn.changes": Boolean = Some("false"), Any, Low, ReadOnly, Honoured;

        /// -
        "ssl.allow.san.changes": Boolean = Some("false"), Any, Low, ReadOnly, Honoured;

        /// -
        "ssl.protocol": String = Some("TLSv1.3"), Any, Medium, PerBroker, Honoured;

        /// -
        "ssl.provider": String = None, Any, Medium, PerBroker, Honoured;

        /// -
        "ssl.enabled.protocols": List = Some("TLSv1.2,TLSv1.3"), Any, Medium, PerBroker, Honoured;

        /// -
        "ssl.keystore.type": String = Some("JKS"), Any, Medium, PerBroker, Honoured;

        /// -
        "ssl.keystore.location": String = None, Any, Medium, PerBroker, Honoured;

        /// -
        "ssl.keystore.password": Password = None, Any, Medium, PerBroker, Honoured;

        /// -
        "ssl.key.password": Password = None, Any, Medium, PerBroker, Honoured;

        /// -
        "ssl.keystore.key": Password = None, Any, Medium, PerBroker, Honoured;

        /// -
        "ssl.keystore.certificate.chain": Password = None, Any, Medium, PerBroker, Honoured;

        /// -
        "ssl.truststore.type": String = Some("JKS"), Any, Medium, PerBroker, Honoured;

        /// -
        "ssl.truststore.location": String = None, Any, Medium, PerBroker, Honoured;

        /// -
        "ssl.truststore.password": Password = None, Any, Medium, PerBroker, Honoured;

        /// -
        "ssl.truststore.certificates": Password = None, Any, Medium, PerBroker, Honoured;

        /// -
        "ssl.keymanager.algorithm": String = Some("SunX509"), Any, Medium, PerBroker, Honoured;

        /// -
        "ssl.trustmanager.algorithm": String = Some("PKIX"), Any, Medium, PerBroker, Honoured;

        /// -
        "ssl.endpoint.identification.algorithm": String = Some("https"), Any, Low, PerBroker, Honoured;

        /// -
        "ssl.secure.random.implementation": String = None, Any, Low, PerBroker, Honoured;

        /// -
        "ssl.cipher.suites": List = Some(""), Any, Medium, PerBroker, Honoured;

        /// -
        "ssl.engine.factory.class": Class = None, Any, Low, PerBroker, Honoured;
    },
};
