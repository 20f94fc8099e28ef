//! Images in registries: the registry of the distribution project, and a server that asks for tokens.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use crate::common::{Act, Object, Server, noise, skip};
use crate::process;
use crate::running::{Running, free_port, request};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use ring::digest::{SHA256, digest};

const LEN: usize = 3_000_001;
const IMAGE: &str = "application/vnd.sylabs.image.layer.v1.squashfs";

fn sha256(bytes: &[u8]) -> String {
    let hex: String = digest(&SHA256, bytes).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

fn manifest(layer: &str, len: usize) -> String {
    format!(
        "{{\"schemaVersion\":2,\"mediaType\":\"application/vnd.oci.image.manifest.v1+json\",\"config\":\
         {{\"mediaType\":\"application/vnd.oci.empty.v1+json\",\"digest\":\"{}\",\"size\":2}},\"layers\":[\
         {{\"mediaType\":\"{IMAGE}\",\"digest\":\"{layer}\",\"size\":{len}}}]}}",
        sha256(b"{}")
    )
}

/// Reads `address` in a process with these variables and no others that name logins; returns what it says.
fn read(address: &str, variables: &[(&str, &str)]) -> String {
    let logins = ["REGISTRY_AUTH_FILE", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "DOCKER_CONFIG"];
    process::read("registry::process_that_reads", address, |name| logins.contains(&name), variables)
}

#[test]
#[ignore = "started by other tests"]
fn process_that_reads() {
    process::read_and_tell(LEN);
}

/// A server with the manifest `v1` of an image in the repository `team/root`.
fn registry() -> (Server, String) {
    let server = Server::start();
    let layer = sha256(&noise(LEN));
    let text = manifest(&layer, LEN);
    server.put("/v2/team/root/manifests/v1", Object::new(text.clone().into_bytes()));
    server.put(&format!("/v2/team/root/manifests/{}", sha256(text.as_bytes())), Object::new(text.into_bytes()));
    server.put(&format!("/v2/team/root/blobs/{layer}"), Object::new(noise(LEN)));
    (server, layer)
}

#[test]
fn tags_and_digests_lead_to_the_layer() {
    let (server, layer) = registry();
    let address = server.address();
    let list = sha256(manifest(&layer, LEN).as_bytes());
    for reference in [":v1".into(), format!("@{list}"), format!("@{layer}"), format!(":other@{list}")] {
        let said = read(&format!("oci://{address}/team/root{reference}"), &[]);
        assert!(said.contains("read all of it"), "{reference}: {said}");
    }
    assert!(server.requests().iter().all(|one| one.header("authorization").is_none()));
    let said = read(&format!("oci://{address}/team/root"), &[]);
    assert!(said.contains(&format!("oci://{address}/team/root:latest: the server answered 404 Not Found")), "{said}");
    // A passing failure while a manifest is read is tried again, also of one that a list names.
    let child = sha256(manifest(&layer, LEN).as_bytes());
    let list = format!(
        "{{\"schemaVersion\":2,\"mediaType\":\"application/vnd.oci.image.index.v1+json\",\"manifests\":[{{\"mediaType\":\
         \"application/vnd.oci.image.manifest.v1+json\",\"digest\":\"{child}\",\"size\":1}}]}}"
    );
    server.put("/v2/team/root/manifests/list", Object::new(list.into_bytes()));
    for (tag, failing, status) in [("v1", "v1", 503), ("v1", "v1", 500), ("list", &*child, 503), ("list", &*child, 500)]
    {
        let failing = format!("/v2/team/root/manifests/{failing}");
        let failures = AtomicUsize::new(0);
        server.misbehave(move |request, _| {
            let fails = request.path == failing && failures.fetch_add(1, Ordering::SeqCst) == 0;
            if fails { Act::Status(status, vec![], String::new()) } else { Act::Right }
        });
        let said = read(&format!("oci://{address}/team/root:{tag}"), &[]);
        assert!(said.contains("read all of it"), "{tag}, {status}: {said}");
    }
}

#[test]
fn refusals_say_what_to_do() {
    let (server, _) = registry();
    let address = format!("oci://{}/team/root:v1", server.address());
    let with_login = address.replace("oci://", "oci://me:wrong@");
    let basic = ("WWW-Authenticate", "Basic realm=\"x\"".to_owned());
    let bearer = ("WWW-Authenticate", format!("Bearer realm=\"{}\"", server.url("/token")));
    for (refusal, address, told) in [
        (Act::Status(401, vec![], String::new()), &address, "gives no access without a login; log in with"),
        (
            Act::Status(401, vec![basic.clone()], String::new()),
            &address,
            "gives no access without a login; log in with",
        ),
        (Act::Status(401, vec![basic], String::new()), &with_login, "refused the login to the registry; log in again"),
        (
            Act::Status(401, vec![bearer], String::new()),
            &address,
            "/token answered 410 Gone to the request for a token",
        ),
        (Act::Status(403, vec![], String::new()), &with_login, "answered 403 Forbidden; log in with"),
        (Act::Status(302, vec![("Location", "/v2".into())], String::new()), &address, "more than 5 times; check the"),
    ] {
        let shown = format!("{refusal:?}");
        server.misbehave(move |request, _| match request.path.starts_with("/token") {
            true => Act::Status(410, vec![], String::new()),
            false => refusal.clone(),
        });
        let said = read(address, &[]);
        assert!(said.contains(told) && !said.contains("wrong"), "{shown}: {said}");
    }
}

#[test]
fn what_a_digest_does_not_prove_is_refused() {
    let (server, layer) = registry();
    let address = server.address();
    let other = sha256(b"other");
    server.put(&format!("/v2/team/root/manifests/{other}"), Object::new(manifest(&layer, LEN).into_bytes()));
    let said = read(&format!("oci://{address}/team/root@{other}"), &[]);
    assert!(said.contains("a manifest that does not have the digest"), "{said}");
    server.put("/v2/team/root/manifests/short", Object::new(manifest(&layer, LEN - 1).into_bytes()));
    let said = read(&format!("oci://{address}/team/root:short"), &[]);
    assert!(said.contains("an object of 3000001 bytes, but its manifest says 3000000"), "{said}");
    server.put("/v2/team/root/manifests/text", Object::new(b"text".to_vec()));
    assert!(read(&format!("oci://{address}/team/root:text"), &[]).contains("its manifest cannot be read"));
}

#[test]
fn tokens_are_requested_renewed_and_kept_from_others() {
    let (server, _) = registry();
    let store = Server::start();
    store.put("/store", Object::new(noise(LEN)));
    let (there, realm, registry) = (store.url("/store"), store.url("/token"), server.address());
    // The store of the tokens counts them; the registry takes one for three requests only.
    let wanted = BASE64_STANDARD.encode("me:hunter2");
    let login = format!("Basic {wanted}");
    let asked = Arc::new(std::sync::Mutex::new(0));
    let given = Arc::clone(&asked);
    store.misbehave(move |request, _| {
        if !request.path.starts_with("/token") {
            assert_eq!(request.header("authorization"), None);
            return Act::Right;
        }
        assert!(request.path.contains("scope=repository%3Ateam/root%3Apull") && request.path.contains("service=here"));
        if request.header("authorization") != Some(&login) {
            return Act::Status(401, vec![], "hunter2".into());
        }
        let mut asked = given.lock().unwrap();
        *asked += 1;
        Act::Status(200, vec![], format!("{{\"token\": \"token{asked}\"}}"))
    });
    let current = Arc::clone(&asked);
    server.misbehave(move |request, number| {
        let token = format!("Bearer token{}", current.lock().unwrap());
        let stale = number % 4 == 0 && request.path.contains("blobs");
        if request.header("authorization") != Some(&token) || stale {
            let header = format!("Bearer realm=\"{realm}\",service=\"here\",scope=\"repository:team/root:pull\"");
            return Act::Status(401, vec![("WWW-Authenticate", header)], String::new());
        }
        if request.path.contains("/blobs/") {
            return Act::Status(307, vec![("Location", there.clone())], String::new());
        }
        Act::Right
    });
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("auth.json");
    std::fs::write(&file, format!("{{\"auths\": {{\"{registry}\": {{\"auth\": \"{wanted}\"}}}}}}")).unwrap();
    let address = format!("oci://{registry}/team/root:v1");
    let said = read(&address, &[("REGISTRY_AUTH_FILE", file.to_str().unwrap())]);
    assert!(said.contains("read all of it"), "{said}");
    assert!(*asked.lock().unwrap() >= 1);
    // User and password in the address do, too, and are not shown.
    let said = read(&address.replace("oci://", "oci://me:hunter2@"), &[]);
    assert!(said.contains("read all of it"), "{said}");
    for wrong in [address.replace("oci://", "oci://me:wrong@"), address] {
        let said = read(&wrong, &[]);
        let told = if wrong.contains("me:") { "refused the login" } else { "gives no access without a login" };
        assert!(said.contains(told) && !said.contains("hunter2") && !said.contains("me:"), "{said}");
    }
}

/// Opening requests the first and the last bytes at the same time. A registry that takes only the newest token refuses one
/// of two threads that both request a token.
#[test]
fn threads_that_are_refused_at_once_share_a_new_token() {
    let (server, _) = registry();
    let store = Server::start();
    let asked = Arc::new(AtomicUsize::new(0));
    let (given, current) = (Arc::clone(&asked), Arc::clone(&asked));
    store.misbehave(move |_, _| {
        let number = given.fetch_add(1, Ordering::SeqCst) + 1;
        Act::Status(200, vec![], format!("{{\"token\": \"token{number}\"}}"))
    });
    let (realm, both, refused) = (store.url("/token"), Barrier::new(2), AtomicUsize::new(0));
    server.misbehave(move |request, _| {
        let token = format!("Bearer token{}", current.load(Ordering::SeqCst));
        let stale = request.path.contains("/blobs/") && refused.fetch_add(1, Ordering::SeqCst) < 2;
        if stale {
            both.wait();
        }
        if request.header("authorization") != Some(&token) || stale {
            return Act::Status(401, vec![("WWW-Authenticate", format!("Bearer realm=\"{realm}\""))], String::new());
        }
        Act::Right
    });
    let said = read(&format!("oci://{}/team/root:v1", server.address()), &[]);
    assert!(said.contains("read all of it"), "{said}");
    assert_eq!(asked.load(Ordering::SeqCst), 2, "one token for the manifest, one for both threads");
}

/// Uploads a blob; `docker-registry` wants a session first.
fn push(port: u16, bytes: &[u8]) {
    let begun = request(port, "POST", "/v2/team/root/blobs/uploads/", &[], b"").unwrap();
    let location = begun.lines().find_map(|line| line.strip_prefix("Location: ")).unwrap_or_else(|| panic!("{begun}"));
    let (_, path) = location.split_once("://").and_then(|(_, rest)| rest.split_once('/')).unwrap();
    let path = format!("/{}&digest={}", path.trim(), sha256(bytes));
    let done = request(port, "PUT", &path, &[("Content-Type", "application/octet-stream")], bytes).unwrap();
    assert!(done.starts_with("HTTP/1.1 201"), "{done}");
}

#[test]
fn a_registry_serves_an_image() {
    let test = "a_registry_serves_an_image";
    let (dir, port) = (tempfile::tempdir().unwrap(), free_port());
    let config = format!(
        "version: 0.1\nstorage:\n  filesystem:\n    rootdirectory: {}\nhttp:\n  addr: 127.0.0.1:{port}\n",
        packfs_blocks::name::display(dir.path())
    );
    std::fs::write(dir.path().join("config.yml"), config).unwrap();
    let mut registry = Command::new("docker-registry");
    registry.arg("serve").arg(dir.path().join("config.yml")).stdout(Stdio::null()).stderr(Stdio::null());
    let Ok(registry) = registry.spawn() else { return skip(test, "docker-registry is missing") };
    let _registry = Running(registry);
    let begun = Instant::now();
    while request(port, "GET", "/v2/", &[], b"").is_err() {
        assert!(begun.elapsed() < Duration::from_secs(60), "the registry does not answer");
        std::thread::sleep(Duration::from_millis(50));
    }
    push(port, &noise(LEN));
    push(port, b"{}");
    let layer = sha256(&noise(LEN));
    let text = manifest(&layer, LEN);
    let kind = [("Content-Type", "application/vnd.oci.image.manifest.v1+json")];
    let done = request(port, "PUT", "/v2/team/root/manifests/v1", &kind, text.as_bytes()).unwrap();
    assert!(done.starts_with("HTTP/1.1 201"), "{done}");
    for reference in [":v1".into(), format!("@{}", sha256(text.as_bytes())), format!("@{layer}")] {
        let said = read(&format!("oci://localhost:{port}/team/root{reference}"), &[]);
        assert!(said.contains("read all of it"), "{reference}: {said}");
    }
    let said = read(&format!("oci://localhost:{port}/team/root:v2"), &[]);
    assert!(said.contains("the server answered 404 Not Found"), "{said}");
}
