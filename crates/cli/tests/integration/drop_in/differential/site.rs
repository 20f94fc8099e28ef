//! The trees, archives and lists that command lines name.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::common::program::{have_version, link, sh};
use crate::common::{have, skip};

/// Makes the trees `t` and `u`, the file `single` and lists for both.
const TREES: &str = "
    mkdir -p t/etc/ssl t/usr/bin t/usr/share/doc t/empty t/var/log t/dev t/deep/a/b/c/d u/etc u/new
    echo hi > t/etc/hostname; echo k > t/etc/ssl/a.pem; seq 3 > t/etc/motd; chmod 600 t/etc/motd; : > t/var/nothing
    ln -s hostname t/etc/link; ln t/etc/hostname t/etc/other; ln -s /nowhere/at/all t/usr/dangling
    seq 40000 > t/usr/share/doc/text; cp t/usr/share/doc/text t/usr/share/doc/copy; seq 7 > t/usr/share/doc/x.o
    head -c 300000 /dev/urandom > t/usr/bin/big; echo x > t/usr/bin/x; chmod 4755 t/usr/bin/x
    truncate -s 3M t/var/hole; printf data | dd of=t/var/hole bs=1 seek=1000000 conv=notrunc 2>/dev/null
    head -c 131072 /dev/zero > t/var/zeros; head -c 5000 /dev/urandom > t/var/small; echo log > t/var/log/a.log
    echo y > t/deep/a/b/c/d/y; echo b > 't/var/a{b}'; echo b > 't/var/[a]'; echo q > 't/var/q\"uote'; echo s > 't/var/a b'
    mkfifo t/var/fifo; mknod t/dev/null c 1 3; mknod t/dev/disk b 8 17; chmod 666 t/dev/null; chmod 1777 t/var/log
    python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"t/var/socket\")'
    chown 5:6 t/etc/motd t/usr/share; chown 10:1000 t/usr/bin/big t/usr/bin/x; chown 100000:100000 t/var/log/a.log; chown -h 7:8 t/etc/link; chmod 4755 t/usr/bin/x
    setfattr -n user.a -v 1 t/usr/bin/big; setfattr -n user.long -v $(seq -s, 300) t/usr; setfattr -n trusted.t -v 2 t/etc/motd
    setfattr -n security.s -v 3 t/etc/link -h; setfattr -n user.a -v 1 t/etc/ssl/a.pem; setfattr -n user.a -v 9 t/empty
    echo hi > u/etc/hostname; echo 2 > u/new/two; ln -s two u/new/l; echo one > single; chmod 640 single; ln u/new/two u/hard
    find t u single -exec touch -h -d @1600000000 {} +; touch -d @1234567890 t/etc/motd t/usr/bin; touch -h -d @5 t/etc/link
    touch -d @1700000000 t/usr/share/doc/text
    printf 'usr/share\\n# comment\\n  var/log\\nvar/nosuch\\n' > left-out; printf 'usr/bin/x\\netc\\n' > wanted
    printf 'usr/bin/big 5\\nt/usr/bin/x -3\\netc/motd 1\\n' > order
    printf '/added d 755 3 4\\n/added/null c 666 0 0 1 3\\n/etc/motd m 640 9 9\\n/added/link s 777 0 0 null\\n' > pseudo
    tar --format=pax --xattrs --xattrs-include='*' --numeric-owner -C t -cf t.tar .
    tar --format=gnu --numeric-owner -C t -cf names.tar etc usr/bin var/a{b} dev deep/a/b/c
    gzip -kn t.tar
";

/// Makes the site in `dir`, and packfs's links in it.
pub(crate) fn make(dir: &Path, programs: &[&str]) {
    for program in programs {
        link(dir, program);
    }
    // A shell without these braces would take them for alternatives.
    sh(dir, TREES);
}

/// Returns true if a test can run: as root, with the programs that it compares packfs with. Of those that have had their
/// present options only lately, the version is asked for.
pub(crate) fn ready(test: &str, programs: &[(&str, &str)]) -> bool {
    if !rustix::process::geteuid().is_root() {
        skip(test, "devices, owners and mounts need root");
        return false;
    }
    programs.iter().all(|(program, version)| match *version {
        "" => have(test, program),
        version => have_version(test, program, version),
    })
}

/// Removes what a command line made, if anything.
pub(crate) fn clear(dir: &Path, names: &[&str]) {
    for name in names {
        let path = dir.join(name);
        match path.symlink_metadata() {
            Ok(found) if found.is_dir() => std::fs::remove_dir_all(&path).unwrap(),
            Ok(found) => {
                assert!(found.nlink() > 0);
                std::fs::remove_file(&path).unwrap();
            }
            Err(_) => {}
        }
    }
}
