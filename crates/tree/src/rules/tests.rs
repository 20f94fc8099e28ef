//! Rules on small trees: which entries they match, what becomes of those, and how mistakes are told.

use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::testing::{Attrs, Node, Piece, Spec, What as Is};
use crate::tree::{ConflictPolicy, FileData, InodeAttributes, Kind, ROOT};
use crate::{Tree, Warning};

fn rules(text: &str) -> Result<Rules> {
    Rules::parse([(Path::new("rules"), text.as_bytes())])
}

/// A tree of files of several kinds; `usr/lib/a.so` is also called `also`.
fn tree() -> Tree {
    let text = |len| Node::file(vec![Piece::Text { seed: 1, len }]);
    let zeros = |len| Node::file(vec![Piece::Zeros(len)]);
    let link = Node { attrs: Attrs::plain(0o777), what: Is::Symlink(b"a.so".to_vec()) };
    let mut owned = text(100);
    owned.attrs.owner = (1000, 100);
    owned.attrs.xattrs.insert("user.a".into(), b"1".to_vec());
    let lib = Node::dir([(b"a.so".to_vec(), text(5000)), (b"l".to_vec(), link), (b"b.o".to_vec(), zeros(10))]);
    let mut spec = Spec::of([
        (b"usr".to_vec(), Node::dir([(b"lib".to_vec(), lib), (b"own file".to_vec(), owned)])),
        (b"empty".to_vec(), Node::file(vec![])),
    ]);
    spec.links = vec![(b"usr/lib/a.so".to_vec(), b"also".to_vec())];
    spec.tree().unwrap()
}

/// Returns the paths that tests match, by their owner afterwards.
fn matched(tests: &str) -> Vec<String> {
    let mut tree = tree();
    let rules = rules(&format!("{tests} -> owner=77")).unwrap();
    rules.select(&mut tree).unwrap().apply(&mut tree).unwrap();
    let mut paths = Vec::new();
    tree.walk(|ino, path| {
        if tree.inode(ino).uid == 77 {
            paths.push(String::from_utf8_lossy(path).into_owned());
        }
        Ok(())
    })
    .unwrap();
    paths
}

#[test]
fn tests_choose_entries() {
    for (tests, expected) in [
        ("all", &["", "also", "empty", "usr", "usr/lib", "usr/lib/b.o", "usr/lib/l", "usr/own file"][..]),
        ("glob=*.o", &["usr/lib/b.o"]),
        ("glob=usr/*", &["usr/lib", "usr/own file"]),
        ("glob=usr/** type=file", &["also", "usr/lib/b.o", "usr/own file"]),
        ("path=/usr/lib/a.so", &["also"]),
        ("path=\"usr/own file\"", &["usr/own file"]),
        ("path=/", &[""]),
        ("regex=^usr/.*\\.(o|so)$", &["also", "usr/lib/b.o"]),
        ("regex=lib regex=o$", &["also", "usr/lib/b.o"]),
        ("regex=^usr !regex=lib", &["usr", "usr/own file"]),
        ("type=dir,l", &["", "usr", "usr/lib", "usr/lib/l"]),
        ("!type=d !glob=usr/**", &["also", "empty"]),
        ("size=5000", &["also"]),
        ("size=1..4K", &["usr/lib/b.o", "usr/own file"]),
        ("size=..0", &["empty"]),
        ("size=4K..", &["also"]),
        ("owner=1000", &["usr/own file"]),
        ("group=99..100", &["usr/own file"]),
        ("depth=0..1", &["", "also", "empty", "usr"]),
        ("depth=3 magic=text", &["also"]),
        ("magic=0x00000000", &["usr/lib/b.o"]),
        ("magic=elf,compressed", &[]),
    ] {
        assert_eq!(matched(tests), expected, "{tests}");
    }
}

#[test]
fn later_rules_win_until_one_stops() {
    let text = "# for all\nall -> owner=1 mode=0600\nglob=usr/** -> owner=2 stop\n\n all -> group=3 mode=u+x\n";
    let mut tree = tree();
    let rules = rules(text).unwrap();
    let selected = rules.select(&mut tree).unwrap();
    selected.apply(&mut tree).unwrap();
    let of = |path: &str| {
        let inode = tree.inode(tree.lookup(path.as_bytes()).unwrap());
        (inode.uid, inode.gid == 3, inode.mode)
    };
    assert_eq!(of("empty"), (1, true, 0o700));
    assert_eq!(of("usr/lib/b.o"), (2, false, 0o600));
    assert_eq!(of("usr/lib/l"), (2, false, 0o777), "modes of symbolic links stay");
    // One name is in usr, the other is not: both change the file, in the order of the rules.
    assert_eq!(of("also"), (2, true, 0o700));
    let counts: Vec<_> = selected.matches().iter().map(|rule| (rule.line, rule.entries)).collect();
    assert_eq!(counts, [(2, 9), (3, 5), (5, 4)]);
}

#[test]
fn empty_directories_are_left_out() {
    for (effect, left) in [
        ("exclude-empty", &["kept", "kept/file"][..]),
        ("exclude-empty=source", &["emptied", "kept", "kept/file", "outer"]),
        ("exclude-empty=excluded", &["kept", "kept/file", "outer", "outer/inner"]),
    ] {
        let mut tree = Tree::default();
        let dir = Kind::Dir;
        let mut add = |parent, name: &str, kind| {
            tree.add(parent, name.as_bytes(), InodeAttributes::IMPLICIT_DIR, kind, ConflictPolicy::Refuse).unwrap()
        };
        let [emptied, kept, outer] = ["emptied", "kept", "outer"].map(|name| add(ROOT, name, dir.clone()));
        add(outer, "inner", dir.clone());
        for (parent, name) in [(emptied, "a.o"), (kept, "b.o"), (kept, "file")] {
            add(parent, name, Kind::File { size: 0, data: FileData::Empty });
        }
        let rules = rules(&format!("glob=*.o -> exclude\nall -> {effect}")).unwrap();
        rules.select(&mut tree).unwrap().apply(&mut tree).unwrap();
        let mut found = Vec::new();
        tree.each_name(|_, _, _, path| {
            found.push(String::from_utf8_lossy(path).into_owned());
            true
        });
        assert_eq!(found, left, "{effect}");
    }
    assert!(rules("all -> exclude-empty=x").unwrap_err().to_string().contains("expected source or excluded"));
}

#[test]
fn a_later_compress_takes_back_store() {
    for (text, stored) in [
        ("all -> store\nall -> compress", false),
        ("all -> compress\nall -> store", true),
        ("all -> store compress", false),
        ("all -> compress store", true),
        ("all -> compress", false),
    ] {
        let mut tree = tree();
        let rules = rules(text).unwrap();
        rules.select(&mut tree).unwrap().apply(&mut tree).unwrap();
        let handling = tree.inode(tree.lookup(b"empty").unwrap()).handling;
        assert_eq!(handling, if stored { DataHandling::STORE } else { DataHandling::empty() }, "{text}");
    }
}

#[test]
fn owners_are_shifted() {
    let mut tree = tree();
    let rules = rules("glob=own* -> owner=+5 group=-100\nall -> owner=+1 owner=+0").unwrap();
    rules.select(&mut tree).unwrap().apply(&mut tree).unwrap();
    let own = tree.inode(tree.lookup(b"usr/own file").unwrap());
    assert_eq!((own.uid, own.gid), (1005, 0), "the last effect of a rule counts, and all rules");
    for (text, why) in [
        ("glob=own* -> group=-101", "usr/own file: the group is outside 0 to 4294967294 with an offset of -101"),
        ("glob=own* -> owner=+4294967294", "usr/own file: the owner is outside"),
    ] {
        let mut tree = self::tree();
        let rules = self::rules(text).unwrap();
        let told = rules.select(&mut tree).unwrap().apply(&mut tree).unwrap_err().to_string();
        assert!(told.contains(why), "{told}");
    }
}

#[test]
fn entries_are_excluded_with_everything_below() {
    let mut tree = tree();
    let rules = rules("glob=lib/ -> exclude\npath=/ -> exclude\nglob=*.o -> exclude").unwrap();
    rules.select(&mut tree).unwrap().apply(&mut tree).unwrap();
    let left: Vec<&str> = ["usr", "usr/own file", "usr/lib", "usr/lib/b.o", "also", "empty"]
        .into_iter()
        .filter(|path| tree.lookup(path.as_bytes()).is_some())
        .collect();
    assert_eq!(left, ["usr", "usr/own file", "also", "empty"]);
    assert_eq!(tree.inode(tree.lookup(b"also").unwrap()).links, 1);
    let unused: Vec<_> = tree.warnings.kinds().flat_map(|(_, all)| all.first.iter().map(Warning::place)).collect();
    assert_eq!(unused, ["rules (line 3: glob=*.o -> exclude)"], "what lies below is not tested");
}

#[test]
fn attributes_ranks_and_handling_are_set() {
    let text = "glob=own* -> xattr=user.b=0x3100 xattr=user.c=x=y drop-xattr=user.a time=5.5\n\
                glob=*.so -> priority=7 store\npath=also -> no-fragment priority=-3\ntype=d -> priority=9";
    let mut tree = tree();
    let rules = rules(text).unwrap();
    assert!(rules.need_data() && rules.handle_data() && !rules.is_empty());
    let ranks = rules.select(&mut tree).unwrap().apply(&mut tree).unwrap();
    let ino = tree.lookup(b"also").unwrap();
    assert_eq!(ranks.iter().map(|rank| (rank.ino, rank.rank)).collect::<Vec<_>>(), [(ino, 3)]);
    assert_eq!(tree.inode(ino).handling, DataHandling::STORE | DataHandling::NO_FRAGMENT);
    let own = tree.inode(tree.lookup(b"usr/own file").unwrap());
    assert_eq!(own.mtime, Time { secs: 5, nanos: 500_000_000 });
    let set: Vec<_> = tree.xattrs.get(own.xattrs).iter().map(|(name, value)| (&**name, &**value)).collect();
    assert_eq!(set, [(&b"user.b"[..], &b"1\0"[..]), (b"user.c", b"x=y")]);
    assert!(matches!(own.kind, Kind::File { .. }));
}

#[test]
fn mistakes_are_told_with_file_and_line() {
    for (line, why) in [
        ("glob=*.o exclude", "the arrow is missing"),
        ("-> exclude", "there is no test before the arrow; `all` matches every entry"),
        ("all ->", "no effect follows the arrow"),
        ("name=x -> exclude", "unknown test `name`; tests: path, glob"),
        ("x -> exclude", "unknown test `x`"),
        ("all -> remove", "unknown effect `remove`; effects: exclude"),
        ("glob=[a -> exclude", "the pattern `[a` is malformed"),
        ("regex=a( -> exclude", "`a(` is not a regular expression"),
        ("type=x -> exclude", "unknown type `x`"),
        ("size=1X -> exclude", "size=1X: expected a number, or a range"),
        ("size=5..4 -> exclude", "size=5..4: expected"),
        ("depth=.. -> exclude", "depth=..: expected"),
        ("owner=root -> exclude", "owner=root: expected a number"),
        ("magic=tar -> store", "unknown magic `tar`; accepted: compressed, text, elf"),
        ("magic=0x1 -> store", "is not a row of pairs"),
        ("path=\"a -> store", "a quote is not closed"),
        ("all -> owner", "owner: its value is missing"),
        ("all -> group=4294967295", "expected a number from 0 to 4294967294"),
        ("all -> store=1", "store takes no value"),
        ("all -> mode=rwx", "mode"),
        ("all -> time=now", "seconds since 1970"),
        ("all -> priority=x", "priority: expected a number"),
        ("all -> xattr=a", "expected xattr=NAME=VALUE"),
        ("all -> xattr=user.a=0xg", "well-formed value"),
        ("all -> codec=none", "the effect `store`"),
        ("all -> codec=foo", "foo"),
        ("all -> cluster=0", "expected a size such as 64K"),
        ("all -> level=3", "codec=zstd:15"),
        ("all -> align=4K", "align takes no value"),
        ("all -> fragments=all", "expected none, small or tails"),
        ("all -> fragments", "its value is missing"),
    ] {
        let told = rules(&format!("all -> stop\n{line}")).unwrap_err().to_string();
        assert!(told.starts_with("rules:2: ") && told.contains(why), "{line}: {told}");
    }
    assert!(Rules::parse([(Path::new("r"), &b"path=\xff -> exclude"[..])]).unwrap_err().to_string().contains("UTF-8"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_text_is_parsed_or_refused(text in any::<Vec<u8>>()) {
        let _ = Rules::parse([(Path::new("rules"), &text[..])]);
    }

    #[test]
    fn any_words_are_parsed_or_refused(words in prop::collection::vec(word(), 0..6)) {
        let _ = rules(&words.join(" "));
    }
}

/// Words that look like those of the language.
fn word() -> impl Strategy<Value = String> {
    let names =
        "(!?(path|glob|regex|type|size|owner|depth|magic|all)|exclude|store|priority|mode|time|xattr|drop-xattr|->)";
    (names, "(=[^\n]{0,6})?").prop_map(|(name, value): (String, String)| name + &value)
}
