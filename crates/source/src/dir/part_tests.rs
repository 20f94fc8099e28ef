//! Scans in parts: together they give the tree of one scan, and what does not fit together is refused.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::tests::scan;
use super::*;
use crate::Part;
use crate::testing::{Shape, Source as Made, deep, specs, wide};
use crate::{ExcludeRules, OnError};
use packfs_tree::encoding::FieldEncoder;

fn scan_parts(root: &Path, place: &Path, count: u32, options: &Options) -> Result<Vec<PathBuf>> {
    let roots = [root.to_owned()];
    let one = |index: u32| {
        let path = place.join(format!("part{index}"));
        scan_part(&roots, options, Part::new(index, count).unwrap(), (&path, true))?;
        Ok(path)
    };
    (0..count).map(one).collect()
}

fn merged(root: &Path, parts: &[PathBuf], options: &Options) -> Result<Tree> {
    let parts = Parts::open(parts, &[root.to_owned()], options)?;
    scan(root, Options { parts: Some(parts), ..options.clone() })
}

/// Returns all that a plan has of a tree.
fn bytes(mut tree: Tree) -> Vec<u8> {
    let mut origins = Vec::new();
    for ino in tree.inos() {
        if let Kind::File { data: FileData::Source { from, key }, .. } = tree.inode(ino).kind {
            let (root, path, seen) = from.origin(key).unwrap();
            origins.bytes(root.as_os_str().as_bytes());
            origins.bytes(&path);
            origins.put(&seen.0);
            tree.set_data(ino, FileData::Empty).unwrap();
        }
    }
    tree.encode(&mut origins);
    origins
}

#[test]
fn parts_give_the_tree_of_one_scan() {
    use proptest::strategy::{Strategy, ValueTree};
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let random = (0..6).map(|_| specs(Shape::default()).new_tree(&mut runner).unwrap().current());
    let many = crate::testing::Spec::of((0..130).map(|n| (format!("{n}").into_bytes(), wide(n % 5).root)));
    for spec in [deep(80, 100), wide(3000), many].into_iter().chain(random) {
        let made = Made::new(&spec);
        let place = tempfile::tempdir().unwrap();
        let root = made.tree();
        let exclude = ExcludeRules::new(["*7", "x/"]).unwrap();
        for options in
            [Options { threads: 2, ..Options::default() }, Options { exclude, threads: 0, ..Options::default() }]
        {
            let whole = bytes(scan(&root, options.clone()).unwrap());
            for count in [1, 2, 5] {
                let mut parts = scan_parts(&root, place.path(), count, &options).unwrap();
                parts.reverse();
                let entries: Vec<_> = parts.iter().map(|part| fs::metadata(part).unwrap().len()).collect();
                assert!(bytes(merged(&root, &parts, &options).unwrap()) == whole, "{count} parts: {entries:?}");
            }
        }
    }
}

#[test]
fn entries_are_dealt_out_evenly_and_each_once() {
    let few = wide(2000);
    let many = crate::testing::Spec::of((0..400).map(|n| (format!("{n}").into_bytes(), wide(5).root)));
    for (spec, entries) in [(few, 2000), (many, 2400)] {
        let made = Made::new(&spec);
        let place = tempfile::tempdir().unwrap();
        let roots = [made.tree()];
        let counts: Vec<u64> = (0..4)
            .map(|index| {
                let to = place.path().join("part");
                scan_part(&roots, &Options::default(), Part::new(index, 4).unwrap(), (&to, true)).unwrap().entries
            })
            .collect();
        assert_eq!(counts.iter().sum::<u64>(), entries);
        assert!(counts.iter().all(|count| (entries / 6..entries / 3).contains(count)), "{counts:?}");
    }
}

#[test]
fn parts_that_do_not_fit_together_are_refused() {
    let made = Made::new(&wide(50));
    let place = tempfile::tempdir().unwrap();
    let root = made.tree();
    let options = Options::default();
    let parts = scan_parts(&root, place.path(), 3, &options).unwrap();
    let refused = |root: &Path, parts: &[PathBuf], options: &Options, why: &str| {
        let error = merged(root, parts, options).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    };
    refused(&root, &parts[..2], &options, "part 2/3 of the scan is missing");
    refused(&root, &[&parts[..], &parts[1..2]].concat(), &options, "part1: is part 1/3, as is");
    refused(place.path(), &parts, &options, "part of a scan of other directories");
    let other = Options { exclude: ExcludeRules::new(["*.o"]).unwrap(), ..options.clone() };
    refused(&root, &parts, &other, "with other options");
    let one = place.path().join("one");
    scan_part(std::slice::from_ref(&root), &options, Part::WHOLE, (&one, false)).unwrap();
    refused(&root, &[parts[0].clone(), one.clone()], &options, "one: is part 0/1, and others are of 3");
    assert!(scan_part(std::slice::from_ref(&root), &options, Part::WHOLE, (&one, false)).is_err(), "exists");
    let skip = Options { on_error: OnError::Skip, ..options.clone() };
    scan_part(std::slice::from_ref(&root), &skip, Part::WHOLE, (&one, true)).unwrap_err();
    fs::write(root.join("new"), "").unwrap();
    scan_part(std::slice::from_ref(&root), &options, Part::new(1, 3).unwrap(), (&parts[1], true)).unwrap();
    refused(&root, &parts, &options, "changed while parts of it were scanned");
}

#[test]
fn any_number_of_parts_is_merged_with_few_open_files() {
    let made = Made::new(&wide(40));
    let place = tempfile::tempdir().unwrap();
    let root = made.tree();
    let options = Options { threads: 0, ..Options::default() };
    let parts = scan_parts(&root, place.path(), 300, &options).unwrap();
    let (whole, opened) =
        (bytes(scan(&root, options.clone()).unwrap()), Parts::open(&parts, std::slice::from_ref(&root), &options));
    // Other tests may have files open in this process, but not these.
    let links = fs::read_dir("/proc/self/fd").unwrap().filter_map(|entry| fs::read_link(entry.unwrap().path()).ok());
    assert!(!links.into_iter().any(|target| target.starts_with(place.path())));
    let merged = scan(&root, Options { parts: Some(opened.unwrap()), ..options.clone() }).unwrap();
    assert!(bytes(merged) == whole);
    let large = crate::testing::Source::new(&wide(9000));
    let part = scan_parts(&large.tree(), place.path(), 1, &options).unwrap();
    let opened = Parts::open(&part, &[large.tree()], &options).unwrap();
    fs::copy(&part[0], place.path().join("copy")).unwrap();
    fs::rename(place.path().join("copy"), &part[0]).unwrap();
    let error = scan(&large.tree(), Options { parts: Some(opened), ..options }).unwrap_err().to_string();
    assert!(error.contains("part0: another file has taken its place"), "{error}");
}

#[test]
fn damaged_parts_are_errors() {
    let made = Made::new(&deep(3, 8));
    let place = tempfile::tempdir().unwrap();
    let root = made.tree();
    let options = Options::default();
    let path = scan_parts(&root, place.path(), 1, &options).unwrap().remove(0);
    let whole = fs::read(&path).unwrap();
    let damaged = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        merged(&root, std::slice::from_ref(&path), &options).unwrap_err();
    };
    for at in 0..whole.len() {
        damaged(&whole[..at]);
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        damaged(&bytes);
    }
    damaged(&[&whole[..], b"x"].concat());
    let path: Arc<Path> = path.into();
    fs::write(&*path, &whole).unwrap();
    merged(&root, &[path.to_path_buf()], &options).unwrap();
}
