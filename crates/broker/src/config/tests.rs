//! The rules of the whole: sources, statuses, problems.

use super::*;
use std::collections::BTreeSet;

fn properties(pairs: &[(&str, &str)]) -> Properties {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn load(pairs: &[(&str, &str)]) -> Result<Loaded, ConfigError> {
    BrokerConfig::from_properties(properties(pairs), &|_| None)
}

#[test]
fn every_default_is_valid_and_every_key_is_defined_once() {
    let mut seen = BTreeSet::new();
    for area in areas() {
        for definition in area.definitions {
            let topic = area.title == "Topic settings";
            assert!(seen.insert((topic, definition.name)), "{} is defined twice", definition.name);
            if let Some(default) = definition.default {
                let value = Value::parse(definition.kind, default)
                    .unwrap_or_else(|reason| panic!("{}: {reason}", definition.name));
                let empty_list = value == Value::List(Vec::new());
                assert!(
                    empty_list || definition.range.check(definition.name, &value).is_ok(),
                    "{}",
                    definition.name
                );
            }
        }
    }
}

#[test]
fn without_a_file_one_broker_serves_this_machine() {
    let Loaded { config, warnings } = BrokerConfig::load(None, &[]).unwrap();
    assert_eq!(warnings, []);
    assert_eq!(config.node.broker_id, Some(model::BrokerId(0)));
    assert_eq!(config.log.directories, [std::path::PathBuf::from("./barnabas-data")]);
    assert_eq!(config.offsets.topic_replication_factor, 1);
    assert_eq!(config.listeners.inter_broker().host.as_deref(), Some("127.0.0.1"));
    assert_eq!(config.listeners.inter_broker().port, 9092);
    assert_eq!(config.topic_defaults.log, storage::LogConfig::default());
}

#[test]
fn with_a_file_kafkas_defaults_hold() {
    let config = load(&[]).unwrap().config;
    assert_eq!(config.node.broker_id, None);
    assert_eq!(config.offsets.topic_replication_factor, 3);
    assert_eq!(config.listeners.all[0].host, None);
}

/// Kafka's own answers: see the head of the file.
#[test]
fn settings_are_judged_as_kafka_judges_them() {
    let cases = include_str!("../../tests/golden/config_cases.txt");
    let plain = kafka_like("broker.id=0", "", "");
    let mut lines = cases.lines().filter(|line| !line.starts_with("//")).peekable();
    let mut wrong = Vec::new();
    while let Some(case) = lines.next() {
        let kafka = lines.next().unwrap().trim().strip_prefix("kafka: ").unwrap();
        let ours = lines.next_if(|line| line.trim().starts_with("ours: "));
        let (kind, set) = case.split_once(' ').unwrap_or((case, ""));
        let expected = match ours {
            Some(ours) => ours.trim().trim_start_matches("ours: ").split(" -- ").next().unwrap(),
            None => kafka,
        };
        let set = settings(set);
        let alter = |result: Result<(), AlterError>| match result {
            Ok(()) => "ok".to_owned(),
            Err(AlterError::Configuration(message)) => {
                format!("InvalidConfigurationException: {message}")
            }
            Err(AlterError::Value(message)) => format!("ConfigException: {message}"),
        };
        let answer = match kind {
            "topic" => alter(validate_topic_configs(&plain, &set)),
            "broker" => alter(validate_dynamic_broker_configs(&plain, &set)),
            "cluster" => alter(validate_cluster_configs(&plain, &set)),
            _ => match BrokerConfig::from_properties(set, &|_| None) {
                Ok(_) => "ok".to_owned(),
                Err(error) => error
                    .problems
                    .iter()
                    .map(|problem| problem.message.as_str())
                    .collect::<Vec<_>>()
                    .join(" & "),
            },
        };
        // At the start the words count, not the exception that they come in.
        let expected = if kind == "start" {
            let words = expected.split_once("Exception: ").map_or(expected, |(_, words)| words);
            words.trim_start_matches("requirement failed: ").to_owned()
        } else {
            expected.replace("IllegalArgumentException: ", "ConfigException: ")
        };
        let said = kind == "start" && answer.split(" & ").any(|one| one == expected);
        if answer != expected && !said {
            wrong.push(format!("{case}\n    expected: {expected}\n    answer:   {answer}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Kafka's own answers: see the head of the file.
#[test]
fn keys_are_described_as_kafka_describes_them() {
    let golden = include_str!("../../tests/golden/config_describe.txt");
    let mut sections: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in golden.lines().filter(|line| !line.starts_with("//")) {
        match line.strip_prefix("# ") {
            Some(head) => sections.push((head, Vec::new())),
            None => sections.last_mut().unwrap().1.push(line),
        }
    }
    for (head, expected) in sections {
        let parts: Vec<&str> = head.split(" | ").map(str::trim).collect();
        let config = kafka_like(parts[1], parts[2], parts[3]);
        let described = match parts[0] {
            "topic" => describe_topic(&config, &settings(parts[4])),
            "defaults" => describe_cluster_defaults(&config),
            _ => describe_broker(&config),
        };
        let ours = |name: &str| name.starts_with("barnabas.");
        let lines: Vec<String> =
            described.iter().filter(|one| !ours(&one.name)).map(describe_line).collect();
        if parts[0].ends_with("only what differs") {
            for line in expected {
                assert!(lines.iter().any(|one| one == line), "{head}\nmissing: {line}");
            }
        } else {
            let sorted = |lines: &[String]| lines.iter().cloned().collect::<BTreeSet<_>>();
            let expected: Vec<String> = expected.into_iter().map(str::to_owned).collect();
            let (a, b) = (sorted(&lines), sorted(&expected));
            let difference: Vec<_> = a.symmetric_difference(&b).collect();
            assert!(difference.is_empty(), "{head}\n{difference:#?}");
            assert_eq!(lines, expected, "the same lines in another order: {head}");
        }
        assert!(described.iter().all(|one| one.kind.is_none() || one.documentation.is_some()));
    }
}

#[test]
fn definitions_state_kafkas_facts() {
    let golden = include_str!("../../tests/golden/kafka_configs.tsv");
    let mut seen = 0;
    for line in golden.lines().filter(|line| !line.starts_with("//")) {
        let fields: Vec<&str> = line.split('\t').collect();
        let name = fields[1];
        let definition = match fields[0] {
            "topic" => topic_definition(name),
            _ => broker_definition(name),
        };
        let definition = definition.unwrap_or_else(|| panic!("{name} is not defined"));
        let facts = [
            fields[0],
            name,
            definition.kind.name(),
            definition.default.unwrap_or("<null>"),
            &kafka_range(&definition.range),
            match definition.importance {
                Importance::High => "HIGH",
                Importance::Medium => "MEDIUM",
                Importance::Low => "LOW",
            },
            match definition.scope {
                Scope::ReadOnly => "read-only",
                Scope::PerBroker => "broker",
                Scope::ClusterWide => "cluster",
            },
            if definition.internal { "internal" } else { "public" },
            match definition.origin {
                Origin::Both => "both",
                Origin::Kafka3 => "3",
                Origin::Kafka4 => "4",
                Origin::Barnabas => "ours",
            },
        ];
        assert_eq!(fields, facts);
        assert!(definition.doc().ends_with('.'), "{name} has no sentence");
        seen += 1;
    }
    let defined: usize = areas().map(|area| area.definitions.len()).sum();
    let ours =
        areas().flat_map(|area| area.definitions).filter(|one| one.origin == Origin::Barnabas);
    assert_eq!(defined, seen + ours.count(), "a key that Kafka does not know must be called ours");
}

#[test]
fn what_is_described_as_writable_can_be_altered_and_nothing_else_can() {
    let config = BrokerConfig::load(None, &[]).unwrap().config;
    for one in describe_broker(&config) {
        let value = one.value.unwrap_or_else(|| "1".into());
        let altered = alter::check_dynamic_value(&one.name, &value, true);
        assert_eq!(altered.is_ok(), !one.read_only, "{}: {altered:?}", one.name);
    }
}

fn kafka_range(range: &Range) -> String {
    let quoted = |items: &[&str]| format!("[{}]", items.join(", "));
    match range {
        Range::Any | Range::FilledList => String::new(),
        Range::AtLeast(least) => format!("[{least},...]"),
        Range::Between(least, most) => format!("[{least},...,{most}]"),
        Range::BetweenOr(least, most, other) => format!("[{least},...,{most}] or {other}"),
        Range::Fraction(least, most) => format!("[{least},...,{most}]"),
        Range::OneOf(items) | Range::ListOf(items) => quoted(items),
        Range::OneOfAnyCase(items) => format!("(case insensitive) {}", quoted(items)),
        Range::NonEmptyList => "non-empty list".into(),
        Range::NonEmpty => "non-empty string".into(),
        Range::NonNull => "non-null string".into(),
        Range::ThrottledReplicas => "[partitionId]:[brokerId],[partitionId]:[brokerId],...".into(),
        Range::Release => "releases".into(),
        Range::PoolSize => "pool size".into(),
    }
}

/// A configuration without regard to what we refuse, as Kafka would build it.
fn kafka_like(fixed: &str, cluster: &str, broker: &str) -> BrokerConfig {
    let mut fixed = settings(fixed);
    broker_config::same_id(&mut fixed);
    let layers = layers::Layers { fixed, cluster: settings(cluster), broker: settings(broker) };
    BrokerConfig::build(layers, Vec::new()).unwrap()
}

/// `a=1;b=2\,3`
fn settings(text: &str) -> Properties {
    text.split(';')
        .filter_map(|pair| pair.split_once('='))
        .map(|(key, value)| (key.to_owned(), value.replace("\\,", ",")))
        .collect()
}

fn describe_line(one: &DescribedConfig) -> String {
    let null = |value: &Option<String>| value.clone().unwrap_or_else(|| "<null>".into());
    let synonyms: Vec<_> = one
        .synonyms
        .iter()
        .map(|one| format!("{}:{}={}", one.source.code(), one.name, null(&one.value)))
        .collect();
    // The file is Kafka's; what only we call read-only is told by another test.
    let is_fixed = broker_definition(&one.name).is_some_and(|definition| {
        definition.scope != Scope::ReadOnly
            && !definition.is_dynamic_only()
            && alter::is_fixed(definition)
    });
    format!(
        "{}\t{}\t{}\t{}\t{}{}\t{}",
        one.name,
        null(&one.value),
        one.source.code(),
        one.kind.map_or(0, Kind::code),
        if one.read_only && !is_fixed { "r" } else { "w" },
        if one.sensitive { "s" } else { "-" },
        synonyms.join(";")
    )
}

#[test]
fn the_manual_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, manual()).unwrap();
    }
    let written = std::fs::read_to_string(path).unwrap_or_default();
    assert!(written == manual(), "run `UPDATE=1 cargo test -p broker manual`");
}

#[test]
fn every_problem_is_reported_at_once_with_its_key_and_a_remedy() {
    let error = load(&[
        ("num.partitions", "0"),
        ("authorizer.class.name", "kafka.security.authorizer.AclAuthorizer"),
        ("listeners", "SASL_SSL://:9093"),
        ("broker.id", "2000"),
    ])
    .unwrap_err();
    let keys: BTreeSet<_> = error.problems.iter().map(|problem| problem.key.as_str()).collect();
    let expected = [
        "authorizer.class.name",
        "broker.id",
        "listeners",
        "num.partitions",
        "security.inter.broker.protocol",
    ];
    assert_eq!(keys, BTreeSet::from(expected));
    assert!(error.problems.iter().all(|problem| !problem.remedy.is_empty()));
    let text = error.to_string();
    assert!(
        text.contains("num.partitions: Invalid value 0 for configuration num.partitions: Value must be at least 1; give at least 1 (default 1)"),
        "{text}"
    );
}

/// Without the lease, a leader that was taken for dead would go on beside its successor.
#[test]
fn dead_processes_are_only_replaced_at_once_where_leaders_have_leases() {
    let (detection, lease) = ("barnabas.fast.failure.detection", "barnabas.leader.lease.enable");
    let error = load(&[(lease, "false")]).unwrap_err();
    assert_eq!((error.problems.len(), error.problems[0].key.as_str()), (1, detection));
    assert!(error.to_string().contains(lease) && !error.problems[0].remedy.is_empty(), "{error}");
    for allowed in
        [[(lease, "false"), (detection, "false")], [(lease, "true"), (detection, "true")]]
    {
        load(&allowed).unwrap();
    }
    load(&[(detection, "false")]).unwrap();
}

/// The second lock on it would be refused as another process's.
#[test]
fn a_log_directory_may_be_named_once() {
    let error = load(&[("log.dirs", "/a, /b ,/a")]).unwrap_err().to_string();
    assert!(error.contains("log.dirs") && error.contains("twice"), "{error}");
    load(&[("log.dirs", "/a,,/b,")]).unwrap();
}

#[test]
fn what_could_weaken_security_or_lose_data_stops_the_start() {
    for (key, value) in [
        ("authorizer.class.name", "x"),
        ("sasl.enabled.mechanisms", "PLAIN"),
        ("listener.name.plaintext.sasl.enabled.mechanisms", "PLAIN"),
        ("listener.name.plaintext.plain.sasl.jaas.config", "secret-module"),
        ("ssl.client.auth", "required"),
        ("ssl.keystore.location", "/x"),
        ("create.topic.policy.class.name", "x"),
        ("alter.config.policy.class.name", "x"),
        ("client.quota.callback.class", "x"),
        ("principal.builder.class", "x"),
        ("remote.log.storage.system.enable", "true"),
        ("process.roles", "broker,controller"),
        ("zookeeper.ssl.crl.enable", "true"),
        ("zookeeper.ssl.ocsp.enable", "true"),
        ("delegation.token.secret.key", "secret-key"),
        ("control.plane.listener.name", "PLAINTEXT"),
        ("max.connection.creation.rate", "5"),
        ("listener.name.plaintext.max.connections", "5"),
    ] {
        let error = load(&[(key, value)]).expect_err(key);
        assert_eq!(error.problems[0].key, key);
        assert!(!error.to_string().contains("secret-"), "{error}");
    }
}

#[test]
fn a_refused_key_at_its_default_asks_for_nothing() {
    let loaded = load(&[
        ("authorizer.class.name", ""),
        ("ssl.client.auth", " none "),
        ("sasl.enabled.mechanisms", "GSSAPI"),
        ("zookeeper.connect", ""),
        ("remote.log.storage.system.enable", "FALSE"),
        ("offsets.topic.replication.factor", "1"),
    ])
    .unwrap();
    assert_eq!(loaded.warnings, []);
}

#[test]
fn harmless_and_unknown_keys_warn() {
    let loaded = load(&[
        ("metric.reporters", "com.example.Reporter"),
        ("my.own.key", "x"),
        ("retention.ms", "1"),
        ("num.io.threads", "16"),
        ("offsets.topic.replication.factor", "2"),
        ("zookeeper.session.timeout.ms", "1"),
    ])
    .unwrap();
    let keys: Vec<_> = loaded.warnings.iter().map(|warning| warning.key.as_str()).collect();
    let replicas = "offsets.topic.replication.factor";
    assert_eq!(keys, ["metric.reporters", "my.own.key", "retention.ms", replicas]);
    assert!(loaded.warnings[2].message.contains("log.retention.ms"), "{:?}", loaded.warnings[2]);
}

#[test]
fn a_file_like_the_one_that_kafka_ships_is_read() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let text = "# The basics\nbroker.id=0\n\n#listeners=PLAINTEXT://:9092\nnum.network.threads=3\nnum.io.threads=8\n\
        socket.send.buffer.bytes=102400\nsocket.request.max.bytes=104857600\nlog.dirs=/tmp/kafka-logs\n\
        num.partitions=1\noffsets.topic.replication.factor=1\nlog.retention.hours=168\n\
        #log.retention.bytes=1073741824\ngroup.initial.rebalance.delay.ms=0\n";
    std::fs::write(file.path(), text).unwrap();
    let config = BrokerConfig::load(Some(file.path()), &[]).unwrap().config;
    assert_eq!(config.node.broker_id, Some(model::BrokerId(0)));
    assert_eq!(config.offsets.topic_replication_factor, 1);

    std::fs::write(file.path(), format!("{text}zookeeper.connect=localhost:2181\n")).unwrap();
    let config = BrokerConfig::load(Some(file.path()), &[]).unwrap().config;
    let zookeeper = config.zookeeper.unwrap();
    assert_eq!(zookeeper.servers, "localhost:2181".parse().unwrap());
    assert_eq!(zookeeper.connection_timeout, std::time::Duration::from_secs(18));
    let overrides = [("zookeeper.connect".to_owned(), String::new())];
    let config = BrokerConfig::load(Some(file.path()), &overrides).unwrap().config;
    assert_eq!(config.zookeeper, None);
}

#[test]
fn zookeeper_is_configured_as_for_kafka() {
    let jaas = "org.apache.zookeeper.server.auth.DigestLoginModule required username=\"k\" password=\"hush\";";
    let all = [
        ("zookeeper.connect", "a:1,b:2/root"),
        ("zookeeper.session.timeout.ms", "6000"),
        ("zookeeper.connection.timeout.ms", "7000"),
        ("zookeeper.max.in.flight.requests", "3"),
        ("zookeeper.set.acl", "true"),
        ("barnabas.zookeeper.jaas.config", jaas),
    ];
    let found = load(&all).unwrap().config.zookeeper.unwrap();
    assert_eq!((found.servers.hosts.len(), found.servers.chroot.as_str()), (2, "/root"));
    assert_eq!(
        (found.session_timeout.as_millis(), found.connection_timeout.as_millis()),
        (6000, 7000)
    );
    assert_eq!((found.max_in_flight, found.set_acl), (3, true));
    assert!(!format!("{:?}", found.login.unwrap()).contains("hush"));
    for (key, value) in [
        ("zookeeper.connect", "a:x"),
        ("zookeeper.set.acl", "true"),
        ("barnabas.zookeeper.jaas.config", "com.example.Hush required;"),
    ] {
        let error = load(&[("zookeeper.connect", "a:1"), (key, value)]).expect_err(key);
        assert_eq!(error.problems[0].key, key);
        assert!(!error.to_string().contains("Hush"), "{error}");
    }
}

#[test]
fn tls_to_zookeeper_is_configured_as_for_kafka() {
    let least = [
        ("zookeeper.connect", "a:1"),
        ("zookeeper.ssl.client.enable", "TRUE"),
        ("zookeeper.ssl.truststore.location", "/trust.p12"),
    ];
    let with = |more: &[(&'static str, &'static str)]| {
        let mut all: std::collections::BTreeMap<_, _> = least.into();
        all.extend(more.iter().copied());
        load(&all.into_iter().collect::<Vec<_>>())
    };
    let tls = |more| with(more).unwrap().config.zookeeper.unwrap().tls.unwrap();
    let defaults = tls(&[]);
    assert_eq!(defaults.versions, [security::TlsVersion::Tls12]);
    assert!(defaults.check_host_name && defaults.key_store.is_none());
    let all = tls(&[
        ("zookeeper.clientCnxnSocket", "org.apache.zookeeper.ClientCnxnSocketNetty"),
        ("zookeeper.ssl.truststore.password", "hush"),
        ("zookeeper.ssl.truststore.type", "pkcs12"),
        ("zookeeper.ssl.keystore.location", "/key.pem"),
        ("zookeeper.ssl.enabled.protocols", "TLSv1.3,TLSv1.2"),
        ("zookeeper.ssl.endpoint.identification.algorithm", ""),
        ("zookeeper.ssl.cipher.suites", "TLS_AES_256_GCM_SHA384"),
        // Whom ZooKeeper knows by a certificate may protect its nodes.
        ("zookeeper.set.acl", "true"),
    ]);
    assert_eq!(all.versions, [security::TlsVersion::Tls13, security::TlsVersion::Tls12]);
    assert_eq!(all.trust_store.password.as_deref(), Some("hush"));
    assert_eq!(all.trust_store.kind, Some(security::StoreType::Pkcs12));
    assert!(all.key_store.is_some() && !all.check_host_name);
    assert!(!format!("{all:?}").contains("hush"), "{all:?}");
    assert_eq!(tls(&[("zookeeper.ssl.protocol", "TLS")]).versions.len(), 2);
    for (key, value) in [
        ("zookeeper.ssl.truststore.location", ""),
        ("zookeeper.ssl.truststore.type", "BCFKS"),
        ("zookeeper.clientCnxnSocket", "org.apache.zookeeper.ClientCnxnSocketNIO"),
        ("zookeeper.ssl.protocol", "TLSv1.1"),
        ("zookeeper.ssl.enabled.protocols", "TLSv1.2,SSLv3"),
        ("zookeeper.ssl.endpoint.identification.algorithm", "LDAP"),
    ] {
        let error = with(&[(key, value)]).expect_err(key);
        assert_eq!((error.problems.len(), error.problems[0].key.as_str()), (1, key));
    }
    // A certificate that is not shown is no protection.
    let error = with(&[("zookeeper.set.acl", "true")]).unwrap_err();
    assert_eq!(error.problems[0].key, "zookeeper.set.acl");
    // As with Apache, nothing is encrypted then; but it is said.
    let off = with(&[("zookeeper.ssl.client.enable", "false")]).unwrap();
    assert!(off.warnings.iter().any(|one| one.key == "zookeeper.ssl.truststore.location"));
    assert_eq!(off.config.zookeeper.unwrap().tls, None);
    let missing = with(&[]).unwrap().config.zookeeper.unwrap().connector().unwrap_err();
    assert_eq!(missing.problems[0].key, "zookeeper.ssl.truststore.location");
    assert!(missing.to_string().contains("/trust.p12"), "{missing}");
}

#[test]
fn a_file_that_cannot_be_read_names_itself() {
    let error = BrokerConfig::load(Some(std::path::Path::new("/no/such/file")), &[]).unwrap_err();
    assert!(error.to_string().contains("/no/such/file"), "{error}");
}

#[test]
fn overrides_win_and_the_last_one_most() {
    let overrides = [("num.partitions", "2"), ("num.partitions", "3")];
    let overrides = overrides.map(|(key, value)| (key.to_owned(), value.to_owned()));
    assert_eq!(BrokerConfig::load(None, &overrides).unwrap().config.topics.num_partitions, 3);
}

#[test]
fn dynamic_values_make_another_configuration_and_unusable_ones_are_left_out() {
    let config =
        load(&[("message.max.bytes", "1000"), ("log.retention.hours", "1")]).unwrap().config;
    let cluster = properties(&[
        ("log.retention.ms", "5"),
        ("num.partitions", "9"),
        ("background.threads", "x"),
    ]);
    let broker = properties(&[("message.max.bytes", "3000")]);
    let (changed, left_out) = config.with_dynamic(&cluster, &broker);
    assert_eq!(changed.topic_defaults.max_message_bytes, 3000);
    assert_eq!(changed.topic_defaults.log.retention_ms, Some(std::time::Duration::from_millis(5)));
    assert_eq!(changed.topics.num_partitions, 1);
    let keys: Vec<_> = left_out.iter().map(|problem| problem.key.as_str()).collect();
    assert_eq!(keys, ["background.threads", "num.partitions"]);
    let (back, left_out) = changed.with_dynamic(&Properties::new(), &Properties::new());
    assert_eq!((back, left_out), (config, Vec::new()));
}

#[test]
fn dynamic_values_that_contradict_the_file_are_left_out_together() {
    let config = load(&[]).unwrap().config;
    let broker = properties(&[("log.retention.ms", "0"), ("message.max.bytes", "7")]);
    let (changed, left_out) = config.with_dynamic(&Properties::new(), &broker);
    assert_eq!(changed, config);
    assert_eq!(left_out.len(), 1);
}

#[test]
fn a_topics_own_settings_win_and_stored_nonsense_counts_as_absent() {
    let config =
        load(&[("log.retention.minutes", "2"), ("log.segment.bytes", "5000")]).unwrap().config;
    let overrides = properties(&[
        ("cleanup.policy", "compact,delete"),
        ("max.message.bytes", "77"),
        ("segment.bytes", "nonsense"),
        ("no.such.key", "1"),
        ("retention.bytes", "-1"),
    ]);
    let topic = config.topic_config(&overrides);
    assert_eq!(topic.log.cleanup_policy, storage::CleanupPolicy { delete: true, compact: true });
    assert_eq!(topic.max_message_bytes, 77);
    assert_eq!(topic.log.segment_bytes, 5000);
    assert_eq!(topic.log.retention_ms, Some(std::time::Duration::from_secs(120)));
    assert_eq!(topic.log.retention_bytes, None);
    assert_eq!(topic.timestamp_after_max, None);
}

#[test]
fn listeners_are_typed() {
    let config = load(&[
        ("listeners", "PLAINTEXT://:9092, inside://[::1]:0"),
        ("advertised.listeners", "PLAINTEXT://example.org:19092"),
        ("listener.security.protocol.map", "inside:plaintext,PLAINTEXT:PLAINTEXT"),
    ])
    .unwrap()
    .config;
    let advertised = Some(Advertised { host: Some("example.org".into()), port: 19092 });
    let plain = |name: &str, host: Option<&str>, port, advertised| Listener {
        name: name.into(),
        host: host.map(str::to_owned),
        port,
        advertised,
        protocol: SecurityProtocol::Plaintext,
    };
    let expected =
        [plain("PLAINTEXT", None, 9092, advertised), plain("INSIDE", Some("::1"), 0, None)];
    assert_eq!(config.listeners.all, expected);
    assert_eq!(config.listeners.inter_broker, "PLAINTEXT");
}
