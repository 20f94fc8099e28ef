//! Archives that no program would write, converted and exported again; records that no conversion would write.

use std::io::Cursor;
use std::path::Path;
use std::sync::Arc;

use packfs_image::build::AnyOptions;
use packfs_image::source::Entry;
use packfs_image::{Builder, Choice, Codec, Fs, erofs, squashfs};
use proptest::prelude::*;

use super::*;
use crate::{
    ContainerSource, ConvertOptions, ExportOptions, ExportedLayer, RecordState, SourceOptions, convert, export,
};

/// Length of a block of a tar archive.
const BLOCK: usize = 512;

/// Exports what a conversion has made of an archive; returns the new archive.
fn round_trip(archive: &[u8], target: AnyOptions, reversible: bool) -> (Vec<u8>, ExportedLayer) {
    let dir = tempfile::tempdir().unwrap();
    let layer = dir.path().join("layer.tar");
    std::fs::write(&layer, archive).unwrap();
    let mut options = ConvertOptions::new(target);
    options.reversible = reversible;
    let source = ContainerSource::open(&[layer], &SourceOptions::default()).unwrap();
    let converted = dir.path().join("converted");
    convert(&source, &converted, &options, &Arc::default()).unwrap();
    let (archives, layer) = exported(&converted, &dir.path().join("exported"));
    (archives, layer)
}

/// Exports the only layer of a layout.
fn exported(converted: &Path, target: &Path) -> (Vec<u8>, ExportedLayer) {
    let source = ContainerSource::open_converted(converted, &SourceOptions::default()).unwrap();
    let mut exported = export(&source, target, &ExportOptions::default(), &Arc::default()).unwrap();
    let layer = exported.layers.pop().unwrap();
    (std::fs::read(target.join(layer.digest.blob_path())).unwrap(), layer)
}

/// Returns options with a codec that tests of this crate are built with.
fn squashfs_options() -> squashfs::SquashfsOptions {
    squashfs::SquashfsOptions::default().set(|options| options.build.codec = Choice::new(Codec::Lz4))
}

fn formats() -> [AnyOptions; 2] {
    [erofs::ErofsOptions::default().into(), squashfs_options().into()]
}

fn is_exact(archive: &[u8]) {
    for target in formats() {
        let (again, layer) = round_trip(archive, target, true);
        assert!(again == archive, "{} bytes became {}", archive.len(), again.len());
        assert!(layer.is_exact() && layer.record == RecordState::Used, "{layer:?}");
    }
}

/// Makes a header in the form of GNU tar, with numbers as `change` leaves them.
fn header(name: &[u8], kind: u8, len: usize, change: impl FnOnce(&mut [u8; BLOCK])) -> Vec<u8> {
    let mut block = [0; BLOCK];
    let mut put = |at: usize, text: &[u8]| block[at..at + text.len()].copy_from_slice(text);
    put(0, &name[..name.len().min(100)]);
    put(100, b"0000644\0");
    put(108, b"0000000\0");
    put(116, b"0000000\0");
    put(124, format!("{len:011o}\0").as_bytes());
    put(136, b"00000001750\0");
    put(156, &[kind]);
    put(257, b"ustar  \0");
    change(&mut block);
    block[148..156].fill(b' ');
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    block.to_vec()
}

/// Makes bytes that do not compress, the same for the same seed.
fn noise(len: usize, seed: u8) -> Vec<u8> {
    packfs_blocks::testing::noise(len, u64::from(seed) + 1)
}

/// Adds zeros, or other bytes, up to the end of a block.
fn pad(bytes: &mut Vec<u8>, filler: u8) {
    bytes.resize(bytes.len().next_multiple_of(BLOCK), filler);
}

fn member(name: &[u8], kind: u8, contents: &[u8], filler: u8, change: impl FnOnce(&mut [u8; BLOCK])) -> Vec<u8> {
    let mut bytes = header(name, kind, contents.len(), change);
    bytes.extend(contents);
    pad(&mut bytes, filler);
    bytes
}

/// Makes a record of a pax header.
fn pax_record(key: &str, value: &[u8]) -> Vec<u8> {
    let rest = key.len() + value.len() + 3;
    let len = (rest..).find(|len| rest + len.to_string().len() == *len).unwrap();
    [format!("{len} {key}=").as_bytes(), value, b"\n"].concat()
}

fn set_link(target: &[u8]) -> impl FnOnce(&mut [u8; BLOCK]) {
    move |block| block[157..157 + target.len()].copy_from_slice(target)
}

/// Makes a file with two regions of data in the old form of GNU tar.
fn sparse_member(name: &[u8], seed: u8) -> Vec<u8> {
    let contents = noise(1500, seed);
    member(name, b'S', &contents, 0, |block| {
        for (number, (offset, len)) in [(4096, 1024), (20_000, 476)].into_iter().enumerate() {
            let at = 386 + 24 * number;
            block[at..at + 12].copy_from_slice(format!("{offset:011o}\0").as_bytes());
            block[at + 12..at + 24].copy_from_slice(format!("{len:011o}\0").as_bytes());
        }
        block[483..495].copy_from_slice(format!("{:011o}\0", 30_000).as_bytes());
    })
}

/// A member of an archive at random.
#[derive(Debug, Clone)]
struct RandomMember {
    form: u8,
    place: u8,
    other: u8,
    len: usize,
    seed: u8,
    filler: u8,
}

/// Returns one of ten names: few names make many duplicates.
fn name(place: u8) -> Vec<u8> {
    format!("{}f{}", if place.is_multiple_of(2) { "" } else { "d/./" }, place % 5).into_bytes()
}

impl RandomMember {
    /// Returns the bytes of the member with its extended headers.
    fn bytes(&self) -> Vec<u8> {
        let this = name(self.place);
        let contents = noise(self.len, self.seed);
        let file = || member(&this, b'0', &contents, self.filler, |_| {});
        let long = [&b"long/"[..], &[b'x'; 120], &this].concat();
        match self.form {
            0 => member(b"d/", b'5', b"", 0, |_| {}),
            1 => member(&this, b'2', b"", 0, set_link(b"somewhere")),
            2 => member(&this, b'1', b"", 0, set_link(&name(self.place.wrapping_add(1 + self.other % 4)))),
            3 => sparse_member(&this, self.seed),
            // Base 256, as GNU tar has it for large numbers, for length and time.
            4 => member(&this, b'0', &contents, self.filler, |block| {
                block[124..136].fill(0);
                block[124] = 0x80;
                block[128..136].copy_from_slice(&(contents.len() as u64).to_be_bytes());
                block[136..148].fill(0);
                block[136] = 0x80;
                block[147] = 1;
            }),
            5 => [member(b"././@LongLink", b'L', &[&long[..], b"\0"].concat(), 0, |_| {}), file()].concat(),
            6 => {
                let records = [
                    pax_record("path", &long),
                    pax_record("mtime", b"1234.5"),
                    pax_record("SCHILY.xattr.user.note", &contents[..contents.len().min(50)]),
                ];
                [member(b"pax", b'x', &records.concat(), 0, |_| {}), file()].concat()
            }
            7 => [member(b"global", b'g', &pax_record("comment", b"nothing"), 0, |_| {}), file()].concat(),
            8 => member(&[b"d/.wh.", &this[..1]].concat(), b'0', &contents, self.filler, |_| {}),
            // The end of an archive, and another one after it.
            9 => [vec![0; 2 * BLOCK], file()].concat(),
            // A header without a magic, as the oldest programs wrote it.
            10 => member(&this, 0, &contents, self.filler, |block| block[257..].fill(0)),
            _ => file(),
        }
    }
}

fn random_member() -> impl Strategy<Value = RandomMember> {
    let len = prop_oneof![Just(0usize), 1..2000usize, Just(512), 60_000..200_000usize];
    (0..14u8, any::<u8>(), any::<u8>(), len, any::<u8>(), any::<u8>())
        .prop_map(|(form, place, other, len, seed, filler)| RandomMember { form, place, other, len, seed, filler })
}

fn random_end() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        Just(Vec::new()),
        Just(vec![0; 2 * BLOCK]),
        Just(vec![0; 20 * BLOCK]),
        Just(vec![0; BLOCK + 7]),
        (1..3000usize, any::<u8>()).prop_map(|(len, seed)| [vec![0; 2 * BLOCK], noise(len, seed)].concat()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn archives_come_back_byte_for_byte(
        members in prop::collection::vec(random_member(), 1..12),
        end in random_end(),
    ) {
        let members: Vec<Vec<u8>> = members.iter().map(RandomMember::bytes).collect();
        // The first ones are files: an archive of nothing but marks of its end would be empty, and one with a hard link to
        // nothing is refused.
        let targets: Vec<Vec<u8>> = (0..10).map(|place| member(&name(place), b'0', b"first", 0, |_| {})).collect();
        is_exact(&[targets.concat(), members.concat(), end].concat());
    }
}

/// Contents stay in the image, except those that are replaced.
#[test]
fn records_hold_only_what_the_image_lacks() {
    let kept = noise(300_000, 1);
    let replaced = noise(100_000, 2);
    let archive = [
        member(b"a", b'0', &replaced, 0, |_| {}),
        member(b"b", b'0', &kept, 0, |_| {}),
        member(b"a", b'0', b"short", 0, |_| {}),
        vec![0; 2 * BLOCK],
    ];
    is_exact(&archive.concat());
    for (members, least, most) in [(&archive[1..], 20, 1000), (&archive[..], 100_000, 102_000)] {
        let dir = tempfile::tempdir().unwrap();
        let layer = dir.path().join("layer.tar");
        std::fs::write(&layer, members.concat()).unwrap();
        let mut options = ConvertOptions::new(squashfs_options());
        options.reversible = true;
        let source = ContainerSource::open(&[layer], &SourceOptions::default()).unwrap();
        let converted = dir.path().join("converted");
        convert(&source, &converted, &options, &Arc::default()).unwrap();
        let opened = ContainerSource::open_converted(&converted, &SourceOptions::default()).unwrap();
        let record = opened.images[0].platforms[0].layers[0].tar_record.clone().unwrap();
        assert!((least..most).contains(&record.size), "{} bytes", record.size);
        // Who wants a record of a layer that exists already gets one, and who has it keeps it.
        let again = convert(&source, &converted, &options, &Arc::default()).unwrap();
        assert!(again.layers[0].is_reused);
        std::fs::remove_file(record.path().unwrap()).unwrap();
        let (_, layer) = exported(&converted, &dir.path().join("exported"));
        assert!(!layer.is_exact() && layer.record == RecordState::Missing);
        let again = convert(&source, &converted, &options, &Arc::default()).unwrap();
        assert!(!again.layers[0].is_reused);
        let (_, layer) = exported(&converted, &dir.path().join("exported-again"));
        assert!(layer.is_exact());
        // A damaged record is found by its digest, and one of another archive by the diffID.
        std::fs::write(record.path().unwrap(), vec![0; usize::try_from(record.size).unwrap()]).unwrap();
        let damaged = export(&opened, &dir.path().join("x"), &ExportOptions::default(), &Arc::default()).unwrap_err();
        assert!(damaged.to_string().contains("tar record sha256:"), "{damaged}");
        assert!(!dir.path().join("x").exists());
    }
}

/// Without a record, deleted files come back as OCI has them.
#[test]
fn packed_archives_have_marks_of_oci() {
    let archive = [
        member(b"d/", b'5', b"", 0, |_| {}),
        member(b"d/.wh.gone", b'0', b"", 0, |_| {}),
        member(b"o/", b'5', b"", 0, |_| {}),
        member(b"o/.wh..wh..opq", b'0', b"", 0, |_| {}),
        member(b"o/new", b'0', b"new", 0, |_| {}),
        vec![0; 2 * BLOCK],
    ]
    .concat();
    for target in formats() {
        let (packed, layer) = round_trip(&archive, target, false);
        assert!(!layer.is_exact() && layer.record == RecordState::Unrecorded);
        let mut tree = Tree::default();
        let source = archive::from_stream(Box::new(Cursor::new(packed.clone())), Path::new("x"), Default::default());
        source.unwrap().scan(&mut tree, &mut DiscardingStore).unwrap();
        let mut paths = Vec::new();
        tree.walk(|ino, path| {
            let attributes = tree.xattrs.get(tree.meta(ino).xattrs).len();
            paths.push(format!("{} {attributes}", String::from_utf8_lossy(path)));
            Ok(())
        })
        .unwrap();
        assert_eq!(paths, [" 0", "d 0", "d/.wh.gone 0", "o 0", "o/.wh..wh..opq 0", "o/new 0"]);
        // What packfs has written, it writes again without a record.
        let (again, layer) = round_trip(&packed, squashfs_options().into(), false);
        assert!(again == packed && layer.is_exact());
    }
}

#[test]
fn bad_records_are_refused() {
    let entries = [Entry::file("a", "0123456789"), Entry::dir("d")];
    let builder = Builder::squashfs().codec(Choice::new(Codec::Lz4)).entries(entries);
    let (image, _) = builder.write_to(Cursor::new(Vec::new())).unwrap();
    let image = Fs::from_reader(image).unwrap();
    let rebuild = |record: &[u8]| {
        let mut archive = Vec::new();
        let rebuilt = rebuild_archive(&mut Cursor::new(record), "r", image.image(), &mut archive, &Progress::default());
        rebuilt.map(|()| archive)
    };
    let literal = |len: u32, bytes: &[u8]| [&[LITERAL][..], &len.to_le_bytes(), bytes].concat();
    let file = |path: &[u8], len: u64| {
        [&[FILE][..], &u16::try_from(path.len()).unwrap().to_le_bytes(), path, &len.to_le_bytes()].concat()
    };
    let range = |offset: u64, len: u64| [&[RANGE][..], &offset.to_le_bytes(), &len.to_le_bytes()].concat();
    let record = |operations: &[Vec<u8>]| [&MAGIC[..], &operations.concat()].concat();
    let end = vec![END];
    let sound = record(&[literal(2, b"ab"), file(b"a", 10), range(8, 2), range(0, 3), end.clone()]);
    assert_eq!(rebuild(&sound).unwrap(), b"ab89012");
    for len in 0..sound.len() {
        let error = rebuild(&sound[..len]).unwrap_err().to_string();
        assert!(error.contains("it ends in the middle"), "{len}: {error}");
    }
    for (record, part) in [
        ([0; 100].to_vec(), "it is not a tar record of this version"),
        (record(&[literal(65_537, b"")]), "65537 literal bytes in a row are more than 65536"),
        (record(&[literal(u32::MAX, b"")]), "literal bytes in a row"),
        (record(&[range(0, 1)]), "a range without a file"),
        (record(&[file(b"none\n", 1)]), "the image does not have its file none\\n"),
        (record(&[file(b"d", 1)]), "the image does not have its file d"),
        (record(&[file(b"a/../a", 10)]), "the image does not have its file"),
        (record(&[file(b"a", 11)]), "its file a has 11 bytes, and in the image 10"),
        (record(&[file(b"a", 10), range(9, 2)]), "2 bytes at 9 go beyond the 10 bytes of a"),
        (record(&[file(b"a", 10), range(u64::MAX, 2)]), "go beyond"),
        (record(&[vec![9]]), "9 is not an operation"),
        (record(&[end.clone(), end]), "bytes after its end"),
    ] {
        let error = rebuild(&record).unwrap_err().to_string();
        assert!(error.starts_with("r: ") && error.contains(part), "{error}");
    }
}
