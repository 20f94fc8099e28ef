//! Images of squashfs-tools and squashfs-tools-ng, compared with the directories they were made from.

use super::*;
use crate::testing::{Source, everything, skipped, wide};

/// Opens the image that a command line makes.
fn open_made(source: &Source, line: &str) -> SquashfsReader {
    open_file(&source.make(line)).unwrap_or_else(|error| panic!("{line}: {error}"))
}

/// Makes an image and compares it with its source.
fn compare(source: &Source, line: &str) {
    source.compare(line, &open_made(source, line));
}

/// Changes the values of all xattrs of entries of the root.
fn each_xattr(spec: &mut Spec, change: &dyn Fn(&mut Vec<u8>)) {
    if let What::Dir(entries) = &mut spec.root.what {
        entries.values_mut().flat_map(|node| node.attrs.xattrs.values_mut()).for_each(change);
    }
}

const MKSQUASHFS: &str = "mksquashfs $TREE $IMAGE -noappend -quiet -no-progress";

/// Returns everything except a hard link to a symlink, which mksquashfs 4.5 stores as two symlinks.
fn for_mksquashfs(block: u64) -> Spec {
    let mut spec = everything(block, 65536);
    spec.links.retain(|(old, _)| old != b"short-link");
    spec
}

#[test]
fn mksquashfs_with_every_codec_and_choice() {
    if !have("mksquashfs") {
        return skipped("mksquashfs_with_every_codec_and_choice", "mksquashfs");
    }
    let small = Source::new(&for_mksquashfs(4096));
    for options in [
        "-comp gzip",
        "-comp gzip -Xcompression-level 1 -Xwindow-size 9 -Xstrategy huffman_only,fixed",
        "-comp lzo",
        "-comp lzo -Xalgorithm lzo1x_1",
        "-comp lz4",
        "-comp lz4 -Xhc",
        "-comp xz",
        "-comp zstd",
        "-always-use-fragments",
        "-no-fragments",
        "-no-duplicates",
        "-no-sparse",
        "-no-exports",
        "-noI",
        "-noD",
        "-noF",
        "-noX",
        "-noId",
        "-noI -noD -noF -noX -noId",
        "-no-exports -always-use-fragments -comp lzo -noI",
    ] {
        compare(&small, &format!("{MKSQUASHFS} -b 4096 {options}"));
    }
    for block in [1 << 17, 1 << 20] {
        let source = Source::new(&for_mksquashfs(block));
        for options in [
            "-comp xz -Xdict-size 8192",
            "-comp xz -Xbcj x86,arm",
            "-comp lz4",
            "-comp zstd -always-use-fragments",
            "-noI -noD -noF -noX",
        ] {
            compare(&source, &format!("{MKSQUASHFS} -b {block} {options}"));
        }
    }
}

#[test]
fn gensquashfs_with_every_codec_and_choice() {
    if !have("gensquashfs") {
        return skipped("gensquashfs_with_every_codec_and_choice", "gensquashfs");
    }
    let mut spec = everything(4096, 65536);
    // It does not support hard links and drops empty xattrs.
    spec.links.clear();
    each_xattr(&mut spec, &|value| value.resize(value.len().max(1), b'.'));
    // It gives the root directory its own attributes, unless told otherwise.
    spec.root.attrs = Attrs { mode: 0o755, owner: (0, 0), ..Attrs::plain(0) };
    let source = Source::new(&spec);
    let root = format!("-d uid=0,gid=0,mode=0755,mtime={}", spec.root.attrs.mtime.secs);
    for options in [
        "-c gzip -b 4096",
        "-c lzo -b 4096",
        "-c lz4 -b 4096",
        "-c lz4 -X hc -b 131072",
        "-c xz -b 4096",
        "-c zstd -b 1048576",
        "-c zstd -b 4096 -e",
        "-c zstd -b 4096 -T -e",
    ] {
        compare(&source, &format!("gensquashfs -q -f -k -x {root} -D $TREE {options} $IMAGE"));
    }
}

#[test]
fn tar2sqfs_with_every_codec() {
    if !have("tar2sqfs") {
        return skipped("tar2sqfs_with_every_codec", "tar2sqfs");
    }
    let mut spec = everything(4096, 65536);
    // Archives contain no sockets and no hard links to pipes, and tar2sqfs refuses long pax headers.
    spec.links.retain(|(old, _)| old != b"fifo");
    if let What::Dir(entries) = &mut spec.root.what {
        entries.retain(|_, node| node.what != What::Socket);
    }
    each_xattr(&mut spec, &|value| value.truncate(20_000));
    let source = Source::new(&spec);
    let tar = "tar -C $TREE --xattrs --xattrs-include='*' --format=pax --sparse --sort=name -cf - .";
    for codec in ["gzip", "lzo", "lz4", "xz", "zstd"] {
        compare(&source, &format!("{tar} | tar2sqfs -q -f -b 4096 -c {codec} $IMAGE"));
    }
}

#[test]
fn files_beyond_4_gib() {
    if !have("mksquashfs") {
        return skipped("files_beyond_4_gib", "mksquashfs");
    }
    let huge = vec![text(1, 70_000), Piece::Hole(5 << 30), noise(2, 70_000), Piece::Hole(1 << 20), text(3, 10)];
    let source = Source::new(&Spec::of([(b"huge".to_vec(), Node::file(huge))]));
    let reader = open_made(&source, &format!("{MKSQUASHFS} -b 1048576"));
    let nid = find(&reader, "huge");
    let size = 70_000 + (5 << 30) + 70_000 + (1 << 20) + 10;
    assert_eq!(reader.stat(nid).unwrap().kind, crate::image::FileType::File { size });
    let extents = reader.extents(nid).unwrap();
    assert!(extents.len() < 10, "neighbouring holes are one extent: {extents:?}");
    assert_eq!(extents.iter().map(|extent| extent.len).sum::<u64>(), size);
    let file = std::fs::File::open(source.tree().join("huge")).unwrap();
    for offset in [0, 69_000, (5 << 30) - 10, (5 << 30) + 70_000 - 4, (5 << 30) + 139_000, size - 1000, size] {
        let (mut got, mut want) = (vec![1; 3000], vec![2; 3000]);
        let n = reader.read_at(nid, &mut got, offset).unwrap();
        assert_eq!(n, std::os::unix::fs::FileExt::read_at(&file, &mut want, offset).unwrap());
        assert_eq!(got[..n], want[..n], "at {offset}");
    }
    assert_eq!(findings(&reader, 2), Vec::<String>::new());
}

#[test]
fn directories_of_70_000_entries() {
    let tools = [("mksquashfs", MKSQUASHFS), ("gensquashfs", "gensquashfs -q -f -D $TREE $IMAGE")];
    if let Some((missing, _)) = tools.iter().find(|(tool, _)| !have(tool)) {
        return skipped("directories_of_70_000_entries", missing);
    }
    let source = Source::new(&wide(70_000));
    for (tool, line) in tools {
        let reader = open_made(&source, line);
        let entries = reader.read_dir(reader.root()).unwrap();
        assert_eq!(entries.len(), 70_000);
        for entry in entries.iter().step_by(97) {
            assert_eq!(reader.lookup(reader.root(), &entry.name).unwrap(), Some(entry.nid));
        }
        for absent in ["", "a", "entry-000000x", "entry-0350005", "zzz"] {
            assert_eq!(reader.lookup(reader.root(), absent.as_bytes()).unwrap(), None, "{absent}");
        }
        assert_eq!(findings(&reader, 2), Vec::<String>::new(), "{tool}");
    }
}
