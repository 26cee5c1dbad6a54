//! SASL.

use crate::config::definition::{
    Area,
    Status::{Inert, Refused},
    definitions,
};
use crate::config::range::Range::{Any, Between, OneOfAnyCase};
use crate::config::refusal::Refusal::Sasl;

pub(super) const AREA: Area = Area {
    title: "SASL",
    introduction: "Authentication of connections. Refused in this version.",
    definitions: definitions! {
        /// SASL mechanism towards a KRaft controller.
        "sasl.mechanism.controller.protocol": String = Some("GSSAPI"), Any, High, ReadOnly, Refused(Sasl);

        /// How long a SASL login holds before the client must log in again; 0 means for ever (KIP-368).
        "connections.max.reauth.ms": Long = Some("0"), Any, Medium, ReadOnly, Refused(Sasl);

        /// Largest message before a connection is authenticated, in bytes.
        "sasl.server.max.receive.size": Int = Some("524288"), Any, Medium, ReadOnly, Inert;

        /// SASL mechanism between brokers.
        "sasl.mechanism.inter.broker.protocol": String = Some("GSSAPI"), Any, Medium, PerBroker, Refused(Sasl);

        /// SASL mechanisms that listeners offer.
        "sasl.enabled.mechanisms": List = Some("GSSAPI"), Any, Medium, PerBroker, Refused(Sasl);

        /// Java class that checks logins of one listener and mechanism.
        "sasl.server.callback.handler.class": Class = None, Any, Medium, ReadOnly, Refused(Sasl);

        /// Rules that shorten a Kerberos principal to a user name.
        "sasl.kerberos.principal.to.local.rules": List = Some("DEFAULT"), Any, Medium, PerBroker, Refused(Sasl);

        /// JAAS login module and its options, credentials among them.
        "sasl.jaas.config": Password = None, Any, Medium, PerBroker, Refused(Sasl);

        /// Java class that supplies this broker's own credentials.
        "sasl.client.callback.handler.class": Class = None, Any, Medium, ReadOnly, Refused(Sasl);

        /// Java class that logs this broker in.
        "sasl.login.class": Class = None, Any, Medium, ReadOnly, Refused(Sasl);

        /// Java class that supplies what a login module asks for.
        "sasl.login.callback.handler.class": Class = None, Any, Medium, ReadOnly, Refused(Sasl);

        /// Kerberos service that brokers run as.
        "sasl.kerberos.service.name": String = None, Any, Medium, PerBroker, Refused(Sasl);

        /// Path of the `kinit` command.
        "sasl.kerberos.kinit.cmd": String = Some("/usr/bin/kinit"), Any, Medium, PerBroker, Inert;

        /// Share of a ticket's life after which it is renewed.
        "sasl.kerberos.ticket.renew.window.factor": Double = Some("0.8"), Any, Medium, PerBroker, Inert;

        /// Random part of the renewal time.
        "sasl.kerberos.ticket.renew.jitter": Double = Some("0.05"), Any, Medium, PerBroker, Inert;

        /// Shortest pause between two Kerberos logins.
        "sasl.kerberos.min.time.before.relogin": Long = Some("60000"), Any, Medium, PerBroker, Inert;

        /// Share of a token's life after which it is refreshed.
        "sasl.login.refresh.window.factor": Double = Some("0.8"), Any, Medium, PerBroker, Inert;

        /// Random part of the refresh time.
        "sasl.login.refresh.window.jitter": Double = Some("0.05"), Any, Medium, PerBroker, Inert;

        /// Shortest pause between two refreshes, in seconds.
        "sasl.login.refresh.min.period.seconds": Short = Some("60"), Any, Medium, PerBroker, Inert;

        /// Time before expiry in which a refresh is avoided, in seconds.
        "sasl.login.refresh.buffer.seconds": Short = Some("300"), Any, Medium, PerBroker, Inert;

        /// How long connecting to an OAuth server may take.
        "sasl.login.connect.timeout.ms": Int = None, Any, Low, ReadOnly, Inert;

        /// How long an OAuth server may take to answer.
        "sasl.login.read.timeout.ms": Int = None, Any, Low, ReadOnly, Inert;

        /// Longest pause between attempts to reach an OAuth server.
        "sasl.login.retry.backoff.max.ms": Long = Some("10000"), Any, Low, ReadOnly, Inert;

        /// First pause between attempts to reach an OAuth server.
        "sasl.login.retry.backoff.ms": Long = Some("100"), Any, Low, ReadOnly, Inert;

        /// Claim that holds a token's scope.
        "sasl.oauthbearer.scope.claim.name": String = Some("scope"), Any, Low, ReadOnly, Inert;

        /// Claim that holds a token's subject.
        "sasl.oauthbearer.sub.claim.name": String = Some("sub"), Any, Low, ReadOnly, Inert;

        /// Where tokens are fetched from.
        "sasl.oauthbearer.token.endpoint.url": String = None, Any, Medium, ReadOnly, Refused(Sasl);

        /// Where the keys are found that tokens are signed with.
        "sasl.oauthbearer.jwks.endpoint.url": String = None, Any, Medium, ReadOnly, Refused(Sasl);

        /// How often those keys are fetched again.
        "sasl.oauthbearer.jwks.endpoint.refresh.ms": Long = Some("3600000"), Any, Low, ReadOnly, Inert;

        /// First pause between attempts to fetch them.
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": Long = Some("100"), Any, Low, ReadOnly, Inert;

        /// Longest pause between attempts to fetch them.
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": Long = Some("10000"), Any, Low, ReadOnly, Inert;

        /// Difference between clocks that is forgiven when a token's times are checked, in seconds.
        "sasl.oauthbearer.clock.skew.seconds": Int = Some("30"), Any, Low, ReadOnly, Inert;

        /// Audiences of which a token must name one.
        "sasl.oauthbearer.expected.audience": List = None, Any, Low, ReadOnly, Refused(Sasl);

        /// Issuer that a token must name.
        "sasl.oauthbearer.expected.issuer": String = None, Any, Low, ReadOnly, Refused(Sasl);

        /// Java class that fetches tokens.
        "sasl.oauthbearer.jwt.retriever.class": Class = Some("org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever"), Any, Medium, ReadOnly, Refused(Sasl), newer;

        /// Java class that checks tokens.
        "sasl.oauthbearer.jwt.validator.class": Class = Some("org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator"), Any, Medium, ReadOnly, Refused(Sasl), newer;

        /// Scope that the broker asks for.
        "sasl.oauthbearer.scope": String = None, Any, Medium, ReadOnly, Inert, newer;

        /// The broker's client id at the OAuth server.
        "sasl.oauthbearer.client.credentials.client.id": String = None, Any, Medium, ReadOnly, Refused(Sasl), newer;

        /// The broker's secret at the OAuth server.
        "sasl.oauthbearer.client.credentials.client.secret": Password = None, Any, Medium, ReadOnly, Refused(Sasl), newer;

        /// Algorithm that the broker signs its assertions with.
        "sasl.oauthbearer.assertion.algorithm": String = Some("RS256"), OneOfAnyCase(&["ES256", "RS256"]), Medium, ReadOnly, Inert, newer;

        /// Audience in the broker's assertions.
        "sasl.oauthbearer.assertion.claim.aud": String = None, Any, Medium, ReadOnly, Inert, newer;

        /// Life of an assertion, in seconds.
        "sasl.oauthbearer.assertion.claim.exp.seconds": Int = Some("300"), Between(0, 86_400), Low, ReadOnly, Inert, newer;

        /// Issuer in the broker's assertions.
        "sasl.oauthbearer.assertion.claim.iss": String = None, Any, Medium, ReadOnly, Inert, newer;

        /// Whether each assertion carries an id of its own.
        "sasl.oauthbearer.assertion.claim.jti.include": Boolean = Some("false"), Any, Medium, ReadOnly, Inert, newer;

        /// How far back an assertion's validity starts, in seconds.
        "sasl.oauthbearer.assertion.claim.nbf.seconds": Int = Some("60"), Between(0, 3_600), Low, ReadOnly, Inert, newer;

        /// Subject in the broker's assertions.
        "sasl.oauthbearer.assertion.claim.sub": String = None, Any, Medium, ReadOnly, Inert, newer;

        /// File with an assertion made elsewhere.
        "sasl.oauthbearer.assertion.file": String = None, Any, Medium, ReadOnly, Refused(Sasl), newer;

        /// File with the key that signs assertions.
        "sasl.oauthbearer.assertion.private.key.file": String = None, Any, Medium, ReadOnly, Refused(Sasl), newer;

        /// Password of that key.
        "sasl.oauthbearer.assertion.private.key.passphrase": Password = None, Any, Medium, ReadOnly, Refused(Sasl), newer;

        /// File with further headers and claims of assertions.
        "sasl.oauthbearer.assertion.template.file": String = None, Any, Medium, ReadOnly, Refused(Sasl), newer;

        /// Accepts tokens without comparing their audience.
        "sasl.oauthbearer.allow.unverified.audience": Boolean = Some("false"), Any, Medium, ReadOnly, Inert, newer;

        /// Accepts tokens without comparing their issuer.
        "sasl.oauthbearer.allow.unverified.issuer": Boolean = Some("false"), Any, Medium, ReadOnly, Inert, newer;
    },
};
