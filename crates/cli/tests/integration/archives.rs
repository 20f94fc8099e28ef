//! Archives as sources: those from a pipe or a decompressor compared with the same archive in a file.

use std::fs::{File, read};
use std::path::Path;
use std::process::Output;

use crate::common::program::sh;
use crate::common::{self, fail, have, packfs, stderr, succeed};

/// Makes archives of files of all sizes, plain and compressed. One member is replaced by a later one.
fn archives(dir: &Path) {
    let mut builder = tar::Builder::new(Vec::new());
    let mut add = |name: &str, data: &[u8]| {
        let mut header = tar::Header::new_gnu();
        header.set_size(data.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, name, data).unwrap();
    };
    let text = |n: usize, len: usize| format!("{n} line {}\n", n * n).repeat(len).into_bytes();
    add("z/replaced", &text(9, 20_000));
    for n in (0..40).rev() {
        add(&format!("{}/file {n}", n % 3), &text(n, 37 * n * n));
    }
    add("large", &text(77, 300_000));
    add("z/replaced", b"by this");
    let bytes = builder.into_inner().unwrap();
    std::fs::write(dir.join("a.tar"), &bytes).unwrap();
    std::fs::write(dir.join("a.tar.zst"), zstd::encode_all(&bytes[..], 1).unwrap()).unwrap();
    std::fs::write(dir.join("order"), "large 5\n2 3\n0/file\\ 3 -7\n").unwrap();
}

fn piped(dir: &Path, args: &[&str]) -> Output {
    packfs(args).current_dir(dir).stdin(File::open(dir.join("a.tar")).unwrap()).output().unwrap()
}

#[test]
fn a_sort_file_applies_to_every_archive_and_a_spool_makes_them_equal() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    archives(dir);
    let formats: [&[&str]; 4] = [
        &["--format", "squashfs", "-b", "16K"],
        &["--format", "squashfs", "-c", "none"],
        &["--format", "erofs"],
        &["--format", "erofs", "-c", "none"],
    ];
    for format in formats {
        let build = |source: &str, image: &str, options: &[&str]| {
            let args = [&["build", source, "-o", image, "-qf"], format, options].concat();
            let output =
                if source == "-" { piped(dir, &args) } else { packfs(&args).current_dir(dir).output().unwrap() };
            assert!(output.status.success(), "{args:?}: {}", stderr(&output));
            read(dir.join(image)).unwrap()
        };
        let plain = build("a.tar", "plain", &[]);
        let sorted = build("a.tar", "sorted", &["--sort", "order"]);
        assert!(plain != sorted, "{format:?}");
        for source in ["-", "a.tar.zst"] {
            assert!(build(source, "spooled", &["--spool"]) == plain, "{source} {format:?}");
            assert!(build(source, "spooled", &["--sort", "order"]) == sorted, "{source} {format:?}");
            build(source, "streamed", &[]);
            succeed(dir, &["diff", "streamed", "a.tar", "-q"]);
        }
    }
}

#[test]
fn an_order_holds_for_every_source() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    archives(dir);
    succeed(dir, &["build", "a.tar", "-o", "other.sqfs", "-q", "--order", "path"]);
    for format in ["squashfs", "erofs"] {
        for order in ["path", "type", "similar"] {
            let build = |source: &str, options: &[&str]| {
                let args =
                    [&["build", source, "-o", "image", "-qf", "--format", format, "-c", "lz4"], options].concat();
                let output =
                    if source == "-" { piped(dir, &args) } else { packfs(&args).current_dir(dir).output().unwrap() };
                assert!(output.status.success(), "{args:?}: {}", stderr(&output));
                read(dir.join("image")).unwrap()
            };
            let want = build("a.tar", &["--order", order, "--spool"]);
            for source in ["-", "a.tar.zst", "other.sqfs"] {
                // By path, as its members come, is how a stream is put down anyway.
                let options: &[&str] =
                    if order == "path" { &["--order", order, "--spool"] } else { &["--order", order] };
                assert!(build(source, options) == want, "{source} {format} {order}");
            }
            succeed(dir, &["diff", "image", "a.tar", "-q"]);
        }
    }
}

#[test]
fn unknown_paths_in_a_sort_file_are_warnings() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    archives(dir);
    std::fs::write(dir.join("order"), "large 1\ngone 2\n").unwrap();
    let output = piped(dir, &["build", "-", "-o", "a.sqfs", "--sort", "order"]);
    assert!(output.status.success());
    assert!(stderr(&output).contains("packfs: warning: order (line 2: `gone`): the sort file names"));
    let output = piped(dir, &["build", "-", "-o", "b.sqfs", "--sort", "order", "--strict"]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
}

/// A cpio and a zip archive become images that equal one of the directory, from a file and, for cpio, from a pipe.
#[test]
fn cpio_and_zip_archives_hold_what_the_directory_holds() {
    let test = "cpio_and_zip_archives_hold_what_the_directory_holds";
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let script = "mkdir -p t/etc/empty t/usr && cd t && echo hi > etc/name && seq 300000 > usr/long && : > usr/none &&
        ln -s ../etc/name usr/link && chmod 4711 usr/long && chown -h 3:70000 etc/name usr/link usr/none &&
        find . -exec touch -h -d @1700000000 {} +";
    sh(dir, script);
    succeed(dir, &["build", "t", "-o", "t.sqfs", "-q"]);
    for (program, script) in [
        ("cpio", "cd t && find . | cpio --quiet -o -H newc > ../a.cpio"),
        ("cpio", "cd t && find . | cpio --quiet -o -H crc > ../a.cpio"),
        ("bsdtar", "bsdtar --format newc -cf a.cpio -C t . && zstd -qf a.cpio -o a.cpio.zst"),
        ("bsdtar", "cd t && bsdtar --format zip -cf ../a.zip ."),
        ("zip", "cd t && rm -f ../a.zip && zip -qry ../a.zip . && unzip -tq ../a.zip"),
    ] {
        if !have(test, program) {
            continue;
        }
        sh(dir, script);
        let archives = if script.contains("zip") { &["a.zip"][..] } else { &["a.cpio", "a.cpio.zst"] };
        for archive in archives.iter().filter(|archive| dir.join(archive).exists()) {
            for (format, jobs) in [("squashfs", "-j0"), ("squashfs", "-j3"), ("erofs", "-j2")] {
                succeed(dir, &["build", archive, "-o", "made", "-fq", "--format", format, jobs]);
                // zip and bsdtar leave out the root, or its time.
                let told = common::run_in(dir, &["diff", "t.sqfs", "made"]);
                let told = String::from_utf8(told.stdout).unwrap();
                let other: Vec<_> = told.lines().filter(|line| !line.starts_with(".: ")).collect();
                assert_eq!(other, [""; 0], "{script}: {archive} {format}");
            }
            succeed(dir, &["check", "made", "--against", archive, "-q"]);
        }
    }
    let Ok(bytes) = read(dir.join("a.cpio")) else { return };
    let (early, late) = (&bytes[..], read(dir.join("a.cpio.zst")).unwrap_or_default());
    std::fs::write(dir.join("initrd"), [early, &[0; 512][..], &late].concat()).unwrap();
    succeed(dir, &["build", "initrd", "-o", "made", "-fq"]);
    let output = packfs(["build", "-", "-o", "piped", "-fq"])
        .current_dir(dir)
        .stdin(File::open(dir.join("initrd")).unwrap())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(succeed(dir, &["diff", "made", "piped"]), "");
    let mut cut = bytes.clone();
    cut.truncate(bytes.len() - 600);
    std::fs::write(dir.join("cut.cpio"), cut).unwrap();
    let told = fail(dir, 1, &["build", "cut.cpio", "-o", "none", "-q"]);
    assert!(told.contains("cut.cpio") && told.contains("truncated") && !dir.join("none").exists(), "{told}");
}

/// An image of an archive contains the tree that the programs for such archives unpack.
#[test]
fn archives_of_other_programs_hold_what_their_programs_unpack() {
    let test = "archives_of_other_programs_hold_what_their_programs_unpack";
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let deep = format!("{}/{}", "x".repeat(60), "y".repeat(80));
    let script = format!(
        "mkdir -p t/d/empty 't/sp ace' t/{deep} && cd t && echo hello > d/file && : > d/none && seq 50000 > d/long &&
        ln d/file d/hard && ln -s file d/link && ln -s /nowhere dangling && echo name > {deep}/{} && echo > umläut &&
        echo > 'back\\slash' && truncate -s 2M hole && printf middle | dd of=hole bs=1 seek=900000 conv=notrunc \
        status=none && chmod 4755 d/long && chmod 1777 'sp ace' && chmod 640 d/file &&
        find . -exec touch -h -d @1700000000.25 {{}} + && touch -d @3000000000 d/long",
        "n".repeat(110)
    );
    sh(dir, &script);
    let python_tar = |format: &str| {
        format!(
            "cd t && python3 -c 'import tarfile, os\nwith tarfile.open(\"../a\", \"w\", format=tarfile.{format}) as t:\n \
             for name in sorted(os.listdir(\".\")): t.add(name)'"
        )
    };
    let python_zip =
        "cd t && python3 -c 'import shutil; shutil.make_archive(\"../a\", \"zip\", \".\", \"d\")' && mv ../a.zip ../a";
    let tar = "tar --numeric-owner -xpf";
    let unzip = "unzip -qq -o -K -X";
    let cases = [
        ("tar", "tar --format=v7 -cf a -C t d hole dangling umläut".to_owned(), tar),
        ("tar", "tar --format=oldgnu -cf a -C t .".to_owned(), tar),
        ("tar", "tar --format=ustar -cf a -C t d hole dangling umläut".to_owned(), tar),
        ("tar", "tar --format=gnu -S -cf a -C t . && tar --format=gnu -rf a -C t d/file".to_owned(), tar),
        ("tar", "tar --format=posix -S --sparse-version=0.0 -cf a -C t .".to_owned(), tar),
        ("tar", "tar --format=posix --pax-option=delete=mtime,globexthdr.name=g,comment=c -cf a -C t .".to_owned(), tar),
        ("bsdtar", "bsdtar --format=pax -cf a -C t .".to_owned(), tar),
        ("bsdtar", "bsdtar --format=gnutar -cf a -C t .".to_owned(), tar),
        ("cpio", "cd t && find . | cpio --quiet -o -H ustar > ../a 2>/dev/null".to_owned(), tar),
        ("cpio", "cd t && find . -depth | cpio --quiet -o -H odc > ../a".to_owned(), "bsdtar -xpf"),
        ("python3", python_tar("GNU_FORMAT"), tar),
        ("python3", python_tar("PAX_FORMAT"), tar),
        ("git", "cd t && git init -q . && git add umläut && git -c user.name=a -c user.email=a@b commit -qm a && git archive HEAD > ../a && rm -rf .git".to_owned(), tar),
        ("python3", python_zip.to_owned(), unzip),
        ("zip", "cd t && zip -qryX ../a.zip d dangling umläut && mv ../a.zip ../a".to_owned(), unzip),
        ("jar", "jar cf made.jar -C t d && mv made.jar a".to_owned(), unzip),
        ("npm", "mkdir p && cd p && echo '{\"name\":\"p\",\"version\":\"1.0.0\"}' > package.json && npm pack --silent --offline >&2 && mv *.tgz ../a && cd .. && rm -r p".to_owned(), tar),
        (
            "dpkg-deb",
            "mkdir -p p/DEBIAN p/usr && cp t/d/file p/usr && printf 'Package: p\\nVersion: 1\\nArchitecture: all\\nMaintainer: a <a@b>\\nDescription: d\\n' > p/DEBIAN/control && \
             dpkg-deb -Zxz -b p p.deb >&2 && ar p p.deb data.tar.xz > a && rm -r p p.deb".to_owned(),
            tar,
        ),
    ];
    // Only files with their times: some programs do not restore those of directories and links.
    let shown = "find . -mindepth 1 -type d -printf '%P %m %U:%G\\n' -o -type f -printf '%P %m %U:%G %T@ %s %n\\n' \
        -o -printf '%P %y %U:%G %l\\n' | sort && find . -type f | sort | xargs -d '\\n' sha256sum";
    for (program, make, unpack) in cases {
        let unpacker = unpack.split(' ').next().unwrap();
        if !have(test, program) || !have(test, unpacker) {
            continue;
        }
        sh(dir, &format!("export LC_ALL=C.UTF-8; {make}"));
        let path = dir.join("a").to_str().unwrap().to_owned();
        let theirs = sh(
            dir,
            &format!("mkdir theirs && cd theirs && export TZ=UTC LC_ALL=C.UTF-8 && {unpack} {path} >&2 && {shown}"),
        );
        succeed(dir, &["build", "a", "-o", "image.erofs", "-q", "-f"]);
        succeed(dir, &["extract", "image.erofs", "-C", "ours", "-q"]);
        let ours = sh(dir, &format!("cd ours && {shown}"));
        sh(dir, "rm -rf theirs ours a");
        let differing: Vec<_> = theirs.lines().zip(ours.lines()).filter(|(theirs, ours)| theirs != ours).collect();
        assert!(theirs == ours, "{make}: theirs, ours: {differing:?}");
    }
}
