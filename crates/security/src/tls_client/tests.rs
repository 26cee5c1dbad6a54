//! Clients and servers that shake hands in memory.

use super::*;
use crate::{StoreType, handshake_failure};
use base64::prelude::{BASE64_STANDARD, Engine as _};
use p12_keystore::{Certificate as P12Certificate, PrivateKey, PrivateKeyChain};
use p12_keystore::{EncryptionAlgorithm, KeyStore, KeyStoreEntry, MacAlgorithm};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConnection, RootCertStore, ServerConfig, ServerConnection};
use std::io;
use std::path::Path;
use tempfile::TempDir;

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority(name: &str) -> Authority {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// A certificate and its key.
struct Party {
    certificate: CertificateDer<'static>,
    key: KeyPair,
}

fn issue(by: &Authority, names: &[&str], change: impl FnOnce(&mut CertificateParams)) -> Party {
    let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
    let mut params = CertificateParams::new(names).unwrap();
    change(&mut params);
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, by).unwrap().der().clone();
    Party { certificate, key }
}

impl Party {
    fn pem(&self) -> String {
        let certificate = pem("CERTIFICATE", &self.certificate);
        format!("{}{certificate}", self.key.serialize_pem())
    }
}

fn pem(label: &str, der: &[u8]) -> String {
    let digits = BASE64_STANDARD.encode(der);
    let lines: Vec<_> = digits.as_bytes().chunks(64).map(String::from_utf8_lossy).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}

fn file(folder: &TempDir, name: &str, bytes: impl AsRef<[u8]>) -> StoreFile {
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    StoreFile { path, password: None, kind: None }
}

fn settings(trust_store: StoreFile) -> TlsClientSettings {
    TlsClientSettings {
        trust_store,
        key_store: None,
        versions: vec![TlsVersion::Tls12],
        cipher_suites: Vec::new(),
        check_host_name: true,
    }
}

fn server(party: &Party, clients: Option<&Authority>) -> ServerConfig {
    let builder = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap();
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(authority) => {
            let mut roots = RootCertStore::empty();
            roots.add(authority.der().clone()).unwrap();
            let provider = Arc::new(aws_lc_rs::default_provider());
            let verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
            builder.with_client_cert_verifier(verifier.unwrap())
        }
    };
    let key = PrivateKeyDer::try_from(party.key.serialize_der()).unwrap();
    builder.with_single_cert(vec![party.certificate.clone()], key).unwrap()
}

/// The version that was agreed on, or what went wrong.
fn shake(client: &TlsClient, name: &str, server: ServerConfig) -> Result<String, String> {
    let (config, server_name) = client.to(name, "127.0.0.1".parse().unwrap());
    let mut client = ClientConnection::new(config, server_name).unwrap();
    let mut server = ServerConnection::new(Arc::new(server)).unwrap();
    let failed = |error: rustls::Error| {
        handshake_failure(&io::Error::new(io::ErrorKind::InvalidData, error))
    };
    for _ in 0..10 {
        let mut sent = Vec::new();
        client.write_tls(&mut sent).unwrap();
        server.read_tls(&mut &sent[..]).unwrap();
        // What the server thinks of it, it tells the client.
        let _ = server.process_new_packets();
        let mut sent = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut sent).unwrap();
        }
        client.read_tls(&mut &sent[..]).unwrap();
        client.process_new_packets().map_err(failed)?;
    }
    assert!(!client.is_handshaking() && !server.is_handshaking());
    Ok(format!("{:?}", client.protocol_version().unwrap()))
}

fn pkcs12(party: &Party, authority: &Authority, password: &str, old: bool) -> Vec<u8> {
    let certificate = |der: &[u8]| P12Certificate::from_der(der).unwrap();
    let chain = PrivateKeyChain::new(
        "1",
        PrivateKey::from_der(&party.key.serialize_der()).unwrap(),
        [certificate(&party.certificate), certificate(authority.der())],
    );
    let mut store = KeyStore::new();
    store.add_entry("mine", KeyStoreEntry::PrivateKeyChain(chain));
    let writer = store.writer(password);
    let writer = if old {
        writer
            .encryption_algorithm(EncryptionAlgorithm::PbeWithShaAnd3KeyTripleDesCbc)
            .mac_algorithm(MacAlgorithm::HmacSha1)
    } else {
        writer
    };
    writer.write().unwrap()
}

#[test]
fn pem_and_pkcs12_name_the_same_parties() {
    let folder = tempfile::tempdir().unwrap();
    let authority = authority("ours");
    let (one, me) = (issue(&authority, &["zk.test"], |_| ()), issue(&authority, &["me"], |_| ()));
    let mut trusted = KeyStore::new();
    let certificate = P12Certificate::from_der(authority.der()).unwrap();
    trusted.add_entry("ca", KeyStoreEntry::Certificate(certificate));
    let with_password = |file| StoreFile { password: Some("secret".into()), ..file };
    let trust_stores = [
        file(&folder, "ca.pem", pem("CERTIFICATE", authority.der())),
        with_password(file(&folder, "ca.p12", trusted.writer("secret").write().unwrap())),
        // What keytool has written under this name since Java 9.
        with_password(file(&folder, "ca.jks", trusted.writer("secret").write().unwrap())),
    ];
    let key_stores = [
        file(&folder, "me.pem", me.pem()),
        with_password(file(&folder, "me.p12", pkcs12(&me, &authority, "secret", false))),
        with_password(file(&folder, "old.pfx", pkcs12(&me, &authority, "secret", true))),
        StoreFile { kind: Some(StoreType::Pem), ..file(&folder, "me", me.pem()) },
    ];
    for trust_store in &trust_stores {
        for key_store in &key_stores {
            for (version, agreed) in
                [(TlsVersion::Tls12, "TLSv1_2"), (TlsVersion::Tls13, "TLSv1_3")]
            {
                let settings = TlsClientSettings {
                    key_store: Some(key_store.clone()),
                    versions: vec![version],
                    ..settings(trust_store.clone())
                };
                let client = TlsClient::new(&settings).unwrap();
                let found = shake(&client, "zk.test", server(&one, Some(&authority)));
                assert_eq!(found.as_deref(), Ok(agreed), "{settings:?}");
            }
        }
    }
}

#[test]
fn a_server_is_refused_with_the_reason_and_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let (ours, other) = (authority("ours"), authority("other"));
    let trust_store = file(&folder, "ca.pem", pem("CERTIFICATE", ours.der()));
    let client = TlsClient::new(&settings(trust_store)).unwrap();
    let refusal = |party: &Party, name: &str| {
        shake(&client, name, server(party, None)).expect_err("it is refused")
    };
    let stranger = refusal(&issue(&other, &["zk.test"], |_| ()), "zk.test");
    assert!(stranger.contains("ca.pem") && stranger.contains("add"), "{stranger}");
    let misnamed = refusal(&issue(&ours, &["a.test", "b.test"], |_| ()), "zk.test");
    assert!(misnamed.contains("a.test, b.test") && misnamed.contains("zk.test"), "{misnamed}");
    let expired = refusal(
        &issue(&ours, &["zk.test"], |params| params.not_after = date_time_ymd(2001, 1, 1)),
        "zk.test",
    );
    assert!(expired.contains("expired") && expired.contains("renew"), "{expired}");
    let early = refusal(
        &issue(&ours, &["zk.test"], |params| params.not_before = date_time_ymd(3000, 1, 1)),
        "zk.test",
    );
    assert!(early.contains("not valid yet"), "{early}");
    // It wants to know who we are.
    let party = issue(&ours, &["zk.test"], |_| ());
    let unknown = shake(&client, "zk.test", server(&party, Some(&ours))).unwrap_err();
    assert!(unknown.contains("key store"), "{unknown}");
}

#[test]
fn a_host_is_known_by_name_address_or_common_name() {
    let folder = tempfile::tempdir().unwrap();
    let ours = authority("ours");
    let trust_store = file(&folder, "ca.pem", pem("CERTIFICATE", ours.der()));
    let client = TlsClient::new(&settings(trust_store.clone())).unwrap();
    let common = |name: &'static str| {
        move |params: &mut CertificateParams| {
            params.distinguished_name.push(DnType::CommonName, name)
        }
    };
    let with_address = issue(&ours, &["127.0.0.1"], |_| ());
    let with_wildcard = issue(&ours, &["*.zk.test"], |_| ());
    let with_common_name = issue(&ours, &[], common("zk1.zk.test"));
    // A common name counts only where there is no other.
    let with_both = issue(&ours, &["other.test"], common("zk1.zk.test"));
    for (party, name, known) in [
        (&with_address, "whatever.test", true),
        (&with_address, "127.0.0.1", true),
        (&with_wildcard, "zk1.zk.test", true),
        (&with_wildcard, "zk.test", false),
        (&with_common_name, "ZK1.zk.test", true),
        (&with_common_name, "zk2.zk.test", false),
        (&with_both, "zk1.zk.test", false),
    ] {
        let found = shake(&client, name, server(party, None));
        assert_eq!(found.is_ok(), known, "{name}: {found:?}");
    }
    let careless = TlsClientSettings { check_host_name: false, ..settings(trust_store) };
    let careless = TlsClient::new(&careless).unwrap();
    assert!(shake(&careless, "zk2.zk.test", server(&with_both, None)).is_ok());
    let stranger = issue(&authority("other"), &["zk.test"], |_| ());
    assert!(shake(&careless, "zk.test", server(&stranger, None)).is_err(), "still not trusted");
}

/// As with Java, which asks for no chain then; what `openssl req -x509` makes says that it is an authority too.
#[test]
fn a_certificate_in_the_trust_store_is_trusted_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let own = |year| {
        let mut params = CertificateParams::new(vec!["zk.test".to_owned()]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.not_after = date_time_ymd(year, 1, 1);
        let key = KeyPair::generate().unwrap();
        Party { certificate: params.self_signed(&key).unwrap().der().clone(), key }
    };
    for (year, valid) in [(3000, true), (2001, false)] {
        let party = own(year);
        let trust_store = file(&folder, "own.pem", pem("CERTIFICATE", &party.certificate));
        let client = TlsClient::new(&settings(trust_store)).unwrap();
        let found = shake(&client, "zk.test", server(&party, None));
        assert_eq!(found.is_ok(), valid, "{found:?}");
        let misnamed = shake(&client, "other.test", server(&party, None));
        assert!(misnamed.is_err());
    }
}

#[test]
fn a_file_that_cannot_be_used_is_named_with_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let ours = authority("ours");
    let me = issue(&ours, &["me"], |_| ());
    let good = file(&folder, "ca.pem", pem("CERTIFICATE", ours.der()));
    let store = pkcs12(&me, &ours, "secret", false);
    let missing = StoreFile { path: Path::new("/no/such.p12").into(), password: None, kind: None };
    let wrong = StoreFile { password: Some("wrong".into()), ..file(&folder, "a.p12", &store) };
    let other_key = format!(
        "{}{}",
        KeyPair::generate().unwrap().serialize_pem(),
        pem("CERTIFICATE", &me.certificate)
    );
    for (key_store, says) in [
        (missing, "cannot be read"),
        (wrong, "password is wrong"),
        (file(&folder, "b.jks", [0xfe, 0xed, 0xfe, 0xed, 0, 0, 0, 2]), "JKS"),
        (file(&folder, "c.p12", "no store"), "not PKCS #12"),
        (file(&folder, "d.p12", &store[..store.len() / 2]), "PKCS #12"),
        (file(&folder, "e.key", me.pem()), "its name"),
        (file(&folder, "f.pem", pem("CERTIFICATE", &me.certificate)), "no private key"),
        (file(&folder, "g.pem", me.key.serialize_pem()), "no private key"),
        (file(&folder, "h.pem", other_key), "cannot be used with its certificate"),
        (file(&folder, "i.pem", pem("ENCRYPTED PRIVATE KEY", b"junk")), "cannot be decrypted"),
        (file(&folder, "j.pem", ""), "no private key"),
    ] {
        let name = key_store.path.display().to_string();
        let settings = TlsClientSettings { key_store: Some(key_store), ..settings(good.clone()) };
        match TlsClient::new(&settings) {
            Err(TlsError::KeyStore(error)) => {
                let text = error.to_string();
                assert!(text.contains(&name) && text.contains(says), "{text}");
                assert!(!error.remedy().is_empty());
            }
            other => panic!("{name}: {other:?}"),
        }
    }
    let empty = TlsClient::new(&settings(file(&folder, "k.pem", "")));
    assert!(matches!(empty, Err(TlsError::TrustStore(_))), "{empty:?}");
    let junk = file(&folder, "l.pem", pem("CERTIFICATE", b"junk"));
    assert!(matches!(TlsClient::new(&settings(junk)), Err(TlsError::TrustStore(_))));
}

#[test]
fn a_key_may_be_encrypted_in_pem() {
    let folder = tempfile::tempdir().unwrap();
    let ours = authority("ours");
    let (one, me) = (issue(&ours, &["zk.test"], |_| ()), issue(&ours, &["me"], |_| ()));
    let salt = [7; 16];
    let scheme =
        pkcs8::pkcs5::pbes2::Parameters::generate_pbkdf2_sha256_aes256cbc(1000, &salt, salt);
    let der = me.key.serialize_der();
    let key = pkcs8::PrivateKeyInfoRef::try_from(&der[..]).unwrap();
    let encrypted = key.encrypt_with_params(scheme.unwrap(), "secret").unwrap();
    let text =
        pem("ENCRYPTED PRIVATE KEY", encrypted.as_bytes()) + &pem("CERTIFICATE", &me.certificate);
    let store = file(&folder, "me.pem", text);
    let good = file(&folder, "ca.pem", pem("CERTIFICATE", ours.der()));
    let settings = |password: &str| TlsClientSettings {
        key_store: Some(StoreFile { password: Some(password.into()), ..store.clone() }),
        ..settings(good.clone())
    };
    let client = TlsClient::new(&settings("secret")).unwrap();
    shake(&client, "zk.test", server(&one, Some(&ours))).unwrap();
    let wrong = TlsClient::new(&settings("wrong"));
    assert!(matches!(wrong, Err(TlsError::KeyStore(_))), "{wrong:?}");
}

#[test]
fn cipher_suites_go_by_javas_names() {
    let folder = tempfile::tempdir().unwrap();
    let ours = authority("ours");
    let trust_store = file(&folder, "ca.pem", pem("CERTIFICATE", ours.der()));
    let with = |names: &[&str]| {
        let cipher_suites = names.iter().map(|&name| name.to_owned()).collect();
        TlsClient::new(&TlsClientSettings { cipher_suites, ..settings(trust_store.clone()) })
    };
    with(&["TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "TLS_AES_256_GCM_SHA384"]).unwrap();
    for bad in ["TLS_RSA_WITH_AES_128_CBC_SHA", "TLS_AES_256_GCM_SHA384"] {
        let error = with(&[bad]).unwrap_err();
        assert!(matches!(error, TlsError::CipherSuites(_)), "{error}");
    }
    assert!("TLSv1.1".parse::<TlsVersion>().is_err() && "TLSv1.3".parse::<TlsVersion>().is_ok());
}
