//! SASL.

use crate::config::definition::{Area, Status::Honoured, definitions};
use crate::config::range::Range::{Any, Between, OneOfAnyCase};

pub(super) const AREA: Area = Area {
    title: "SASL",
    introduction: "Authentication of connections. Refused in this version.",
    definitions: definitions! {
        /// -
        "sasl.mechanism.controller.protocol": String = Some("GSSAPI"), Any, High, ReadOnly, Honoured;

        /// -
        "connections.max.reauth.ms": Long = Some("0"), Any, Medium, ReadOnly, Honoured;

        /// -
        "sasl.server.max.receive.size": Int = Some("524288"), Any, Medium, ReadOnly, Honoured;

        /// -
        "sasl.mechanism.inter.broker.protocol": String = Some("GSSAPI"), Any, Medium, PerBroker, Honoured;

        /// -
        "sasl.enabled.mechanisms": List = Some("GSSAPI"), Any, Medium, PerBroker, Honoured;

        /// -
        "sasl.server.callback.handler.class": Class = None, Any, Medium, ReadOnly, Honoured;

        /// -
        "sasl.kerberos.principal.to.local.rules": List = Some("DEFAULT"), Any, Medium, PerBroker, Honoured;

        /// -
        "sasl.jaas.config": Password = None, Any, Medium, PerBroker, Honoured;

        /// -
        "sasl.client.callback.handler.class": Class = None, Any, Medium, ReadOnly, Honoured;

        /// -
        "sasl.login.class": Class = None, Any, Medium, ReadOnly, Honoured;

        /// -
        "sasl.login.callback.handler.class": Class = None, Any, Medium, ReadOnly, Honoured;

        /// -
        "sasl.kerberos.service.name": String = None, Any, Medium, PerBroker, Honoured;

        /// -
        "sasl.kerberos.kinit.cmd": String = Some("/usr/bin/kinit"), Any, Medium, PerBroker, Honoured;

        /// -
        "sasl.kerberos.ticket.renew.window.factor": Double = Some("0.8"), Any, Medium, PerBroker, Honoured;

        /// -
        "sasl.kerberos.ticket.renew.jitter": Double = Some("0.05"), Any, Medium, PerBroker, Honoured;

        /// -
        "sasl.kerberos.min.time.before.relogin": Long = Some("60000"), Any, Medium, PerBroker, Honoured;

        /// -
        "sasl.login.refresh.window.factor": Double = Some("0.8"), Any, Medium, PerBroker, Honoured;

        /// -
        "sasl.login.refresh.window.jitter": Double = Some("0.05"), Any, Medium, PerBroker, Honoured;

        /// -
        "sasl.login.refresh.min.period.seconds": Short = Some("60"), Any, Medium, PerBroker, Honoured;

        /// -
        "sasl.login.refresh.buffer.seconds": Short = Some("300"), Any, Medium, PerBroker, Honoured;

        /// -
        "sasl.login.connect.timeout.ms": Int = None, Any, Low, ReadOnly, Honoured;

        /// -
        "sasl.login.read.timeout.ms": Int = None, Any, Low, ReadOnly, Honoured;

        /// -
        "sasl.login.retry.backoff.max.ms": Long = Some("10000"), Any, Low, ReadOnly, Honoured;

        /// -
        "sasl.login.retry.backoff.ms": Long = Some("100"), Any, Low, ReadOnly, Honoured;

        /// -
        "sasl.oauthbearer.scope.claim.name": String = Some("scope"), Any, Low, ReadOnly, Honoured;

        /// -
        "sasl.oauthbearer.sub.claim.name": String = Some("sub"), Any, Low, ReadOnly, Honoured;

        /// -
        "sasl.oauthbearer.token.endpoint.url": String = None, Any, Medium, ReadOnly, Honoured;

        /// -
        "sasl.oauthbearer.jwks.endpoint.url": String = None, Any, Medium, ReadOnly, Honoured;

        /// -
        "sasl.oauthbearer.jwks.endpoint.refresh.ms": Long = Some("3600000"), Any, Low, ReadOnly, Honoured;

        /// -
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": Long = Some("100"), Any, Low, ReadOnly, Honoured;

        /// -
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": Long = Some("10000"), Any, Low, ReadOnly, Honoured;

        /// -
        "sasl.oauthbearer.clock.skew.seconds": Int = Some("30"), Any, Low, ReadOnly, Honoured;

        /// -
        "sasl.oauthbearer.expected.audience": List = None, Any, Low, ReadOnly, Honoured;

        /// -
        "sasl.oauthbearer.expected.issuer": String = None, Any, Low, ReadOnly, Honoured;

        /// -
        "sasl.oauthbearer.jwt.retriever.class": Class = Some("org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever"), Any, Medium, ReadOnly, Honoured, newer;

        /// -
        "sasl.oauthbearer.jwt.validator.class": Class = Some("org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator"), Any, Medium, ReadOnly, Honoured, newer;

        /// -
        "sasl.oauthbearer.scope": String = None, Any, Medium, ReadOnly, Honoured, newer;

        /// -
        "sasl.oauthbearer.client.credentials.client.id": String = None, Any, Medium, ReadOnly, Honoured, newer;

        /// -
        "sasl.oauthbearer.client.credentials.client.secret": Password = None, Any, Medium, ReadOnly, Honoured, newer;

        /// -
        "sasl.oauthbearer.assertion.algorithm": String = Some("RS256"), OneOfAnyCase(&["ES256", "RS256"]), Medium, ReadOnly, Honoured, newer;

        /// -
        "sasl.oauthbearer.assertion.claim.aud": String = None, Any, Medium, ReadOnly, Honoured, newer;

        /// -
        "sasl.oauthbearer.assertion.claim.exp.seconds": Int = Some("300"), Between(0, 86_400), Low, ReadOnly, Honoured, newer;

        /// -
        "sasl.oauthbearer.assertion.claim.iss": String = None, Any, Medium, ReadOnly, Honoured, newer;

        /// -
        "sasl.oauthbearer.assertion.claim.jti.include": Boolean = Some("false"), Any, Medium, ReadOnly, Honoured, newer;

        /// -
        "sasl.oauthbearer.assertion.claim.nbf.seconds": Int = Some("60"), Between(0, 3_600), Low, ReadOnly, Honoured, newer;

        /// -
        "sasl.oauthbearer.assertion.claim.sub": String = None, Any, Medium, ReadOnly, Honoured, newer;

        /// -
        "sasl.oauthbearer.assertion.file": String = None, Any, Medium, ReadOnly, Honoured, newer;

        /// -
        "sasl.oauthbearer.assertion.private.key.file": String = None, Any, Medium, ReadOnly, Honoured, newer;

        /// -
        "sasl.oauthbearer.assertion.private.key.passphrase": Password = None, Any, Medium, ReadOnly, Honoured, newer;

        /// -
        "sasl.oauthbearer.assertion.template.file": String = None, Any, Medium, ReadOnly, Honoured, newer;

        /// -
        "sasl.oauthbearer.allow.unverified.audience": Boolean = Some("false"), Any, Medium, ReadOnly, Honoured, newer;

        /// -
        "sasl.oauthbearer.allow.unverified.issuer": Boolean = Some("false"), Any, Medium, ReadOnly, Honoured, newer;
    },
};
