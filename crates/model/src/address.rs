//! Where something listens, in one piece of text.

use std::fmt::Display;

/// `host:port`, an IPv6 address in brackets.
#[must_use]
pub fn host_and_port(host: &str, port: impl Display) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

#[test]
fn only_ipv6_addresses_are_in_brackets() {
    assert_eq!(host_and_port("h1.example", 9092), "h1.example:9092");
    assert_eq!(host_and_port("127.0.0.1", 1_u16), "127.0.0.1:1");
    assert_eq!(host_and_port("::1", -1), "[::1]:-1");
}
