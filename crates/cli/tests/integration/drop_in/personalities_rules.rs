//! Other programs' options for single entries: labels, attributes, sort files, hints and actions give the same image.

use std::path::Path;
use std::process::{Command, Output};

use crate::common::program::is_current;
use crate::common::{have, packfs, run_in, script_dir, stderr, succeed};

/// A directory with `root` in it, and files that options name.
fn workplace() -> tempfile::TempDir {
    let script = "mkdir -p root/boot root/usr/lib root/bin && seq 1 60000 > root/boot/vmlinuz && seq -f s%g 500 > root/usr/lib/small &&
        seq -f t%g 9000 > root/usr/lib/text.txt && echo tool > root/bin/tool && echo other > 'root/bin/a b' &&
        ln -s tool root/bin/link && setfattr -n user.k -v v root/bin/tool && setfattr -n security.selinux -v old root/bin/tool &&
        find root -exec touch -h -d @1700000000 {} +";
    let dir = script_dir(script);
    let files = [
        (
            "contexts",
            "# labels\n/.*\tsystem_u:object_r:default_t:s0\n/ -d system_u:object_r:root_t:s0\n\
             /bin/tool -- system_u:object_r:tool_t:s0\n/bin/.* system_u:object_r:bin_t:s0\n/usr(/.*)? -d system_u:object_r:dir_t:s0\n\
             /usr/lib/[^/]+\\.txt -- <<none>>\n/boot(/.*)? -l system_u:object_r:never_t:s0\n",
        ),
        (
            "attributes",
            "# file: bin/tool\nuser.a=\"x\\\"y\\\\ \\012z\"\nuser.b=0x4142\n\n# file: usr/\nsecurity.foo=0sSGk=\n\n\
             # file: bin/a b\nuser.c=\"d\"\n",
        ),
        (
            "sort",
            "# data\n-100 [dont_compress,dont_fragment] boot/vmlinuz\n5  [glob]  bin/*\n6 [glob_no_path] *.txt\n7 \"bin/a b\"\n",
        ),
        ("hints", "0 ^boot/\n65536 \\.txt$\n65536 .*\n"),
    ];
    for (name, text) in files {
        std::fs::write(dir.path().join(name), text).unwrap();
    }
    dir
}

fn run(mut command: Command, dir: &Path, line: &str, image: &str) -> Output {
    let args = line.split(' ').map(|word| if word == "IMAGE" { image } else { word });
    command.args(args).current_dir(dir).env_remove("SOURCE_DATE_EPOCH").output().unwrap()
}

/// Gives a command line to a program and to packfs under its name, and compares the images.
fn same(dir: &Path, program: &str, line: &str) {
    let made = run(Command::new(program), dir, line, "theirs");
    assert!(made.status.success(), "{program} {line}: {}", stderr(&made));
    let made = run(packfs(["as", program]), dir, line, "ours");
    assert!(made.status.success(), "{program} {line}: {}", stderr(&made));
    let different = run_in(dir, &["diff", "theirs", "ours"]);
    assert_eq!(String::from_utf8_lossy(&different.stdout), "", "{program} {line}");
    succeed(dir, &["check", "ours"]);
}

/// Returns true if whole blocks of a file lie in an image as they are.
fn is_stored(dir: &Path, image: &str, file: &str) -> bool {
    let (image, file) = (std::fs::read(dir.join(image)).unwrap(), std::fs::read(dir.join(file)).unwrap());
    let file = &file[..file.len() / 4096 * 4096];
    image.windows(file.len()).any(|part| part == file)
}

#[test]
fn gensquashfs_labels_attributes_and_sort_files() {
    if !have("gensquashfs_labels_attributes_and_sort_files", "gensquashfs") {
        return;
    }
    let dir = workplace();
    let dir = dir.path();
    for line in [
        "-D root -f -q -s contexts IMAGE",
        "-D root -f -q -x --selinux=contexts IMAGE",
        "-D root -f -q -A attributes IMAGE",
        "-D root -f -q -x -A attributes IMAGE",
        "-D root -f -q -S sort -c gzip IMAGE",
    ] {
        same(dir, "gensquashfs", line);
    }
    assert!(is_stored(dir, "theirs", "root/boot/vmlinuz") && is_stored(dir, "ours", "root/boot/vmlinuz"));
    std::fs::write(dir.join("sort"), "1 [align,nosparse] boot/vmlinuz\n").unwrap();
    same(dir, "gensquashfs", "-D root -f -q -S sort -c gzip IMAGE");
    std::fs::write(dir.join("sort"), "1 [frob] a\n").unwrap();
    let refused = run(packfs(["as", "gensquashfs"]), dir, "-D root -f -S sort IMAGE", "ours");
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("sort:1: unknown flag `frob`"), "{}", stderr(&refused));
}

#[test]
fn mkfs_erofs_labels_and_hints() {
    if !is_current("mkfs_erofs_labels_and_hints", "mkfs.erofs") {
        return;
    }
    let dir = workplace();
    let dir = dir.path();
    std::fs::write(dir.join("sizes"), "4096 text\n16384 ^usr/\n0 vmlinuz\n65536 tool\n").unwrap();
    for line in [
        "--quiet --file-contexts=contexts IMAGE root",
        "--quiet -C65536 --compress-hints=sizes -zlz4hc,12 IMAGE root",
        "--quiet -zlz4 -C65536 --compress-hints=hints IMAGE root",
    ] {
        same(dir, "mkfs.erofs", line);
    }
    for (image, file, stored) in [
        ("theirs", "root/boot/vmlinuz", true),
        ("ours", "root/boot/vmlinuz", true),
        ("theirs", "root/usr/lib/text.txt", false),
        ("ours", "root/usr/lib/text.txt", false),
    ] {
        assert_eq!(is_stored(dir, image, file), stored, "{image} {file}");
    }
    // Version 1.9.4 crashes if a line names a compressor.
    std::fs::write(dir.join("several"), "4096 1 text\n16384 2 .*\n").unwrap();
    let made = run(
        packfs(["as", "mkfs.erofs"]),
        dir,
        "--quiet -C65536 --compress-hints=several -zlz4hc,12:zstd,9:lzma,3 IMAGE root",
        "several.erofs",
    );
    assert!(made.status.success(), "{}", stderr(&made));
    assert_eq!(succeed(dir, &["diff", "theirs", "several.erofs", "-q"]), "");
    succeed(dir, &["check", "several.erofs"]);
    let info = succeed(dir, &["info", "several.erofs"]);
    assert!(info.contains("zstd (window") && info.contains("lzma (window"), "{info}");
    // As with mkfs.erofs, a wrong size is only reported.
    for (hints, status, why) in [
        ("4096 1 x", 1, "compressor 1: -z names 1"),
        ("5000 tool", 0, "--compress-hints: 5000 is not a cluster size: ignored"),
    ] {
        std::fs::write(dir.join("hints"), hints).unwrap();
        let made = run(packfs(["as", "mkfs.erofs"]), dir, "-zlz4 -C65536 --compress-hints=hints IMAGE root", "new");
        assert_eq!((made.status.code(), stderr(&made).contains(why)), (Some(status), true), "{}", stderr(&made));
    }
}

#[test]
fn mksquashfs_actions() {
    if !is_current("mksquashfs_actions", "mksquashfs") {
        return;
    }
    let dir = workplace();
    let dir = dir.path();
    std::fs::write(dir.join("actions"), "# two\nuid(7)@type(d)\nchmod(go-rwx)@name(tool)||name(*.txt)\n").unwrap();
    for actions in [
        "-action exclude@name(*.txt)",
        "-action exclude@filesize(>1k)&&!name(vm*)",
        "-action uid(5)@!(type(f)||type(l)) -action gid(6)@depth(2)",
        "-action guid(3,daemon)@subpathname(usr/lib) -action uid(9)@depth(-1)",
        "-action exclude@pathname(bin/*)&&!(type(l))",
        "-action exclude@subpathname(usr)",
        "-action exclude@type(f)||type(l) -action empty@!name(usr)",
        "-action empty(source)@true -action exclude@type(f)",
        "-action exclude@type(f) -action empty(excluded)@true",
        "-action uncompressed@true -action compressed@name(*.txt)",
        "-action uid(9)@name(*) -action gid(8)@pathname(*)",
        "-action xattrs-add(user.z=0x4142)@true -action xattrs-exclude(^security.)@type(f)",
        "-action no-fragments@true -tailends",
        "-action-file actions",
        "-log-action exclude@false -action-file actions -all-root",
        "-action xattrs-add(user.z=1)@type(f) -no-xattrs",
        "-action chmod(u+x)@type(f) -action uid(3)@type(d) -force-dir-mode g+w -force-gid 9",
        "-action uid(3)@true -uid-gid-offset 5",
        "-action tailend@name(*.txt) -action no-tailend@name(vm*) -tailends",
        "-action fragments@name(*.txt) -no-fragments",
        "-action align(4k)@type(f) -action uncompressed@pathname(boot/*)",
        "-action uncompressed@pathname(boot/*)",
    ] {
        same(dir, "mksquashfs", &format!("root IMAGE -noappend -no-progress -quiet {actions}"));
    }
    assert!(is_stored(dir, "theirs", "root/boot/vmlinuz") && is_stored(dir, "ours", "root/boot/vmlinuz"));
    for (line, why) in [
        ("root new -action fragment(a)@true", "fragment: packfs has one"),
        ("root new -noD -action compressed@true", "both compressed and -noD"),
        ("root new -action-file gone", "-action-file gone: cannot read"),
    ] {
        let refused = run(packfs(["as", "mksquashfs"]), dir, line, "");
        assert_eq!((refused.status.code(), stderr(&refused).contains(why)), (Some(1), true), "{}", stderr(&refused));
    }
}
