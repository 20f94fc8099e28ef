//! Single changes to a tree with every feature, and the differences reported for them.

use proptest::prelude::*;

use super::*;
use crate::sink::fake::FakeImage;
use crate::testing::{Attrs, Node, Piece, Shape, Spec, What, specs, text};
use crate::tree::TreeImage;

fn node(what: What) -> Node {
    Node { attrs: Attrs { owner: (1, 2), ..Attrs::plain(0o644) }, what }
}

fn base() -> Spec {
    let device = DeviceNumber { major: 8, minor: 1 };
    let large = vec![text(1, 3 << 20), Piece::Hole(9 << 20), text(2, 3 << 20)];
    let sub = [(b"f".to_vec(), node(What::File(vec![text(3, 5000)]))), (b"p".to_vec(), node(What::Fifo))];
    let mut spec = Spec::of([
        (b"dev".to_vec(), node(What::Block(device))),
        (b"large".to_vec(), node(What::File(large))),
        (b"link".to_vec(), node(What::Symlink(b"target".to_vec()))),
        (b"sub".to_vec(), node(What::Dir(sub.into()))),
        (b"sub.txt".to_vec(), node(What::File(vec![text(4, 100)]))),
    ]);
    spec.links.push((b"sub.txt".to_vec(), b"zlink".to_vec()));
    spec
}

fn find<'s>(spec: &'s mut Spec, path: &str) -> &'s mut Node {
    path.split('/').fold(&mut spec.root, |node, name| match &mut node.what {
        What::Dir(entries) => entries.get_mut(name.as_bytes()).unwrap(),
        _ => panic!("{path} is not in the tree"),
    })
}

fn entries<'s>(spec: &'s mut Spec, path: &str) -> &'s mut std::collections::BTreeMap<Vec<u8>, Node> {
    let dir = if path.is_empty() { &mut spec.root } else { find(spec, path) };
    match &mut dir.what {
        What::Dir(entries) => entries,
        _ => panic!("{path} is no directory"),
    }
}

fn told(one: &dyn Image, two: &dyn Image, threads: usize) -> Result<Vec<String>> {
    let mut out = Vec::new();
    diff(one, two, &DiffOptions { threads, ..DiffOptions::default() }, &Progress::default(), &mut |difference| {
        out.push(difference.to_string())
    })?;
    Ok(out)
}

fn specs_differ(one: &Spec, two: &Spec) -> Vec<String> {
    let (one, two) = (one.tree().unwrap(), two.tree().unwrap());
    let (one, two) = (TreeImage::new(&one), TreeImage::new(&two));
    let reference = told(&one, &two, 0).unwrap();
    for threads in [1, 2, 7] {
        assert_eq!(told(&one, &two, threads).unwrap(), reference, "{threads} threads");
    }
    reference
}

#[test]
fn every_change_is_reported_once_with_both_values() {
    type SpecChange = fn(&mut Spec);
    let cases: &[(SpecChange, &[&str])] = &[
        (|_| {}, &[]),
        (|s| drop(entries(s, "").remove(&b"dev"[..])), &["dev: only in the first (block device)"]),
        (
            |s| drop(entries(s, "sub").insert(b"x".to_vec(), Node::dir([(b"y".to_vec(), Node::dir([]))]))),
            &["sub/x: only in the second (directory)"],
        ),
        (|s| drop(entries(s, "").insert(b"zz".to_vec(), Node::dir([]))), &["zz: only in the second (directory)"]),
        (|s| s.root.attrs.mode = 0o700, &[".: mode: 0755 / 0700"]),
        (|s| find(s, "sub/f").attrs.mode = 0o4711, &["sub/f: mode: 0644 / 4711"]),
        (|s| find(s, "link").attrs.mode = 0o4711, &[]),
        (|s| find(s, "sub").attrs.owner = (0, 7), &["sub: owner: 1:2 / 0:7"]),
        (|s| find(s, "link").attrs.mtime.secs = -3, &["link: mtime: 1000000001 / -3"]),
        (|s| find(s, "sub/p").attrs.mtime.nanos = 5, &["sub/p: mtime: 1000000001 / 1000000001.000000005"]),
        (|s| find(s, "sub/f").what = What::File(vec![text(3, 4999)]), &["sub/f: size: 5000 / 4999"]),
        (
            |s| find(s, "sub/f").what = What::File(vec![text(3, 4999), Piece::Zeros(1)]),
            &["sub/f: content: 0x73 at byte 4999 / 0x00 at byte 4999"],
        ),
        (
            |s| find(s, "large").what = What::File(vec![text(1, 3 << 20), Piece::Zeros(9 << 20), text(3, 3 << 20)]),
            &["large: content: 0x65 at byte 12582912 / 0x20 at byte 12582912"],
        ),
        (|s| find(s, "large").what = What::File(vec![text(1, 3 << 20), Piece::Zeros(9 << 20), text(2, 3 << 20)]), &[]),
        (|s| find(s, "link").what = What::Symlink(b"to\n".to_vec()), &["link: target: target / to\\n"]),
        (|s| find(s, "dev").what = What::Block(DeviceNumber { major: 8, minor: 2 }), &["dev: device: 8:1 / 8:2"]),
        (
            |s| find(s, "dev").what = What::Char(DeviceNumber { major: 8, minor: 1 }),
            &["dev: type: block device / character device"],
        ),
        (|s| find(s, "sub").what = What::Fifo, &["sub: type: directory / named pipe"]),
        (
            |s| find(s, "sub/p").what = What::Dir([(b"x".to_vec(), Node::dir([]))].into()),
            &["sub/p: type: named pipe / directory"],
        ),
        (
            |s| drop(find(s, "sub/f").attrs.xattrs.insert("user.x".into(), b"\x00y".to_vec())),
            &["sub/f: xattr user.x: none / \"\\x00y\""],
        ),
        (|s| s.links.clear(), &["zlink: only in the first (file)"]),
        (
            |s| {
                let copy = find(s, "sub.txt").clone();
                s.links.clear();
                entries(s, "").insert(b"zlink".to_vec(), copy);
            },
            &["zlink: links: link to sub.txt / no link"],
        ),
        (
            |s| s.links = vec![(b"sub/f".to_vec(), b"zlink".to_vec())],
            &["zlink: links: link to sub.txt / link to sub/f", "zlink: size: 100 / 5000"],
        ),
    ];
    for (at, (change, expected)) in cases.iter().enumerate() {
        let (one, mut two) = (base(), base());
        change(&mut two);
        assert_eq!(specs_differ(&one, &two), *expected, "case {at}");
    }
}

#[test]
fn files_of_different_sizes_differ_in_content_for_who_ignores_sizes() {
    let spec = |len| Spec::of([(b"f".to_vec(), node(What::File(vec![text(1, len)])))]);
    let one = spec(10).tree().unwrap();
    let two = spec(20).tree().unwrap();
    for (ignore, expected) in [
        (vec![], &["f: size: 10 / 20"][..]),
        (vec![Aspect::Size], &["f: content: 10 bytes / 20 bytes"]),
        (vec![Aspect::Content], &["f: size: 10 / 20"]),
        (vec![Aspect::Size, Aspect::Content], &[]),
    ] {
        let options = DiffOptions { ignore, ..DiffOptions::default() };
        let mut found = Vec::new();
        let mut note = |difference: Difference| found.push(difference.to_string());
        diff(&TreeImage::new(&one), &TreeImage::new(&two), &options, &Progress::default(), &mut note).unwrap();
        assert_eq!(found, expected, "{:?}", options.ignore);
    }
}

#[test]
fn every_name_of_a_file_is_reported() {
    type SpecChange = fn(&mut Spec);
    let changes: &[(SpecChange, &str)] = &[
        (|s| find(s, "sub.txt").what = What::File(vec![Piece::Zeros(100)]), "content"),
        (|s| find(s, "sub.txt").what = What::File(vec![Piece::Zeros(3 << 20)]), "size"),
        (|s| find(s, "sub.txt").attrs.mode = 0o600, "mode"),
        (|s| drop(find(s, "sub.txt").attrs.xattrs.insert("user.x".into(), b"y".to_vec())), "xattr"),
    ];
    for (change, aspect) in changes {
        let one = base();
        let mut two = base();
        change(&mut two);
        let found = specs_differ(&one, &two);
        assert_eq!(found.len(), 2, "{aspect}: {found:?}");
        assert!(found[0].contains(aspect), "{found:?}");
        assert_eq!(found[1], found[0].replace("sub.txt", "zlink"));
    }
    // Large files are compared in pieces, and both names are told once.
    let large = |seed: u64| {
        let mut spec = Spec::of([(b"a".to_vec(), node(What::File(vec![text(seed, 5 << 20)])))]);
        spec.links.push((b"a".to_vec(), b"b".to_vec()));
        spec
    };
    let found = specs_differ(&large(1), &large(2));
    assert_eq!(found.len(), 2, "{found:?}");
    assert_eq!(found[1], found[0].replacen('a', "b", 1));
}

#[test]
fn long_lists_of_differences_stay_in_order() {
    let files = |seed: u64| {
        Spec::of((0..500).map(|n| (format!("f{n:03}").into_bytes(), node(What::File(vec![text(seed, 50)])))))
    };
    let (one, mut two) = (files(1), files(2));
    for n in 0..500 {
        find(&mut two, &format!("f{n:03}")).attrs.mode = 0;
    }
    let found = specs_differ(&one, &two);
    assert_eq!(found.len(), 1000);
    assert!(found.is_sorted_by_key(|line| &line[..4]));
    assert!(found.chunks(2).all(|pair| pair[0].contains("mode") && pair[1].contains("content")));
}

#[test]
fn fractions_of_seconds_count_only_if_both_store_them() {
    let mut spec = Spec::of([]);
    spec.root.attrs.mtime.nanos = 7;
    spec.root.attrs.mtime.secs = 1_000_000_000;
    let tree = spec.tree().unwrap();
    assert_eq!(told(&FakeImage::default().dir(0, &[]), &TreeImage::new(&tree), 0).unwrap(), Vec::<String>::new());
}

#[test]
fn unreadable_data_is_an_error() {
    let sound = || FakeImage::default().dir(0, &[("f", 1)]).file(1, b"some bytes");
    let mut damaged = sound();
    damaged.inodes.get_mut(&1).unwrap().damaged = true;
    let mut short = sound();
    short.inodes.get_mut(&1).unwrap().data.truncate(3);
    let looping = || FakeImage::default().dir(0, &[("f", 1)]).dir(1, &[("again", 1)]);
    for threads in [0, 2] {
        assert!(told(&damaged, &sound(), threads).is_err());
        assert!(told(&sound(), &short, threads).is_err());
        assert!(told(&looping(), &looping(), threads).is_err());
    }
}

#[test]
fn json_contains_the_same_as_the_text() {
    let xattr = Aspect::Xattr(b"user.\xff".as_slice().into());
    let difference =
        Difference { path: b"a\xffb".as_slice().into(), aspect: xattr, first: None, second: Some("\"x\"".into()) };
    let json = serde_json::to_string(&difference).unwrap();
    assert_eq!(json, r#"{"path":"a%FFb","what":"xattr","xattr":"user.%FF","first":null,"second":"\"x\""}"#);
    assert!(difference.describe(("A", "B")).to_string().starts_with("a\\xffb: xattr user.\\xff: none / "));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn a_tree_does_not_differ_from_itself_but_from_others(one in specs(Shape::default()), two in specs(Shape::default())) {
        prop_assert_eq!(specs_differ(&one, &one), Vec::<String>::new());
        let same = {
            let (one, two) = (one.tree().unwrap(), two.tree().unwrap());
            crate::testing::snapshot_tree(&one).unwrap() == crate::testing::snapshot_tree(&two).unwrap()
        };
        let forth = specs_differ(&one, &two);
        prop_assert_eq!(forth.is_empty(), same);
        prop_assert_eq!(forth.len(), specs_differ(&two, &one).len());
    }
}
