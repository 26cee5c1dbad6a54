//! Security.

use crate::config::definition::{Area, Status::Honoured, definitions};
use crate::config::range::Range::{Any, AtLeast, NonNull};

pub(super) const AREA: Area = Area {
    title: "Security",
    introduction: "Who may do what. This version serves trusted networks only; what asks for more is refused.",
    definitions: definitions! {
        /// -
        "authorizer.class.name": String = Some(""), NonNull, Low, ReadOnly, Honoured;

        /// -
        "connection.failed.authentication.delay.ms": Int = Some("100"), AtLeast(0), Low, ReadOnly, Honoured;

        /// -
        "create.topic.policy.class.name": Class = None, Any, Low, ReadOnly, Honoured;

        /// -
        "alter.config.policy.class.name": Class = None, Any, Low, ReadOnly, Honoured;

        /// -
        "alter.config.policy.kraft.compatibility.enable": Boolean = Some("false"), Any, Low, ReadOnly, Honoured, removed;

        /// -
        "security.providers": String = None, Any, Low, ReadOnly, Honoured;

        /// -
        "principal.builder.class": Class = Some("org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"), Any, Medium, PerBroker, Honoured;

        /// -
        "delegation.token.master.key": Password = None, Any, Medium, ReadOnly, Honoured, removed;

        /// -
        "delegation.token.secret.key": Password = None, Any, Medium, ReadOnly, Honoured;

        /// -
        "delegation.token.max.lifetime.ms": Long = Some("604800000"), AtLeast(1), Medium, ReadOnly, Honoured;

        /// -
        "delegation.token.expiry.time.ms": Long = Some("86400000"), AtLeast(1), Medium, ReadOnly, Honoured;

        /// -
        "delegation.token.expiry.check.interval.ms": Long = Some("3600000"), AtLeast(1), Low, ReadOnly, Honoured;

        /// -
        "password.encoder.secret": Password = None, Any, Medium, ReadOnly, Honoured, removed;

        /// -
        "password.encoder.old.secret": Password = None, Any, Medium, ReadOnly, Honoured, removed;

        /// -
        "password.encoder.keyfactory.algorithm": String = None, Any, Low, ReadOnly, Honoured, removed;

        /// -
        "password.encoder.cipher.algorithm": String = Some("AES/CBC/PKCS5Padding"), Any, Low, ReadOnly, Honoured, removed;

        /// -
        "password.encoder.key.length": Int = Some("128"), AtLeast(8), Low, ReadOnly, Honoured, removed;

        /// -
        "password.encoder.iterations": Int = Some("4096"), AtLeast(1_024), Low, ReadOnly, Honoured, removed;
    },
};
