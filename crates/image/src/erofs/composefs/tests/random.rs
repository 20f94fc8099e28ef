//! Random trees with all that composefs treats in its own way.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};

use super::*;
use crate::testing::{Attrs, Node, Piece, Shape, Spec, What, specs};
use crate::tree::{ConflictPolicy, DeviceNumber, InodeAttributes, Time};

/// An entry that random trees of other formats do not have.
#[derive(Debug, Clone)]
enum Addition {
    Whiteout(Attrs),
    /// A whiteout like those that hide directories of objects, maybe with another mode.
    Stub {
        mode: u16,
        labelled: bool,
    },
    Symlink(Vec<u8>, Attrs),
    /// A file of any length, whose bytes nobody has.
    File(u64, Attrs),
    Dir {
        names: usize,
        name_len: usize,
    },
    /// Files of the same attributes.
    Twins(usize, Attrs),
}

/// Attributes that are escaped, shared, marks or long.
fn attrs() -> impl Strategy<Value = Attrs> {
    let names = select(vec![
        "trusted.overlay.opaque",
        "trusted.overlay.whiteout",
        "trusted.overlay.overlay.opaque",
        "trusted.overlay.redirect",
        "trusted.overlay.",
        "trusted.overlax",
        "trusted.overlay.metacopy",
        "security.selinux",
        "security.label",
        "trusted.z",
        "user.overlay.opaque",
    ]);
    let long = prop_oneof![9 => Just(0usize), 1 => 1000usize..8000];
    let value = prop_oneof![
        3 => select(vec![&b""[..], b"x", b"y", b"same", b"\0\0", b"\xee"]).prop_map(<[u8]>::to_vec),
        1 => (vec(any::<u8>(), 0..60), long).prop_map(|(mut value, len)| { value.resize(value.len() + len, b'v'); value }),
    ];
    let set = prop::collection::btree_map(names.prop_map(str::to_owned), value, 0..4);
    let time = prop_oneof![
        Just(Time { secs: 5, nanos: 6 }),
        (-3i64..3, select(vec![0u32, 1, 999_999_999])).prop_map(|(secs, nanos)| Time { secs, nanos }),
        any::<i64>().prop_map(|secs| Time { secs, nanos: 0 }),
    ];
    let id = select(vec![0u32, 65_535, 65_536, 4_000_000_000]);
    (0u16..=0o7777, (id.clone(), id), time, set).prop_map(|(mode, owner, mtime, xattrs)| Attrs {
        mode,
        owner,
        mtime,
        xattrs,
    })
}

fn special_attrs() -> impl Strategy<Value = Attrs> {
    attrs().prop_map(|mut attrs| {
        attrs.xattrs.retain(|name, _| !name.starts_with("user."));
        attrs
    })
}

fn addition() -> impl Strategy<Value = Addition> {
    // The oracle takes no longer target.
    let target = prop_oneof![1usize..80, 900usize..=1024].prop_map(|len| vec![b't'; len]);
    let size = prop_oneof![
        65u64..10_000,
        (6u32..=52).prop_map(|bits| 1 << bits),
        (43u32..=52, 1u64..9).prop_map(|(bits, n)| (1 << bits) + n)
    ];
    prop_oneof![
        special_attrs().prop_map(Addition::Whiteout),
        (select(vec![0o644u16, 0o644, 0]), any::<bool>())
            .prop_map(|(mode, labelled)| Addition::Stub { mode, labelled }),
        (target, special_attrs()).prop_map(|(target, attrs)| Addition::Symlink(target, attrs)),
        (size, attrs()).prop_map(|(size, attrs)| Addition::File(size, attrs)),
        (select(vec![1usize, 100, 170, 400, 1200]), 4usize..250)
            .prop_map(|(names, name_len)| Addition::Dir { names, name_len }),
        (1usize..6, attrs()).prop_map(|(count, attrs)| Addition::Twins(count, attrs)),
    ]
}

/// A tree, additions to its directories, and the hash function.
#[derive(Debug, Clone)]
struct Case {
    spec: Spec,
    additions: Vec<(Index, Vec<u8>, Addition)>,
    hash: Hash,
}

fn cases() -> impl Strategy<Value = Case> {
    let shape = Shape { odd_times: true, privileged: true, ..Shape::default() };
    let name = prop_oneof![vec(b'a'..=b'f', 2..3), vec(b'a'..=b'z', 1..40)];
    let root = prop::option::of(attrs());
    (specs(shape), root, vec((any::<Index>(), name, addition()), 0..8), select(vec![Hash::Sha256, Hash::Sha512]))
        .prop_map(|(mut spec, root, additions, hash)| {
            if let Some(attrs) = root {
                spec.root.attrs = attrs;
            }
            Case { spec, additions, hash }
        })
}

impl Case {
    fn tree(&self) -> Result<Tree> {
        let mut tree = self.spec.tree()?;
        let dirs: Vec<_> = tree.inos().filter(|ino| tree.is_dir(*ino)).collect();
        for (dir, name, addition) in &self.additions {
            let mut dir = *dir.get(&dirs);
            if matches!(addition, Addition::Stub { .. }) {
                dir = crate::tree::ROOT;
            }
            if tree.dir(dir).is_some_and(|entries| entries.get(name).is_some()) {
                continue;
            }
            add(&mut tree, dir, name, addition)?;
        }
        Ok(tree)
    }
}

fn add(tree: &mut Tree, dir: Ino, name: &[u8], addition: &Addition) -> Result<()> {
    let whiteout = Kind::Char(DeviceNumber { major: 0, minor: 0 });
    let file = |size| Kind::File { size, data: FileData::Stored(0) };
    let (meta, kind) = match addition {
        Addition::Whiteout(attrs) => (meta(tree, attrs), whiteout),
        Addition::Stub { mode, labelled } => {
            let root = tree.meta(crate::tree::ROOT);
            let mut set = tree.xattrs.get(root.xattrs).clone();
            set.retain(|(name, _)| *labelled && **name == *b"security.selinux");
            (InodeAttributes { mode: *mode, xattrs: tree.xattrs.intern(set), ..root }, whiteout)
        }
        Addition::Symlink(target, attrs) => {
            (InodeAttributes { mode: 0o777, ..meta(tree, attrs) }, Kind::Symlink(target.as_slice().into()))
        }
        Addition::File(size, attrs) => (meta(tree, attrs), file(*size)),
        Addition::Dir { names, name_len } => {
            let dir = tree.add(dir, name, InodeAttributes::IMPLICIT_DIR, Kind::Dir, ConflictPolicy::Refuse)?;
            for n in 0..*names {
                let name = format!("{n:0name_len$}").into_bytes();
                tree.add(dir, &name, InodeAttributes::IMPLICIT_DIR, Kind::Fifo, ConflictPolicy::Refuse)?;
            }
            return Ok(());
        }
        Addition::Twins(count, attrs) => {
            let meta = meta(tree, attrs);
            for n in 0..*count {
                let name = [name, format!(" {n}").as_bytes()].concat();
                tree.add(dir, &name, meta, file(1000), ConflictPolicy::Replace)?;
            }
            return Ok(());
        }
    };
    tree.add(dir, name, meta, kind, ConflictPolicy::Refuse).map(drop)
}

fn meta(tree: &mut Tree, attrs: &Attrs) -> InodeAttributes {
    let set = attrs.xattrs.iter().map(|(name, value)| (name.as_bytes().into(), value.as_slice().into())).collect();
    let (uid, gid) = attrs.owner;
    InodeAttributes { mode: attrs.mode, uid, gid, mtime: attrs.mtime, xattrs: tree.xattrs.intern(set) }
}

/// Returns an error if the images of a tree differ, or if the check objects to one.
fn compare(case: &Case) -> std::result::Result<(), TestCaseError> {
    let fail = |why: String| Err(TestCaseError::fail(why));
    let mut tree = case.tree().map_err(|error| TestCaseError::fail(error.to_string()))?;
    let files = contents(&tree, case.hash);
    let image = match ours(&mut tree, &files) {
        Ok(image) => image,
        Err(error) => return fail(error.to_string()),
    };
    if let Some(difference) = first_difference(&image, &theirs(&tree, &files, case.hash)) {
        return fail(difference);
    }
    Ok(())
}

#[test]
fn random_trees_give_the_bytes_of_the_oracle() {
    if !has_oracle("random_trees_give_the_bytes_of_the_oracle") {
        return;
    }
    let cases_wanted = std::env::var("PACKFS_RANDOM_TREES").ok().and_then(|text| text.parse().ok()).unwrap_or(1000);
    let config = Config { cases: cases_wanted, max_shrink_iters: 500, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]));
    if let Err(failed) = runner.run(&cases(), |case| compare(&case)) {
        panic!("{failed}");
    }
}

#[test]
fn a_tree_larger_than_most_gives_the_bytes_of_the_oracle() {
    if !has_oracle("a_tree_larger_than_most_gives_the_bytes_of_the_oracle") {
        return;
    }
    let file = |n: u64| Node::file(vec![Piece::Noise { seed: n % 300, len: n % 130 }]);
    let dir = |d: u64| Node::dir((0..400).map(|n| (format!("file {n} of {d}").into_bytes(), file(d * 17 + n))));
    let mut spec = Spec::of((0..50).map(|d| (format!("dir-{d}").into_bytes(), dir(d))));
    spec.links = (0..300)
        .map(|n| (format!("dir-{}/file {n} of {}", n % 50, n % 50), format!("dir-{}/link {n}", (n * 7) % 50)))
        .map(|(old, new)| (old.into_bytes(), new.into_bytes()))
        .collect();
    if let What::Dir(entries) = &mut spec.root.what {
        entries.insert(b"deep".to_vec(), crate::testing::deep(60, 20).root);
    }
    compare(&Case { spec, additions: Vec::new(), hash: Hash::Sha256 }).unwrap();
}
