//! Images behind addresses, in every command that takes an image.
#![cfg(feature = "remote")]

use std::path::{Path, PathBuf};
use std::process::Output;
#[cfg(all(feature = "mount", feature = "serve"))]
use std::process::{Command, Stdio};

use crate::common::{self, FORMATS, packfs, sample, stderr, succeed};
use crate::server::{self, Act, Server};

/// A directory with a sample tree, images of it in both formats, and a server that has these.
struct Site {
    dir: tempfile::TempDir,
    server: Server,
}

impl Site {
    fn new() -> Self {
        let (dir, server) = (tempfile::tempdir().unwrap(), Server::start());
        sample(dir.path());
        for format in FORMATS {
            succeed(dir.path(), &["build", "root", "-o", format, "--format", format, "-q"]);
            server.give(&format!("/{format}"), std::fs::read(dir.path().join(format)).unwrap());
        }
        Site { dir, server }
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn run(&self, args: &[&str]) -> Output {
        let mut command = packfs(args);
        command.current_dir(self.path()).env("XDG_CACHE_HOME", self.caches()).env_remove("PACKFS_REMOTE_CACHE");
        command.env("http_proxy", "").env("no_proxy", "*").output().unwrap()
    }

    fn caches(&self) -> PathBuf {
        self.path().join("caches")
    }

    fn succeed(&self, args: &[&str]) -> Vec<u8> {
        let output = self.run(args);
        assert!(output.status.success(), "packfs {args:?}: {}", stderr(&output));
        output.stdout
    }

    fn fail(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert_eq!(output.status.code(), Some(1), "packfs {args:?}: {}", stderr(&output));
        stderr(&output)
    }
}

#[test]
fn every_command_takes_an_address() {
    let site = Site::new();
    for format in FORMATS {
        let address = site.server.url(&format!("/{format}"));
        let (there, here) = (address.as_str(), format);
        for args in
            [vec!["list", "-l"], vec!["list", "--json"], vec!["info"], vec!["info", "--json"], vec!["tar", "-q"]]
        {
            let [of_there, of_here] = [there, here].map(|image| site.succeed(&[&args[..], &[image]].concat()));
            assert!(!of_here.is_empty() && of_there == of_here, "{args:?}");
        }
        assert_eq!(site.succeed(&["cat", there, "etc/motd"]), b"Welcome.\n");
        assert_eq!(site.succeed(&["cat", there, "usr/share/doc/text", "--range", "22:8"]), b"All work");
        let checked = site.run(&["check", there, "--against", "root"]);
        assert!(checked.status.success() && stderr(&checked).contains("sound"), "{}", stderr(&checked));
        site.succeed(&["diff", there, here, "-q"]);
        site.succeed(&["diff", "root", there, "-q"]);
        site.succeed(&["check", here, "--against", there, "-q"]);
        let (out, image) = (format!("out-{format}"), format!("new-{format}"));
        site.succeed(&["extract", there, "-C", &out, "-q"]);
        assert_eq!(std::fs::read(site.path().join(out).join("etc/motd")).unwrap(), b"Welcome.\n");
        site.succeed(&["build", there, "-o", &image, "--format", format, "-q"]);
        site.succeed(&["build", here, "-o", "local", "--format", format, "-q", "--force"]);
        let read = |name: &str| std::fs::read(site.path().join(name)).unwrap();
        assert_eq!(read(&image), read("local"));
    }
}

#[test]
fn an_image_within_a_remote_file_is_found_by_its_offset() {
    let site = Site::new();
    let image = std::fs::read(site.path().join("squashfs")).unwrap();
    let address = site.server.give("/within", [vec![1; 8192], image].concat());
    assert_eq!(site.succeed(&["cat", "--offset", "8K", &address, "etc/motd"]), b"Welcome.\n");
    assert!(site.fail(&["list", "--offset", "4K", &address]).contains("begins at byte 4096"));
}

#[test]
fn the_cache_is_filled_bounded_and_can_be_off() {
    let site = Site::new();
    let address = site.server.url("/squashfs");
    for (args, var, kept) in [
        (&["--remote-cache", "0"][..], "", false),
        (&[], "0", false),
        (&["--remote-cache=1M"], "0", true),
        (&[], "", true),
    ] {
        let mut command = packfs(["cat", &address, "etc/motd"].iter().chain(args));
        let output = command.env("XDG_CACHE_HOME", site.caches()).env("PACKFS_REMOTE_CACHE", var).output().unwrap();
        assert_eq!(output.stdout, b"Welcome.\n", "{}", stderr(&output));
        let kept_now = std::fs::read_dir(site.caches().join("packfs/remote")).is_ok_and(|files| files.count() == 2);
        assert_eq!(kept_now, kept, "{args:?} {var}");
        let _ = std::fs::remove_dir_all(site.caches());
    }
    let mut command = packfs(["cat", &address, "etc/motd"]);
    let output = command.env("PACKFS_REMOTE_CACHE", "much").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("PACKFS_REMOTE_CACHE=much: expected a number of bytes"), "{}", stderr(&output));
}

#[test]
fn errors_name_the_address_without_its_secrets() {
    let site = Site::new();
    let shown = site.server.url("/gone");
    let secret = shown.replace("http://", "http://me:hunter2@") + "?token=hunter2";
    for args in [
        &["list", &secret][..],
        &["build", &secret, "-o", "x"],
        &["diff", &secret, "root"],
        &["check", "squashfs", "--against", &secret],
        &["mount", "--foreground", &secret, "mnt"],
    ] {
        let told = site.fail(args);
        assert!(told.contains(&format!("{shown}: ")) && told.contains("404 Not Found"), "{told}");
        assert!(!told.contains("hunter2"), "{told}");
        assert_eq!(told.matches(&shown).count(), 1, "{told}");
    }
    site.server.give("/text", b"no image".to_vec());
    let told = site.fail(&["list", &site.server.url("/text?hunter2")]);
    assert!(told.contains("neither a SquashFS nor an EROFS image") && !told.contains("hunter2"), "{told}");
    let told = site.fail(&["list", "http://host:port/"]);
    assert!(told.contains("its port is not a number"), "{told}");
}

#[test]
fn an_image_replaced_while_it_is_read_is_an_error() {
    let site = Site::new();
    let bytes = server::noise(8 << 20);
    std::fs::write(site.path().join("root/large"), &bytes).unwrap();
    succeed(site.path(), &["build", "root", "-o", "large", "-q"]);
    let image = std::fs::read(site.path().join("large")).unwrap();
    let address = site.server.give("/image", image);
    // Once both ends have been read.
    site.server.misbehave(|_, number| match number {
        0..=2 => Act::Right,
        _ => Act::Status(412, vec![], String::new()),
    });
    let told = site.fail(&["extract", &address, "-C", "out", "-q"]);
    assert!(told.contains("replaced after it was opened") && told.contains("start again"), "{told}");
}

#[cfg(feature = "mount")]
#[test]
fn a_remote_image_is_mounted() {
    if std::fs::File::options().read(true).write(true).open("/dev/fuse").is_err() {
        return common::skip("a_remote_image_is_mounted", "/dev/fuse cannot be opened");
    }
    let site = Site::new();
    let (mnt, address) = (site.path().join("mnt"), site.server.url("/erofs"));
    std::fs::create_dir(&mnt).unwrap();
    site.succeed(&["mount", &address, "mnt"]);
    let read = std::fs::read(mnt.join("etc/motd"));
    let table = std::fs::read_to_string("/proc/self/mounts").unwrap();
    site.succeed(&["umount", "mnt"]);
    assert_eq!(read.unwrap(), b"Welcome.\n");
    assert!(table.contains(&address), "{table}");
}

/// Returns the arguments of all processes that have `word` in them.
#[cfg(feature = "mount")]
fn arguments_with(word: &str) -> Vec<String> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    lines.filter(|line| line.contains(word)).collect()
}

#[cfg(all(feature = "mount", feature = "serve"))]
#[test]
fn a_command_that_runs_shows_no_password() {
    let site = Site::new();
    let image = site.server.give("/image", std::fs::read(site.path().join("squashfs")).unwrap());
    let secret = image.replace("http://", "http://me:hunter2@") + "?X-Amz-Signature=hunter2";
    let against = format!("--against={secret}");
    std::fs::create_dir(site.path().join("mnt")).unwrap();
    let lines: [&[&str]; 3] = [
        &["serve", &secret, "--listen", "127.0.0.1:0"],
        &["serve", "squashfs", &against, "--listen", "127.0.0.1:0"],
        &["mount", "--foreground", &secret, "mnt"],
    ];
    for line in lines {
        if line[0] == "mount" && std::fs::File::options().read(true).write(true).open("/dev/fuse").is_err() {
            continue;
        }
        site.server.requests();
        let mut command = packfs(line.iter().chain(&["--remote-cache", "0"]));
        let quiet = command.stdout(Stdio::null()).env("http_proxy", "").env("no_proxy", "*");
        let mut child = quiet.current_dir(site.path()).spawn().unwrap();
        let mut requests = Vec::new();
        for _ in 0..1000 {
            requests.extend(site.server.requests());
            if !requests.is_empty() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let shown = std::fs::read(format!("/proc/{}/cmdline", child.id())).unwrap();
        // Lets go of the mount, too.
        let _ = Command::new("kill").arg(child.id().to_string()).status();
        child.wait().unwrap();
        let shown = String::from_utf8_lossy(&shown).replace('\0', " ");
        assert!(!requests.is_empty(), "{line:?}");
        assert!(requests.iter().all(|request| request.header("authorization").is_some()), "{line:?}: {requests:?}");
        assert!(shown.contains(&image) && shown.contains("--remote-cache 0"), "{shown}");
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}

#[cfg(feature = "mount")]
#[test]
fn a_mount_in_the_background_shows_no_password() {
    let test = "a_mount_in_the_background_shows_no_password";
    let Some(place) = common::mounts::Place::new(test) else { return };
    let server = Server::start();
    let address = server.give("/squashfs", std::fs::read(place.at("squashfs")).unwrap());
    let secret = address.replace("http://", "http://me:hunter2@") + "?X-Amz-Signature=hunter2";
    server.requests();
    let mount = place.at("m").to_str().unwrap().to_owned();
    let mut command = packfs(["mount", &secret, &mount, "--remote-cache", "0"]);
    let mounted = command.env("http_proxy", "").env("no_proxy", "*").output().unwrap();
    assert!(mounted.status.success(), "{}", stderr(&mounted));
    assert_eq!(std::fs::read(place.at("m/etc/motd")).unwrap(), b"Welcome.\n");
    // The server got the whole address.
    let requests = server.requests();
    let arrived = |request: &server::Request| {
        request.header("authorization").is_some() && request.path.ends_with("?X-Amz-Signature=hunter2")
    };
    assert!(!requests.is_empty() && requests.iter().all(arrived), "{requests:?}");
    let shown = arguments_with(&mount);
    assert!(shown.iter().any(|line| line.contains(&address)), "{shown:?}");
    assert!(!shown.iter().any(|line| line.contains("hunter2")), "{shown:?}");
    assert!(!std::fs::read_to_string("/proc/self/mountinfo").unwrap().contains("hunter2"));
    succeed(place.path(), &["umount", "m"]);
}

#[test]
fn a_server_that_tells_no_versions_apart_is_refused_unless_the_risk_is_taken() {
    let site = Site::new();
    let text = server::noise(300_000);
    std::fs::write(site.path().join("root/large"), &text).unwrap();
    succeed(site.path(), &["build", "root", "-o", "large", "-q"]);
    let image = std::fs::read(site.path().join("large")).unwrap();
    let unmarked = server::Object { etag: None, modified: None, ..server::Object::new(image) };
    site.server.put("/image", unmarked);
    let address = site.server.url("/image");
    let told = site.fail(&["cat", &address, "large"]);
    assert!(told.contains("neither an entity tag nor") && told.contains("--remote-unversioned"), "{told}");
    assert!(site.succeed(&["cat", &address, "large", "--remote-unversioned"]) == text);
}
