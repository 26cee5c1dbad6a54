//! Security.

use crate::config::definition::{
    Area,
    Status::{Harmless, Inert, Refused},
    definitions,
};
use crate::config::range::Range::{Any, AtLeast, NonNull};
use crate::config::refusal::Refusal::{Authorizer, JavaClass, Policy, Tokens};

pub(super) const AREA: Area = Area {
    title: "Security",
    introduction: "Who may do what. This version serves trusted networks only; what asks for more is refused.",
    definitions: definitions! {
        /// Java class that decides who may do what. Without one everybody may do everything.
        "authorizer.class.name": String = Some(""), NonNull, Low, ReadOnly, Refused(Authorizer);

        /// How long a connection that failed to authenticate stays open, to slow guessing down. No listener authenticates
        /// here.
        "connection.failed.authentication.delay.ms": Int = Some("100"), AtLeast(0), Low, ReadOnly, Inert;

        /// Java class that may refuse new topics.
        "create.topic.policy.class.name": Class = None, Any, Low, ReadOnly, Refused(Policy);

        /// Java class that may refuse changes of settings.
        "alter.config.policy.class.name": Class = None, Any, Low, ReadOnly, Refused(Policy);

        /// Shows changes to the policy class as KRaft would.
        "alter.config.policy.kraft.compatibility.enable": Boolean = Some("false"), Any, Low, ReadOnly, Inert, removed;

        /// Java classes that add algorithms to the JVM.
        "security.providers": String = None, Any, Low, ReadOnly, Refused(JavaClass);

        /// Java class that turns a connection's credentials into a principal.
        "principal.builder.class": Class = Some("org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"), Any, Medium, PerBroker, Refused(JavaClass);

        /// Old name of `delegation.token.secret.key`.
        "delegation.token.master.key": Password = None, Any, Medium, ReadOnly, Refused(Tokens), removed;

        /// Secret that delegation tokens are signed with; the same on every broker.
        "delegation.token.secret.key": Password = None, Any, Medium, ReadOnly, Refused(Tokens);

        /// Age beyond which a delegation token cannot be renewed.
        "delegation.token.max.lifetime.ms": Long = Some("604800000"), AtLeast(1), Medium, ReadOnly, Inert;

        /// How long a delegation token is valid between renewals.
        "delegation.token.expiry.time.ms": Long = Some("86400000"), AtLeast(1), Medium, ReadOnly, Inert;

        /// How often expired tokens are removed.
        "delegation.token.expiry.check.interval.ms": Long = Some("3600000"), AtLeast(1), Low, ReadOnly, Inert;

        /// Secret under which Kafka keeps passwords among dynamic settings. This broker refuses dynamic passwords, so it
        /// keeps none.
        "password.encoder.secret": Password = None, Any, Medium, ReadOnly, Harmless, removed;

        /// Previous `password.encoder.secret`, needed while it is being replaced.
        "password.encoder.old.secret": Password = None, Any, Medium, ReadOnly, Harmless, removed;

        /// How the encoder's key is derived from its secret.
        "password.encoder.keyfactory.algorithm": String = None, Any, Low, ReadOnly, Inert, removed;

        /// Cipher of encoded passwords.
        "password.encoder.cipher.algorithm": String = Some("AES/CBC/PKCS5Padding"), Any, Low, ReadOnly, Inert, removed;

        /// Key length of that cipher, in bits.
        "password.encoder.key.length": Int = Some("128"), AtLeast(8), Low, ReadOnly, Inert, removed;

        /// Rounds of the key derivation.
        "password.encoder.iterations": Int = Some("4096"), AtLeast(1_024), Low, ReadOnly, Inert, removed;
    },
};
