//! The programs whose names packfs answers to, called as their callers do.
#![cfg(feature = "mount")]

mod common;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use common::{have, packfs, sample, skip, stderr, succeed};

struct Place(tempfile::TempDir);

impl Place {
    fn new(test: &str) -> Option<Place> {
        if File::options().read(true).write(true).open("/dev/fuse").is_err() {
            skip(test, "/dev/fuse cannot be opened");
            return None;
        }
        if !have(test, "fusermount3") {
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        sample(dir.path());
        std::fs::create_dir(dir.path().join("m")).unwrap();
        succeed(dir.path(), &["build", "-q", "root", "-o", "a.sqfs"]);
        succeed(dir.path(), &["build", "-q", "root", "-o", "a.erofs"]);
        for name in ["squashfuse", "squashfuse_ll", "erofsfuse"] {
            std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_packfs"), dir.path().join(name)).unwrap();
        }
        Some(Place(dir))
    }

    fn at(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    /// Runs a line of shell in the directory, with the programs first on the path.
    fn shell(&self, line: &str) -> Command {
        let mut command = Command::new("bash");
        let path = format!("{}:{}", self.0.path().to_str().unwrap(), std::env::var("PATH").unwrap());
        command.args(["-c", line]).env("PATH", path).current_dir(self.0.path()).stdin(Stdio::null());
        command
    }

    fn output(&self, line: &str) -> Output {
        self.shell(line).output().unwrap()
    }

    fn is_mounted(&self) -> bool {
        is_mounted(&self.at("m"))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.is_mounted() {
            let _ = packfs(["umount", "--lazy"]).arg(self.at("m")).status();
        }
    }
}

fn is_mounted(place: &Path) -> bool {
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let place = place.parent().unwrap().canonicalize().unwrap().join(place.file_name().unwrap());
    table.lines().any(|line| line.split(' ').nth(4) == place.to_str())
}

fn soon(what: &str, happens: impl Fn() -> bool) {
    let begun = Instant::now();
    while !happens() {
        assert!(begun.elapsed() < Duration::from_secs(60), "not {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn ends(mut child: Child) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(60) {
        if let Some(status) = child.try_wait().unwrap() {
            return status.success();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("the program does not end");
}

#[test]
fn apptainer_finds_the_options_it_looks_for() {
    let Some(place) = Place::new("apptainer_finds_the_options_it_looks_for") else { return };
    for name in ["squashfuse_ll", "squashfuse", "erofsfuse"] {
        let told = place.output(name);
        assert!(stderr(&told).contains("-o uid="), "{name}: {}", stderr(&told));
        assert_eq!(told.status.code(), Some(254));
        assert!(place.output(&format!("{name} --version")).status.success());
    }
}

#[test]
fn apptainer_mounts_an_image_inside_a_file_for_a_user() {
    let Some(place) = Place::new("apptainer_mounts_an_image_inside_a_file_for_a_user") else { return };
    let image = std::fs::read(place.at("a.sqfs")).unwrap();
    std::fs::write(place.at("a.sif"), [vec![0; 40960], image].concat()).unwrap();
    let line = "exec squashfuse_ll -f -o allow_other,ro,uid=1000,gid=1001,offset=40960 /proc/self/fd/3 $PWD/m 3<a.sif";
    let child = place.shell(line).spawn().unwrap();
    soon("mounted", || place.is_mounted());
    let stat = place.output("stat -c '%u %g' m/etc/motd; cat m/etc/motd");
    assert_eq!(String::from_utf8_lossy(&stat.stdout), "1000 1001\nWelcome.\n");
    assert!(place.output("umount m").status.success());
    assert!(ends(child));
}

/// The privileged way: the caller opens the device, mounts it, and passes its descriptor as the mount point.
#[test]
fn apptainer_passes_a_device_that_is_mounted() {
    let Some(place) = Place::new("apptainer_passes_a_device_that_is_mounted") else { return };
    if !have("apptainer_passes_a_device_that_is_mounted", "mount") {
        return;
    }
    let line = "exec 7<>/dev/fuse; mount -i -t fuse -o fd=7,rootmode=40000,user_id=0,group_id=0,allow_other,ro none m
        exec squashfuse_ll -f -o allow_other,ro,uid=1000,gid=1001,offset=0 /proc/self/fd/3 /dev/fd/7 3<a.sqfs";
    let child = place.shell(line).spawn().unwrap();
    soon("mounted", || place.is_mounted());
    let stat = place.output("stat -c '%u %g' m/etc/motd; cmp root/usr/share/doc/text m/usr/share/doc/text");
    assert_eq!(String::from_utf8_lossy(&stat.stdout), "1000 1001\n");
    assert!(place.output("umount m").status.success());
    assert!(ends(child));
}

#[test]
fn enroot_waits_for_the_mount_point() {
    let Some(place) = Place::new("enroot_waits_for_the_mount_point") else { return };
    let child = place.shell("exec squashfuse -f -o uid=0,gid=0 a.sqfs m").spawn().unwrap();
    assert!(
        place.output("for n in {1..60000}; do mountpoint -q m && exit 0; sleep .001; done; exit 1").status.success()
    );
    assert!(place.output("cmp root/etc/motd m/etc/motd && fusermount3 -u m").status.success());
    assert!(ends(child));
}

#[test]
fn a_named_pipe_tells_success_and_failure() {
    let Some(place) = Place::new("a_named_pipe_tells_success_and_failure") else { return };
    let tried = |image: &str| {
        let line = format!("mkfifo p; squashfuse -o notify_pipe=p {image} m 2>/dev/null & cat p; wait; rm p");
        String::from_utf8_lossy(&place.output(&line).stdout).into_owned()
    };
    assert_eq!(tried("a.sqfs"), "s");
    assert!(place.is_mounted() && place.output("squashfuse a.sqfs").status.code() == Some(254));
    assert!(place.output("fusermount3 -u m").status.success());
    assert_eq!(tried("root/etc/motd"), "f");
}

#[test]
fn erofsfuse_has_its_own_options() {
    let Some(place) = Place::new("erofsfuse_has_its_own_options") else { return };
    let image = std::fs::read(place.at("a.erofs")).unwrap();
    std::fs::write(place.at("behind"), [vec![0; 4096], image].concat()).unwrap();
    let mounted = place.output("erofsfuse --dbglevel=1 --offset=4096 behind m && cmp root/usr/motd m/usr/motd");
    assert!(mounted.status.success(), "{}", stderr(&mounted));
    assert!(place.output("umount m").status.success());
}

/// Users without privilege mount through fusermount3. They see a FUSE device that they may open, as on most systems.
#[test]
fn users_without_privilege_can_mount() {
    let test = "users_without_privilege_can_mount";
    let Some(place) = Place::new(test) else { return };
    if !have(test, "setpriv") || !have(test, "unshare") {
        return;
    }
    // Nobody may enter the directory of the build.
    std::fs::copy(env!("CARGO_BIN_EXE_packfs"), place.at("packfs")).unwrap();
    let script = r#"
        mknod device c 10 229; chmod 666 device; mount --bind device /dev/fuse
        chmod 755 .; chmod 644 a.sqfs; chown 65534:65534 m
        nobody="$(command -v setpriv) --reuid 65534 --regid 65534 --clear-groups"
        $nobody ./packfs mount a.sqfs m
        $nobody cat m/etc/motd
        cat m/etc/motd 2>/dev/null || echo not even root
        $nobody ./packfs umount m
        $nobody ls m
        FUSERMOUNT_PATH=/nonexistent $nobody ./packfs mount a.sqfs m 2>&1 || echo failed
    "#;
    let done =
        place.shell(&format!("exec unshare --mount --propagation private bash -ec '{script}'")).output().unwrap();
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    let told: Vec<_> = text.lines().collect();
    assert_eq!(told[..2], ["Welcome.", "not even root"], "{text}{}", stderr(&done));
    assert!(told[2].contains("fusermount3") && told[3] == "failed" && told.len() == 4, "{text}{}", stderr(&done));
}
