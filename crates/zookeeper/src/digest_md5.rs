//! The client's side of SASL DIGEST-MD5, as ZooKeeper's servers use it. Source: RFC 2831.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use md5::{Digest, Md5};
use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

/// The service's name and host, which Java's client and server agree on without asking DNS.
const DIGEST_URI: &str = "zookeeper/zk-sasl-md5";

/// A name and its password.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// The user.
    pub username: String,
    /// The password.
    pub password: String,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").field("username", &self.username).finish_non_exhaustive()
    }
}

/// One exchange: the server's challenge, our answer, and the server's proof that it knows the password.
#[derive(Debug)]
pub(crate) struct DigestMd5 {
    login: Login,
    cnonce: String,
    /// What the server must answer once it was given ours.
    proof: Option<String>,
}

impl DigestMd5 {
    pub(crate) fn new(login: Login, random: [u8; 24]) -> Self {
        Self { login, cnonce: STANDARD.encode(random), proof: None }
    }

    /// Answers the server's token; `None` once the server has proved itself.
    pub(crate) fn step(&mut self, token: &[u8]) -> Result<Option<Vec<u8>>, String> {
        let token = std::str::from_utf8(token).map_err(|_| "a challenge that is no text")?;
        let directives = parse(token).ok_or("a challenge that cannot be read")?;
        if let Some(proof) = &self.proof {
            return match directives.get("rspauth") {
                Some(found) if found == proof => Ok(None),
                _ => Err("the server does not know the password".into()),
            };
        }
        let nonce = directives.get("nonce").ok_or("the server offers no DIGEST-MD5")?;
        let realm = directives.get("realm").map_or("", String::as_str);
        if directives.get("qop").is_some_and(|qop| !qop.split(',').any(|one| one.trim() == "auth"))
        {
            return Err("the server asks for more than authentication".into());
        }
        let (answer, proof) = self.digests(realm, nonce);
        let mut text = format!(
            "charset=utf-8,username={},realm={},nonce={},nc=00000001,cnonce={},",
            quoted(&self.login.username),
            quoted(realm),
            quoted(nonce),
            quoted(&self.cnonce)
        );
        write!(text, "digest-uri=\"{DIGEST_URI}\",maxbuf=65536,response={answer},qop=auth")
            .expect("writing to a string");
        self.proof = Some(proof);
        Ok(Some(text.into_bytes()))
    }

    /// Our answer and the server's.
    fn digests(&self, realm: &str, nonce: &str) -> (String, String) {
        let Login { username, password } = &self.login;
        let secret = Md5::digest(latin(&format!("{username}:{realm}:{password}")));
        let mut a1 = Md5::new();
        a1.update(secret);
        a1.update(format!(":{nonce}:{}", self.cnonce).as_bytes());
        let a1 = hex(&a1.finalize());
        let response = |method: &str| {
            let a2 = hex(&Md5::digest(format!("{method}:{DIGEST_URI}").as_bytes()));
            let text = format!("{a1}:{nonce}:00000001:{}:auth:{a2}", self.cnonce);
            hex(&Md5::digest(text.as_bytes()))
        };
        (response("AUTHENTICATE"), response(""))
    }
}

/// As ISO 8859-1 where that can hold it, else as UTF-8: the RFC's way for the secret's parts.
fn latin(text: &str) -> Vec<u8> {
    let latin: Option<Vec<u8>> = text.chars().map(|c| u8::try_from(u32::from(c)).ok()).collect();
    latin.unwrap_or_else(|| text.as_bytes().to_vec())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a string");
        text
    })
}

fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        if matches!(c, '"' | '\\') {
            quoted.push('\\');
        }
        quoted.push(c);
    }
    quoted.push('"');
    quoted
}

/// `name=value` and `name="value"` with commas between; the first of a name counts.
fn parse(text: &str) -> Option<BTreeMap<String, String>> {
    let mut directives = BTreeMap::new();
    let mut rest = text.trim_start_matches([',', ' ']);
    while !rest.is_empty() {
        let (name, after) = rest.split_once('=')?;
        let value;
        if let Some(mut after) = after.strip_prefix('"') {
            let mut text = String::new();
            loop {
                let c = after.chars().next()?;
                after = &after[c.len_utf8()..];
                match c {
                    '"' => break,
                    '\\' => {
                        let escaped = after.chars().next()?;
                        after = &after[escaped.len_utf8()..];
                        text.push(escaped);
                    }
                    c => text.push(c),
                }
            }
            (value, rest) = (text, after);
        } else {
            let end = after.find(',').unwrap_or(after.len());
            (value, rest) = (after[..end].trim().to_owned(), &after[end..]);
        }
        directives.entry(name.trim().to_ascii_lowercase()).or_insert(value);
        rest = rest.trim_start_matches([',', ' ']);
    }
    Some(directives)
}

#[test]
fn the_answer_is_what_a_server_computes_and_the_servers_proof_is_checked() {
    let login = Login { username: "kafka".into(), password: "kafka-secret".into() };
    let mut digest = DigestMd5::new(login.clone(), [0; 24]);
    let challenge = br#"realm="zk-sasl-md5",nonce="OA6MG9tEQGm2hh",charset=utf-8,algorithm=md5-sess,qop="auth""#;
    let answer = String::from_utf8(digest.step(challenge).unwrap().unwrap()).unwrap();
    let fields = parse(&answer).unwrap();
    assert_eq!(fields["username"], "kafka");
    assert_eq!(fields["digest-uri"], DIGEST_URI);
    assert_eq!(fields["cnonce"], "A".repeat(32));
    // Computed with Python's hashlib from the RFC's formula.
    assert_eq!(fields["response"], EXPECTED_RESPONSE);
    assert!(digest.step(b"rspauth=00000000000000000000000000000000").is_err());
    let proof = format!("rspauth={EXPECTED_PROOF}");
    assert_eq!(digest.step(proof.as_bytes()), Ok(None));
    assert!(!format!("{login:?}").contains("secret"));

    for bad in [&b""[..], b"realm=\"x", b"nonsense", b"\xff", b"realm=\"r\",qop=auth"] {
        let login = Login { username: "u".into(), password: "p".into() };
        assert!(DigestMd5::new(login, [0; 24]).step(bad).is_err(), "{bad:?}");
    }
}
#[cfg(test)]
const EXPECTED_RESPONSE: &str = "3b908f08547d3e5fdcfa8ed8d7d2c97e";
#[cfg(test)]
const EXPECTED_PROOF: &str = "0e510fc2e65b93ca72dececf0eee40d8";
