//! `host:port,host:port/chroot`, as in `zookeeper.connect`.

use std::fmt;
use std::str::FromStr;

/// ZooKeeper's port where none is given.
const DEFAULT_PORT: u16 = 2181;

/// One server's name and port; the name is looked up at every connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Name or address, without brackets.
    pub name: String,
    /// Port for clients.
    pub port: u16,
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&model::host_and_port(&self.name, self.port))
    }
}

/// The servers of an ensemble, and the node below which all of a client's paths lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectString {
    /// At least one.
    pub hosts: Vec<Host>,
    /// Empty for none; else a path without a trailing slash.
    pub chroot: String,
}

/// What is wrong with a connect string.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a list of ZooKeeper servers (host:port,host:port/chroot): {0}")]
pub struct BadConnectString(String);

impl FromStr for ConnectString {
    type Err = BadConnectString;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = |what: &str| BadConnectString(what.to_owned());
        let (hosts, chroot) = match text.find('/') {
            Some(at) => text.split_at(at),
            None => (text, ""),
        };
        let chroot = if chroot == "/" { "" } else { chroot };
        if !chroot.is_empty() {
            validate_path(chroot).map_err(|_| bad(chroot))?;
        }
        let hosts = hosts
            .split(',')
            .map(str::trim)
            .filter(|host| !host.is_empty())
            .map(|host| parse_host(host).ok_or_else(|| bad(host)))
            .collect::<Result<Vec<_>, _>>()?;
        if hosts.is_empty() {
            return Err(bad(text));
        }
        Ok(Self { hosts, chroot: chroot.to_owned() })
    }
}

fn parse_host(text: &str) -> Option<Host> {
    let (name, port) = if let Some(rest) = text.strip_prefix('[') {
        let (name, port) = rest.split_once(']')?;
        (name, if port.is_empty() { None } else { Some(port.strip_prefix(':')?) })
    } else if text.matches(':').count() > 1 {
        // An IPv6 address without brackets, and without a port.
        (text, None)
    } else {
        match text.split_once(':') {
            Some((name, port)) => (name, Some(port)),
            None => (text, None),
        }
    };
    let port = match port {
        Some(port) if port.starts_with('+') => return None,
        Some(port) => port.parse().ok().filter(|&port| port != 0)?,
        None => DEFAULT_PORT,
    };
    let is_name = |c: char| !(c.is_whitespace() || c.is_control() || matches!(c, '[' | ']'));
    (!name.is_empty() && name.chars().all(is_name)).then(|| Host { name: name.to_owned(), port })
}

/// A path that servers would not take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadPath;

/// Checks a path as servers do: absolute, no empty, `.` or `..` names, no control characters.
pub(crate) fn validate_path(path: &str) -> Result<(), BadPath> {
    let rest = path.strip_prefix('/').ok_or(BadPath)?;
    if rest.is_empty() {
        return Ok(());
    }
    let forbidden = |c: char| matches!(c, '\u{0}'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{e000}'..='\u{f8ff}' | '\u{fff0}'..='\u{ffff}');
    if rest.split('/').any(|name| matches!(name, "" | "." | "..")) || rest.contains(forbidden) {
        return Err(BadPath);
    }
    Ok(())
}

#[test]
fn hosts_ports_and_the_chroot_are_told_apart() {
    let parse = |text: &str| text.parse::<ConnectString>();
    let hosts = |text: &str| -> Vec<(String, u16)> {
        parse(text).unwrap().hosts.into_iter().map(|h| (h.name, h.port)).collect()
    };
    assert_eq!(hosts("a:1, b:2,c"), [("a".into(), 1), ("b".into(), 2), ("c".into(), 2181)]);
    assert_eq!(
        hosts("[::1]:7,[::2],::3"),
        [("::1".into(), 7), ("::2".into(), 2181), ("::3".into(), 2181)]
    );
    assert_eq!(parse("a:1/").unwrap().chroot, "");
    assert_eq!(parse("a:1,b:2/kafka/x").unwrap().chroot, "/kafka/x");
    let bad = ["", "/x", ",", "a:b", "a:0", "a:70000", "a:+1", ":1", "a b:1", "[::1", "S::1]:2"];
    for bad in bad.into_iter().chain(["a:1/x/", "a:1//x", "a/../b"]) {
        assert!(parse(bad).is_err(), "{bad}");
    }
}
