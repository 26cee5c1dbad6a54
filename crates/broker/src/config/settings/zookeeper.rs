//! The ensemble that keeps the cluster's metadata, if it is not the broker itself.

use crate::config::error::{ConfigError, Problem};
use crate::config::values::Values;
use security::{StoreFile, TlsClient, TlsClientSettings, TlsError, TlsVersion};
use std::time::Duration;
use zookeeper::{ConnectString, Login};

/// `zookeeper.*`
#[derive(Clone, Debug, PartialEq)]
pub struct ZooKeeperSettings {
    /// `zookeeper.connect`
    pub servers: ConnectString,
    /// `zookeeper.session.timeout.ms`
    pub session_timeout: Duration,
    /// `zookeeper.connection.timeout.ms`
    pub connection_timeout: Duration,
    /// `zookeeper.max.in.flight.requests`
    pub max_in_flight: usize,
    /// `zookeeper.set.acl`
    pub set_acl: bool,
    /// `barnabas.zookeeper.jaas.config`
    pub login: Option<Login>,
    /// `zookeeper.ssl.*`; `None` unless `zookeeper.ssl.client.enable`.
    pub tls: Option<TlsClientSettings>,
}

const CONNECT: &str = "zookeeper.connect";
const JAAS: &str = "barnabas.zookeeper.jaas.config";
const TLS: &str = "zookeeper.ssl.client.enable";
const SOCKET: &str = "zookeeper.clientCnxnSocket";
/// The class of Apache's that speaks TLS; ZooKeeper takes its name with and without the package.
const TLS_SOCKETS: [&str; 2] =
    ["ClientCnxnSocketNetty", "org.apache.zookeeper.ClientCnxnSocketNetty"];
const KEY_STORE: &str = "zookeeper.ssl.keystore.location";
const TRUST_STORE: &str = "zookeeper.ssl.truststore.location";
const CIPHER_SUITES: &str = "zookeeper.ssl.cipher.suites";
const PROTOCOL: &str = "zookeeper.ssl.protocol";
const PROTOCOLS: &str = "zookeeper.ssl.enabled.protocols";
const IDENTIFICATION: &str = "zookeeper.ssl.endpoint.identification.algorithm";
const LOGIN_MODULE: &str = "org.apache.zookeeper.server.auth.DigestLoginModule";

impl ZooKeeperSettings {
    /// `None` without `zookeeper.connect`. Adds to `problems` what is wrong.
    pub(in crate::config) fn read(values: &Values, problems: &mut Vec<Problem>) -> Option<Self> {
        let text = values.text(CONNECT).filter(|text| !text.trim().is_empty())?;
        let servers = match text.trim().parse() {
            Ok(servers) => servers,
            Err(error) => {
                let error: zookeeper::BadConnectString = error;
                problems.push(Problem::new(
                    CONNECT,
                    error.to_string(),
                    "name the ensemble's servers, or remove the key to run one broker that keeps its own metadata",
                ));
                return None;
            }
        };
        let login = match values.text(JAAS).map(|text| parse_jaas(&text)) {
            None => None,
            Some(Some(login)) => Some(login),
            Some(None) => {
                problems.push(Problem::new(
                    JAAS,
                    "is not an entry of a JAAS file that this broker understands".into(),
                    format!("give: {LOGIN_MODULE} required username=\"...\" password=\"...\";"),
                ));
                None
            }
        };
        let tls = if values.boolean(TLS) { read_tls(values, problems) } else { None };
        let is_known = tls.as_ref().is_some_and(|tls| tls.key_store.is_some());
        let set_acl = values.boolean("zookeeper.set.acl");
        if set_acl && login.is_none() && !is_known {
            problems.push(Problem::new(
                "zookeeper.set.acl",
                "nodes can only be protected by a client that authenticates to ZooKeeper".into(),
                format!("set {JAAS}, or {TLS} and {KEY_STORE}, too, or remove the key"),
            ));
        }
        let session_timeout = values.millis("zookeeper.session.timeout.ms");
        let own = values.is_set("zookeeper.connection.timeout.ms");
        Some(Self {
            servers,
            session_timeout,
            connection_timeout: if own {
                values.millis("zookeeper.connection.timeout.ms")
            } else {
                session_timeout
            },
            max_in_flight: values.size("zookeeper.max.in.flight.requests"),
            set_acl,
            login,
            tls,
        })
    }

    /// Reads the files that TLS needs. Apart from [`Self::read`], because settings are put together again and again
    /// while a broker runs.
    ///
    /// # Errors
    /// What is wrong with which key's file.
    pub fn connector(&self) -> Result<Option<TlsClient>, ConfigError> {
        let Some(settings) = &self.tls else { return Ok(None) };
        TlsClient::new(settings).map(Some).map_err(|error| {
            let text = error.to_string();
            let problem = match &error {
                TlsError::TrustStore(file) => Problem::new(TRUST_STORE, text, file.remedy()),
                TlsError::KeyStore(file) => Problem::new(KEY_STORE, text, file.remedy()),
                TlsError::CipherSuites(_) => {
                    Problem::new(CIPHER_SUITES, text, "name some of those, or remove the key")
                }
            };
            ConfigError { problems: vec![problem] }
        })
    }
}

/// Keys of TLS that are set although the connection is not encrypted: Apache ignores them, and who wrote them may think
/// otherwise.
pub(in crate::config) fn idle_tls_keys(values: &Values) -> Vec<&'static str> {
    let named = [KEY_STORE, TRUST_STORE, CIPHER_SUITES, PROTOCOLS];
    named.into_iter().filter(|key| !values.boolean(TLS) && values.is_set(key)).collect()
}

/// What `zookeeper.ssl.*` say; `None` only with a new problem.
fn read_tls(values: &Values, problems: &mut Vec<Problem>) -> Option<TlsClientSettings> {
    let known = problems.len();
    let socket = text(values, SOCKET);
    if let Some(socket) = socket.filter(|socket| !TLS_SOCKETS.contains(&socket.as_str())) {
        problems.push(Problem::new(
            SOCKET,
            format!("with {socket}, connections to ZooKeeper cannot be encrypted"),
            format!("give {}, or remove the key", TLS_SOCKETS[1]),
        ));
    }
    let trust_store = store_file(values, TRUST_STORE, problems);
    if trust_store.is_none() {
        problems.push(Problem::new(
            TRUST_STORE,
            format!("{TLS} needs to know whose certificates are trusted"),
            "name a PKCS #12 or PEM file with the certificate of the servers' authority",
        ));
    }
    let key_store = store_file(values, KEY_STORE, problems);
    let mut versions = Vec::new();
    let (key, names) = match values.list(PROTOCOLS) {
        none if none.is_empty() => match text(values, PROTOCOL) {
            Some(both) if both == "TLS" => {
                (PROTOCOL, vec!["TLSv1.2".to_owned(), "TLSv1.3".to_owned()])
            }
            one => (PROTOCOL, one.into_iter().collect()),
        },
        some => (PROTOCOLS, some),
    };
    for name in names {
        match name.parse::<TlsVersion>() {
            Ok(version) if versions.contains(&version) => {}
            Ok(version) => versions.push(version),
            Err(error) => problems.push(Problem::new(key, error, "")),
        }
    }
    if versions.is_empty() && problems.len() == known {
        problems.push(Problem::new(PROTOCOL, "names no version".into(), "give TLSv1.2 or TLSv1.3"));
    }
    let algorithm = text(values, IDENTIFICATION);
    if let Some(other) = algorithm.as_deref().filter(|name| !name.eq_ignore_ascii_case("https")) {
        problems.push(Problem::new(
            IDENTIFICATION,
            format!("{other} is not known"),
            "give HTTPS, or nothing to accept any trusted server",
        ));
    }
    if problems.len() > known {
        return None;
    }
    Some(TlsClientSettings {
        trust_store: trust_store?,
        key_store,
        versions,
        cipher_suites: values.list(CIPHER_SUITES),
        check_host_name: algorithm.is_some(),
    })
}

/// The file that `location` names, with the password and the type beside it.
fn store_file(values: &Values, location: &str, problems: &mut Vec<Problem>) -> Option<StoreFile> {
    let beside = |what: &str| location.replace("location", what);
    let path = text(values, location)?.into();
    let kind = match text(values, &beside("type")).map(|name| name.parse()) {
        None => None,
        Some(Ok(kind)) => Some(kind),
        Some(Err(error)) => {
            problems.push(Problem::new(beside("type"), error, ""));
            None
        }
    };
    Some(StoreFile { path, password: values.text(&beside("password")), kind })
}

/// What is set to more than nothing.
fn text(values: &Values, key: &str) -> Option<String> {
    values.text(key).map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// `Module required username="..." password="...";`, as in the section `Client` of a JAAS file.
fn parse_jaas(text: &str) -> Option<Login> {
    let rest = text.trim().strip_suffix(';')?.trim_end();
    let rest = rest.strip_prefix(LOGIN_MODULE)?;
    let (flag, mut rest) = rest.trim_start().split_once(char::is_whitespace)?;
    if !["required", "requisite", "sufficient", "optional"].contains(&flag) {
        return None;
    }
    let (mut username, mut password) = (None, None);
    loop {
        rest = rest.trim_start();
        if rest.is_empty() {
            break;
        }
        let (name, after) = rest.split_once('=')?;
        let mut characters = after.trim_start().strip_prefix('"')?.chars();
        let mut value = String::new();
        loop {
            match characters.next()? {
                '"' => break,
                '\\' => value.push(characters.next()?),
                other => value.push(other),
            }
        }
        rest = characters.as_str();
        match name.trim() {
            "username" => username = Some(value),
            "password" => password = Some(value),
            _ => {}
        }
    }
    Some(Login { username: username?, password: password? })
}

#[test]
fn an_entry_of_a_jaas_file_is_read() {
    let parse = |options: &str| parse_jaas(&format!("{LOGIN_MODULE} required\n  {options};"));
    let login = parse(r#"username="kafka" debug="x" password = "a \"b\\ =;""#).unwrap();
    assert_eq!((login.username.as_str(), login.password.as_str()), ("kafka", "a \"b\\ =;"));
    for bad in ["", "username=\"a\"", "username=\"a\" password=\"b", "username=a password=b"] {
        assert_eq!(parse(bad), None, "{bad}");
    }
    assert_eq!(parse_jaas("com.example.Module required username=\"a\" password=\"b\";"), None);
}
