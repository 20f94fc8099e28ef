//! Merged plans: the bytes of a plan of the tree, whatever the tree, the options and the memory.

use std::path::{Path, PathBuf};

use packfs_blocks::Progress;

use super::super::Shards;
use super::super::tests::{cases, count, spec, with};
use super::*;
use crate::source::{Dir, Source, Store};
use crate::testing::{self, Node, Piece, Shape, Spec, What, deep, is_root, specs, wide};
use crate::tree::{ExcludeXattrs, TimeChange};
use crate::{Part, Plan, WarningKind, erofs, squashfs};

/// A tree on disk, and parts of a scan of it.
struct Work {
    source: testing::Source,
    place: tempfile::TempDir,
    scan: dir::Options,
    parts: Vec<PathBuf>,
}

impl Work {
    fn new(spec: &Spec) -> Work {
        let (source, place) = (testing::Source::new(spec), tempfile::tempdir().unwrap());
        let scan = dir::Options::default().set(|scan| scan.threads = 1);
        let part = |n| {
            let path = place.path().join(format!("part{n}"));
            dir::scan_part(&[source.tree()], &scan, Part::new(n, 3).unwrap(), (&path, true)).unwrap();
            path
        };
        let parts = (0..3).map(part).collect();
        Work { source, place, scan, parts }
    }

    /// Writes the plan of the tree.
    fn plan(&self, options: &AnyOptions, change: &MergedScans) -> Result<(Vec<u8>, Warnings)> {
        let path = self.place.path().join("plan");
        let fill = |store: &mut dyn Store| {
            let mut tree = crate::Tree::default();
            tree.warnings = change.warnings.clone();
            Dir::new(self.source.tree(), self.scan.clone()).scan(&mut tree, store)?;
            change.transform.apply(&mut tree)?;
            Ok(Plan { tree, order: Vec::new() })
        };
        let (_, warnings) = options.plan(&path, &Progress::default(), fill)?;
        Ok((std::fs::read(path).unwrap(), warnings))
    }

    /// Writes a plan from the parts.
    fn merge(&self, options: &AnyOptions, change: &MergedScans) -> Result<(Vec<u8>, Warnings)> {
        let path = self.place.path().join("merged");
        let parts = dir::Parts::open(&self.parts, &[self.source.tree()], &self.scan)?;
        let scan = self.scan.clone().set(|scan| scan.parts = Some(parts));
        let merged = MergedScans { source: self.source.tree(), scan, ..change.clone() };
        let (_, warnings) = options.plan_merged(&path, &Progress::default(), &merged)?;
        Ok((std::fs::read(path).unwrap(), warnings))
    }

    fn assert_same(&self, options: &AnyOptions, change: &MergedScans, what: &str) {
        let (plan, merged) = (self.plan(options, change).unwrap(), self.merge(options, change).unwrap());
        assert!(plan.0 == merged.0, "{what}: {} and {} bytes", plan.0.len(), merged.0.len());
        assert_eq!(format!("{:?}", plan.1), format!("{:?}", merged.1), "{what}");
    }
}

fn unchanged() -> MergedScans {
    MergedScans::new("", dir::Options::default())
}

fn sharded(options: &AnyOptions, shards: u32) -> AnyOptions {
    with(options, |all| (all.shards, all.threads, all.memory, all.force) = (Some(count(shards)), 2, 0, true))
}

/// A tree whose files have names in several directories, so that the first by path is not the first by level.
fn linked() -> Spec {
    let file = |seed, len| Node::file(vec![Piece::Text { seed, len }]);
    let dir = |files: Vec<(&str, Node)>| Node::dir(files.into_iter().map(|(name, node)| (name.into(), node)));
    let deep = dir(vec![("a", file(1, 900)), ("b.c", file(2, 70_000)), ("empty", file(0, 0))]);
    let inner = dir(vec![("deep", deep), ("x", file(3, 5000)), ("x.y", file(4, 5000))]);
    let mut spec = Spec::of([
        (b"a".to_vec(), inner.clone()),
        (b"a.b".to_vec(), file(3, 5000)),
        (b"a-b".to_vec(), file(3, 5000)),
        (b"z".to_vec(), inner),
        (b"zz".to_vec(), Node { what: What::Symlink(b"a/x".to_vec()), ..file(0, 0) }),
    ]);
    let links: [(&[u8], &[u8]); 6] = [
        (b"a/deep/a", b"z/first"),
        (b"a/deep/a", b"m"),
        (b"z/deep/b.c", b"a/deep/a-very-early-name"),
        (b"z/deep/empty", b"e"),
        (b"a.b", b"z/deep/last"),
        (b"a/x", b"a/x-again"),
    ];
    spec.links = links.map(|(first, other)| (first.to_vec(), other.to_vec())).to_vec();
    spec
}

#[test]
fn merged_plans_have_the_bytes_of_plans() {
    let works = [Work::new(&spec()), Work::new(&linked())];
    for (n, options) in cases().iter().enumerate() {
        for shards in [1, 3, 17] {
            for (tree, work) in works.iter().enumerate() {
                work.assert_same(&sharded(options, shards), &unchanged(), &format!("case {n}, {shards}, tree {tree}"));
            }
        }
    }
}

#[test]
fn orders_and_dedup_are_those_of_plans() {
    use crate::build::Order;
    let works = [Work::new(&spec()), Work::new(&linked())];
    for options in [0, 3].map(|n| sharded(&cases()[n], 5)) {
        for order in [Order::Path, Order::Type, Order::Similar] {
            for dedup in [false, true] {
                let options = with(&options, |all| (all.order, all.dedup) = (Some(order), dedup));
                for work in &works {
                    work.assert_same(&options, &unchanged(), &format!("{order}, {dedup}"));
                    // By size, the weight of all files decides about their order.
                    for size in [50_000, 1 << 40] {
                        let size = std::num::NonZeroU64::new(size).unwrap();
                        let options = with(&options, |all| all.shards = Some(Shards::Size(size)));
                        work.assert_same(&options, &unchanged(), &format!("{order}, {dedup}, shards of {size}"));
                    }
                }
            }
        }
    }
}

#[test]
fn trees_of_every_shape_are_merged() {
    use proptest::strategy::{Strategy, ValueTree};
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let random = (0..24).map(|_| specs(Shape::default()).new_tree(&mut runner).unwrap().current());
    let many = Spec::of((0..130).map(|n| (format!("{n}").into_bytes(), wide(n % 5).root)));
    let long = |n: u32| (format!("{n:0200}").into_bytes(), Node::file(vec![Piece::Noise { seed: n.into(), len: 5 }]));
    // The list of this directory is longer than a group of inodes.
    let large = Spec::of([(b"large".to_vec(), Node::dir((0..4000).map(long))), (b"z".to_vec(), wide(3).root)]);
    for (n, spec) in [deep(80, 100), wide(3000), many, large].into_iter().chain(random).enumerate() {
        let work = Work::new(&spec);
        work.assert_same(
            &sharded(&squashfs::SquashfsOptions::default().into(), 3),
            &unchanged(),
            &format!("SquashFS, {n}"),
        );
        work.assert_same(&sharded(&erofs::ErofsOptions::default().into(), 3), &unchanged(), &format!("EROFS, {n}"));
    }
}

#[test]
fn attributes_are_changed_as_in_a_tree() {
    let mut spec = linked();
    let set = |node: &mut Node, name: &str| {
        node.attrs.xattrs.insert(name.into(), b"value".to_vec());
        node.attrs.mtime.secs = 1_700_000_000;
    };
    if is_root() {
        let What::Dir(entries) = &mut spec.root.what else { panic!() };
        entries.values_mut().for_each(|node| set(node, "trusted.kept"));
        entries.values_mut().take(2).for_each(|node| set(node, "trusted.dropped"));
        set(&mut spec.root, "trusted.dropped");
    }
    let work = Work::new(&spec);
    let mut change = unchanged();
    change.transform = TreeTransform {
        uid: Some(7),
        gid_offset: 12,
        mode: "Du+x,Fgo-rwx".parse().unwrap(),
        time: TimeChange::Clamp(crate::tree::Time { secs: 1_600_000_000, nanos: 5 }),
        exclude_xattrs: ExcludeXattrs::new(["trusted.d*"]).unwrap(),
        ..TreeTransform::default()
    };
    for options in cases() {
        work.assert_same(&sharded(&options, 2), &change, "changed");
    }
    change.transform.drop_xattrs = true;
    work.assert_same(&sharded(&cases()[0], 2), &change, "dropped");
    change.transform.gid_offset = -1 << 40;
    let options = sharded(&cases()[0], 2);
    let (plan, merged) = (work.plan(&options, &change), work.merge(&options, &change));
    assert_eq!(plan.unwrap_err().to_string(), merged.unwrap_err().to_string());
}

#[test]
fn entries_beyond_limits_and_lost_acls_are_reported_as_in_a_tree() {
    let mut long = wide(5);
    long.root.attrs.mtime.secs = -5;
    let work = Work::new(&long);
    let options = sharded(&squashfs::SquashfsOptions::default().into(), 2);
    let (plan, merged) = (work.plan(&options, &unchanged()), work.merge(&options, &unchanged()));
    assert_eq!(plan.unwrap_err().to_string(), merged.unwrap_err().to_string());
    work.merge(&options, &unchanged().set(|all| all.clip_times = true)).unwrap();
    // Access of a group beside that of the owner, in the form of Linux: version, then tag, permissions and id each.
    let entry = |tag: u16, id: u32| [&tag.to_le_bytes()[..], &4u16.to_le_bytes(), &id.to_le_bytes()].concat();
    let entries = [(1, u32::MAX), (4, u32::MAX), (8, 77), (16, u32::MAX), (32, u32::MAX)];
    let acl = [2u32.to_le_bytes().to_vec(), entries.iter().flat_map(|(tag, id)| entry(*tag, *id)).collect()].concat();
    let mut spec = linked();
    let What::Dir(entries) = &mut spec.root.what else { panic!() };
    for name in [&b"a"[..], b"a.b", b"z"] {
        let node = entries.get_mut(name).unwrap();
        node.attrs.xattrs.insert("system.posix_acl_access".into(), acl.clone());
        node.attrs.xattrs.insert("user.kept".into(), b"value".to_vec());
    }
    let work = Work::new(&spec);
    let (bytes, warnings) = work.merge(&options, &unchanged()).unwrap();
    assert_eq!(warnings.count(WarningKind::PosixAcl), 3);
    assert!(bytes == work.plan(&options, &unchanged()).unwrap().0);
    let strict = unchanged().set(|all| all.warnings = Warnings::new(true));
    assert!(matches!(work.merge(&options, &strict), Err(Error::Refused(_))));
    work.assert_same(&sharded(&erofs::ErofsOptions::default().into(), 2), &unchanged(), "EROFS has ACLs");
}

#[test]
fn options_about_the_whole_tree_are_refused() {
    let compact = erofs::ErofsOptions::default().set(|all| all.features |= erofs::Features::COMPACT_INODES);
    let options = sharded(&compact.into(), 2);
    assert!(!options.merges());
    assert!(matches!(Work::new(&wide(3)).merge(&options, &unchanged()), Err(Error::Unsupported(_))));
    let shared = |above| AnyOptions::from(erofs::ErofsOptions::default().set(|all| all.xattr_share = Some(above)));
    assert!(shared(100).merges() && !shared(101).merges());
    // Only files that have an attribute of this name lose it.
    let kernel = erofs::Feature::PlainXattrPrefixes.since();
    let digest = |name: &str| {
        let stamped = erofs::ErofsOptions::default();
        AnyOptions::from(
            stamped.set(|all| (all.target_kernel, all.inode_digest) = (kernel, Some(name.as_bytes().into()))),
        )
    };
    for (name, merges) in [(erofs::INODE_DIGEST, true), ("user.digest", false), ("system.digest", false)] {
        assert_eq!(digest(name).merges(), merges, "{name}");
    }
    assert!(cases().iter().all(AnyOptions::merges));
}

#[test]
fn damaged_parts_give_no_plan() {
    let work = Work::new(&linked());
    let options = sharded(&cases()[3], 3);
    let whole = std::fs::read(&work.parts[1]).unwrap();
    let is_plan = || Path::exists(&work.place.path().join("merged"));
    for at in (0..whole.len()).step_by(7) {
        let mut bytes = whole.clone();
        bytes[at] ^= 4;
        std::fs::write(&work.parts[1], &bytes).unwrap();
        work.merge(&options, &unchanged()).unwrap_err();
        std::fs::write(&work.parts[1], &whole[..at]).unwrap();
        work.merge(&options, &unchanged()).unwrap_err();
        assert!(!is_plan(), "byte {at}");
    }
    std::fs::write(&work.parts[1], &whole).unwrap();
    work.merge(&options, &unchanged()).unwrap();
    assert!(is_plan());
}
