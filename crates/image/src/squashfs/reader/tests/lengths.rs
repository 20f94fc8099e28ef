//! Raw metadata blocks whose header announces more bytes than their table has left.

use std::process::Command;

use super::access::image_of;
use super::*;
use crate::squashfs::{Fragments, SquashfsOptions};
use crate::testing::{Mount, can_mount, differences, skipped, snapshot, snapshot_image};

/// An image with every table, its metadata uncompressed, and the position of each one's only block.
fn with_tables() -> (Vec<u8>, Vec<(&'static str, usize)>) {
    let mut named = Node::file(vec![noise(1, 50)]);
    named.attrs.xattrs = BTreeMap::from([("user.name".to_owned(), b"value".to_vec())]);
    let spec = Spec::of([
        ("dir".into(), Node::dir([("small".into(), Node::file(vec![noise(2, 70)]))])),
        ("named".into(), named),
    ]);
    let options = SquashfsOptions {
        fragments: Fragments::Tails,
        plain_metadata: true,
        export: true,
        block_size: 4096,
        ..SquashfsOptions::default()
    }
    .with(|build| {
        build.codec = "none".parse().unwrap();
        build.threads = 0;
    });
    let image = image_of(&spec, &options);
    let reader = open(&image).unwrap();
    let xattrs = reader.xattrs.as_ref().unwrap();
    let areas = [
        reader.inodes,
        reader.listings,
        reader.fragments.area(),
        reader.export.as_ref().unwrap().area(),
        reader.ids_table.area(),
        xattrs.pairs,
        xattrs.sets.area(),
    ];
    let areas = areas.map(|area| (area.structure, area.start as usize));
    (image, areas.to_vec())
}

/// Runs unsquashfs; returns true if it accepts the image.
fn unsquashfs_takes(image: &Path) -> bool {
    let output = Command::new("unsquashfs").args(["-q", "-n", "-lls"]).arg(image).output().unwrap();
    output.status.success()
}

/// Linux reads a block of up to 8 KiB if the image has so many bytes; unsquashfs has rules of its own for each table.
#[test]
fn raw_blocks_beyond_their_table_are_as_linux_has_them() {
    let test = "raw_blocks_beyond_their_table_are_as_linux_has_them";
    if !can_mount(test) || !have("unsquashfs") {
        return skipped(test, "unsquashfs");
    }
    let (sound, areas) = with_tables();
    let want = snapshot_image(&open(&sound).unwrap()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    for (structure, at) in areas {
        let word = u16::from_le_bytes(*sound[at..].first_chunk().unwrap());
        let len = word & 0x7fff;
        // The shortest way to the end of the image is that of the last table: 32 bytes.
        for (longer, read) in [(len + 1, true), (len + 9, true), (8192, false), (8193, false), (0x7fff, false)] {
            let what = format!("{structure}: {longer} bytes instead of {len}");
            let mut image = sound.clone();
            image[at..at + 2].copy_from_slice(&(0x8000 | longer).to_le_bytes());
            std::fs::write(&path, &image).unwrap();
            let found = open(&image).map(|reader| findings(&reader, 0)).unwrap_or_else(|_| vec!["refused".into()]);
            assert_eq!(found.iter().all(|finding| finding.starts_with("note: ")), read, "{what}: {found:?}");
            let noted = found.iter().find(|finding| finding.contains("are left in the table"));
            if !read {
                continue;
            }
            let noted = noted.unwrap_or_else(|| panic!("{what}: {found:?}"));
            let reader = open(&image).unwrap();
            assert_eq!(differences(&want, &snapshot_image(&reader).unwrap()), Vec::<String>::new(), "{what}");
            let kernel = snapshot(&Mount::new(&path, "squashfs").unwrap().path()).unwrap();
            assert_eq!(differences(&want, &kernel), Vec::<String>::new(), "the kernel, {what}");
            assert_eq!(unsquashfs_takes(&path), !noted.contains("unsquashfs refuses it"), "{noted}");
        }
    }
}
