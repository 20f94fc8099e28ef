//! Reading through a proxy that the environment names: plain requests, tunnels to secure servers, and proxies that refuse.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::common::{self, Object, Server, noise};
use crate::{certificate, process};

const LEN: usize = 300_000;
/// A host that only the proxy knows.
const HOST: &str = "images.packfs.invalid";

/// A proxy that leads every host to one server.
struct Proxy {
    address: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Proxy {
    /// Starts one. If `credentials` are given, it refuses requests without them.
    fn start(server: SocketAddr, credentials: Option<&'static str>) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, heads) = (listener.local_addr().unwrap(), Arc::new(Mutex::new(Vec::new())));
        let kept = Arc::clone(&heads);
        thread::spawn(move || {
            for client in listener.incoming() {
                let (client, kept) = (client.unwrap(), Arc::clone(&kept));
                thread::spawn(move || pass(&client, server, credentials, &kept));
            }
        });
        Proxy { address, heads }
    }

    /// Returns the first lines of the requests so far.
    fn asked(&self) -> Vec<String> {
        self.heads.lock().unwrap().iter().map(|head| head.lines().next().unwrap().to_owned()).collect()
    }
}

/// Passes on what a client sends: the head is read, the rest goes both ways.
fn pass(
    mut client: &TcpStream,
    server: SocketAddr,
    credentials: Option<&str>,
    heads: &Mutex<Vec<String>>,
) -> Option<()> {
    let mut lines = BufReader::new(client);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if lines.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    heads.lock().unwrap().push(head.clone());
    if credentials.is_some_and(|wanted| !head.to_ascii_lowercase().contains(&wanted.to_ascii_lowercase())) {
        let refused =
            b"HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n";
        client.write_all(refused).ok()?;
        return None;
    }
    let upstream = TcpStream::connect(server).ok()?;
    if head.starts_with("CONNECT ") {
        client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").ok()?;
    } else {
        // A server gets the path alone. One request is passed on, then the client has to connect again.
        let (method, rest) = head.split_once(' ')?;
        let path = rest.strip_prefix("http://")?.split_once('/')?.1;
        let path = path.replacen("\r\n", "\r\nConnection: close\r\n", 1);
        (&upstream).write_all(format!("{method} /{path}").as_bytes()).ok()?;
    }
    let from_client = lines.buffer().to_vec();
    (&upstream).write_all(&from_client).ok()?;
    thread::scope(|scope| {
        scope.spawn(|| {
            let _ = io::copy(&mut { client }, &mut { &upstream });
            let _ = upstream.shutdown(Shutdown::Write);
        });
        let _ = io::copy(&mut { &upstream }, &mut { client });
        let _ = client.shutdown(Shutdown::Both);
    });
    Some(())
}

/// Reads an address in a process with these variables alone about proxies.
fn read(address: &str, variables: &[(&str, &str)]) -> String {
    let set: Vec<_> = [("no_proxy", "")].into_iter().chain(variables.iter().copied()).collect();
    process::read("proxy::process_that_reads", address, |name| name.to_ascii_lowercase().ends_with("_proxy"), &set)
}

fn plain() -> Server {
    let server = Server::start();
    server.put("/image", Object::new(noise(LEN)));
    server
}

#[test]
fn plain_requests_go_by_the_proxy_that_the_environment_names() {
    let server = plain();
    let address = format!("http://{HOST}/image");
    for (name, scheme) in [("http_proxy", "http://"), ("http_proxy", ""), ("ALL_PROXY", "")] {
        let proxy = Proxy::start(server.address(), None);
        let said = read(&address, &[(name, &format!("{scheme}{}", proxy.address))]);
        assert!(said.contains("read all of it"), "{name}: {said}");
        let asked = proxy.asked();
        assert!(!asked.is_empty() && asked.iter().all(|line| line.contains(HOST)), "{asked:?}");
    }
    // What is excepted is asked for directly, and nobody knows that host.
    let proxy = Proxy::start(server.address(), None);
    let to_proxy = format!("http://{}", proxy.address);
    let said = read(&address, &[("http_proxy", &to_proxy), ("no_proxy", "localhost, .packfs.invalid")]);
    assert!(!said.contains("read all of it") && proxy.asked().is_empty(), "{said}");
    let direct = format!("http://{}/image", server.address());
    let said = read(&direct, &[("http_proxy", &to_proxy), ("no_proxy", "127.0.0.1")]);
    assert!(said.contains("read all of it") && proxy.asked().is_empty(), "{said}");
}

#[test]
fn secure_servers_are_reached_by_tunnels_that_the_proxy_cannot_read() {
    let dir = tempfile::tempdir().unwrap();
    if !certificate::make(dir.path()) {
        return common::skip("secure_servers_are_reached_by_tunnels_that_the_proxy_cannot_read", "openssl");
    }
    let server = certificate::server(dir.path());
    server.put("/secret-image", Object::new(noise(LEN)));
    let proxy = Proxy::start(server.address(), Some("Proxy-Authorization: Basic dXNlcjpwYXNz"));
    let cert = dir.path().join("cert.pem");
    let trusted = ("SSL_CERT_FILE", cert.to_str().unwrap());
    let port = server.address().port();
    let address = format!("https://localhost:{port}/secret-image");
    let said = read(&address, &[trusted, ("https_proxy", &format!("http://user:pass@{}", proxy.address))]);
    assert!(said.contains("read all of it"), "{said}");
    let asked = proxy.asked();
    let connect = format!("CONNECT localhost:{port} HTTP/1.1");
    assert!(!asked.is_empty() && asked.iter().all(|line| *line == connect), "{asked:?}");
    assert!(!proxy.heads.lock().unwrap().concat().contains("secret-image"));
    // The other scheme's proxy is none for this one.
    let before = proxy.asked().len();
    let said = read(&address, &[trusted, ("http_proxy", &format!("http://{}", proxy.address))]);
    assert!(said.contains("read all of it") && proxy.asked().len() == before, "{said}");
    let said = read(&address, &[trusted, ("https_proxy", &format!("http://user:wrong@{}", proxy.address))]);
    assert!(!said.contains("read all of it") && said.contains("407"), "{said}");
    assert!(!said.contains("wrong"), "a password is told: {said}");
}

#[test]
fn a_proxy_that_refuses_or_is_not_there_is_told() {
    let server = plain();
    let address = format!("http://{HOST}/image");
    let proxy = Proxy::start(server.address(), Some("Proxy-Authorization: Basic dXNlcjpwYXNz"));
    let said = read(&address, &[("http_proxy", &format!("http://{}", proxy.address))]);
    assert!(said.contains("407") || said.contains("proxy"), "{said}");
    let said = read(&address, &[("http_proxy", &format!("http://user:pass@{}", proxy.address))]);
    assert!(said.contains("read all of it"), "{said}");
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let said = read(&address, &[("http_proxy", &format!("http://{closed}"))]);
    assert!(said.contains("proxy") && !said.contains("read all of it"), "{said}");
    let said = read(&address, &[("http_proxy", "ftp://nonsense")]);
    assert!(said.contains("proxy") && !said.contains("read all of it"), "{said}");
}

#[test]
#[ignore = "started by the tests above"]
fn process_that_reads() {
    process::read_and_tell(LEN);
}
