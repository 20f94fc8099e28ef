//! Objects in buckets: moto as the service, and a server that looks at the signatures.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{Act, Object, Server, noise, skip};
use crate::process;
use crate::running::{Running, free_port, request};

const LEN: usize = 3_000_001;

/// Reads `address` in a process with these variables and no others of its kind; returns what it says.
fn read(address: &str, variables: &[(&str, &str)]) -> String {
    process::read("bucket::process_that_reads", address, |name| name.starts_with("AWS_"), variables)
}

#[test]
#[ignore = "started by other tests"]
fn process_that_reads() {
    process::read_and_tell(LEN);
}

#[test]
fn requests_are_signed_for_the_region_of_the_bucket() {
    let server = Server::start();
    server.put("/bucket/a%20key", Object::new(noise(LEN)));
    let endpoint = server.url("");
    let keys = [
        ("AWS_ENDPOINT_URL", endpoint.as_str()),
        ("AWS_ACCESS_KEY_ID", "ID"),
        ("AWS_SECRET_ACCESS_KEY", "hunter2"),
        ("AWS_SESSION_TOKEN", "token2"),
    ];
    server.misbehave(|request, _| match request.header("authorization") {
        Some(signed) if signed.contains("/eu-1/s3/aws4_request") => Act::Right,
        _ => Act::Status(301, vec![("x-amz-bucket-region", "eu-1".into())], String::new()),
    });
    assert!(read("s3://bucket/a key", &keys).contains("read all of it"));
    let requests = server.requests();
    let signed = requests.iter().filter_map(|one| one.header("authorization")).collect::<Vec<_>>();
    assert_eq!(signed.len(), requests.len());
    assert!(signed.iter().all(|one| one.contains("Credential=ID/") && one.contains("x-amz-security-token")));
    assert!(requests.iter().all(|one| one.header("x-amz-security-token") == Some("token2")));
    server.misbehave(|_, _| Act::Status(403, vec![], "hunter2".into()));
    let refused = read("s3://bucket/a key", &keys);
    assert!(refused.contains("s3://bucket/a%20key: the server answered 403 Forbidden"), "{refused}");
    assert!(!refused.contains("hunter2") && !refused.contains("token2"), "{refused}");
    // Without credentials nothing is signed.
    server.misbehave(|request, _| match request.header("authorization") {
        None => Act::Right,
        Some(_) => Act::Status(403, vec![], String::new()),
    });
    assert!(read("s3://bucket/a key", &keys[..1]).contains("read all of it"));
    assert!(read("s3://bucket/a key", &keys[..2]).contains("a key without its secret"));
}

/// Stores an object; returns the status line.
fn put(port: u16, path: &str, body: &[u8]) -> std::io::Result<String> {
    Ok(request(port, "PUT", path, &[], body)?.lines().next().unwrap_or_default().to_owned())
}

#[test]
fn moto_serves_an_object() {
    let test = "moto_serves_an_object";
    let port = free_port();
    let mut moto = Command::new("moto_server");
    moto.args(["-p", &port.to_string()]).stdout(Stdio::null()).stderr(Stdio::null());
    let Ok(moto) = moto.spawn() else { return skip(test, "moto_server is missing: pip install 'moto[server]'") };
    let _moto = Running(moto);
    let begun = Instant::now();
    while put(port, "/bucket", b"").is_err() {
        assert!(begun.elapsed() < Duration::from_secs(120), "moto does not answer");
        std::thread::sleep(Duration::from_millis(50));
    }
    let stored = put(port, "/bucket/images/root.sqfs", &noise(LEN)).unwrap();
    assert!(stored.contains("200"), "{stored}");
    let endpoint = format!("http://127.0.0.1:{port}");
    let keys = [
        ("AWS_ENDPOINT_URL", endpoint.as_str()),
        ("AWS_ACCESS_KEY_ID", "testing"),
        ("AWS_SECRET_ACCESS_KEY", "testing"),
    ];
    let said = read("s3://bucket/images/root.sqfs", &keys);
    assert!(said.contains("read all of it"), "{said}");
    let said = read("s3://bucket/images/gone", &keys);
    assert!(said.contains("s3://bucket/images/gone: the server answered 404 Not Found"), "{said}");
}
