//! Mistakes of new users: each is one error line that says what failed, on what, and what to do, once.

use std::fs;
use std::fs::OpenOptions;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;

use crate::common::program::copy_packfs;
use crate::common::{self, fail, packfs, stderr, succeed};
use crate::join::LoopDevice;

/// Makes images, archives and dumps to confuse with one another.
fn things() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path();
    fs::create_dir_all(path.join("root/etc")).unwrap();
    fs::create_dir(path.join("@home")).unwrap();
    fs::write(path.join("root/etc/motd"), "hi\n").unwrap();
    fs::write(path.join("text"), "some text\n".repeat(20_000)).unwrap();
    fs::write(path.join("zip"), b"PK\x03\x04 and so on").unwrap();
    fs::write(path.join("7z"), b"7z\xbc\xaf\x27\x1c and so on").unwrap();
    succeed(path, &["build", "root", "-o", "i.sqfs", "-q"]);
    succeed(path, &["build", "root", "-o", "i.erofs", "-q"]);
    succeed(path, &["tar", "i.sqfs", "-o", "a.tar", "-q"]);
    succeed(path, &["split", "text", "-o", "part", "-q"]);
    succeed(path, &["split", "text", "-o", "p0", "-o", "p1", "-o", "p2", "--chunk", "4K", "-q"]);
    dir
}

/// Returns the only line of an error.
fn line(dir: &Path, status: i32, args: &[&str]) -> String {
    let error = fail(dir, status, args);
    assert!(error.starts_with("packfs: ") && error.lines().count() == 1, "{args:?}: {error}");
    error["packfs: ".len()..].trim_end().to_owned()
}

#[test]
fn a_file_of_another_kind_is_named_with_the_command_that_takes_it() {
    let dir = things();
    let image = "neither a SquashFS nor an EROFS image";
    let cases: [(i32, &[&str], &str); 23] = [
        (
            1,
            &["build", "root", "--append", "root", "-o", "x"],
            "--append root: a directory, not an image: packfs build",
        ),
        (1, &["list", "root"], "root: a directory, not an image: packfs build makes an image of it"),
        (1, &["cat", "root", "etc/motd"], "root: a directory, not an image: packfs build"),
        (1, &["check", "root"], "root: a directory, not an image: packfs build"),
        (1, &["join", "root", "-o", "x"], "root: a directory, not a part of a dump: name the parts in it"),
        (1, &["join", "text", "-o", "x"], "text: not a part of a dump; name the parts that packfs split wrote"),
        (1, &["join", "i.sqfs", "-o", "x"], "i.sqfs: an image, not a part of a dump: packfs extract"),
        (1, &["list", "text"], &format!("text: {image} (use --offset if one begins further on)")),
        (1, &["list", "i.sqfs", "--offset", "5"], "i.sqfs: neither a SquashFS nor an EROFS image begins at byte 5"),
        (1, &["list", "zip"], "zip: an archive, not an image: packfs build makes an image of it"),
        (1, &["list", "7z"], "7z: a 7z archive, not an image: unpack it, and packfs build"),
        (2, &["cat", "part", "etc/motd"], "etc/motd: no such part; part is a part of a dump, which contains no files"),
        (1, &["cat", "i.sqfs", "etc"], "etc: not a regular file (a glob such as 'DIR/*' selects"),
        (1, &["build", "part", "-o", "x"], "part: a part of a dump: packfs join restores the dump (`file:part`"),
        (1, &["build", "@nosuch", "-o", "x"], "nosuch: no such pack list (`@` means a pack list; write `./@nosuch`"),
        (1, &["build", "@text", "-o", "x"], "text:1: unknown type `text`"),
        (1, &["build", "root", "-o", "root"], "root: cannot create: is a directory; name a file in it"),
        (1, &["join", "part", "-o", "root"], "root: is a directory; name a file in it"),
        (1, &["extract", "i.sqfs", "-C", "text"], "text: not a directory; name a directory, which need not exist"),
        (1, &["extract", "i.sqfs", "-C", "text", "--dry-run"], "text: not a directory; name a"),
        (1, &["diff", "part", "i.sqfs"], "part: a part of a dump: packfs join restores the dump"),
        (1, &["bench", "read", "root"], "root: a directory, not an image; --matrix root makes images of it"),
        (1, &["tune", "part"], "part: a part of a dump: packfs join restores the dump"),
    ];
    for (status, args, told) in cases {
        let error = line(dir.path(), status, args);
        assert!(error.starts_with(told), "{args:?}: {error}");
    }
    succeed(dir.path(), &["build", "./@home", "-o", "home.sqfs", "-q"]);
    succeed(dir.path(), &["build", "file:part", "-o", "part.sqfs", "-q"]);
}

#[test]
fn an_output_that_is_a_stream_is_refused_at_once_with_a_way_out() {
    let dir = things();
    assert!(Command::new("mkfifo").arg(dir.path().join("fifo")).status().unwrap().success());
    let _listener = UnixListener::bind(dir.path().join("socket")).unwrap();
    let streams = [("/dev/null", "a character device"), ("fifo", "a FIFO"), ("socket", "a socket")];
    let redirect = "use -o - and redirect standard output";
    let another = "name another file";
    let commands: [(&[&str], &str); 7] = [
        (&["build", "root", "-o"], redirect),
        (&["tar", "i.sqfs", "-o"], redirect),
        (&["explore", "i.sqfs", "-o"], redirect),
        (&["bench", "memory", "1M", "-o"], redirect),
        (&["plan", "root", "--shards", "2", "-o"], another),
        (&["plan", "root", "--scan", "1/2", "-o"], another),
        (&["tune", "root", "--chart"], another),
    ];
    for (command, advice) in commands {
        for (target, kind) in streams {
            for force in [&[][..], &["--force"]] {
                let args = [command, &[target], force].concat();
                let error = line(dir.path(), 1, &args);
                let told =
                    format!("{target}: cannot create: it is {kind}, not a regular file or a block device; {advice}");
                assert!(error.ends_with(&told), "{args:?}: {error}");
            }
        }
    }
    // A dump may go to a pipe or a device, but not to a socket.
    assert!(line(dir.path(), 1, &["join", "part", "-o", "socket"]).ends_with(another));
}

#[test]
fn values_that_are_not_accepted_are_one_line_in_the_units_of_people() {
    let dir = things();
    let cases: [(&[&str], &str); 24] = [
        (
            &["build", "root", "-o", "x", "--stream", "--shards", "2"],
            "building x: --stream: an image that is streamed cannot have shards",
        ),
        (
            &["join", "p0", "-o", "x", "--as", "kdump", "--codec", "foo"],
            "--codec foo: unknown codec `foo`; accepted: zstd, gzip, lzo, snappy, none",
        ),
        (
            &["tar", "i.sqfs", "-o", "x.tar.lz4"],
            "-o x.tar.lz4: packfs does not compress with lz4; accepted: gzip, xz, zstd, bzip2; with --compress none, the",
        ),
        (&["build", "root", "-o", "x", "-c", "zst"], "--codec zst: unknown codec `zst`; accepted: zstd, gzip"),
        (
            &["build", "root", "-o", "x", "-c", "gzip:0"],
            "--codec gzip:0: gzip: level 0 is out of range; accepted: 1 to",
        ),
        (
            &["build", "root", "-o", "x", "-b", "3M"],
            "--block-size 3M: a SquashFS block is a power of two from 4K to 1M",
        ),
        (&["build", "root", "-o", "x.erofs", "-b", "3M"], "--block-size 3M: a cluster of an EROFS image"),
        (&["build", "root", "-o", "x", "-b", "1.5M"], "--block-size 1.5M: expected a number of bytes"),
        (&["build", "root", "-o", "x", "-j", "-1"], "--jobs -1: expected a number of threads from 0 (serial) to 1024"),
        (&["build", "root", "-o", "x", "--format", "ext4"], "--format ext4: accepted: squashfs, erofs"),
        (
            &["build", "root", "-o", "x.erofs", "-c", "zstd", "--target-kernel", "5.15"],
            "--target-kernel 5.15: this kernel cannot read zstd (since Linux 6.10); choose 6.10, or do",
        ),
        (&["build", "root", "-o", "x", "--add", "foo"], "building x: --add:1: the type is missing"),
        (
            &["build", "root", "-o", "x", "--owner", "4294967295:0"],
            "--owner 4294967295:0: `4294967295` is not the number of a user: expected 0 to 4294967294",
        ),
        (
            &["build", "root", "-o", "x", "--uid-offset", "abc"],
            "--uid-offset abc: expected a whole number to add, as in",
        ),
        (&["build", "root", "-o", "x", "--shards", "0"], "--shards 0: expected a whole number from 1 to 1048576"),
        (&["shard", "plan", "x", "-o", "dir"], "[I] x: expected a whole number, 0 or more"),
        (&["status", "plan", "dir", "--watch=0"], "--watch 0: expected a whole number from 1 to 4294967295"),
        (&["mount", "i.sqfs", "m", "--ready-fd", "x"], "--ready-fd x: expected a whole number from 0 to"),
        (&["split", "text", "-o", "x", "--parity", "x"], "--parity x: expected a whole number, 0 or more"),
        (&["split", "text", "-o", "text", "-f"], "text: this is the input; name another file"),
        (&["list", "i.sqfs", "--sort", "foo"], "--sort foo: accepted: path, size, time"),
        (&["list", "i.erofs", "--device", "text"], "i.erofs: number of devices 1: the image has additional devices: 0"),
        (&["list", "i.sqfs", "--device", "text"], "i.sqfs: number of devices 1: a SquashFS image has no additional"),
        (&["join", "p0", "p1", "p2", "-o", "p1"], "p1 is one of the parts (p1); name another file with -o"),
    ];
    for (args, told) in cases {
        let error = line(dir.path(), 2, args);
        assert!(error.starts_with(told), "{args:?}: {error}");
    }
}

#[test]
fn a_file_of_an_option_is_named_with_the_option_once() {
    let dir = things();
    let missing = "No such file or directory";
    // A list is a part of the command line; an image or a measurement is not.
    let cases: [(i32, &[&str], &str); 12] = [
        (2, &["build", "root", "-o", "x", "--sort", "nosuch"], "--sort nosuch: cannot read: "),
        (2, &["build", "root", "-o", "x", "--hot", "nosuch", "--dry-run"], "--hot nosuch: cannot read: "),
        (2, &["build", "root", "-o", "x", "--fs-config", "nosuch"], "--fs-config nosuch: cannot read: "),
        (2, &["build", "root", "-o", "x", "--rules", "nosuch"], "--rules nosuch: cannot read: "),
        (2, &["build", "root", "-o", "x", "--exclude-from", "nosuch"], "--exclude-from nosuch: cannot read: "),
        (2, &["list", "i.sqfs", "--paths-from", "nosuch"], "--paths-from nosuch: cannot read: "),
        (1, &["build", "root", "-o", "x", "--reuse", "nosuch"], "--reuse nosuch: cannot open: "),
        (1, &["build", "root", "-o", "x", "--reuse", "text"], "--reuse text: text.index: no such index"),
        (1, &["bench", "codecs", "--data", "nosuch"], "--data nosuch: "),
        (1, &["bench", "split", "--data", "nosuch"], "--data nosuch: "),
        (1, &["bench", "report", "results", "--against", "nosuch"], "--against nosuch: "),
        (1, &["bench", "report", "nosuch", "-o", "page.html"], "nosuch: "),
    ];
    fs::write(dir.path().join("results"), "").unwrap();
    for (status, args, told) in cases {
        let error = line(dir.path(), status, args);
        assert!(error.starts_with(told) && (error.ends_with(missing) || error.contains("index")), "{args:?}: {error}");
        assert_eq!(error.matches("nosuch").count(), usize::from(args.contains(&"nosuch")), "{args:?}: {error}");
    }
}

#[test]
fn advice_names_options_of_the_program_that_was_started() {
    let dir = things();
    let cases: [(&[&str], &str); 3] = [
        (&["extract", "i.sqfs", "-C", "out"], "out/etc/motd exists; --force replaces it"),
        (&["as", "fsck.erofs", "--extract=out", "i.erofs"], "out/etc/motd exists; --overwrite replaces it"),
        (&["as", "rdsquashfs", "-u", "/", "-p", "out", "i.sqfs"], "out/etc/motd exists"),
    ];
    fs::create_dir_all(dir.path().join("out/etc")).unwrap();
    fs::write(dir.path().join("out/etc/motd"), "").unwrap();
    for (args, told) in cases {
        let error = line(dir.path(), 1, args);
        assert!(error.ends_with(told), "{args:?}: {error}");
    }
    // No file in that directory would be this entry.
    fs::remove_file(dir.path().join("out/etc/motd")).unwrap();
    fs::create_dir(dir.path().join("out/etc/motd")).unwrap();
    let error = line(dir.path(), 1, &["extract", "i.sqfs", "-C", "out", "--force"]);
    assert!(error.ends_with("out/etc/motd: cannot create: Is a directory; directories are not replaced"), "{error}");
}

#[test]
fn a_wrong_command_line_is_an_error_without_notes() {
    let dir = things();
    let cases: [(i32, &[&str], &str); 4] = [
        (2, &["split", "text", "-o", "q", "-o", "q"], "splitting text: q: this part is already named"),
        (2, &["split", "text", "-o", "q", "-o", "r", "--parity", "2"], "splitting text: parity 2: needs at least 3"),
        (1, &["split", "text", "-o", "q", "-o", "p0"], "splitting text: p0: it exists; replace it with --force"),
        (1, &["tune", "nosuch"], "nosuch: cannot open: No such file"),
    ];
    for (status, args, told) in cases {
        let error = line(dir.path(), status, args);
        assert!(error.starts_with(told), "{args:?}: {error}");
    }
}

#[test]
fn differences_of_times_are_dates() {
    let dir = things();
    succeed(dir.path(), &["build", "root", "-o", "old.sqfs", "--time", "2026-01-02", "-q"]);
    succeed(dir.path(), &["build", "root", "-o", "new.erofs", "--time", "1767312000.25", "-q"]);
    succeed(dir.path(), &["build", "root", "-o", "newer.erofs", "--time", "1767312001", "-q"]);
    let differ = |args: &[&str]| {
        let ran = packfs(args).current_dir(dir.path()).output().unwrap();
        assert_eq!(ran.status.code(), Some(1), "{}", stderr(&ran));
        String::from_utf8(ran.stdout).unwrap()
    };
    let (whole, fraction, later) = ("2026-01-02 00:00:00", "2026-01-02 00:00:00.250000000", "2026-01-02 00:00:01");
    let told = differ(&["diff", "old.sqfs", "newer.erofs"]);
    assert!(told.starts_with(&format!(".: mtime: {whole} / {later}\n")), "{told}");
    let told = differ(&["diff", "newer.erofs", "new.erofs"]);
    assert!(told.contains(&format!("etc/motd: mtime: {later} / {fraction}\n")), "{told}");
    let told = differ(&["check", "newer.erofs", "--against", "old.sqfs"]);
    assert!(told.contains(&format!("etc: mtime: {later} / {whole}\n")), "{told}");
}

#[test]
fn a_full_output_is_named_once() {
    let dir = things();
    let lines = [
        &["tar", "i.sqfs"][..],
        &["join", "part", "-o", "-"],
        &["cat", "part", "--range", "0:5"],
        &["cat", "i.sqfs", "etc/motd"],
        &["--help"],
        &["build", "--help"],
    ];
    for args in lines {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let ran = packfs(args).current_dir(dir.path()).stdout(full).output().unwrap();
        let told = "packfs: standard output: cannot write: No space left on device\n";
        assert_eq!((ran.status.code(), stderr(&ran).replace("etc/motd: ", "").as_str()), (Some(1), told), "{args:?}");
    }
    let split = line(dir.path(), 1, &["split", "text", "-o", "/dev/full"]);
    assert!(split.ends_with("make room, then repeat the command with --resume"), "{split}");
    let tar = line(dir.path(), 1, &["tar", "i.sqfs", "-o", "nosuch/x"]);
    assert!(tar.starts_with("nosuch/x: cannot create: No such file"), "{tar}");
}

#[test]
fn a_missing_part_is_asked_for() {
    let dir = things();
    let largest = ["p0", "p1", "p2"].into_iter().max_by_key(|part| fs::metadata(dir.path().join(part)).unwrap().len());
    let parts: Vec<_> = ["p0", "p1", "p2"].into_iter().filter(|part| Some(*part) != largest).collect();
    let error = fail(dir.path(), 1, &["join", parts[0], parts[1], "-o", "x"]);
    let (first, ranges) = error.split_once('\n').unwrap();
    assert!(
        first.ends_with(", too, or write the rest to x with --partial") && first.contains("lost; name part "),
        "{error}"
    );
    assert!(ranges.contains("is missing"), "{error}");
}

#[test]
fn an_image_in_its_own_source_is_left_out_and_warned_about() {
    let dir = things();
    let warning = "packfs: warning: new.sqfs: the image lies in its source directory";
    for force in [&[][..], &["--force"]] {
        let ran =
            packfs(["build", "root", "-o", "root/new.sqfs"]).args(force).current_dir(dir.path()).output().unwrap();
        assert!(ran.status.success() && stderr(&ran).starts_with(warning), "{}", stderr(&ran));
        assert!(!succeed(dir.path(), &["list", "root/new.sqfs"]).contains("new.sqfs"));
    }
    let quiet = ["build", "root", "-o", "root/new.sqfs", "-f", "--exclude", "/new.sqfs"];
    let ran = packfs(quiet).current_dir(dir.path()).output().unwrap();
    assert!(ran.status.success() && !stderr(&ran).contains("warning"), "{}", stderr(&ran));
    let ran = packfs(["build", "root", "-o", "beside.sqfs"]).current_dir(dir.path()).output().unwrap();
    assert!(ran.status.success() && !stderr(&ran).contains("warning"), "{}", stderr(&ran));
}

#[test]
fn an_image_does_not_replace_the_source_that_it_refers_to() {
    let dir = things();
    common::program::sh(dir.path(), "tar -cf a.tar root && ln -s a.tar link");
    let archive = fs::read(dir.path().join("a.tar")).unwrap();
    for (source, output) in [("a.tar", "a.tar"), ("a.tar", "./a.tar"), ("link", "a.tar"), ("a.tar", "link")] {
        let error = fail(dir.path(), 2, &["build", "--refer", source, "-o", output, "--format", "erofs", "--force"]);
        assert!(error.contains("--refer") && error.contains("the image would replace it"), "{error}");
        assert!(fs::read(dir.path().join("a.tar")).unwrap() == archive);
    }
}

/// A device is written while its old image is still read.
#[test]
fn an_image_is_not_written_to_the_device_that_it_is_made_from() {
    let dir = things();
    succeed(dir.path(), &["build", "root", "-o", "old.sqfs", "-q", "--codec", "none"]);
    fs::File::options().write(true).open(dir.path().join("old.sqfs")).unwrap().set_len(4 << 20).unwrap();
    let old = fs::read(dir.path().join("old.sqfs")).unwrap();
    let test = "an_image_is_not_written_to_the_device_that_it_is_made_from";
    let Some(device) = LoopDevice::attach(test, &dir.path().join("old.sqfs")) else { return };
    let name = &*device.0;
    for sources in [&[name][..], &["root", name], &["root", "--append", name]] {
        let error = fail(dir.path(), 2, &[&["build", "-o", name, "--force"], sources].concat());
        assert!(error.contains(&format!("{name} is read during the build: ")), "{error}");
    }
    drop(device);
    assert!(fs::read(dir.path().join("old.sqfs")).unwrap() == old);
}

/// Only where the tests run as root can another user be used, from whom a file is hidden.
#[test]
fn a_file_of_another_user_says_how_to_read_it() {
    if !rustix::process::geteuid().is_root() || !common::have("a_file_of_another_user_says_how_to_read_it", "setpriv") {
        return;
    }
    use std::os::unix::fs::PermissionsExt;
    let dir = things();
    let mode = |path: &str, mode| {
        fs::set_permissions(dir.path().join(path), fs::Permissions::from_mode(mode)).unwrap();
    };
    mode(".", 0o777);
    mode("root/etc/motd", 0o600);
    let program = dir.path().join("packfs");
    copy_packfs(&program);
    let nobody = |args: &[&str]| {
        let mut command = std::process::Command::new("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(&program).args(args);
        stderr(&command.current_dir(dir.path()).output().unwrap())
    };
    let denied = "cannot open: Permission denied; run as root";
    let (entry, source) = (nobody(&["build", "root", "-o", "x.sqfs"]), nobody(&["build", "root/etc/motd", "-o", "y"]));
    assert!(entry.ends_with(&format!("etc/motd: {denied}, or leave it out with --on-error skip\n")), "{entry}");
    assert!(source.ends_with(&format!("root/etc/motd: {denied}\n")), "{source}");
}
