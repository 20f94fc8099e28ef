//! The command lines with which other programs call mksquashfs, sqfstar, unsquashfs, tar2sqfs and mkfs.erofs: packfs under
//! these names and the programs themselves make images in which the kernel shows the same contents and attributes.

use std::path::Path;
use std::process::Command;

use crate::common::kernel::inside;
use crate::common::program::{is_current, link, sh, text};
use crate::common::{sample, skip, stderr};

/// The programs that are called.
const PROGRAMS: [&str; 5] = ["mksquashfs", "sqfstar", "unsquashfs", "tar2sqfs", "mkfs.erofs"];

/// Lists path, type, mode, owner, time, links, size and target of all entries, then contents and extended attributes. Sizes
/// and link counts of directories differ between formats and writers.
const ENTRIES: &str = "find m -type d -printf '%P d %m %U:%G %Ts\\n' -o -printf '%P %y %m %U:%G %Ts %n %s %l\\n' | sort
    find m -type b -o -type c | sort | xargs -r stat -c '%n %t,%T'
    cd m && find . -type f | sort | xargs -r -d '\\n' sha256sum && (getfattr -hRd -m - --absolute-names . 2>/dev/null || :)";

/// Makes the tree `root`, the archive `layer.tar` of it and files that the command lines name.
fn place() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    sample(dir.path());
    for program in PROGRAMS {
        std::fs::create_dir_all(dir.path().join("links")).unwrap();
        link(&dir.path().join("links"), program);
    }
    let script = "mkdir -p root/var/cache/a root/usr/bin root/dev && mkfifo root/var/pipe && seq 300000 > root/usr/bin/tool &&
        mknod root/dev/null c 1 3 && chmod 4755 root/usr/bin/tool && chown 5:6 root/var/cache && chmod 1777 root/var/cache &&
        echo x > root/var/cache/a/x.pyc && head -c 700000 /dev/urandom > root/usr/share/random && : > root/empty &&
        ln root/usr/bin/tool root/usr/bin/hard && setfattr -n user.note -v 1 root/usr/bin/tool root/var &&
        find root -exec touch -h -d @1700000000 {} + && touch -d @1600000000.5 root/etc/motd &&
        printf '%s\\n' 'usr/bin/h*' 'var/cache' > excluded &&
        tar --xattrs -C root --sort=name -cf layer.tar .";
    sh(dir.path(), script);
    dir
}

/// Runs a script in `dir`, with packfs under the names of the programs if `ours`; it makes `$image`.
fn call(dir: &Path, script: &str, ours: bool) -> std::path::PathBuf {
    let path = std::env::var("PATH").unwrap();
    let links = dir.join("links");
    let path = if ours { format!("{}:{path}", links.to_str().unwrap()) } else { path };
    let image = dir.join(if ours { "ours" } else { "theirs" });
    let _ = (std::fs::remove_file(&image), std::fs::remove_dir_all(dir.join("to")));
    let mut bash = Command::new("bash");
    bash.args(["-euo", "pipefail", "-c", script]).current_dir(dir).env("image", &image);
    bash.env("PATH", path).env("TZ", "UTC").env("LC_ALL", "C").env_remove("SOURCE_DATE_EPOCH");
    let ran = bash.output().unwrap();
    assert!(ran.status.success(), "{script}: {}{}", text(&ran.stdout), stderr(&ran));
    image
}

/// Compares the images that the scripts of a caller make with both kinds of programs.
fn compare(caller: &str, programs: &[&str], scripts: &[&str]) {
    if !programs.iter().chain(&["getfattr", "mount"]).all(|program| is_current(caller, program)) {
        return;
    }
    if !rustix::process::geteuid().is_root() {
        return skip(caller, "devices and mounts need root");
    }
    let place = place();
    for script in scripts {
        let [theirs, ours] = [false, true].map(|ours| {
            let image = call(place.path(), script, ours);
            inside(caller, &image, ENTRIES).expect("mounts are possible")
        });
        assert!(theirs.len() > 10, "{script}: {theirs:?}");
        assert_eq!(ours, theirs, "{caller}: {script}");
    }
}

#[test]
fn apptainer() {
    compare(
        "apptainer",
        &["mksquashfs"],
        &[
            "mksquashfs -version > told && head -1 told | grep -E '^mksquashfs version 4\\.(6|7)'
             mksquashfs root \"$image\" -quiet -percentage -noappend -comp gzip -processors 2 -mem 256M -all-root",
            "mksquashfs root \"$image\" -noappend -all-root -comp gzip -regex -e '^var$/[[:lower:]]+'",
            "mksquashfs root \"$image\" -noappend -comp zstd -wildcards -e 'var/*' 'usr/bin/[a-h]*'",
        ],
    );
}

#[test]
fn enroot() {
    compare(
        "enroot",
        &["mksquashfs", "unsquashfs"],
        &[
            // The options of its configuration, and what it does with the image later.
            "mksquashfs root \"$image\" -all-root -no-progress -processors 2 -comp lzo -noD
             unsquashfs -s \"$image\"
             unsquashfs -no-progress -processors 2 -user-xattrs -d to \"$image\" && cmp root/usr/bin/tool to/usr/bin/tool",
            "mksquashfs root \"$image\" -all-root -no-progress -processors 2 -comp lzo -noD -e var/cache dev usr/share/random",
            "mksquashfs root \"$image\" -no-progress -comp zstd -Xcompression-level 1 -noI -noF -no-duplicates",
        ],
    );
}

#[test]
fn appimagetool() {
    compare(
        "appimagetool",
        &["mksquashfs"],
        &[
            "mksquashfs root app -offset 4096 -comp zstd -root-owned -noappend -b 1M -mkfs-time 0
             tail -c +4097 app > \"$image\" && rm app",
            "mksquashfs root app -offset 4096 -comp zstd -root-owned -noappend -b 1M -wildcards -ef excluded -mkfs-time 0
             tail -c +4097 app > \"$image\" && rm app",
            "mksquashfs root app -offset 4096 -comp xz -root-owned -noappend -Xdict-size 100% -b 16384 -mkfs-time 0
             tail -c +4097 app > \"$image\" && rm app",
            "mksquashfs root app -offset 4096 -comp gzip -root-owned -noappend -mkfs-time 0
             tail -c +4097 app > \"$image\" && rm app",
        ],
    );
}

#[test]
fn electron_builder() {
    compare(
        "electron-builder",
        &["mksquashfs"],
        &[
            "mksquashfs root app -offset 8192 -all-root -noappend -no-progress -quiet -no-xattrs -no-fragments -comp xz \
             -Xdict-size 100% -b 1048576
             tail -c +8193 app > \"$image\" && rm app",
            "mksquashfs root app -offset 8192 -all-root -noappend -no-progress -quiet -no-xattrs -no-fragments -mkfs-time 0
             tail -c +8193 app > \"$image\" && rm app",
            // For snaps.
            "cd root && mksquashfs . \"$image\" -noappend -comp lzo -no-xattrs -no-fragments -all-root -no-progress",
            "cd root && mksquashfs . \"$image\" -noappend -comp xz -no-xattrs -no-fragments -no-progress",
        ],
    );
}

#[test]
fn oci_tools() {
    compare(
        "oci-tools",
        &["sqfstar", "tar2sqfs"],
        &[
            "tar2sqfs --compressor gzip \"$image\" < layer.tar",
            "sqfstar -mkfs-time 0 -root-time 0 -root-uid 0 -root-gid 0 -root-mode 0755 \"$image\" < layer.tar",
        ],
    );
}

#[test]
fn containerd() {
    compare(
        "containerd",
        &["mkfs.erofs"],
        &[
            "mkfs.erofs --help > told && grep -q -e --tar= told
             mkfs.erofs -b4096 --tar=f --aufs --quiet -Enoinline_data -U c1b9d5a2-f162-11cf-9ece-0020afc76f16 \"$image\" \
             < layer.tar",
            "mkfs.erofs -b4096 --tar=f --aufs --quiet -Enoinline_data -zlz4hc -C 65536 -T0 --mkfs-time --sort=none \
             -U c1b9d5a2-f162-11cf-9ece-0020afc76f16 \"$image\" < layer.tar",
            "mkfs.erofs --quiet -Enoinline_data \"$image\" root",
            "mkfs.erofs --tar=i --aufs --quiet -U c1b9d5a2-f162-11cf-9ece-0020afc76f16 \"$image\" < layer.tar
             cat layer.tar >> \"$image\"",
        ],
    );
}

#[test]
fn talos() {
    compare(
        "talos",
        &["mksquashfs"],
        &[
            "mksquashfs root \"$image\" -all-root -noappend -comp zstd -Xcompression-level 18 -no-progress",
            "mksquashfs root \"$image\" -all-root -noappend -comp xz -Xdict-size 100% -no-progress",
        ],
    );
}
