//! `ZsyncIndex`: the digests of a file and the sums of its blocks, as zsync 0.6 reads and writes them.
//!
//! After the header, the index has the sums of each block, in order: the last bytes of the weak sum, and the first of the
//! MD4 digest. The last block is filled up with zeros. How many bytes the header says; they are as few as make a wrong
//! match unlikely, for the index is fetched with each update. The digest of the whole file is what proves the result.

use std::fmt::Write as _;

use packfs_blocks::hex::to_hex;
use packfs_blocks::pipeline::{self, Window};
use packfs_blocks::{Progress, ReadAt};
use sha1::Sha1;
use sha2::{Digest, Sha256};

use super::header::{HeaderLine, INDEX, split_header};
use super::plan::UpdatePlan;
use super::sums::{MD4_LEN, RollingSum, md4};
use crate::PatchEffort;
use crate::error::{Error, Result};
use crate::identity::FILE_LEN_MAX;

/// The version of zsync whose format this is.
const VERSION: &str = "0.6.2";
/// Line with the digest that only packfs reads.
const SHA256: &str = "SHA-256";
/// Smallest and largest block of an index that is read. A smaller one costs more in the index than it saves; the largest
/// bounds the memory of workers, which hold three.
const BLOCK_SIZES: std::ops::RangeInclusive<u32> = 64..=4 << 20;
/// Length from which files have blocks of 4096 bytes instead of 2048, as zsyncmake does it.
const LARGE_FILE: u64 = 100_000_000;
/// Longest index that is read: that of an image of 100 GB or more. It is held in memory.
const INDEX_MAX: u64 = 256 << 20;
/// Bytes of the file that a job reads: at least one block.
const CHUNK_LEN: u64 = 1 << 20;

/// How an index is made.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct IndexOptions {
    /// Bytes of a block, a power of two from 64 on; `None` for 2048, and 4096 from 100 MB on.
    pub block_size: Option<u32>,
    /// Name to store the file under.
    pub file_name: Option<String>,
    /// Address of the file, absolute or from that of the index on.
    pub url: Option<String>,
}

packfs_blocks::options!(IndexOptions);

/// Lengths of the sums of each block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SumLengths {
    /// Number of blocks that must match one after the other: 1 or 2.
    pub(super) consecutive: u8,
    /// Bytes of the weak sum: 1 to 4.
    pub(super) weak_len: u8,
    /// Bytes of the MD4 digest: 3 to 16.
    pub(super) strong_len: u8,
}

/// The index of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZsyncIndex {
    file_name: Option<String>,
    url: Option<String>,
    block_size: u32,
    len: u64,
    lengths: SumLengths,
    sha1: Option<[u8; 20]>,
    sha256: Option<[u8; 32]>,
    /// The sums of all blocks, as the index has them.
    block_sums: Vec<u8>,
}

impl SumLengths {
    /// Returns the lengths that zsyncmake gives a file.
    ///
    /// The weak sum has more bits the longer the file is, so that few windows come to MD4 in vain. An update of N bytes in n
    /// blocks compares N windows with n blocks, so `20 + log2(N n)` bits of MD4, in the blocks that have to match, let one
    /// in a million find a wrong block. A single block has at least `27.9 + log2(n)` bits, rounded down to bytes.
    fn of_file(len: u64, block_size: u32) -> Self {
        #[allow(clippy::cast_precision_loss, reason = "a logarithm that is rounded to bytes needs no more")]
        let bits = |number: u64| (number as f64).log2();
        let consecutive = if len > u64::from(block_size) { 2 } else { 1 };
        let blocks = 1 + len / u64::from(block_size);
        let shared = f64::from(consecutive) * 8.0;
        let weak = ((bits(len.max(1)) + bits(block_size.into()) - 8.6) / shared).ceil();
        let in_run = ((20.0 + bits(len.max(1)) + bits(blocks)) / shared).ceil();
        let alone = ((7.9 + 20.0 + bits(blocks)) / 8.0).floor();
        SumLengths {
            consecutive,
            weak_len: rounded(weak.clamp(2.0, 4.0)),
            strong_len: rounded(in_run.max(alone).clamp(3.0, 16.0)),
        }
    }

    pub(super) fn total(self) -> usize {
        usize::from(self.weak_len) + usize::from(self.strong_len)
    }

    /// Returns the bits of a weak sum that the index has.
    pub(super) fn weak_mask(self) -> u32 {
        u32::MAX >> (32 - 8 * u32::from(self.weak_len))
    }
}

/// Converts a whole number from 0 to 16.
fn rounded(number: f64) -> u8 {
    (0..=16).find(|whole| f64::from(*whole) >= number).unwrap_or(16)
}

/// Fields in the header of an index.
#[derive(Default)]
struct IndexHeader {
    file_name: Option<String>,
    url: Option<String>,
    block_size: Option<u32>,
    len: Option<u64>,
    lengths: Option<SumLengths>,
    sha1: Option<[u8; 20]>,
    sha256: Option<[u8; 32]>,
    /// Names of lines that may be ignored.
    safe: String,
}

impl ZsyncIndex {
    /// Makes the index of a file. Workers compute sums of blocks; the calling thread computes the digests of the file.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Interrupted`].
    ///
    /// # Panics
    /// If the options have a block size that is no power of two, or less than 64 or more than 4 MiB.
    pub fn of_file(file: &dyn ReadAt, options: &IndexOptions, effort: &PatchEffort) -> Result<Self> {
        let len = file.len();
        let usual = if len < LARGE_FILE { 2048 } else { 4096 };
        let block_size = options.block_size.unwrap_or(usual);
        assert!(block_size.is_power_of_two() && BLOCK_SIZES.contains(&block_size), "a block size out of range");
        let lengths = SumLengths::of_file(len, block_size);
        let mut index = ZsyncIndex {
            file_name: options.file_name.clone(),
            url: options.url.clone(),
            block_size,
            len,
            lengths,
            sha1: None,
            sha256: None,
            block_sums: Vec::new(),
        };
        let mut sha1 = Sha1::new();
        let mut sha256 = Sha256::new();
        let mut block_sums = Vec::new();
        each_chunk(file, len, block_size, effort, &|chunk| index.sums_of(&chunk.bytes), &mut |chunk, sums| {
            sha1.update(&chunk.bytes);
            sha256.update(&chunk.bytes);
            block_sums.extend_from_slice(&sums);
        })?;
        index.sha1 = Some(sha1.finalize().into());
        index.sha256 = Some(sha256.finalize().into());
        index.block_sums = block_sums;
        Ok(index)
    }

    /// Returns the sums of the blocks in some bytes of the file, as the index has them.
    fn sums_of(&self, bytes: &[u8]) -> Vec<u8> {
        let mut sums = Vec::new();
        let mut last = Vec::new();
        for block in bytes.chunks(self.block_size as usize) {
            let sum = self.sum_of(self.filled(block, &mut last));
            sums.extend_from_slice(&sum.weak.to_be_bytes()[4 - usize::from(self.lengths.weak_len)..]);
            sums.extend_from_slice(&sum.strong[..usize::from(self.lengths.strong_len)]);
        }
        sums
    }

    /// Returns a block filled up with zeros, which are in `room` if it is short.
    fn filled<'b>(&self, block: &'b [u8], room: &'b mut Vec<u8>) -> &'b [u8] {
        let block_size = self.block_size as usize;
        if block.len() == block_size {
            return block;
        }
        room.clear();
        room.extend_from_slice(block);
        room.resize(block_size, 0);
        room
    }

    fn sum_of(&self, block: &[u8]) -> BlockSum {
        BlockSum { weak: RollingSum::of(block).value() & self.lengths.weak_mask(), strong: md4(block) }
    }

    /// Returns true if `bytes` are those of a block; the last may be short.
    pub(super) fn is_block(&self, block: usize, bytes: &[u8]) -> bool {
        let mut room = Vec::new();
        let bytes = self.filled(bytes, &mut room);
        RollingSum::of(bytes).value() & self.lengths.weak_mask() == self.weak(block)
            && self.is_strong(block, &md4(bytes))
    }

    /// Reads an index.
    ///
    /// # Errors
    /// [`Error::Image`], with the offset and the line, if it is damaged or says what no index can say; [`Error::Io`].
    pub fn read(index: &dyn ReadAt) -> Result<Self> {
        if index.len() > INDEX_MAX {
            let why = format!("{} bytes are no index that packfs reads: {INDEX_MAX} at most", index.len());
            return Err(Error::damaged(INDEX, 0, why));
        }
        let mut bytes = vec![0; usize::try_from(index.len()).unwrap_or_default()];
        index.read_exact_at(&mut bytes, 0).map_err(Error::io("cannot read the index"))?;
        let (lines, sums_offset) = split_header(&bytes)?;
        let header = IndexHeader::of(&lines)?;
        let end = sums_offset as u64;
        let missing = |name: &str| Error::damaged(INDEX, end, format!("the header has no line `{name}:`"));
        let block_size = header.block_size.ok_or_else(|| missing("Blocksize"))?;
        let len = header.len.ok_or_else(|| missing("Length"))?;
        let lengths = header.lengths.ok_or_else(|| missing("Hash-Lengths"))?;
        if header.sha1.is_none() && header.sha256.is_none() {
            return Err(missing("SHA-1"));
        }
        // Before anything depends on the number of blocks: they have to be there, and so they fit in memory.
        let expected = len.div_ceil(block_size.into()).checked_mul(lengths.total() as u64);
        let found = bytes.len() as u64 - end;
        if expected != Some(found) {
            let expected = expected.map_or("more than there can be".to_owned(), |len| len.to_string());
            let why = format!("{found} bytes of sums follow, but a file of {len} bytes has {expected}");
            return Err(Error::damaged(INDEX, end, why));
        }
        let block_sums = bytes.split_off(sums_offset);
        let IndexHeader { file_name, url, sha1, sha256, .. } = header;
        Ok(ZsyncIndex { file_name, url, block_size, len, lengths, sha1, sha256, block_sums })
    }

    /// Returns the bytes of the index, in the order of lines that zsyncmake writes. It has no time: the file may have none
    /// that stays the same.
    pub fn encode(&self) -> Vec<u8> {
        let mut header = format!("zsync: {VERSION}\n");
        let mut line = |name: &str, value: &str| {
            let _ = writeln!(header, "{name}: {value}");
        };
        if let Some(file_name) = &self.file_name {
            line("Filename", file_name);
        }
        line("Blocksize", &self.block_size.to_string());
        line("Length", &self.len.to_string());
        let SumLengths { consecutive, weak_len, strong_len } = self.lengths;
        line("Hash-Lengths", &format!("{consecutive},{weak_len},{strong_len}"));
        if let Some(url) = &self.url {
            line("URL", url);
        }
        if let Some(digest) = &self.sha1 {
            line("SHA-1", &to_hex(digest));
        }
        if let Some(digest) = &self.sha256 {
            // zsync ignores lines that it does not know only if an earlier one says that it may.
            line("Safe", SHA256);
            line(SHA256, &to_hex(digest));
        }
        header.push('\n');
        [header.as_bytes(), &self.block_sums].concat()
    }

    /// Returns a plan in which all blocks are missing.
    pub fn plan(&self) -> UpdatePlan {
        UpdatePlan::new(self.len, self.block_size, self.blocks())
    }

    /// Returns the name that the file had where the index was made.
    pub fn file_name(&self) -> Option<&str> {
        self.file_name.as_deref()
    }

    /// Returns the address of the file, which may be relative to that of the index.
    pub fn url(&self) -> Option<&str> {
        self.url.as_deref()
    }

    /// Returns the length of the file in bytes.
    pub fn file_len(&self) -> u64 {
        self.len
    }

    /// Returns the bytes of a block.
    pub fn block_size(&self) -> u32 {
        self.block_size
    }

    /// Returns the number of blocks.
    pub fn blocks(&self) -> usize {
        self.block_sums.len() / self.lengths.total()
    }

    /// Returns the SHA-1 of the file.
    pub fn sha1(&self) -> Option<[u8; 20]> {
        self.sha1
    }

    /// Returns the SHA-256 of the file, which indexes of packfs have.
    pub fn sha256(&self) -> Option<[u8; 32]> {
        self.sha256
    }

    pub(super) fn lengths(&self) -> SumLengths {
        self.lengths
    }

    /// Returns what the index has of a block's weak sum.
    pub(super) fn weak(&self, block: usize) -> u32 {
        let at = block * self.lengths.total();
        let weak = &self.block_sums[at..at + usize::from(self.lengths.weak_len)];
        weak.iter().fold(0, |sum, byte| sum << 8 | u32::from(*byte))
    }

    /// Returns what the index has of a block's MD4 digest.
    pub(super) fn strong(&self, block: usize) -> &[u8] {
        let end = (block + 1) * self.lengths.total();
        &self.block_sums[end - usize::from(self.lengths.strong_len)..end]
    }

    fn is_strong(&self, block: usize, digest: &[u8; MD4_LEN]) -> bool {
        digest.starts_with(self.strong(block))
    }
}

/// Both sums of a block.
struct BlockSum {
    weak: u32,
    strong: [u8; MD4_LEN],
}

impl IndexHeader {
    fn of(lines: &[HeaderLine<'_>]) -> Result<Self> {
        let mut header = IndexHeader::default();
        for line in lines {
            match line.name {
                "zsync" | "Min-Version" | "MTime" => {}
                "Filename" => header.file_name = Some(line.value.into()),
                // Of several addresses, the first.
                "URL" if header.url.is_none() => header.url = Some(line.value.into()),
                "URL" => {}
                "Blocksize" => header.block_size = Some(block_size(line)?),
                "Length" => header.len = Some(line.number(0, FILE_LEN_MAX)?),
                "Hash-Lengths" => header.lengths = Some(sum_lengths(line)?),
                "SHA-1" => header.sha1 = Some(line.digest()?),
                SHA256 => header.sha256 = Some(line.digest()?),
                "Safe" => {
                    header.safe.push_str(line.value);
                    header.safe.push(' ');
                }
                "Z-URL" | "Z-Map2" => {
                    return Err(line.wrong(
                        "the index is for a compressed file that is fetched in parts and decompressed, which packfs does \
                         not do: make it with `zsyncmake -e`",
                    ));
                }
                other if is_safe(&header.safe, other) => {}
                _ => {
                    return Err(
                        line.wrong("a line that packfs does not know, and that is not marked as safe to ignore")
                    );
                }
            }
        }
        Ok(header)
    }
}

/// Returns true if the values of `Safe:` name a line.
fn is_safe(safe: &str, name: &str) -> bool {
    safe.split([' ', ',']).any(|word| word.trim_end_matches(':') == name)
}

fn block_size(line: &HeaderLine<'_>) -> Result<u32> {
    let size = line.number((*BLOCK_SIZES.start()).into(), (*BLOCK_SIZES.end()).into())?;
    match u32::try_from(size) {
        Ok(size) if size.is_power_of_two() => Ok(size),
        _ => Err(line.wrong("it has to be a power of two")),
    }
}

fn sum_lengths(line: &HeaderLine<'_>) -> Result<SumLengths> {
    let numbers: Vec<Option<u8>> = line.value.split(',').map(|number| number.trim().parse().ok()).collect();
    match numbers[..] {
        [Some(consecutive @ 1..=2), Some(weak_len @ 1..=4), Some(strong_len @ 3..=16)] => {
            Ok(SumLengths { consecutive, weak_len, strong_len })
        }
        _ => Err(line.wrong("it has to be three numbers: 1 or 2, 1 to 4, and 3 to 16")),
    }
}

/// Some blocks of a file.
pub(super) struct FileChunk {
    pub(super) offset: u64,
    pub(super) bytes: Vec<u8>,
}

/// Reads the first `len` bytes of a file in chunks of whole blocks; workers look at each, and `take` gets the results in
/// order. Counts bytes as done.
pub(super) fn each_chunk<T: Send>(
    file: &dyn ReadAt,
    len: u64,
    block_size: u32,
    effort: &PatchEffort,
    look: &(impl Fn(&FileChunk) -> T + Sync),
    take: &mut dyn FnMut(&FileChunk, T),
) -> Result<()> {
    let chunk_len = CHUNK_LEN.max(block_size.into());
    let mut take_next = |seen: Result<(FileChunk, T)>| -> Result<()> {
        effort.check()?;
        let (chunk, result) = seen?;
        Progress::add(&effort.progress.done, chunk.bytes.len() as u64);
        take(&chunk, result);
        Ok(())
    };
    pipeline::scope(
        effort.threads,
        || (),
        |pool| {
            // Two chunks for each worker: one that it works on, and one to go on with.
            let budget = (effort.threads + 1) * 2 * usize::try_from(chunk_len).unwrap_or(usize::MAX);
            let mut window: Window<Result<(FileChunk, T)>> = Window::new(budget);
            let mut offset = 0;
            while offset < len {
                let read_len = usize::try_from(chunk_len.min(len - offset)).unwrap_or_default();
                let ticket = pool.submit(move |_| {
                    let mut bytes = vec![0; read_len];
                    file.read_exact_at(&mut bytes, offset).map_err(Error::io("cannot read the file"))?;
                    let chunk = FileChunk { offset, bytes };
                    let result = look(&chunk);
                    Ok((chunk, result))
                });
                offset += read_len as u64;
                window.push(ticket, read_len);
                if window.is_full() {
                    window.pop().map_or(Ok(()), &mut take_next)?;
                }
            }
            while let Some(seen) = window.pop() {
                take_next(seen)?;
            }
            Ok(())
        },
    )
}

#[cfg(test)]
mod tests {
    use packfs_blocks::testing::noise;

    use super::*;

    #[test]
    fn sums_are_as_long_as_zsyncmake_makes_them() {
        // Measured with zsyncmake 0.6.2.
        let cases = [
            (1, 2048, (1, 2, 3)),
            (2047, 2048, (1, 2, 4)),
            (2048, 2048, (1, 2, 4)),
            (2049, 2048, (2, 2, 3)),
            (100_000, 2048, (2, 2, 4)),
            (5_000_000, 2048, (2, 2, 4)),
            (20_000_000, 2048, (2, 2, 5)),
            (200_000_000, 4096, (2, 2, 5)),
        ];
        for (len, block_size, (consecutive, weak_len, strong_len)) in cases {
            let lengths = SumLengths { consecutive, weak_len, strong_len };
            assert_eq!(SumLengths::of_file(len, block_size), lengths, "{len} {block_size}");
        }
    }

    #[test]
    fn an_index_is_read_as_it_was_written() {
        let options = IndexOptions::default().set(|all| {
            all.file_name = Some("image".into());
            all.url = Some("dir/image".into());
        });
        for len in [0, 1, 2047, 2048, 2049, 3 << 20] {
            let file = noise(len, 5);
            for threads in [0, 3] {
                let effort = PatchEffort { threads, ..PatchEffort::default() };
                let index = ZsyncIndex::of_file(&file, &options, &effort).unwrap();
                assert_eq!(ZsyncIndex::read(&index.encode()).unwrap(), index);
                assert_eq!((index.blocks(), index.url()), (len.div_ceil(2048), Some("dir/image")));
            }
        }
    }

    /// Lines of a right header, one of which the cases replace.
    const HEADER: [&str; 6] =
        ["zsync: 0.6.2", "Blocksize: 2048", "Length: 5000", "Hash-Lengths: 2,2,4", "Safe: Mirror", "SHA-1: "];

    #[test]
    fn hostile_indexes_are_refused_with_the_line_and_the_reason() {
        let index = |line: usize, instead: &str, sums: usize| {
            let mut lines: Vec<String> = HEADER.iter().map(|line| (*line).to_owned()).collect();
            lines[5].push_str(&"ab".repeat(20));
            lines[line] = instead.to_owned();
            [lines.join("\n").as_bytes(), b"\n\n", &vec![7; sums]].concat()
        };
        assert!(ZsyncIndex::read(&index(4, "Safe: Mirror: Other\nOther: yes\nMirror: no", 18)).is_ok());
        let cases = [
            (0, "#!/bin/sh", 18, "byte 0: it does not begin as indexes of zsync do"),
            (1, "Blocksize: 0", 18, "byte 13: `Blocksize: 0`: it has to be a number from 64 to 4194304"),
            (1, "Blocksize: 2000", 18, "it has to be a power of two"),
            (1, "Blocksize: 8388608", 18, "from 64 to"),
            (1, "Length: 5000", 18, "the header has no line `Blocksize:`"),
            (2, "Length: 9223372036854775808", 18, "from 0 to 9223372036854775807"),
            (
                2,
                "Length: 9223372036854775807",
                18,
                "18 bytes of sums follow, but a file of 9223372036854775807 bytes has",
            ),
            (2, "Length: -1", 18, "from 0 to"),
            (2, "Length: 7000", 18, "18 bytes of sums follow, but a file of 7000 bytes has 24"),
            (2, "Length: 5000", 17, "17 bytes of sums follow, but a file of 5000 bytes has 18"),
            (2, "Length: 5000", 19, "19 bytes of sums follow"),
            (3, "Hash-Lengths: 3,2,4", 18, "it has to be three numbers"),
            (3, "Hash-Lengths: 2,2,0", 18, "it has to be three numbers"),
            (3, "Hash-Lengths: 2,2", 18, "it has to be three numbers"),
            (4, "Mirror: x", 18, "not marked as safe to ignore"),
            (4, "Safe: Mirrors\nMirror: x", 18, "not marked as safe to ignore"),
            (4, "Z-Map2: 100", 18, "make it with `zsyncmake -e`"),
            (4, "Safe", 18, "not `Name: value`"),
            (5, "SHA-1: abc", 18, "it has to have 40 hexadecimal digits"),
            (5, "MTime: today", 18, "the header has no line `SHA-1:`"),
        ];
        for (line, instead, sums, told) in cases {
            let error = ZsyncIndex::read(&index(line, instead, sums)).unwrap_err().to_string();
            assert!(error.contains(told), "{instead}: {error}");
        }
        let whole = index(4, HEADER[4], 18);
        for end in 0..whole.len() {
            assert!(ZsyncIndex::read(&whole[..end].to_vec()).is_err(), "{end}");
        }
    }
}
