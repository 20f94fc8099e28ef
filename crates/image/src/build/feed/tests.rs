//! The feed, tested with files in memory.
#![allow(clippy::cast_possible_truncation, reason = "test data")]

use super::*;
use crate::Error;
use crate::source::FileReader;
use packfs_blocks::pipeline;
use std::path::PathBuf;

/// Files in memory with a given data map.
struct Memory(Vec<Sparse>);

/// A file's bytes, and the ranges (start, end) of them that are data.
type Sparse = (Vec<u8>, Vec<(u64, u64)>);

struct MemoryFile<'a>(&'a Sparse);

impl Contents for Memory {
    fn open(&self, key: u64) -> Result<Box<dyn FileReader + '_>> {
        let file = usize::try_from(key).ok().and_then(|key| self.0.get(key));
        let file = file.ok_or_else(|| Error::Misuse("no such file".into()))?;
        Ok(Box::new(MemoryFile(file)))
    }

    fn path(&self, key: u64) -> PathBuf {
        key.to_string().into()
    }
}

impl FileReader for MemoryFile<'_> {
    fn read_exact_at(&mut self, buf: &mut [u8], offset: u64) -> Result<()> {
        let at = usize::try_from(offset).unwrap();
        buf.copy_from_slice(&self.0.0[at..at + buf.len()]);
        Ok(())
    }

    fn next_data(&mut self, offset: u64) -> Result<Option<(u64, u64)>> {
        let next = self.0.1.iter().find(|(_, end)| *end > offset);
        Ok(next.map(|(start, end)| (*start.max(&offset), *end)))
    }

    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Reassembles the files from the blocks that the feed returns.
fn collect(files: &[Sparse], block_len: usize, threads: usize, stream: bool) -> Vec<Vec<u8>> {
    let mut got = vec![Vec::new(); files.len()];
    let mut order = Vec::new();
    let stages = Stages::default();
    let contents: Arc<dyn Contents> = Arc::new(Memory(files.to_vec()));
    pipeline::scope(
        threads,
        || (),
        |pool| {
            let cutting = CutOptions {
                block_len,
                buffers: Buffers::new(block_len),
                sparse: true,
                whole_holes_are_free: false,
                budget: 1 << 16,
                unread: None,
                sums: None,
            };
            let mut feed = BlockFeed::new(pool, cutting, &stages);
            let mut take = |fed: FedBlocks| match fed {
                FedBlocks::Small { bytes, files } => {
                    for (file, read) in files {
                        let (range, digest) = read.unwrap();
                        assert_eq!(digest, Digest::of(&bytes[range.clone()]));
                        got[file as usize].extend_from_slice(&bytes[range]);
                        order.push(file);
                    }
                }
                FedBlocks::Unread { .. } => unreachable!("not asked for"),
                FedBlocks::Blocks { file, cuts, last } => {
                    for cut in cuts.unwrap() {
                        match cut {
                            FileBlock::Hole(len) => {
                                let end = got[file as usize].len() + usize::try_from(len).unwrap();
                                got[file as usize].resize(end, 0);
                            }
                            FileBlock::Block(bytes, digest) => {
                                assert_eq!(digest, Digest::of(&bytes));
                                assert_eq!(got[file as usize].len() % block_len, 0, "only the last is short");
                                got[file as usize].extend_from_slice(&bytes);
                            }
                        }
                    }
                    if last {
                        order.push(file);
                    }
                }
            };
            for (n, (bytes, data)) in files.iter().enumerate() {
                let (n, size) = (u32::try_from(n).unwrap(), bytes.len() as u64);
                if stream {
                    let sent: Vec<u8> = data
                        .iter()
                        .flat_map(|(a, b)| &bytes[usize::try_from(*a).unwrap()..usize::try_from(*b).unwrap()])
                        .copied()
                        .collect();
                    let ranges: Vec<_> = data.iter().map(|(a, b)| (*a, b - a)).collect();
                    let mut sent = &sent[..];
                    let mut stream = feed.stream(n, &mut sent, size, &ranges).unwrap();
                    while let Some(fed) = stream.next().unwrap() {
                        take(fed);
                    }
                } else {
                    feed.file(n, &contents, u64::from(n), size);
                    while let Some(fed) = feed.next() {
                        take(fed);
                    }
                }
            }
            while let Some(fed) = feed.rest() {
                take(fed);
            }
        },
    );
    assert!(order.is_sorted(), "files come in order");
    got
}

#[test]
fn every_file_is_returned_whole_and_in_order() {
    let sizes = [1usize, 4095, 4096, 4097, 12_288, 100_000, 2 << 20, (3 << 20) + 5, 10, 300_000];
    let mut files: Vec<_> = sizes
        .iter()
        .map(|len| {
            let bytes: Vec<u8> = (0..*len).map(|n| (n * 7 % 251 + 1) as u8).collect();
            (bytes, vec![(0, *len as u64)])
        })
        .collect();
    // Holes: at the start, in the middle off the block grid, at the end, everywhere.
    for data in [vec![(8192u64, 9000u64)], vec![(0, 5000), (2_500_000, 2_500_001)], vec![]] {
        let mut bytes = vec![0u8; 3_000_000];
        for (start, end) in &data {
            bytes[usize::try_from(*start).unwrap()..usize::try_from(*end).unwrap()].fill(9);
        }
        files.push((bytes, data));
    }
    let want: Vec<_> = files.iter().map(|(bytes, _)| bytes.clone()).collect();
    for (block_len, threads) in [(4096, 0), (4096, 2), (1 << 17, 2), (1 << 20, 1)] {
        for stream in [false, true] {
            assert_eq!(collect(&files, block_len, threads, stream), want, "{block_len} {threads} {stream}");
        }
    }
}

#[test]
fn segments_follow_the_block_grid() {
    let stages = Stages::default();
    type DataRanges = &'static [(u64, u64)];
    type FileSegments = &'static [(u64, u64, bool)];
    let table: [(usize, usize, DataRanges, FileSegments); 4] = [
        (
            4096,
            20_000,
            &[(5000, 5001), (16_384, 16_400)],
            &[(0, 4096, true), (4096, 4096, false), (8192, 8192, true), (16_384, 3616, false)],
        ),
        // A short tail is data, as in a stream, unless it continues a hole.
        (8192, 8193, &[(0, 1)], &[(0, 8192, false), (8192, 1, false)]),
        (8192, 12_288, &[(0, 1)], &[(0, 8192, false), (8192, 4096, true)]),
        (8192, 16_385, &[(0, 1)], &[(0, 8192, false), (8192, 8193, true)]),
    ];
    for (block_len, len, data, want) in table {
        let buffers = Buffers::new(block_len);
        let cutter = FileCutter { block_len, sparse: true, buffers, stages: &stages, sums: None };
        let file = (vec![0; len], data.to_vec());
        let segments = cutter.segments(&mut MemoryFile(&file), len as u64).unwrap();
        let seen: Vec<_> = segments.iter().map(|s| (s.offset, s.len, s.hole)).collect();
        assert_eq!(seen, want, "blocks of {block_len}, {data:?}");
    }
}
