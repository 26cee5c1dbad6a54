//! The ensemble that keeps the cluster's metadata, if it is not the broker itself.

use crate::config::error::Problem;
use crate::config::values::Values;
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
}

const CONNECT: &str = "zookeeper.connect";
const JAAS: &str = "barnabas.zookeeper.jaas.config";
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
        let set_acl = values.boolean("zookeeper.set.acl");
        if set_acl && login.is_none() {
            problems.push(Problem::new(
                "zookeeper.set.acl",
                "nodes can only be protected by a client that authenticates to ZooKeeper".into(),
                format!("set {JAAS} too, or remove the key"),
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
        })
    }
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
