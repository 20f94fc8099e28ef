//! Reads that are announced: of an image behind a network what a file needs and nothing else, of a local one nothing.

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex};

use packfs_blocks::testing::Random;
use packfs_image::image::{FileType, Nid};
use packfs_image::source::{Dir, dir};
use packfs_image::{AnyImage, Image, OpenOptions, Plan, Progress, ReadAt, Tree, erofs, sink, squashfs};

/// Bytes that remember which ranges were read and announced.
#[derive(Debug, Default)]
struct Watched {
    bytes: Vec<u8>,
    far: bool,
    read: Mutex<Vec<Range<u64>>>,
    announced: Mutex<Vec<Range<u64>>>,
}

impl ReadAt for Watched {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let got = self.bytes.read_at(buf, offset)?;
        self.read.lock().unwrap().push(offset..offset + got as u64);
        Ok(got)
    }

    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn will_read(&self, range: Range<u64>) {
        self.announced.lock().unwrap().push(range);
    }

    fn has_delay(&self) -> bool {
        self.far
    }
}

impl Watched {
    /// Returns the ranges read since the last call, and those announced.
    fn take(&self) -> [Vec<Range<u64>>; 2] {
        [&self.read, &self.announced].map(|all| std::mem::take(&mut *all.lock().unwrap()))
    }
}

/// Returns text that compresses to about a third, another one for each number.
fn text(number: u64, len: usize) -> Vec<u8> {
    let mut random = Random::new(number);
    let mut bytes = Vec::with_capacity(len + 32);
    while bytes.len() < len {
        bytes.extend_from_slice(format!("{:08x} = a line of text\n", random.number() >> 32).as_bytes());
    }
    bytes.truncate(len);
    bytes
}

const LARGE: usize = (9 << 20) + 12_345;

fn tree() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (n, (name, len)) in [("a", 3 << 20), ("large", LARGE), ("small", 700), ("z", 3 << 20)].into_iter().enumerate() {
        std::fs::write(dir.path().join(name), text(n as u64, len)).unwrap();
    }
    dir
}

/// Builds images of both formats, compressed and not.
fn images(root: &Path) -> Vec<(String, Vec<u8>)> {
    let place = tempfile::tempdir().unwrap();
    let mut images = Vec::new();
    for codec in ["zstd:1", "none", "lz4"] {
        for format in ["sqfs", "erofs"] {
            let file = place.path().join(format!("{codec}.{format}"));
            let fill = |store: &mut dyn packfs_image::source::Store| {
                let mut tree = Tree::default();
                packfs_image::source::Source::scan(&mut Dir::new(root, dir::Options::default()), &mut tree, store)?;
                Ok(Plan { tree, order: Vec::new() })
            };
            let set = |build: &mut packfs_image::build::SharedOptions| build.codec = codec.parse().unwrap();
            let progress = Progress::default();
            let built = if format == "sqfs" {
                squashfs::build(&file, &squashfs::SquashfsOptions::default().with(set), &progress, fill).map(drop)
            } else {
                let options =
                    erofs::ErofsOptions::default().set(|all| all.target_kernel = "6.12".parse().unwrap()).with(set);
                erofs::build(&file, &options, &progress, fill).map(drop)
            };
            built.unwrap();
            images.push((format!("{codec}.{format}"), std::fs::read(&file).unwrap()));
        }
    }
    images
}

fn open(bytes: &[u8], far: bool) -> (Arc<Watched>, AnyImage, Nid, u64) {
    let watched = Arc::new(Watched { bytes: bytes.to_vec(), far, ..Watched::default() });
    let image = AnyImage::open(watched.clone(), OpenOptions::default()).unwrap();
    let nid = sink::resolve(image.image(), b"large").unwrap().unwrap();
    let FileType::File { size } = image.image().stat(nid).unwrap().kind else { panic!("not a file") };
    assert_eq!(size, LARGE as u64);
    (watched, image, nid, size)
}

fn read(image: &dyn Image, nid: Nid, range: Range<u64>, piece: usize) -> Vec<u8> {
    let mut out = Vec::new();
    let mut buf = vec![0; piece];
    for at in range.clone().step_by(piece) {
        let want = usize::try_from(range.end - at).unwrap().min(piece);
        let got = image.read_at(nid, &mut buf[..want], at).unwrap();
        out.extend_from_slice(&buf[..got]);
    }
    out
}

fn len(ranges: &[Range<u64>]) -> u64 {
    ranges.iter().map(|range| range.end - range.start).sum()
}

/// Returns the number of bytes of `ranges` that are not in `within`.
fn outside(ranges: &[Range<u64>], within: &[Range<u64>]) -> u64 {
    let (mut cuts, mut missing) = (Vec::new(), 0);
    within.iter().for_each(|range| cuts.push(range.clone()));
    cuts.sort_by_key(|range| range.start);
    for range in ranges {
        let mut at = range.start;
        for cut in &cuts {
            if cut.end > at && cut.start < range.end {
                missing += cut.start.saturating_sub(at);
                at = at.max(cut.end);
            }
        }
        missing += range.end.saturating_sub(at);
    }
    missing
}

#[test]
fn a_far_image_announces_the_stored_bytes_of_a_range_and_a_local_one_reads_nothing_for_it() {
    let root = tree();
    let expected = text(1, LARGE);
    for (name, bytes) in images(root.path()) {
        let size = LARGE as u64;
        for range in [0..size, 0..u64::MAX, 3 << 20..5 << 20, size - 10..size, 700_001..700_002, size..size + 1, 5..5] {
            let (watched, image, nid, _) = open(&bytes, true);
            watched.take();
            image.image().will_read(nid, range.clone());
            let announced = watched.take()[1].clone();
            let range = range.start.min(size)..range.end.min(size);
            let got = read(image.image(), nid, range.clone(), 1 << 20);
            assert_eq!(got, expected[usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap()]);
            let [done, _] = watched.take();
            // Besides tables of a few hundred bytes, which reading needs as well.
            let unannounced = outside(&done, &announced);
            assert!(unannounced <= 20_000, "{name}, {range:?}: {unannounced} bytes of {done:?} not in {announced:?}");
            let unread = outside(&announced, &done);
            assert!(unread <= 4096, "{name}, {range:?}: {unread} bytes of {announced:?} too many");
            // The last bytes of a file may lie beside its inode.
            assert!(!range.is_empty() || announced.is_empty(), "{name}, {range:?}: {announced:?}");
            assert!(range.end - range.start < 4096 || !announced.is_empty(), "{name}, {range:?}");

            let (watched, image, nid, _) = open(&bytes, false);
            watched.take();
            image.image().will_read(nid, range);
            assert_eq!(watched.take(), [vec![], vec![]], "{name}");
        }
    }
}

#[test]
fn an_uncompressed_image_is_read_at_the_wanted_bytes_alone() {
    let root = tree();
    let (_, bytes) = images(root.path()).into_iter().find(|(name, _)| name == "none.sqfs").unwrap();
    let (watched, image, large, _) = open(&bytes, false);
    let small = sink::resolve(image.image(), b"small").unwrap().unwrap();
    // Their block lists are read before.
    for nid in [large, small] {
        image.image().extents(nid).unwrap();
    }
    // Parts of a block, then the next one of it, which has all of the block read. Whole blocks were read alone before.
    let block = 128 << 10;
    let cases = [
        (small, 0..700, 700),
        (large, 700_000..720_000, 20_000),
        (large, block + 100..block + 200, 100),
        (large, block + 200..block + 300, block),
        (large, block + 5000..block + 6000, 0),
        (large, 2 * block..3 * block, block),
    ];
    for (nid, range, expected) in cases {
        watched.take();
        let len = range.end - range.start;
        let got = read(image.image(), nid, range.clone(), 1 << 20);
        assert_eq!(got.len() as u64, len);
        if nid == large {
            let from = usize::try_from(range.start).unwrap();
            assert!(got == text(1, LARGE)[from..from + got.len()], "{range:?}");
        }
        let [done, _] = watched.take();
        // Besides an entry of the fragment table.
        let done_len = self::len(&done);
        assert!((expected..expected + 200).contains(&done_len), "{range:?}: {done:?}");
    }
}

#[test]
fn ranges_of_many_files_are_announced_together() {
    let root = tree();
    for (name, bytes) in images(root.path()) {
        let wanted = [("z", 0..u64::MAX), ("large", 5 << 20..6 << 20), ("a", 0..u64::MAX), ("large", 1 << 20..2 << 20)];
        let find = |image: &AnyImage, file: &str| sink::resolve(image.image(), file.as_bytes()).unwrap().unwrap();
        let (watched, image, ..) = open(&bytes, true);
        let ranges = wanted.clone().map(|(file, range)| (find(&image, file), range));
        watched.take();
        for (nid, range) in &ranges {
            image.image().will_read(*nid, range.clone());
        }
        let [_, each] = watched.take();
        image.image().will_read_many(&mut ranges.clone().into_iter());
        let [_, together] = watched.take();
        assert!(together.is_sorted_by_key(|range| range.start), "{name}: {together:?}");
        assert_eq!((outside(&each, &together), outside(&together, &each)), (0, 0), "{name}: {together:?} for {each:?}");

        let (watched, image, ..) = open(&bytes, false);
        let ranges = wanted.map(|(file, range)| (find(&image, file), range));
        watched.take();
        let mut asked = 0;
        image.image().will_read_many(&mut ranges.into_iter().inspect(|_| asked += 1));
        assert_eq!((watched.take(), asked), ([vec![], vec![]], 0), "{name}");
    }
}

#[test]
fn who_reads_in_order_without_a_word_is_announced_to_the_end_of_the_file() {
    let root = tree();
    for (name, bytes) in images(root.path()) {
        let (watched, image, nid, size) = open(&bytes, true);
        watched.take();
        read(image.image(), nid, 0..256 << 10, 128 << 10);
        let announced = watched.take()[1].clone();
        let rest = read(image.image(), nid, 256 << 10..size, 128 << 10);
        assert_eq!(rest, text(1, LARGE)[256 << 10..]);
        let [done, later] = watched.take();
        assert_eq!(later, [], "{name}: announced twice");
        assert!(outside(&done, &announced) <= 150_000, "{name}: {done:?} not in {announced:?}");
        assert!(outside(&announced, &done) <= 150_000, "{name}: too much of {announced:?}");
        assert!(len(&announced) > 1 << 20, "{name}");

        let (watched, image, nid, _) = open(&bytes, true);
        watched.take();
        for at in [5 << 20, 1 << 20, 8 << 20, 3 << 20] {
            read(image.image(), nid, at..at + 8192, 4096);
        }
        assert_eq!(watched.take()[1], [], "{name}: random reads announce nothing");
    }
}

#[test]
fn hostile_ranges_and_inodes_are_harmless() {
    let root = tree();
    for (_, bytes) in images(root.path()) {
        let (_, image, nid, _) = open(&bytes, true);
        let image = image.image();
        image.will_read(image.root(), 0..100);
        image.will_read(Nid(u64::MAX), 0..u64::MAX);
        image.will_read(nid, u64::MAX - 1..u64::MAX);
        #[allow(clippy::reversed_empty_ranges, reason = "that is the point")]
        image.will_read(nid, 100..5);
    }
}
