//! Images of mkfs.erofs, compared with the directories they were made from.

use std::process::Command;

use super::*;
use crate::image::FileType;
use crate::testing::{Source, erofs_utils, wide};

/// The options of the installed mkfs.erofs, as listed in its help, if it is recent enough.
pub(super) struct Mkfs(String);

impl Mkfs {
    pub(super) fn find(test: &str) -> Option<Mkfs> {
        let output = erofs_utils(test).then(|| Command::new("mkfs.erofs").arg("--help").output().ok())??;
        Some(Mkfs(String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()))
    }

    /// Returns true if it supports this codec.
    fn has(&self, codec: &str) -> bool {
        self.0.contains(codec)
    }
}

/// Makes an image, opens it and compares it with its source.
fn compare(source: &Source, options: &str) {
    let line = format!("mkfs.erofs --quiet {options} $IMAGE $TREE");
    let image = source.make(&line);
    let reader = open_file(&image).unwrap_or_else(|error| panic!("{line}: {error}"));
    source.compare(&line, &reader);
}

#[test]
fn mkfs_with_every_layout_and_choice() {
    if !erofs_utils("mkfs_with_every_layout_and_choice") {
        return;
    }
    let source = Source::new(&everything(4096, 65535));
    for options in ["", "-Enoinline_data", "-Eforce-inode-extended", "-x0", "-x1000", "--chunksize=4096", "-Enosbcrc"] {
        compare(&source, options);
    }
    for options in [
        "-b512",
        "-b1024 --chunksize=1024",
        "--MZ",
        "--MZ=i",
        "--MZ=id",
        "-E48bit",
        "-E48bit,force-chunk-indexes --chunksize=8192",
        "-Eforce-inode-blockmap --chunksize=65536",
        "-E^xattr-name-filter",
        "--xattr-prefix=user.la --xattr-prefix=trusted.l",
        "--xattr-prefix=user.la -Eplain-xattr-prefixes",
        "--xattr-prefix=user.la -Efragments -zlz4",
        "--root-xattr-isize=100",
        "-Edot-omitted",
    ] {
        compare(&source, options);
    }
}

#[test]
fn mkfs_with_every_algorithm_and_feature() {
    let Some(mkfs) = Mkfs::find("mkfs_with_every_algorithm_and_feature") else { return };
    let source = Source::new(&everything(4096, 65535));
    for options in ["-zlz4", "-zlz4hc -C65536", "-zlz4 -Elegacy-compress", "-zlz4 -Eztailpacking -C16384"] {
        compare(&source, options);
    }
    for codec in ["lz4", "lz4hc", "lzma", "deflate", "libdeflate", "zstd"].into_iter().filter(|codec| mkfs.has(codec)) {
        for options in ["-C131072 -Efragments", "-Ededupe,all-fragments", "-E48bit -C65536", "-b1024 -Eztailpacking"] {
            compare(&source, &format!("-z{codec} {options}"));
        }
    }
    for options in [
        "-zlz4 -Efragments,dedupe -C65536",
        "-zlz4 -Eall-fragments=65536 -C1048576",
        "-zlz4 -Elegacy-compress,fragments,ztailpacking -C8192",
        "-zzstd -E48bit,dedupe -C65536",
        "-zzstd -E48bit --max-extent-bytes=-65536",
        "-zlz4 -m4096",
        "-zzstd -C65536 -m65536:zstd --xattr-prefix=user.la -Efragments",
        "-zlz4 --zD",
        "-zlzma --zD -Eall-fragments",
        "-zlz4:lzma,level=3 -C65536 --MZ -Edot-omitted",
    ] {
        compare(&source, options);
    }
}

/// Names that are alike compress well: a directory has hundreds of bytes for each stored byte.
#[test]
fn compressed_directories_of_long_names() {
    let Some(_) = Mkfs::find("compressed_directories_of_long_names") else { return };
    let names = (0..20_000).map(|n| (format!("{}{n:05}", "name".repeat(60)).into_bytes(), Node::file(vec![])));
    let source = Source::new(&Spec::of([(b"dir".to_vec(), Node::dir(names))]));
    for options in ["-zlz4 --zD -m4096", "-zzstd -C65536 --zD -m65536:zstd"] {
        let reader = open_file(&source.make(&format!("mkfs.erofs --quiet {options} $IMAGE $TREE"))).unwrap();
        assert_eq!(findings(&reader, 2), Vec::<String>::new(), "{options}");
    }
}

#[test]
fn shared_xattrs_that_linux_does_not_show_are_noted() {
    let Some(_) = Mkfs::find("shared_xattrs_that_linux_does_not_show_are_noted") else { return };
    let mut file = Node::file(vec![text(1, 5)]);
    file.attrs.xattrs = BTreeMap::from([("user.shared".to_owned(), vec![b'x'; 40])]);
    let files = ["a", "b", "c", "d"].map(|name| (name.into(), file.clone()));
    let source = Source::new(&Spec::of(files));
    let reader = open_file(&source.make("mkfs.erofs --quiet -zlz4 -m4096 -x1 $IMAGE $TREE")).unwrap();
    let found = findings(&reader, 0);
    assert!(found.len() == 1 && found[0].starts_with("note: ") && found[0].contains("3 others"), "{found:?}");
}

#[test]
fn data_on_further_devices() {
    let Some(mkfs) = Mkfs::find("data_on_further_devices") else { return };
    assert!(mkfs.has("--blobdev"));
    let source = Source::new(&everything(4096, 65535));
    let line = "mkfs.erofs --quiet --chunksize=4096 --blobdev=$DIR/blob $IMAGE $TREE";
    let image = source.make(line);
    let blob = image.with_file_name("blob");
    let file = |path: &Path| -> Arc<FileAt> { Arc::new(FileAt::open(path, 0).unwrap()) };
    let options = ReadOptions { devices: vec![file(&blob)], ..ReadOptions::default() };
    let reader = ErofsReader::open(file(&image), options.clone()).unwrap();
    assert_eq!(reader.superblock().devices.len(), 1);
    source.compare(line, &reader);

    let alone = open_file(&image).unwrap();
    let error = alone.read_at(find(&alone, "noise-8"), &mut [0; 100], 0).unwrap_err().to_string();
    assert!(error.contains("its 1 additional devices were not given"), "{error}");
    let many = ReadOptions { devices: vec![file(&blob), file(&blob)], ..options };
    let error = ErofsReader::open(file(&image), many).unwrap_err().to_string();
    assert!(error.contains("number of devices 2: the image has additional devices: 1"), "{error}");
}

#[test]
fn acls_of_posix() {
    let Some(_) = Mkfs::find("acls_of_posix").filter(|_| is_root()) else { return };
    // Version 2, then entries of tag, permissions and id: owner, a user, group, mask, others.
    let acl: Vec<u8> = [(1u16, 7u16, !0u32), (2, 5, 1000), (4, 5, !0), (16, 5, !0), (32, 1, !0)]
        .iter()
        .flat_map(|(tag, bits, id)| [&tag.to_le_bytes()[..], &bits.to_le_bytes(), &id.to_le_bytes()].concat())
        .collect();
    let acl = [&2u32.to_le_bytes()[..], &acl].concat();
    let mut dir = Node::dir([]);
    dir.attrs.mode = 0o751;
    for name in ["system.posix_acl_access", "system.posix_acl_default"] {
        dir.attrs.xattrs.insert(name.to_owned(), acl.clone());
    }
    let source = Source::new(&Spec::of([(b"a".to_vec(), dir.clone()), (b"b".to_vec(), dir)]));
    for options in ["", "-x0", "-x1"] {
        compare(&source, options);
    }
}

#[test]
fn files_beyond_4_gib() {
    let Some(_) = Mkfs::find("files_beyond_4_gib") else { return };
    let huge = vec![text(1, 70_000), Piece::Hole(5 << 30), noise(2, 70_000), Piece::Hole(1 << 20), text(3, 10)];
    let source = Source::new(&Spec::of([(b"huge".to_vec(), Node::file(huge))]));
    let size = 70_000 + (5 << 30) + 70_000 + (1 << 20) + 10;
    for options in ["--chunksize=1048576", "-zlz4 -C1048576 -E48bit"] {
        let reader = open_file(&source.make(&format!("mkfs.erofs --quiet {options} $IMAGE $TREE"))).unwrap();
        let nid = find(&reader, "huge");
        assert_eq!(reader.stat(nid).unwrap().kind, FileType::File { size });
        assert_eq!(reader.extents(nid).unwrap().iter().map(|extent| extent.len).sum::<u64>(), size);
        let file = std::fs::File::open(source.tree().join("huge")).unwrap();
        for offset in [0, 69_000, (5 << 30) - 10, (5 << 30) + 70_000 - 4, (5 << 30) + 139_000, size - 1000, size] {
            let (mut got, mut want) = (vec![1; 3000], vec![2; 3000]);
            let n = reader.read_at(nid, &mut got, offset).unwrap();
            assert_eq!(n, std::os::unix::fs::FileExt::read_at(&file, &mut want, offset).unwrap());
            assert_eq!(got[..n], want[..n], "at {offset}");
        }
        assert_eq!(findings(&reader, 2), Vec::<String>::new(), "{options}");
    }
}

#[test]
fn directories_of_70_000_entries() {
    if !erofs_utils("directories_of_70_000_entries") {
        return;
    }
    let source = Source::new(&wide(70_000));
    for options in ["", "-zlz4 --zD"] {
        let reader = open_file(&source.make(&format!("mkfs.erofs --quiet {options} $IMAGE $TREE"))).unwrap();
        let entries = reader.read_dir(reader.root()).unwrap();
        assert_eq!(entries.len(), 70_000);
        for entry in entries.iter().step_by(97) {
            assert_eq!(reader.lookup(reader.root(), &entry.name).unwrap(), Some(entry.nid));
        }
        for absent in ["", ".", "..", "a", "entry-000000x", "entry-0350005", "zzz"] {
            assert_eq!(reader.lookup(reader.root(), absent.as_bytes()).unwrap(), None, "{absent}");
        }
        assert_eq!(findings(&reader, 2), Vec::<String>::new(), "{options}");
    }
}
