//! Lists in both dialects, compared with the programs that define them if those are installed.

use crate::name::display;
use std::fs;
use std::io::Read;
use std::process::Command;

use proptest::prelude::*;

use super::*;
use crate::OnError;
use crate::testing::{Snapshot, differences, skipped, snapshot_tree};
use crate::tree::Kind;

struct NoStore;

impl Store for NoStore {
    fn put(&mut self, _: &mut dyn Read, _: u64, _: &[(u64, u64)]) -> Result<u32> {
        unreachable!("files of a list are read later")
    }
}

/// Makes a directory with a few files that lists refer to.
fn place() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("inc/sub/deep")).unwrap();
    for (name, content) in [("hi", "hi\n"), ("inc/a.so", "a"), ("inc/b.txt", "b"), ("inc/sub/c.so", "c")] {
        fs::write(dir.path().join(name), content).unwrap();
    }
    std::os::unix::fs::symlink("a.so", dir.path().join("inc/l.so")).unwrap();
    dir
}

fn scan_over(tree: &mut Tree, dir: &Path, text: &[u8]) -> Result<()> {
    let list = dir.join("list");
    fs::write(&list, text).unwrap();
    PackList::new(&list, Options::default(), Time { secs: 77, nanos: 0 }).scan(tree, &mut NoStore)
}

fn scan(dir: &Path, text: impl AsRef<[u8]>) -> Result<Tree> {
    let mut tree = Tree::default();
    scan_over(&mut tree, dir, text.as_ref()).map(|()| tree)
}

/// Returns a line per entry: type, path, mode, owner, time, and type-specific fields.
fn show(tree: &Tree) -> Vec<String> {
    let line = |(path, e): (String, crate::testing::Entry)| {
        let special = match e.kind {
            '-' => format!(" {} bytes", e.size),
            'l' => format!(" -> {}", e.target),
            'c' | 'b' => format!(" {:?}", e.device),
            _ => String::new(),
        };
        let same = e.same_as.map(|path| format!(" = /{path}")).unwrap_or_default();
        let xattrs = if e.xattrs.is_empty() { String::new() } else { format!(" {:?}", e.xattrs) };
        let (uid, gid) = e.owner;
        format!("{}{:04o} {uid}:{gid} {} /{path}{special}{same}{xattrs}", e.kind, e.mode, e.mtime.secs)
    };
    snapshot_tree(tree).unwrap().into_iter().map(line).collect()
}

const PACK_FILE: &str = r#"
# a comment
   # another
dir / 0711 5 6
dir /a 0755 0 0
file /a\x2db 0644 0 0 hi
file "/q \"x\" \\x2d" 0644 1 2 hi
slink /s1 0777 0 0 a b c
slink /s2 0777 0 0 "a b"
sock /a/sock 0700 0 0
pipe a/pipe 0700 0 0
nod /c 0600 0 0 c 5 1
nod /b 0600 0 0 b 259 300
link /hl 0 0 0 /a\x2db
link /early 0 0 0 /late
file /late 4755 0 0 hi
file /implicit/dir/f 0644 0 0 hi
"#;

#[test]
fn a_pack_file_becomes_a_tree() {
    let dir = place();
    let tree = scan(dir.path(), PACK_FILE).unwrap();
    let expected = [
        r"d0711 5:6 77 /",
        r"d0755 0:0 77 /a",
        r"p0700 0:0 77 /a/pipe",
        r"s0700 0:0 77 /a/sock",
        r"-0644 0:0 77 /a\\x2db 3 bytes",
        r"b0600 0:0 77 /b (259, 300)",
        r"c0600 0:0 77 /c (5, 1)",
        r"-4755 0:0 77 /early 3 bytes",
        r"-0644 0:0 77 /hl 3 bytes = /a\\x2db",
        r"d0755 0:0 77 /implicit",
        r"d0755 0:0 77 /implicit/dir",
        r"-0644 0:0 77 /implicit/dir/f 3 bytes",
        r"-4755 0:0 77 /late 3 bytes = /early",
        r#"-0644 1:2 77 /q \"x\" \\x2d 3 bytes"#,
        r"l0777 0:0 77 /s1 -> a b c",
        r#"l0777 0:0 77 /s2 -> \"a b\""#,
    ];
    assert_eq!(show(&tree), expected);
}

const PSEUDO_FILE: &str = r#"
# a comment
/ d 0755 0 0
dev d 755 0 0
/dev/console c 0600 0 0 5 1
/dev/disk B 9 0660 0 6 8 300
/dev/sp\ ace s 0777 0 0 a b c
"/dev/q x" i 0700 0 0 f
/dev/so I 8 0700 0 0 s
/hh l hi
/h2 L /hh
/t D 12345 0755 0 0
/t m 0700 1 2
/quoted S 5 0777 0 0 "a b"
"#;

#[test]
fn a_pseudo_file_becomes_a_tree() {
    let dir = place();
    let tree = scan(dir.path(), PSEUDO_FILE).unwrap();
    let lines = show(&tree);
    let expected = [
        r"d0755 0:0 77 /",
        r"d0755 0:0 77 /dev",
        r"c0600 0:0 77 /dev/console (5, 1)",
        r"b0660 0:6 9 /dev/disk (8, 300)",
        r"p0700 0:0 77 /dev/q x",
        r"s0700 0:0 8 /dev/so",
        r"l0777 0:0 77 /dev/sp ace -> a b c",
        "/h2",
        "/hh",
        r#"l0777 0:0 5 /quoted -> \"a b\""#,
        r"d0700 1:2 12345 /t",
    ];
    for (line, expected) in lines.iter().zip(expected) {
        assert!(line == expected || (expected.len() == 3 && line.contains(expected)), "{line} / {expected}");
    }
    assert_eq!(lines.len(), expected.len());
    assert_eq!(tree.lookup(b"hh"), tree.lookup(b"h2"));
    // A file added as it is keeps all its attributes.
    let host = crate::testing::snapshot(dir.path()).unwrap();
    let hh = &snapshot_tree(&tree).unwrap()["hh"];
    assert_eq!((hh.mtime, hh.mode, &hh.hash), (host["hi"].mtime, host["hi"].mode, &host["hi"].hash));
}

#[test]
fn our_own_keywords_change_entries() {
    let text = r#"
content "/a b" 0644 0 0 "two\012lines\012"
xattr "/a b" user.a="x\"y"
xattr "/a b" user.b=0x00ff
"/a b" x security.c=plain text
xattr /l user.d=through the link
link /l 0 0 0 "/a b"
"#;
    // The target of a link is taken literally, including quotes.
    let error = scan(place().path(), text).unwrap_err().to_string();
    assert!(error.contains("list:6: /l: there is no such file to change"), "{error}");
    let text = text.replace("link /l 0 0 0 \"/a b\"", "").replace("xattr /l", "/l L \"/a b\"\nxattr /l");
    let text = text + "mode /l 0600\nowner /l 3 4\ntime /l 99.5\n";
    let tree = scan(place().path(), &text).unwrap();
    let xattrs =
        r#"{"security.c": "plain text", "user.a": "x\\\"y", "user.b": "\\x00\\xff", "user.d": "through the link"}"#;
    let expected = [
        "d0755 0:0 0 /".to_owned(),
        format!("-0600 3:4 99 /a b 10 bytes {xattrs}"),
        format!("-0600 3:4 99 /l 10 bytes = /a b {xattrs}"),
    ];
    assert_eq!(show(&tree), expected);
    let hash = blake3::hash(b"two\nlines\n").to_hex().to_string();
    assert_eq!(snapshot_tree(&tree).unwrap()["l"].hash, hash);
}

#[test]
fn lists_replace_existing_entries_and_links_to_them() {
    let dir = place();
    let mut tree =
        scan(dir.path(), "file /x 0644 0 0 hi\nlink /y 0 0 0 /x\ndir /d 0755 0 0\nfile /d/f 0644 0 0 hi").unwrap();
    scan_over(&mut tree, dir.path(), b"link /z 0 0 0 /x\nnod /x 0600 0 0 c 1 3\ndir /d 0700 1 1").unwrap();
    let expected = [
        "d0755 0:0 0 /",
        "d0700 1:1 77 /d",
        "-0644 0:0 77 /d/f 3 bytes",
        "c0600 0:0 77 /x (1, 3)",
        "-0644 0:0 77 /y 3 bytes",
        "c0600 0:0 77 /z (1, 3) = /x",
    ];
    assert_eq!(show(&tree), expected);
}

#[test]
fn a_file_is_added_again_after_its_name_was_replaced() {
    let dir = place();
    let tree = scan(dir.path(), "/d/a l hi\ntree /d/a inc\n/b l hi\n/c l hi").unwrap();
    let found = snapshot_tree(&tree).unwrap();
    let hi = blake3::hash(b"hi\n").to_hex().to_string();
    assert_eq!((found["d/a"].kind, &found["b"].hash, &found["c"].hash), ('d', &hi, &hi));
    assert_eq!(tree.lookup(b"b"), tree.lookup(b"c"));
}

#[test]
fn directories_are_included_whole_or_in_part() {
    let dir = place();
    let names = |text: &str| -> Vec<String> {
        let tree = scan(dir.path(), text).unwrap_or_else(|error| panic!("{text}: {error}"));
        snapshot_tree(&tree).unwrap().into_iter().map(|(path, e)| format!("{path} {:04o}", e.mode)).skip(1).collect()
    };
    let table: [(&str, &[&str]); 7] = [
        ("glob /g 0750 7 8 -type d inc", &["g 0755", "g/sub 0750", "g/sub/deep 0750"]),
        ("glob /g 0640 7 8 -type f inc", &["g 0755", "g/a.so 0640", "g/b.txt 0640"]),
        (
            "dir /g/sub 0700 0 0\nglob /g 0640 7 8 -type f -type l -name '*.so' inc",
            &["g 0755", "g/a.so 0640", "g/l.so 0777", "g/sub 0700", "g/sub/c.so 0640"],
        ),
        ("glob / 0640 7 8 -nonrecursive -name \"b*\" -- inc", &["b.txt 0640"]),
        (
            "glob /g 0600 0 0 -type d inc\nglob /g 0640 0 0 -path g/*/c.so inc",
            &["g 0755", "g/sub 0600", "g/sub/c.so 0640", "g/sub/deep 0600"],
        ),
        ("glob /g 0640 0 0 -path g/c.so inc", &["g 0755"]),
        ("glob /g 0640 0 0 -path b.txt inc", &["g 0755"]),
    ];
    for (text, expected) in table {
        assert_eq!(names(text), expected, "{text}");
    }
    let whole = scan(dir.path(), "tree / inc").unwrap();
    let mut disk = crate::testing::snapshot(&dir.path().join("inc")).unwrap();
    assert_eq!(differences(&snapshot_tree(&whole).unwrap(), &disk), Vec::<String>::new());
    let kept = scan(dir.path(), "glob / * * * -keeptime inc").unwrap();
    disk.remove("");
    let mut kept = snapshot_tree(&kept).unwrap();
    kept.remove("");
    assert_eq!(differences(&kept, &disk), Vec::<String>::new());
}

#[test]
fn a_directory_like_another_has_its_attributes_and_no_entries() {
    let dir = place();
    let list = "dirlike / inc\ndirlike /a/b inc/sub\nmode /a/b 0700\n";
    let made = snapshot_tree(&scan(dir.path(), list).unwrap()).unwrap();
    let disk = crate::testing::snapshot(&dir.path().join("inc")).unwrap();
    assert_eq!(made.keys().collect::<Vec<_>>(), ["", "a", "a/b"]);
    let facts = |all: &Snapshot, path: &str| (all[path].owner, all[path].mtime);
    for (path, like) in [("", ""), ("a/b", "sub")] {
        assert_eq!(facts(&made, path), facts(&disk, like), "{path}");
    }
    assert_eq!((made[""].mode, made["a/b"].mode), (disk[""].mode, 0o700));
}

#[test]
fn excluded_directories_are_not_included() {
    let dir = place();
    let exclude = crate::ExcludeRules::new(["/a", "/c/sub"]).unwrap();
    let list = "tree /a inc\nglob /a/b 0755 0 0 inc\ntree /c inc\ntree / inc\n";
    fs::write(dir.path().join("list"), list).unwrap();
    let mut tree = Tree::default();
    let options = Options { exclude, ..Options::default() };
    PackList::new(dir.path().join("list"), options, Time::default()).scan(&mut tree, &mut NoStore).unwrap();
    let paths: Vec<String> = snapshot_tree(&tree).unwrap().into_keys().collect();
    let expected = ["", "a.so", "b.txt", "c", "c/a.so", "c/b.txt", "c/l.so", "l.so", "sub", "sub/c.so", "sub/deep"];
    assert_eq!(paths, expected);
}

#[test]
fn existing_entries_are_kept_if_asked() {
    let (dir, below) = (place(), "dir /a 0700 1 1\ncontent /a/f 0600 2 2 \"x\"\n");
    let list = "dir / 0711 7 7\ndir /a 0755 9 9\ncontent /a/f 0644 9 9 \"long\"\nslink /a/l 0777 9 9 f\n\
                mode /gone 0600\npipe /new/p 0600 3 3\ndir /new 0750 4 4\nlink /a/f2 0 0 0 /a/f\n";
    fs::write(dir.path().join("list"), list).unwrap();
    for on_error in [OnError::Skip, OnError::Stop] {
        let mut tree = scan(dir.path(), below).unwrap();
        fs::write(dir.path().join("list"), list).unwrap();
        let options = Options { keep_existing: true, on_error, ..Options::default() };
        let mut source = PackList::new(dir.path().join("list"), options, Time { secs: 77, nanos: 0 });
        let result = source.scan(&mut tree, &mut NoStore);
        if on_error == OnError::Stop {
            let told = result.unwrap_err().to_string();
            assert!(told.ends_with("/list:2: a: an earlier source or line has this entry, which is kept"), "{told}");
            continue;
        }
        let expected = [
            "d0711 7:7 77 /",
            "d0700 1:1 77 /a",
            "-0600 2:2 77 /a/f 1 bytes",
            "-0600 2:2 77 /a/f2 1 bytes = /a/f",
            "l0777 9:9 77 /a/l -> f",
            "d0750 4:4 77 /new",
            "p0600 3:3 77 /new/p",
        ];
        assert_eq!(show(&tree), expected);
        let left: Vec<String> = source.left_out().iter().map(ToString::to_string).collect();
        assert_eq!(left.len(), 3, "{left:?}");
    }
}

#[test]
fn existing_entries_are_kept_from_whole_directories() {
    let dir = place();
    let below = "dir /a 0700 1 1\ncontent /a/f 0600 2 2 \"x\"\ndir /a/sub 0711 3 3\npipe /a/sub/p 0600 4 4\n";
    fs::create_dir_all(dir.path().join("more/sub")).unwrap();
    for name in ["f", "g", "sub/q", "sub/p"] {
        fs::write(dir.path().join("more").join(name), "other").unwrap();
    }
    for line in ["tree /a more", "glob /a 0644 9 9 more"] {
        for on_error in [OnError::Skip, OnError::Stop] {
            let mut tree = scan(dir.path(), below).unwrap();
            fs::write(dir.path().join("list"), line).unwrap();
            let options = Options { keep_existing: true, on_error, ..Options::default() };
            let mut source = PackList::new(dir.path().join("list"), options, Time { secs: 77, nanos: 0 });
            let result = source.scan(&mut tree, &mut NoStore);
            if on_error == OnError::Stop {
                assert!(result.unwrap_err().to_string().contains("which is kept"), "{line}");
                continue;
            }
            let shown = show(&tree).join("\n");
            for kept in
                ["d0700 1:1 77 /a\n", "-0600 2:2 77 /a/f 1 bytes", "d0711 3:3 77 /a/sub\n", "p0600 4:4 77 /a/sub/p"]
            {
                assert!(shown.contains(kept), "{line}: {shown}");
            }
            assert!(shown.contains(" /a/g 5 bytes") && shown.contains(" /a/sub/q 5 bytes"), "{line}: {shown}");
            assert_eq!(source.left_out().len(), 2, "{line}");
        }
    }
}

#[test]
fn a_change_of_what_is_missing_is_left_out_if_asked() {
    for line in ["mode /gone 0600", "owner /gone 1 1", "xattr /gone user.a=1"] {
        for on_error in [OnError::Skip, OnError::Stop] {
            let dir = place();
            fs::write(dir.path().join("list"), line).unwrap();
            let options = Options { on_error, ..Options::default() };
            let mut source = PackList::new(dir.path().join("list"), options, Time { secs: 77, nanos: 0 });
            let result = source.scan(&mut Tree::default(), &mut NoStore);
            assert_eq!(result.is_ok(), on_error == OnError::Skip, "{line}");
            assert_eq!(source.left_out().len(), usize::from(result.is_ok()), "{line}");
        }
    }
}

#[test]
fn mistakes_are_located_with_the_expected_syntax() {
    let table = [
        ("dir /x 0755 0", "list:1: the gid is missing; expected: dir PATH MODE UID GID"),
        ("\n\ndir /x 0999 0 0", "list:3: the mode must be an octal number in its range, not `0999`; expected: dir"),
        ("dir /x 10000 0 0", "an octal number up to 07777, not `10000`"),
        ("dir \"/x 0755 0 0", "a quote is not closed; expected: dir"),
        ("dir", "the path is missing"),
        ("dir /x 0755 0 0 junk", "unexpected `junk` at the end"),
        ("dir /x * 0 0", "`*` is only valid where"),
        ("dir /x 0755 root 0", "the uid must be a number in its range, not `root`"),
        ("dir /x 0755 4294967296 0", "the uid must be a number in its range"),
        ("dir /a/../b 0755 0 0", "list:1: `..` cannot be a file name"),
        ("dir /x 0755 0 0\ndir x/ 0755 0 0", "list:2: /x: line 1 already describes it"),
        ("pipe /d/p 0600 0 0\nslink /d 0777 0 0 e", "list:2: /d: line 1 describes an entry in it"),
        ("pipe /d/p 0600 0 0\ncontent /d 0777 0 0 e", "list:2: /d: line 1 describes an entry in it"),
        ("pipe /d/p 0600 0 0\nlink /d 0 0 0 /d/p", "list:2: /d: line 1 describes an entry in it"),
        ("slink /b 0777 0 0 inc\nglob /b 0644 0 0 .", "list:2: b: it is not a directory, so nothing can be in it"),
        ("pipe /b 0777 0 0\nglob /b 0644 0 0 .", "list:2: b: it is not a directory, so nothing can be in it"),
        ("file /x 0644 0 0 gone", "list:1: "),
        ("file /x 0644 0 0 inc", "inc: not a regular file"),
        ("file /gone 0644 0 0", "cannot find"),
        ("slink /x 0777 0 0", "the target is missing"),
        ("link /x 0 0 0 /gone", "list:1: /gone: there is no such file to link to"),
        ("link /x 0 0 0 /y\nlink /y 0 0 0 /x", "to link to"),
        ("dir /d 0755 0 0\nlink /x 0 0 0 /d", "a directory cannot be hard-linked"),
        ("nod /x 0600 0 0 d 1 1", "the type of a device must be `c` or `b`"),
        ("nod /x 0600 0 0 c 1", "the minor number is missing"),
        ("glob /x * * * -size 3 inc", "glob has no option `-size`"),
        ("glob /x * * * -type x inc", "the type must be one of b c d p f l s"),
        ("glob /x * * * -name [a inc", "malformed"),
        ("glob /x * * *", "the directory to take is missing"),
        ("tree /x nowhere", "nowhere: cannot open the directory"),
        ("dirlike /x nowhere", "nowhere: cannot find"),
        ("dirlike /x hi", "hi: not a directory"),
        ("dirlike /x", "the directory to take is missing; expected: dirlike PATH DIR"),
        ("mode /x 0755", "/x: there is no such file to change"),
        ("time /x soon", "seconds since 1970"),
        ("xattr / user.a", "there is no `=`"),
        ("xattr / user.a=0xabc", "not a well-formed value"),
        ("file / 0644 0 0 hi", "the root can only be a directory"),
        ("/x", "the type is missing; expected a keyword (dir,"),
        ("/x q 0755 0 0", "unknown type `q`"),
        ("/x d 0755 0", "the gid is missing; expected: PATH d MODE UID GID"),
        ("/x f 0644 0 0 date", "never runs commands"),
        ("/x R 0 0644 0 0 1 0 0", "no data follows its lines"),
        ("/x i 0644 0 0 q", "the type must be `f` (pipe)"),
        ("/x D yesterday 0755 0 0", "seconds since 1970, not `yesterday`"),
        ("/x c 0644 0 0 1 2 3", "unexpected `3` at the end"),
        ("/x l inc", "not a regular file"),
        ("/x s 0777 0 0", "the target is missing"),
        ("slink /f 0777 0 0 x\nfile /f/g 0644 0 0 hi", "list:2: f/g: `f` on the way is not a directory"),
    ];
    let dir = place();
    for (text, expected) in table {
        let error = scan(dir.path(), text).unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains("/list:"), "{text}: {error}");
    }
}

/// Removes what the description leaves out: times, contents and link counts.
fn described(tree: &Tree) -> Snapshot {
    let mut snapshot = snapshot_tree(tree).unwrap();
    for entry in snapshot.values_mut() {
        entry.mtime = Time::default();
    }
    snapshot
}

fn run(command: &mut Command) -> Option<Vec<u8>> {
    let output = command.output().ok()?;
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    Some(output.stdout)
}

/// Describes an image with rdsquashfs and reads that description.
fn read_back(dir: &Path, image: &Path) -> Tree {
    let unpacked = dir.join("unpacked");
    run(Command::new("rdsquashfs").args(["-q", "-u", "/", "-p"]).arg(&unpacked).arg(image)).unwrap();
    let list = run(Command::new("rdsquashfs").arg("-d").arg(image)).unwrap();
    scan(&unpacked, list).unwrap()
}

#[test]
fn gensquashfs_understands_pack_files_the_same() {
    let dir = place();
    let ours = scan(dir.path(), PACK_FILE).unwrap();
    let image = dir.path().join("image");
    let mut command = Command::new("gensquashfs");
    let done = run(command.current_dir(dir.path()).args(["-q", "-F"]).arg(dir.path().join("list")).arg(&image));
    if done.is_none() {
        return skipped("gensquashfs_understands_pack_files_the_same", "gensquashfs");
    }
    let theirs = read_back(dir.path(), &image);
    // rdsquashfs does not describe the root or hard links.
    let plain = |tree: &Tree| {
        let mut snapshot = described(tree);
        snapshot.remove("");
        snapshot.values_mut().for_each(|entry| (entry.nlink, entry.same_as) = (1, None));
        snapshot
    };
    assert_eq!(differences(&plain(&ours), &plain(&theirs)), Vec::<String>::new());
}

#[test]
fn mksquashfs_understands_pseudo_files_the_same() {
    let dir = place();
    // mksquashfs modifies only files of other sources, not those of its list.
    let text = PSEUDO_FILE.replace("l hi", &format!("l {}/hi", display(dir.path()))).replace("/t m 0700 1 2\n", "");
    let ours = scan(dir.path(), &text).unwrap();
    let image = dir.path().join("image");
    let mut command = Command::new("mksquashfs");
    let command = command.arg("-").arg(&image).args(["-quiet", "-no-progress", "-noappend", "-pf"]);
    if run(command.arg(dir.path().join("list"))).is_none() {
        return skipped("mksquashfs_understands_pseudo_files_the_same", "mksquashfs");
    }
    if Command::new("rdsquashfs").arg("--version").output().is_err() {
        return skipped("mksquashfs_understands_pseudo_files_the_same", "rdsquashfs");
    }
    let theirs = read_back(dir.path(), &image);
    let plain = |tree: &Tree| {
        let mut snapshot = described(tree);
        snapshot.remove("");
        snapshot.values_mut().for_each(|entry| (entry.nlink, entry.same_as) = (1, None));
        snapshot
    };
    assert_eq!(differences(&plain(&ours), &plain(&theirs)), Vec::<String>::new());
}

proptest! {
    #[test]
    fn no_line_makes_the_parser_panic(words in proptest::collection::vec(0usize..24, 0..9), tail in proptest::collection::vec(any::<u8>(), 0..9)) {
        const WORDS: [&[u8]; 24] = [b"dir", b"file", b"glob", b"nod", b"xattr", b"content", b"time", b"/x", b"\"a b\"", b"\"", b"\\", b"0755",
            b"0", b"*", b"d", b"c", b"s", b"x", b"L", b"i", b"-name", b"-type", b"a=0s=", b"'"];
        let mut line: Vec<u8> = words.iter().map(|at| WORDS[*at]).collect::<Vec<_>>().join(&b' ');
        line.extend(tail);
        if let Err(why) = parse(&line, true).and(parse(&line, false)) {
            prop_assert!(!why.is_empty());
        }
    }
}

#[test]
fn devices_need_no_root() {
    let tree = scan(place().path(), "nod /null 0666 0 0 c 1 3").unwrap();
    assert!(matches!(tree.inode(tree.lookup(b"null").unwrap()).kind, Kind::Char(DeviceNumber { major: 1, minor: 3 })));
}
