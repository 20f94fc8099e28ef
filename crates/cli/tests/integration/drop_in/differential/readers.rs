//! unsquashfs, sqfscat, rdsquashfs, sqfs2tar, sqfsdiff, fsck.erofs and dump.erofs: what they print, and what they extract.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Output;

use super::lines::{Grammar, Judged, Line, run, same, same_status};
use super::{lines, site, tree};
use crate::common::program::{sh, text};
use crate::common::succeed;

pub(crate) static UNSQUASHFS: Grammar = Grammar {
    program: "unsquashfs",
    operands: &[
        "a.sqfs",
        "a.sqfs",
        "b.sqfs",
        "c.sqfs",
        "a.sqfs etc",
        "a.sqfs usr/share var/log nosuch",
        "b.sqfs etc/* var/[az]*",
        "b.sqfs usr/bin/b?g",
        "a.sqfs /usr/bin/x",
        "c.sqfs deep/*/b",
        "a.sqfs nosuch",
        "b.sqfs var/a{b} var/a\\{b\\}",
        "a.sqfs etc/l*",
        "nosuch.sqfs",
        "c.sqfs etc/link",
        "late",
        "wanted",
    ],
    options: &[
        &["-d to", "-dest to"],
        &[
            "-l",
            "-ls",
            "-ll",
            "-lls",
            "-lln",
            "-llnumeric",
            "-lc",
            "-llc",
            "-cat",
            "-s",
            "-stat",
            "-mkfs-time",
            "-fstime",
        ],
        &["-l", "-ll", "-lln", "-lc", "-llc"],
        &["-i", "-info", "-li", "-linfo"],
        &["-max 1", "-max-depth 2", "-max 3"],
        &["-excludes"],
        &["-ex usr ;", "-exclude-list etc/ssl var/l* ;", "-ex nosuch ;"],
        &["-e wanted", "-ef wanted", "-extract-file left-out"],
        &["-exc left-out", "-exclude-file wanted", "-excf left-out"],
        &["-match", "-L", "-follow-symlinks", "-missing"],
        &["-no-wild", "-no-wildcards"],
        &["-all 1000000000", "-all-time 1234567890"],
        &["-f", "-force"],
        &["-full", "-full-precision"],
        &["-UTC"],
        &[
            "-no",
            "-no-xattrs",
            "-x",
            "-xattrs",
            "-u",
            "-user-xattrs",
            "-xattrs-exclude ^user.",
            "-xattrs-include ^trusted\\.",
        ],
        &["-p 1", "-processors 2", "-mem 128M", "-mem-percent 10", "-da 16", "-frag-queue 16"],
        &["-q", "-quiet"],
        &["-n", "-no-progress"],
        &["-ig", "-ignore-errors", "-no-exit", "-no-exit-code"],
        &["-st", "-strict-errors"],
        &["-o 0", "-offset 4096", "-o 4K"],
    ],
};

pub(crate) static SQFSCAT: Grammar = Grammar {
    program: "sqfscat",
    operands: &[
        "a.sqfs etc/hostname",
        "b.sqfs etc/motd usr/share/doc/text",
        "a.sqfs etc/h*",
        "c.sqfs var/hole",
        "a.sqfs nosuch etc/motd",
        "b.sqfs etc",
        "c.sqfs etc/link",
        "a.sqfs var/nothing",
        "nosuch.sqfs x",
        "b.sqfs usr/bin/* usr/share/doc/x.o",
        "a.sqfs",
        "late etc/motd",
        "a.sqfs dev/null var/fifo",
        "c.sqfs /etc/motd etc/motd",
        "a.sqfs var/small var/a{b}",
        "a.sqfs usr/dangling",
        "a.sqfs etc/nosuch/x",
    ],
    options: &[
        &["-p 1", "-processors 2"],
        &["-mem 128M", "-mem-percent 10"],
        &["-o 0", "-offset 4096", "-o 4K"],
        &["-ig", "-ignore-errors"],
        &["-st", "-strict-errors"],
        &["-no-exit", "-no-exit-code"],
        &["-no-wild", "-no-wildcards"],
    ],
};

pub(crate) static RDSQUASHFS: Grammar = Grammar {
    program: "rdsquashfs",
    operands: &["a.sqfs", "b.sqfs", "c.sqfs", "nosuch.sqfs", "wanted"],
    options: &[
        &["-l /", "-l etc", "--list=/usr/share/doc", "--list usr/bin/x", "-l nosuch", "-l dev", "-l var"],
        &["-c etc/motd", "--cat=/var/hole", "-c nosuch", "-c etc", "-c etc/link"],
        &["-x usr/bin/big", "--xattr /usr", "-x etc/hostname", "-x nosuch", "-x etc/link"],
        &[
            "-s usr/bin/big",
            "--stat=/",
            "-s etc/link",
            "-s dev/null",
            "-s var/hole",
            "-s var/fifo",
            "-s nosuch",
            "-s etc/other",
        ],
        &["-u /", "-u etc", "--unpack-path=usr/bin", "-u nosuch"],
        &["-d", "--describe"],
        &["-p to", "--unpack-root=to"],
        &["-D", "--no-dev"],
        &["-S", "--no-sock"],
        &["-F", "--no-fifo"],
        &["-L", "--no-slink"],
        &["-E", "--no-empty-dir"],
        &["-Z", "--no-sparse"],
        &["-X", "--set-xattr"],
        &["-T", "--set-times"],
        &["-C", "--chmod"],
        &["-O", "--chown"],
    ],
};

pub(crate) static SQFS2TAR: Grammar = Grammar {
    program: "sqfs2tar",
    operands: &["a.sqfs", "b.sqfs", "c.sqfs", "nosuch.sqfs", "wanted"],
    options: &[
        &["-c gzip", "--compressor=xz", "-c zstd", "-c nosuch"],
        &["-d etc", "--subdir=usr/share", "-d /usr/bin -d etc", "-d nosuch", "-d deep/a", "-d deep/a/b/"],
        &["-r .", "--root-becomes=a/b", "-r x"],
        &["-k", "--keep-as-dir"],
        &["-X", "--no-xattr"],
        &["-L", "--no-hard-links"],
        &["-s", "--no-skip"],
    ],
};

pub(crate) static SQFSDIFF: Grammar = Grammar {
    program: "sqfsdiff",
    operands: &[
        "-a a.sqfs -b b.sqfs",
        "--old a.sqfs --new=u.sqfs",
        "-b a.sqfs -a u.sqfs",
        "--old=b.sqfs -b changed.sqfs",
        "-a changed.sqfs -b c.sqfs",
        "-a nosuch.sqfs -b a.sqfs",
        "-a a.sqfs",
        "-a u.sqfs -b changed.sqfs",
    ],
    options: &[&["-C", "--no-contents"], &["-O", "--no-owner"], &["-P", "--no-permissions"], &["-T", "--timestamps"]],
};

pub(crate) static FSCK_EROFS: Grammar = Grammar {
    program: "fsck.erofs",
    operands: &["a.erofs", "a.erofs", "b.erofs", "c.erofs", "nosuch.erofs", "a.sqfs", "late.erofs"],
    options: &[
        &["--extract", "--extract=to", "--extract=to", "--extract=to", "--extract=to"],
        &["--path=/", "--path=/etc", "--path=/usr/share/doc", "--path=/usr/bin", "--path=nosuch"],
        &["--offset=0", "--offset=4096"],
        &["-d0", "-d9", "-d 3"],
        &["--xattrs", "--no-xattrs"],
        &["-a", "-A", "-y"],
        &["--force"],
        &["--overwrite"],
        &[
            "--preserve",
            "--preserve-owner",
            "--no-preserve-owner",
            "--preserve-perms",
            "--no-preserve-perms",
            "--no-preserve-perms",
        ],
        &["--no-sbcrc"],
        &["-p"],
    ],
};

pub(crate) static DUMP_EROFS: Grammar = Grammar {
    program: "dump.erofs",
    operands: &["a.erofs", "b.erofs", "c.erofs", "nosuch.erofs", "a.sqfs", "late.erofs"],
    options: &[
        &["-s"],
        &["-S"],
        &["-e"],
        &["--ls"],
        &["--cat"],
        &[
            "--path=/",
            "--path=/etc",
            "--path=/usr/bin/big",
            "--path=/etc/motd",
            "--path=/etc/link",
            "--path=/dev/null",
            "--path=/var/hole",
            "--path=/var/nothing",
            "--path=/usr/share/doc/text",
            "--path=/nosuch",
            "--path=/var/fifo",
        ],
        &["--offset=0", "--offset=4096"],
    ],
};

/// Makes the images to read: of other programs and of packfs, with blocks and fragments of different kinds.
pub(crate) fn make(dir: &Path, program: &str) {
    site::make(dir, &[program]);
    let squashfs = "
        mksquashfs t a.sqfs -quiet -no-progress >&2; mksquashfs t b.sqfs -quiet -no-progress -comp zstd -b 16K -tailends >&2
        mksquashfs u u.sqfs -quiet -no-progress -comp xz >&2; { head -c 4096 /dev/zero; cat a.sqfs; } > late
        cp -a t changed; echo more > changed/etc/motd; rm changed/etc/ssl/a.pem; chmod 700 changed/usr; chown 9 changed/var/small
        ln -sfn other changed/etc/link; rm changed/var/fifo; mkdir changed/var/fifo; touch changed/usr/bin/x changed/extra
        echo more >> changed/etc/hostname
        mksquashfs changed changed.sqfs -quiet -no-progress >&2
    ";
    let erofs = "
        mkfs.erofs --quiet -b4096 a.erofs t; mkfs.erofs --quiet -b4096 -zlz4hc,9 -C65536 -Efragments,dedupe b.erofs t
        cp a.erofs a.sqfs; printf XXXX | dd of=a.sqfs bs=1 seek=1024 conv=notrunc 2>/dev/null
        { head -c 4096 /dev/zero; cat a.erofs; } > late.erofs
    ";
    if program.ends_with(".erofs") {
        sh(dir, erofs);
        succeed(dir, &["build", "-q", "t", "-o", "c.erofs", "-c", "lz4"]);
    } else {
        sh(dir, squashfs);
        succeed(dir, &["build", "-q", "t", "-o", "c.sqfs", "-c", "lz4"]);
    }
}

/// Compares what both programs print for a line, and extract in `to` or in the working directory.
pub(crate) fn judge(dir: &Path, program: &str, line: &Line) -> Judged {
    if left_out(program, line) {
        return Ok(());
    }
    let words = line.options_first();
    let [theirs, ours] = [Path::new(program).to_owned(), dir.join(program)].map(|started| {
        site::clear(dir, &["to", "squashfs-root"]);
        let ran = run(dir, &started, &words, None);
        (extracted(dir), ran)
    });
    // squashfs-tools-ng 1.2 fails for some parts of images.
    let fails = ["path: invalid argument", "tree: invalid argument", ": data corrupted"];
    if fails.iter().any(|why| text(&theirs.1.stderr).contains(why)) {
        return Ok(());
    }
    match program {
        // It ends with the number of the error.
        "dump.erofs" => {
            same("success", &format!("{}\n", theirs.1.status.success()), &format!("{}\n", ours.1.status.success()))?
        }
        _ => same_status(&theirs.1, &ours.1)?,
    }
    let [printed, printed_by_us] = [&theirs.1, &ours.1].map(|ran| printed(dir, program, ran));
    same("standard output", &printed, &printed_by_us)?;
    // Where a directory is named, the target gets its attributes there.
    let named = program == "fsck.erofs" && line.has("--path");
    let root = |tree: &str| {
        let lines = tree.lines().filter(|line| !named || !line.starts_with("/ "));
        // rdsquashfs makes a file of each name.
        let apart = if program == "rdsquashfs" { " 2 links" } else { "\n" };
        let whole = lines.map(|line| line.split(apart).next().unwrap_or(line));
        // A program that gets another owner would be run as that one.
        let drops_set_id = program == "fsck.erofs" && !keeps_owners(line);
        let shown = whole.map(|line| if drops_set_id { line.replace(" 104755 ", " 100755 ") } else { line.to_owned() });
        shown.fold(String::new(), |all, line| all + &line + "\n")
    };
    same("extracted", &root(&theirs.0), &root(&ours.0))
}

/// Runs packfs under the name of a program.
pub(crate) fn ours(dir: &Path, program: &str, line: &Line) -> Output {
    site::clear(dir, &["to", "squashfs-root"]);
    run(dir, dir.join(program), &line.options_first(), None)
}

/// Returns true if files get their owners: the last option that says so counts, and the default is that of root.
fn keeps_owners(line: &Line) -> bool {
    let said = line.options.iter().rev().find_map(|option| match *option {
        "--preserve" | "--preserve-owner" => Some(true),
        "--no-preserve" | "--no-preserve-owner" => Some(false),
        _ => None,
    });
    said.unwrap_or(true)
}

/// Returns true if entries to extract are named.
fn named(line: &Line) -> bool {
    line.operands.contains(' ') || ["-e ", "-ef ", "-extract-file "].iter().any(|option| line.has(option))
}

/// Returns true for lines for which the programs are known to differ.
fn left_out(program: &str, line: &Line) -> bool {
    let follows = ["-match", "-L", "-follow", "-missing"].iter().any(|option| line.has(option));
    let plain = line.has("-no-wild") || follows || line.has("-excludes");
    match program {
        // A path that leads to nothing makes the directories on its way.
        "unsquashfs" => {
            let fewer = ["-ex", "-max"].iter().any(|option| line.has(option));
            // It takes directories for errors.
            let cats = line.has("-cat") && (line.operands.contains('*') || line.has("-e"));
            // Of two things to do the superblock comes first.
            let both = line.has("-s") && (line.has("-l") || line.has("-cat"));
            plain && line.operands.contains(['*', '?', '[']) || fewer && named(line) || cats || both
        }
        // Without an inode it prints a hint, and succeeds.
        "dump.erofs" => {
            // It prints the contents of directories and devices, too, and with -s or -S nothing at all.
            let others = ["-s", "-S"].iter().any(|option| line.has(option));
            let cat = line.has("--cat") && (!line.options.contains(&"--path=/etc/motd") || others);
            // It lists files and what is not there as empty.
            let lists =
                line.has("--ls") && !line.options.iter().any(|option| ["--path=/", "--path=/etc"].contains(option));
            line.has("--path=/nosuch")
                || cat
                || lists
                || (line.has("-e") || line.has("--ls") || line.has("--cat")) && !line.has("--path")
        }
        // It checks the part of an image as well.
        "fsck.erofs" => line.has("--path") && !line.has("--path=/ ") && !line.has("--extract="),
        // It hides the entries of a listing as well.
        "rdsquashfs" => {
            let hides = ["-D", "-S", "-F", "-L", "-E", "--no-"].iter().any(|option| line.has(option));
            let unpacks =
                (line.has("-u") || line.has("--unpack-path")) && !(line.has("-p") || line.has("--unpack-root"));
            // Without a directory it unpacks into the one of this test.
            // Without --chmod permissions are other ones.
            let modes = (line.has("-u") || line.has("--unpack-path")) && !(line.has("-C") || line.has("--chmod"));
            unpacks || modes || hides && (line.has("-l") || line.has("--list"))
        }
        _ => false,
    }
}

fn extracted(dir: &Path) -> String {
    let trees = ["to", "squashfs-root"].map(|name| dir.join(name)).into_iter().filter(|path| path.exists());
    trees.map(|path| tree::lines(&path)).collect()
}

/// Returns the output in the form in which callers see it.
fn printed(dir: &Path, program: &str, ran: &Output) -> String {
    match program {
        "sqfscat" | "sqfs2tar" if ran.status.code() == Some(1) => String::new(),
        // Its own archives have other padding and order of attributes.
        "sqfs2tar" if ran.status.success() => {
            std::fs::write(dir.join("made.tar"), &ran.stdout).unwrap();
            site::clear(dir, &["unpacked"]);
            sh(dir, "mkdir unpacked; tar --numeric-owner --xattrs --xattrs-include='*' -xpf made.tar -C unpacked || :");
            let (names, tree) = (sh(dir, "tar -tf made.tar || :"), tree::lines(&dir.join("unpacked")));
            // Without an entry for it, the root is that of this test.
            let tree =
                if names.starts_with("./\n") { &tree } else { tree.split_once('\n').map_or("", |split| split.1) };
            format!("{names}{tree}")
        }
        // Additions to a directory come first there.
        "sqfsdiff" => {
            let lines = text(&ran.stdout);
            // Of equal entries it tells the form of their inodes, too.
            let form = |line: &&str| !line.ends_with(" type") || line.ends_with(" different type");
            let sorted: BTreeSet<&str> = lines.lines().filter(form).collect();
            sorted.into_iter().flat_map(|line| [line, "\n"]).collect()
        }
        "unsquashfs" => lines::without_bar(&ran.stdout),
        // It tells what it makes.
        "rdsquashfs" => {
            let lines = text(&ran.stdout);
            lines
                .lines()
                .filter(|line| !line.starts_with("creating ") && !line.starts_with("unpacking "))
                .flat_map(|line| [line, "\n"])
                .collect()
        }
        _ => text(&ran.stdout),
    }
}
