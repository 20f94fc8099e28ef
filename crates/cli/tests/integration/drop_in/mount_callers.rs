//! The programs whose names packfs answers to, called as their callers do.
#![cfg(feature = "mount")]

use std::process::{Command, Output, Stdio};

use crate::common::mounts::{Place, ends, soon};
use crate::common::program::copy_packfs;
use crate::common::{have, stderr};

/// Makes a place with links to the program under the names of others.
fn place(test: &str) -> Option<Place> {
    let place = Place::new(test)?;
    for name in ["squashfuse", "squashfuse_ll", "erofsfuse"] {
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_packfs"), place.at(name)).unwrap();
    }
    Some(place)
}

/// Returns a line of shell to be run in the place, with the programs first on the path.
fn shell(place: &Place, line: &str) -> Command {
    let mut command = Command::new("bash");
    let path = format!("{}:{}", place.path().to_str().unwrap(), std::env::var("PATH").unwrap());
    command.args(["-c", line]).env("PATH", path).current_dir(place.path()).stdin(Stdio::null());
    command
}

fn output(place: &Place, line: &str) -> Output {
    shell(place, line).output().unwrap()
}

#[test]
fn apptainer_finds_the_options_it_looks_for() {
    let Some(place) = place("apptainer_finds_the_options_it_looks_for") else { return };
    for name in ["squashfuse_ll", "squashfuse", "erofsfuse"] {
        let told = output(&place, name);
        assert!(stderr(&told).contains("-o uid="), "{name}: {}", stderr(&told));
        assert_eq!(told.status.code(), Some(254));
        assert!(output(&place, &format!("{name} --version")).status.success());
    }
}

#[test]
fn apptainer_mounts_an_image_inside_a_file_for_a_user() {
    let Some(place) = place("apptainer_mounts_an_image_inside_a_file_for_a_user") else { return };
    let image = std::fs::read(place.at("squashfs")).unwrap();
    std::fs::write(place.at("a.sif"), [vec![0; 40960], image].concat()).unwrap();
    let line = "exec squashfuse_ll -f -o allow_other,ro,uid=1000,gid=1001,offset=40960 /proc/self/fd/3 $PWD/m 3<a.sif";
    let mut child = shell(&place, line).spawn().unwrap();
    soon("mounted", || place.is_mounted());
    let stat = output(&place, "stat -c '%u %g' m/etc/motd; cat m/etc/motd");
    assert_eq!(String::from_utf8_lossy(&stat.stdout), "1000 1001\nWelcome.\n");
    assert!(output(&place, "umount m").status.success());
    assert_eq!(ends(&mut child), 0);
}

/// The privileged way: the caller opens the device, mounts it, and passes its descriptor as the mount point.
#[test]
fn apptainer_passes_a_device_that_is_mounted() {
    let Some(place) = place("apptainer_passes_a_device_that_is_mounted") else { return };
    if !have("apptainer_passes_a_device_that_is_mounted", "mount") {
        return;
    }
    let line = "exec 7<>/dev/fuse; mount -i -t fuse -o fd=7,rootmode=40000,user_id=0,group_id=0,allow_other,ro none m
        exec squashfuse_ll -f -o allow_other,ro,uid=1000,gid=1001,offset=0 /proc/self/fd/3 /dev/fd/7 3<squashfs";
    let mut child = shell(&place, line).spawn().unwrap();
    soon("mounted", || place.is_mounted());
    let stat = output(&place, "stat -c '%u %g' m/etc/motd; cmp root/usr/share/doc/text m/usr/share/doc/text");
    assert_eq!(String::from_utf8_lossy(&stat.stdout), "1000 1001\n");
    assert!(output(&place, "umount m").status.success());
    assert_eq!(ends(&mut child), 0);
}

#[test]
fn enroot_waits_for_the_mount_point() {
    let Some(place) = place("enroot_waits_for_the_mount_point") else { return };
    let mut child = shell(&place, "exec squashfuse -f -o uid=0,gid=0 squashfs m").spawn().unwrap();
    assert!(
        output(&place, "for n in {1..60000}; do mountpoint -q m && exit 0; sleep .001; done; exit 1").status.success()
    );
    assert!(output(&place, "cmp root/etc/motd m/etc/motd && fusermount3 -u m").status.success());
    assert_eq!(ends(&mut child), 0);
}

#[test]
fn a_named_pipe_tells_success_and_failure() {
    let Some(place) = place("a_named_pipe_tells_success_and_failure") else { return };
    let tried = |image: &str| {
        let line = format!("mkfifo p; squashfuse -o notify_pipe=p {image} m 2>/dev/null & cat p; wait; rm p");
        String::from_utf8_lossy(&output(&place, &line).stdout).into_owned()
    };
    assert_eq!(tried("squashfs"), "s");
    assert!(place.is_mounted() && output(&place, "squashfuse squashfs").status.code() == Some(254));
    assert!(output(&place, "fusermount3 -u m").status.success());
    assert_eq!(tried("root/etc/motd"), "f");
}

#[test]
fn erofsfuse_has_its_own_options() {
    let Some(place) = place("erofsfuse_has_its_own_options") else { return };
    let image = std::fs::read(place.at("erofs")).unwrap();
    std::fs::write(place.at("behind"), [vec![0; 4096], image].concat()).unwrap();
    let mounted = output(&place, "erofsfuse --dbglevel=1 --offset=4096 behind m && cmp root/usr/motd m/usr/motd");
    assert!(mounted.status.success(), "{}", stderr(&mounted));
    assert!(output(&place, "umount m").status.success());
}

/// Users without privilege mount through fusermount3. They see a FUSE device that they may open, as on most systems.
#[test]
fn users_without_privilege_can_mount() {
    let test = "users_without_privilege_can_mount";
    let Some(place) = place(test) else { return };
    if !have(test, "setpriv") || !have(test, "unshare") {
        return;
    }
    // Nobody may enter the directory of the build.
    copy_packfs(&place.at("packfs"));
    let script = r#"
        mknod device c 10 229; chmod 666 device; mount --bind device /dev/fuse
        chmod 755 .; chmod 644 squashfs; chown 65534:65534 m
        nobody="$(command -v setpriv) --reuid 65534 --regid 65534 --clear-groups"
        $nobody ./packfs mount squashfs m
        $nobody cat m/etc/motd
        cat m/etc/motd 2>/dev/null || echo not even root
        $nobody ./packfs umount m
        $nobody ls m
        FUSERMOUNT_PATH=/nonexistent $nobody ./packfs mount squashfs m 2>&1 || echo failed
        $nobody ./packfs mount squashfs m
        mount --bind /dev/null "$(readlink -f "$(command -v fusermount3)")"
        mkdir locked odd; echo nothing > odd/fusermount3; chmod 000 locked
        $nobody ./packfs umount m 2>&1 || echo failed
        umount m
        for path in "" /nonexistent "$PWD/locked" "$PWD/odd" "$PWD/locked:$PWD/odd:/usr/bin:/bin"; do
            PATH="$path" $nobody ./packfs mount squashfs m 2>&1 || echo failed
        done
    "#;
    let done =
        shell(&place, &format!("exec unshare --mount --propagation private bash -ec '{script}'")).output().unwrap();
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    let told: Vec<_> = text.lines().collect();
    assert_eq!(told[..2], ["Welcome.", "not even root"], "{text}{}", stderr(&done));
    // Missing, not executable, or in a directory that may not be entered: without it nothing works.
    assert_eq!(told.len(), 2 + 2 * 7, "{text}{}", stderr(&done));
    for pair in told[2..].chunks(2) {
        let named = pair[0].contains("fusermount3, which mounts and unmounts for users without privilege");
        assert!(named && pair[1] == "failed", "{text}{}", stderr(&done));
    }
}
