//! `listeners` and what belongs to them, with Kafka's rules and Kafka's words.

use super::error::Problem;
use super::values::Values;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, Ipv6Addr};

/// One socket to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    /// In upper case.
    pub name: String,
    /// Name or address to bind to, an IPv6 address without brackets; `None` (Kafka's empty host) binds to all.
    pub host: Option<String>,
    /// 0 lets the system choose.
    pub port: u16,
    /// Where clients of this listener are told to connect; `None` if `advertised.listeners` leaves it out, so that
    /// it serves but is not made known.
    pub advertised: Option<Advertised>,
    /// How bytes travel.
    pub protocol: SecurityProtocol,
}

/// The address that metadata shows for a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advertised {
    /// `None` means this machine's canonical host name.
    pub host: Option<String>,
    /// 0 means the port that the listener was bound to.
    pub port: u16,
}

/// Kafka's security protocols.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecurityProtocol {
    /// Neither encrypted nor authenticated.
    Plaintext,
    /// TLS.
    Ssl,
    /// SASL over plain TCP.
    SaslPlaintext,
    /// SASL over TLS.
    SaslSsl,
}

impl SecurityProtocol {
    /// As Kafka spells it; upper case only.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Plaintext => "PLAINTEXT",
            Self::Ssl => "SSL",
            Self::SaslPlaintext => "SASL_PLAINTEXT",
            Self::SaslSsl => "SASL_SSL",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        [Self::Plaintext, Self::Ssl, Self::SaslPlaintext, Self::SaslSsl]
            .into_iter()
            .find(|protocol| protocol.name().eq_ignore_ascii_case(text))
    }
}

/// All listeners of a broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listeners {
    /// In the order of `listeners`; never empty.
    pub all: Vec<Listener>,
    /// The name of the one that other brokers use; it is in `all` and advertised.
    pub inter_broker: String,
}

impl Listeners {
    /// The one that other brokers use.
    #[must_use]
    pub fn inter_broker(&self) -> &Listener {
        self.all
            .iter()
            .find(|listener| listener.name == self.inter_broker)
            .expect("checked when parsed")
    }
}

/// Reads every key about listeners; adds what is wrong to `problems` and then answers `None`.
pub(super) fn read(values: &Values, problems: &mut Vec<Problem>) -> Option<Listeners> {
    let before = problems.len();
    let map = match parse_map(&values.text("listener.security.protocol.map").unwrap_or_default()) {
        Ok(map) => map,
        Err(message) => {
            problems.push(Problem::new(
                "listener.security.protocol.map",
                message,
                "write NAME:PROTOCOL pairs with commas between; PROTOCOL is PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL",
            ));
            return None;
        }
    };
    let mut parse = |key: &'static str, text: &str| match parse_list(text, &map) {
        Ok(endpoints) => endpoints,
        Err(message) => {
            problems.push(Problem::new(key, message, "write NAME://host:port with a port from 0 to 65535, several with commas between, for example PLAINTEXT://127.0.0.1:9092"));
            Vec::new()
        }
    };
    let bound = parse("listeners", &values.text("listeners").unwrap_or_default());
    let advertised_text = values.text("advertised.listeners");
    let advertised = advertised_text.as_deref().map(|text| parse("advertised.listeners", text));
    if problems.len() > before {
        return None;
    }

    check_distinct(&bound, values.text("listeners").unwrap_or_default().as_str(), problems);
    let advertised_key = if advertised.is_some() { "advertised.listeners" } else { "listeners" };
    if let Some(advertised) = &advertised {
        check_advertised(
            advertised,
            &bound,
            advertised_text.as_deref().unwrap_or_default(),
            problems,
        );
    }
    if advertised
        .as_ref()
        .unwrap_or(&bound)
        .iter()
        .any(|endpoint| endpoint.host.as_deref() == Some("0.0.0.0"))
    {
        problems.push(Problem::new(
            advertised_key,
            "advertised.listeners cannot use the nonroutable meta-address 0.0.0.0. Use a routable IP address.".into(),
            "leave the host of `listeners` empty to bind to all interfaces, or name in advertised.listeners an address that clients can reach",
        ));
    }
    let all: Vec<Listener> = bound
        .into_iter()
        .map(|endpoint| {
            let advertised = match &advertised {
                None => Some(Advertised { host: endpoint.host.clone(), port: endpoint.port }),
                Some(list) => list
                    .iter()
                    .find(|one| one.name == endpoint.name)
                    .map(|one| Advertised { host: one.host.clone(), port: one.port }),
            };
            Listener {
                name: endpoint.name,
                host: endpoint.host,
                port: endpoint.port,
                advertised,
                protocol: endpoint.protocol,
            }
        })
        .collect();
    for listener in all.iter().filter(|listener| listener.protocol != SecurityProtocol::Plaintext) {
        problems.push(Problem::new(
            "listeners",
            format!(
                "listener {} asks for {}, which this version does not speak",
                listener.name,
                listener.protocol.name()
            ),
            "use a PLAINTEXT listener on a trusted network, or a TLS proxy in front",
        ));
    }
    let inter_broker = inter_broker(values, &map, &all, problems);
    (problems.len() == before)
        .then(|| Listeners { all, inter_broker: inter_broker.unwrap_or_default() })
}

/// `inter.broker.listener.name`, else the listener that `security.inter.broker.protocol` names.
fn inter_broker(
    values: &Values,
    map: &BTreeMap<String, SecurityProtocol>,
    all: &[Listener],
    problems: &mut Vec<Problem>,
) -> Option<String> {
    let (key, name) = match values.text("inter.broker.listener.name") {
        Some(name) => {
            if values.is_set("security.inter.broker.protocol") {
                problems.push(Problem::new(
                    "inter.broker.listener.name",
                    "Only one of inter.broker.listener.name and security.inter.broker.protocol should be set.".into(),
                    "remove security.inter.broker.protocol",
                ));
            }
            let name = name.to_uppercase();
            if !map.contains_key(&name) {
                problems.push(Problem::new(
                    "inter.broker.listener.name",
                    format!("Listener with name {name} defined in inter.broker.listener.name not found in listener.security.protocol.map."),
                    "add it to listener.security.protocol.map",
                ));
                return None;
            }
            ("inter.broker.listener.name", name)
        }
        None => {
            let name =
                values.text("security.inter.broker.protocol").unwrap_or_else(|| "PLAINTEXT".into());
            ("security.inter.broker.protocol", name)
        }
    };
    if all.iter().any(|listener| listener.name == name && listener.advertised.is_some()) {
        return Some(name);
    }
    let names: Vec<_> =
        all.iter().filter(|one| one.advertised.is_some()).map(|one| one.name.as_str()).collect();
    problems.push(Problem::new(
        key,
        format!(
            "inter.broker.listener.name must be a listener name defined in advertised.listeners. The valid options based on currently configured listeners are {}",
            names.join(",")
        ),
        "name one of the advertised listeners in inter.broker.listener.name",
    ));
    None
}

struct Endpoint {
    name: String,
    host: Option<String>,
    port: u16,
    protocol: SecurityProtocol,
}

fn parse_list(
    text: &str,
    map: &BTreeMap<String, SecurityProtocol>,
) -> Result<Vec<Endpoint>, String> {
    let endpoints: Vec<_> = text
        .split(',')
        .map(str::trim)
        .filter(|item| !item.is_empty())
        .map(|item| {
            parse_endpoint(item, map).map_err(|reason| {
                format!("Error creating broker listeners from '{text}': {reason}")
            })
        })
        .collect::<Result<_, _>>()?;
    if endpoints.is_empty() {
        Err("There must be at least one broker advertised listener.".into())
    } else {
        Ok(endpoints)
    }
}

/// Kafka's pattern: `^(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]+)`, greedy.
fn parse_endpoint(
    text: &str,
    map: &BTreeMap<String, SecurityProtocol>,
) -> Result<Endpoint, String> {
    let unable = || format!("Unable to parse {text} to a broker endpoint");
    let (name, address) = text.rsplit_once("://").ok_or_else(unable)?;
    let (host, port) = address.rsplit_once(':').ok_or_else(unable)?;
    let host = host.strip_prefix('[').unwrap_or(host);
    let host = host.strip_suffix(']').unwrap_or(host);
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-%._:".contains(&byte);
    if !host.bytes().all(allowed) || (host.contains(':') && !is_ipv6(host)) {
        return Err(unable());
    }
    let port = port.parse::<u16>().map_err(|_| unable())?;
    let name = name.to_uppercase();
    let protocol = *map
        .get(&name)
        .ok_or_else(|| format!("No security protocol defined for listener {name}"))?;
    Ok(Endpoint { name, host: (!host.is_empty()).then(|| host.to_owned()), port, protocol })
}

/// Also with a zone, `fe80::1%eth0`.
fn is_ipv6(host: &str) -> bool {
    host.split('%').next().is_some_and(|address| address.parse::<Ipv6Addr>().is_ok())
}

/// A name given twice takes the last protocol.
fn parse_map(text: &str) -> Result<BTreeMap<String, SecurityProtocol>, String> {
    text.split(',')
        .map(str::trim)
        .filter(|item| !item.is_empty())
        .map(|item| {
            let (name, protocol) =
                item.split_once(':').ok_or_else(|| format!("{item} is not a listener name and a protocol"))?;
            let protocol = protocol.trim();
            let parsed = SecurityProtocol::parse(protocol)
                .ok_or_else(|| format!("Invalid security protocol `{protocol}` defined in listener.security.protocol.map"))?;
            Ok((name.trim().to_uppercase(), parsed))
        })
        .collect()
}

/// Names must differ; so must ports, unless chosen by the system or of one IPv4 and one IPv6 address.
fn check_distinct(endpoints: &[Endpoint], text: &str, problems: &mut Vec<Problem>) {
    check_names(endpoints, "listeners", text, problems);
    let is_v4 = |endpoint: &&Endpoint| {
        endpoint.host.as_deref().is_some_and(|host| host.parse::<Ipv4Addr>().is_ok())
    };
    let is_v6 = |endpoint: &&Endpoint| endpoint.host.as_deref().is_some_and(is_ipv6);
    let ports: BTreeSet<u16> = endpoints.iter().map(|endpoint| endpoint.port).collect();
    for port in ports.into_iter().filter(|&port| port != 0) {
        let same: Vec<_> = endpoints.iter().filter(|endpoint| endpoint.port == port).collect();
        let v4 = same.iter().copied().filter(|one| is_v4(one)).count();
        let v6 = same.iter().copied().filter(|one| is_v6(one)).count();
        let named = same.len() - v4 - v6;
        let message = if same.len() < 2 || (v4, v6, named) == (1, 1, 0) {
            continue;
        } else if named > 1 {
            format!("Each listener must have a different port, listeners: {text}")
        } else if v4 + v6 == 2 {
            format!(
                "If you have two listeners on the same port then one needs to be IPv4 and the other IPv6, listeners: {text}, port: {port}"
            )
        } else {
            format!(
                "Each listener must have a different port unless exactly one listener has an IPv4 address and the other IPv6 address, listeners: {text}, port: {port}"
            )
        };
        problems.push(Problem::new("listeners", message, "give each listener a port of its own"));
    }
}

fn check_names(endpoints: &[Endpoint], key: &'static str, text: &str, problems: &mut Vec<Problem>) {
    let twice = endpoints
        .iter()
        .enumerate()
        .any(|(index, one)| endpoints[..index].iter().any(|other| other.name == one.name));
    if twice {
        problems.push(Problem::new(
            key,
            format!("Each listener must have a different name, listeners: {text}"),
            "give each listener a name of its own and map it in listener.security.protocol.map",
        ));
    }
}

fn check_advertised(
    advertised: &[Endpoint],
    bound: &[Endpoint],
    text: &str,
    problems: &mut Vec<Problem>,
) {
    check_names(advertised, "advertised.listeners", text, problems);
    let unknown: Vec<_> = advertised
        .iter()
        .filter(|one| !bound.iter().any(|other| other.name == one.name))
        .map(|one| one.name.as_str())
        .collect();
    if !unknown.is_empty() {
        let names = |list: &[Endpoint]| {
            list.iter().map(|one| one.name.as_str()).collect::<Vec<_>>().join(",")
        };
        problems.push(Problem::new(
            "advertised.listeners",
            format!(
                "advertised.listeners listener names must be equal to or a subset of the ones defined in listeners. Found {}. The valid options based on the current configuration are {}",
                names(advertised),
                names(bound)
            ),
            "advertise only names that `listeners` has",
        ));
    }
}
