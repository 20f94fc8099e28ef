//! Files that are used first lie side by side, in both formats.

use super::*;
use crate::image::Nid;
use crate::source::HotList;
use crate::testing::{Attrs, Mount, What, can_mount, differences, snapshot};
use crate::tree::components;
use crate::{Image, WarningKind};

/// Used first, in this order: small files, one that has blocks of its own, by a hard link, through a symbolic link, and a
/// directory.
const LIST: &str = "# a comment\n/d7/f3\nd2/big\n\nd9/f11\nlink/f0\n/d4/named\nd1/inner\nd2/f1";
/// The files among them.
const FILES: [&str; 6] = ["d7/f3", "d2/big", "d9/f11", "d5/f0", "d4/f9", "d2/f1"];
/// The directories that lead there, and the one in the list.
const DIRS: [&str; 8] = ["", "d7", "d2", "d9", "d5", "d4", "d1", "d1/inner"];

/// Directories of files whose bytes nothing shortens, so that they can be found in an image.
fn spec() -> Spec {
    let noise = |seed, len| Node::file(vec![Piece::Noise { seed, len }]);
    let dirs = (0..12u64).map(|d| {
        let files = (0..25u64).map(|n| (format!("f{n}").into_bytes(), noise(d * 100 + n, 2000 + 37 * n)));
        let more =
            [("big", noise(d * 100 + 50, 70_001)), ("inner", Node::dir([(b"x".to_vec(), noise(d * 100 + 51, 900))]))];
        let more = more.map(|(name, node)| (name.as_bytes().to_vec(), node));
        (format!("d{d}").into_bytes(), Node::dir(files.chain(more)))
    });
    let link = Node { attrs: Attrs::plain(0o777), what: What::Symlink(b"d5".to_vec()) };
    let mut spec = Spec::of(dirs.chain([(b"link".to_vec(), link)]));
    spec.links = vec![(b"d4/f9".to_vec(), b"d4/named".to_vec()), (b"d4/f9".to_vec(), b"d0/again".to_vec())];
    spec
}

fn marked(list: &str) -> Tree {
    let mut tree = spec().tree().unwrap();
    HotList::new(Path::new("list"), list).mark(&mut tree).unwrap();
    tree
}

fn open(image: &[u8]) -> Arc<dyn Image> {
    AnyImage::open(Arc::new(image.to_vec()), OpenOptions::default()).unwrap().into_image()
}

fn nid(image: &dyn Image, path: &str) -> Nid {
    components(path.as_bytes()).fold(image.root(), |dir, name| image.lookup(dir, name).unwrap().unwrap())
}

/// Offset of the beginning of a file in the bytes of its image.
fn offset(bytes: &[u8], path: &str) -> usize {
    let image = open(bytes);
    let mut begin = [0; 64];
    assert_eq!(image.read_at(nid(&*image, path), &mut begin, 0).unwrap(), begin.len(), "{path}");
    bytes.windows(begin.len()).position(|window| window == begin).unwrap_or_else(|| panic!("{path} is not as it was"))
}

fn all_files() -> Vec<String> {
    spec().paths().into_iter().filter(|(_, dir)| !dir).map(|(path, _)| String::from_utf8(path).unwrap()).collect()
}

#[test]
fn hot_files_lie_first_in_the_order_of_the_list() {
    let hot: Vec<String> = FILES.map(str::to_owned).to_vec();
    for order in [Order::Path, Order::Type, Order::Similar] {
        let got = paths(&marked(LIST), order, &[], 2);
        assert_eq!(got[..FILES.len()], ["d7/f3", "d2/big", "d9/f11", "d5/f0", "d0/again", "d2/f1"], "{order}");
        let tree = marked(LIST);
        let cold = FileRank { ino: tree.lookup(b"d0/f1").unwrap(), rank: -5 };
        assert_eq!(paths(&tree, order, &[cold], 2)[6], "d0/f1", "ranks order the others");
    }
    for order in [Order::Path, Order::Type] {
        for options in cases(order, 2) {
            let bytes = image(&options, |_| Ok(marked(LIST)));
            let small = |path: &&String| !path.ends_with("big") && *path != "link" && !path.ends_with("inner/x");
            let (small_hot, big) = (hot.iter().filter(small), offset(&bytes, "d2/big"));
            let places: Vec<usize> = small_hot.map(|path| offset(&bytes, path)).collect();
            assert!(places.is_sorted(), "{order}: {places:?}");
            let others = all_files().into_iter().filter(|path| !hot.contains(path) && small(&path));
            let first = others.map(|path| offset(&bytes, &path)).filter(|at| !places.contains(at)).min().unwrap();
            assert!(places.iter().all(|at| *at < first), "{order}: {places:?}, others from {first} on");
            let bigs = (0..12).filter(|d| *d != 2).map(|d| offset(&bytes, &format!("d{d}/big")));
            assert!(bigs.min().unwrap() > big, "{order}");
        }
    }
}

#[test]
fn inodes_and_directories_of_hot_files_lie_side_by_side() {
    let dirs: Vec<String> =
        spec().paths().into_iter().filter(|(_, dir)| *dir).map(|(path, _)| String::from_utf8(path).unwrap()).collect();
    for (options, format) in cases(None, 2).into_iter().zip(["squashfs", "erofs"]) {
        let image = open(&image(&options, |_| Ok(marked(LIST))));
        let nids =
            |paths: &mut dyn Iterator<Item = String>| -> Vec<u64> { paths.map(|path| nid(&*image, &path).0).collect() };
        let hot_files = nids(&mut FILES.iter().map(|path| (*path).to_owned()));
        let hot_dirs = nids(&mut dirs.iter().filter(|dir| DIRS.contains(&dir.as_str())).cloned());
        let cold_dirs = nids(&mut dirs.iter().filter(|dir| !DIRS.contains(&dir.as_str())).cloned());
        let cold_files = nids(&mut all_files().into_iter().filter(|path| {
            !FILES.contains(&path.as_str()) && !["link", "d4/named", "d0/again"].contains(&path.as_str())
        }));
        assert!(hot_files.is_sorted(), "{format}: {hot_files:?}");
        let (max, min) = (|nids: &[u64]| *nids.iter().max().unwrap(), |nids: &[u64]| *nids.iter().min().unwrap());
        if format == "erofs" {
            assert!(max(&hot_dirs) < min(&hot_files) && max(&hot_files) < min(&cold_dirs).min(min(&cold_files)));
        } else {
            // Directories follow what is in them.
            assert!(max(&cold_files) < min(&hot_files) && max(&hot_files) < min(&cold_dirs));
            assert!(max(&cold_dirs) < min(&hot_dirs));
        }
    }
}

#[test]
fn hot_images_hold_the_same_tree_for_any_number_of_threads() {
    let mounts = can_mount("hot_images_hold_the_same_tree_for_any_number_of_threads");
    let want = whole_seconds(snapshot_tree(&spec().tree().unwrap()).unwrap());
    let images = |threads, list: &str| cases(None, threads).map(|options| image(&options, |_| Ok(marked(list))));
    let serial = images(0, LIST);
    for threads in [1, 2, 7] {
        assert!(images(threads, LIST) == serial, "{threads} threads differ from none");
    }
    for (bytes, format) in serial.iter().zip(["squashfs", "erofs"]) {
        let opened = open(bytes);
        assert_eq!(whole_seconds(snapshot_image(&*opened).unwrap()), want, "{format}");
        assert_eq!(findings(&*opened, 2), Vec::<String>::new(), "{format}");
        if mounts {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("image");
            std::fs::write(&path, bytes).unwrap();
            let mount = Mount::new(&path, format).unwrap();
            let seen = whole_seconds(snapshot(&mount.path()).unwrap());
            assert_eq!(differences(&want, &seen), Vec::<String>::new(), "{format}");
        }
    }
    assert!(images(2, "# nothing\n") == cases(None, 2).map(|options| image(&options, |_| spec().tree())));
}

#[test]
fn unknown_paths_are_reported_and_refused_if_strict() {
    let list = HotList::new(Path::new("list"), "d1/f1\ngone\n\n/d2/f1/below");
    let mut tree = spec().tree().unwrap();
    list.mark(&mut tree).unwrap();
    let told: Vec<_> =
        tree.warnings.kinds().flat_map(|(kind, all)| all.first.iter().map(move |one| (kind, one.place()))).collect();
    let places = ["list (line 2: `gone`)", "list (line 4: `/d2/f1/below`)"];
    assert_eq!(told, places.map(|place| (WarningKind::HotPathMissing, place.to_owned())));
    tree.warnings = crate::Warnings::new(true);
    assert!(list.mark(&mut tree).is_err());
}
