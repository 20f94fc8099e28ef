//! HTTPS with certificates that SSL_CERT_FILE names.

use std::path::Path;
use std::process::Output;

use crate::common::{self, Object, noise};
use crate::{certificate, process};

const LEN: usize = 3_000_000;

/// Reads the address in a process that trusts the certificates in `trusted`.
fn read(address: &str, trusted: &Path) -> Output {
    process::again("secure::process_that_reads")
        .envs([("TEST_ADDRESS", address), ("SSL_CERT_FILE", trusted.to_str().unwrap())])
        .output()
        .unwrap()
}

#[test]
fn a_server_is_trusted_by_its_certificate_alone() {
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    if !certificate::make(dir.path()) || !certificate::make(other.path()) {
        return common::skip("a_server_is_trusted_by_its_certificate_alone", "openssl makes no certificate");
    }
    let server = certificate::server(dir.path());
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
