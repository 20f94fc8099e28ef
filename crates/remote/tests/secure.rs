//! HTTPS with certificates that SSL_CERT_FILE names.

mod common;
#[path = "common/process.rs"]
mod process;

use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;

use common::{Object, Server, noise};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

const LEN: usize = 3_000_000;

/// Makes a key and a certificate for `localhost` that signs itself; false without openssl.
fn certificate(dir: &Path) -> bool {
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"])
        .args(["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE", "-keyout", "key.pem", "-out", "cert.pem"])
        .current_dir(dir)
        .output();
    made.is_ok_and(|made| made.status.success())
}

fn server(dir: &Path) -> Server {
    let cert = CertificateDer::from_pem_file(dir.join("cert.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(dir.join("key.pem")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = Arc::new(config.with_no_client_auth().with_single_cert(vec![cert], key).unwrap());
    Server::with(move |stream| StreamOwned::new(ServerConnection::new(Arc::clone(&config)).unwrap(), stream))
}

/// Reads the address in a process that trusts the certificates in `trusted`.
fn read(address: &str, trusted: &Path) -> Output {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "process_that_reads", "--ignored", "--nocapture"])
        .envs([("TEST_ADDRESS", address), ("SSL_CERT_FILE", trusted.to_str().unwrap())])
        .output()
        .unwrap()
}

#[test]
fn a_server_is_trusted_by_its_certificate_alone() {
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    if !certificate(dir.path()) || !certificate(other.path()) {
        return common::skip("a_server_is_trusted_by_its_certificate_alone", "openssl makes no certificate");
    }
    let server = server(dir.path());
    server.put("/image", Object::new(noise(LEN)));
    let secure = |host: &str| format!("https://{host}:{}/image", server.address().port());
    let said = |output: &Output| String::from_utf8_lossy(&output.stdout).into_owned();
    let trusted = read(&secure("localhost"), &dir.path().join("cert.pem"));
    assert!(said(&trusted).contains("read all of it"), "{}", said(&trusted));
    for (host, trusted) in [("localhost", other.path().join("cert.pem")), ("127.0.0.1", dir.path().join("cert.pem"))] {
        let refused = said(&read(&secure(host), &trusted));
        assert!(refused.contains("no secure connection: ") && refused.contains("SSL_CERT_FILE"), "{refused}");
    }
    // Plain HTTP at that port is no answer either.
    let plain = read(&secure("localhost").replace("https", "http"), &dir.path().join("cert.pem"));
    assert!(said(&plain).contains("localhost"), "{}", said(&plain));
}

#[test]
#[ignore = "started by the test above"]
fn process_that_reads() {
    process::read_and_tell(LEN);
}
