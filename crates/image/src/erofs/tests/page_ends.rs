//! Clusters that end shortly after the start of a page of the image, where the kernel's decoders
//! get their last bytes in a separate step.

use super::matrix::mixed;
use super::*;
use crate::erofs::format::algorithm;
use crate::erofs::page_end;
use crate::source::Contents;
use crate::testing::{Memory, Mount, Node, Piece, can_mount, findings};

/// Size of the kernel's page in bytes.
const PAGE: u64 = 4096;
/// Length in bytes of a text, which is one cluster.
const TEXT_LEN: u64 = 8000;

/// A text of an image.
struct Text {
    name: String,
    bytes: Vec<u8>,
    /// Position of its cluster, and by how many bytes it was moved for the kernel to read it.
    start: u64,
    len: u64,
    moved: u64,
}

fn unaligned(codec: &str) -> ErofsOptions {
    let features = Features::BITS_48 | Features::UNALIGNED;
    ErofsOptions { features, cluster_size: 8192, ..options(codec, 4096) }.with(|build| build.dedup = false)
}

/// Texts, each after as much noise as makes its cluster end a given number of bytes after the start
/// of a page, if nothing moves it.
fn texts(options: &ErofsOptions, seeds: u64, ends: std::ops::Range<u64>) -> (Spec, Vec<Text>) {
    let (mut files, mut texts, mut at) = (Vec::new(), Vec::new(), PAGE);
    let window = options.build.codec.cluster_window(options.cluster_size);
    let mut encoder = options.build.codec.cluster_encoder(window).unwrap();
    for (seed, end) in (0..seeds).flat_map(|seed| ends.clone().map(move |end| (seed, end))) {
        let pieces = mixed(seed, TEXT_LEN);
        let mut bytes = vec![0; usize::try_from(TEXT_LEN).unwrap()];
        Memory(vec![pieces.clone()]).open(0).unwrap().read_exact_at(&mut bytes, 0).unwrap();
        let mut packed = vec![0; bytes.len()];
        let len = encoder.encode(&bytes, &mut packed).unwrap().unwrap() as u64;
        // At least two pages of noise, so that no tail of it is stored after the inode.
        let noise = 2 * PAGE + (end + PAGE - (at + len) % PAGE) % PAGE;
        let name = format!("{seed:03}-{end:02}");
        files.push((format!("{name}-noise").into_bytes(), Node::file(vec![Piece::Noise { seed: at, len: noise }])));
        files.push((format!("{name}-text").into_bytes(), Node::file(pieces)));
        at += noise;
        let moved = page_end::moved(options.build.codec.codec().erofs_id().unwrap(), at, len) as u64;
        at += moved;
        texts.push(Text { name: format!("{name}-text"), bytes, start: at, len, moved });
        at += len;
    }
    (Spec::of(files), texts)
}

#[test]
fn clusters_end_where_the_kernel_reads_them() {
    if !can_mount("clusters_end_where_the_kernel_reads_them") {
        return;
    }
    for codec in ["lz4", "lz4hc:1", "deflate:1", "deflate:6", "deflate:12", "zstd:1", "lzma:0"] {
        let options = unaligned(codec);
        let (spec, texts) = texts(&options, 8, 0..24);
        let built = built(&spec, &options);
        let mount = Mount::new(&built.image, "erofs").unwrap();
        let wrong =
            texts.iter().filter(|text| std::fs::read(mount.path().join(&text.name)).ok().as_ref() != Some(&text.bytes));
        let wrong: Vec<_> = wrong.map(|text| &text.name).collect();
        assert!(wrong.is_empty(), "{codec}: {wrong:?}");
        assert_eq!(findings(&*open(&built.image).unwrap(), 2), Vec::<String>::new(), "{codec}");
        let moved = texts.iter().filter(|text| text.moved > 0).count();
        assert_eq!(moved, if codec.starts_with("deflate") { 16 } else { 0 }, "{codec}");
    }
}

/// With clusters placed as other writers place them, `check` finds those that the kernel cannot read.
#[test]
fn check_finds_clusters_that_the_kernel_cannot_read() {
    if !can_mount("check_finds_clusters_that_the_kernel_cannot_read") {
        return;
    }
    let options = unaligned("deflate:6");
    let (spec, texts) = texts(&options, 16, 1..4);
    let built = built(&spec, &options);
    let mut image = std::fs::read(&built.image).unwrap();
    let at = |byte: u64| usize::try_from(byte).unwrap();
    for text in &texts {
        let (start, len) = (at(text.start), at(text.len));
        image.copy_within(start..start + len, start - at(text.moved));
        let format = u32::from(algorithm::DEFLATE + 1) << 28 | u32::try_from(text.len).unwrap();
        let record = |start: u64| [format.to_le_bytes(), u32::try_from(start).unwrap().to_le_bytes()].concat();
        let old = record(text.start);
        let found = image.windows(8).position(|bytes| bytes == old).expect("its extent");
        image[found..found + 8].copy_from_slice(&record(text.start - text.moved));
    }
    std::fs::write(&built.image, &image).unwrap();
    let findings = findings(&*open(&built.image).unwrap(), 2);
    let mount = Mount::new(&built.image, "erofs").unwrap();
    let mut unreadable = 0;
    for text in &texts {
        let read = std::fs::read(mount.path().join(&text.name));
        let place = format!("byte {}:", text.start - text.moved);
        let reported =
            findings.iter().any(|finding| finding.contains(&place) && finding.contains("lies on its last page"));
        assert_eq!(read.is_err(), reported, "{}: {read:?}, {findings:?}", text.name);
        unreadable += usize::from(reported);
    }
    assert!(unreadable > 16 && findings.len() == unreadable, "{unreadable} of {}: {findings:?}", texts.len());
}
