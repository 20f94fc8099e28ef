//! The bytes of a patch, and the reader that trusts none of them.
//!
//! Integers of fixed length are little-endian; `varint` has seven bits a byte, the lowest first, and `signed` is a varint
//! of `n << 1 ^ n >> 63`. Digests are BLAKE3.
//!
//! | bytes | |
//! |---|---|
//! | 8 | magic: `PFSDELT`, version 1 |
//! | 4, n | length of the header, header |
//! | groups | until all of the new file is described |
//! | 32 | digest of everything before |
//!
//! The header has, for the old and for the new file, the length (8) and the digest (32); then the number of encoders (8)
//! and of each: codec and options as text, after its length (8), the form (1: block, 2: metadata block, 3: cluster), the
//! block length or window (4), and a digest (16) of what it makes of a sample, by which another encoder is recognised.
//!
//! A group begins with five lengths (4 each): of its program, of its program decompressed, of the reference, of the plain
//! bytes, and of these compressed. Program and plain bytes follow, each a frame of zstd. The frame of the plain bytes has
//! the reference as its prefix, so memory for a group is bounded by the two lengths, at most [`PLAIN_MAX`] and
//! [`REFERENCE_MAX`].
//!
//! A program lists the stored blocks of the old file that the reference consists of, in its order: their number, and of
//! each the form (1: 0 for plain bytes, otherwise that of a stream), the distance from the end of the one before (signed),
//! the stored length, and unless it is plain, the decoded length. Then the segments of the new file: their number, and of
//! each a varint that tells its type:
//!
//! | | segment | fields |
//! |---|---|---|
//! | 0 | copy of stored bytes of the old file | distance from the end of the copy before (signed), length |
//! | 1 | plain bytes | length |
//! | 2 + n | block, made by encoder n | stored length, plain length, lookahead, room |
//!
//! A block takes its plain bytes, and then as many as the lookahead says, which the encoder is shown as following ones. If
//! the room is 0, the encoder takes all plain bytes; otherwise it fills the room, and must take exactly those. What it
//! makes is preceded by zeros up to the stored length, in clusters only.

use std::sync::Arc;

use packfs_blocks::ReadAt;
use packfs_tree::encoding::{FieldDecoder, FieldEncoder};

use crate::PatchEffort;
use crate::coding::{EncodeCall, EncoderForm, EncoderSettings, PLAIN_BLOCK_MAX, STORED_BLOCK_MAX, StreamForm};
use crate::error::{Error, Result};
use crate::identity::{FILE_LEN_MAX, FileIdentity, each_chunk};

/// Magic and version. Every version has its own last byte, so an old program says so instead of finding damage.
pub(crate) const MAGIC: &[u8; 8] = b"PFSDELT\x01";
/// Length of the digest at the end.
pub(crate) const DIGEST_LEN: u64 = blake3::OUT_LEN as u64;
/// Most plain bytes of a group. A larger group finds more matches within the new file; this many is memory on the device
/// that applies the patch.
pub const PLAIN_MAX: u32 = 64 << 20;
/// Most bytes of a reference, which are memory on the device, too.
pub const REFERENCE_MAX: u32 = 64 << 20;
/// Longest program of a group, decompressed. Decoded, it takes up to twenty times as much memory.
pub(crate) const PROGRAM_MAX: u32 = 4 << 20;
/// Longest header: a few hundred encoders.
const HEADER_MAX: u32 = 64 << 10;
/// Greatest number of encoders: each costs a trial before anything is written.
const ENCODERS_MAX: usize = 250;
/// Length of the lengths at the beginning of a group.
const GROUP_HEAD_LEN: usize = 20;

/// Stored bytes of a block beyond its plain ones: those that fill the last block of a cluster.
const STORED_EXCESS: u64 = 4096;

const PATCH: &str = "patch";
const HEADER: &str = "header of the patch";
const PROGRAM: &str = "program of the patch";

/// Contents of the header.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PatchHeader {
    pub(crate) old: FileIdentity,
    pub(crate) new: FileIdentity,
    pub(crate) encoders: Vec<PatchEncoder>,
}

/// An encoder that a patch needs.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PatchEncoder {
    pub(crate) settings: EncoderSettings,
    /// Fingerprint of the encoder where the patch was made.
    pub(crate) trial: [u8; 16],
}

impl PatchHeader {
    /// Returns magic, length and header.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut header = Vec::new();
        for file in [&self.old, &self.new] {
            header.u64(file.len);
            header.put(&file.digest);
        }
        header.count(self.encoders.len());
        for PatchEncoder { settings, trial } in &self.encoders {
            header.bytes(settings.choice.to_string().as_bytes());
            let (form, parameter) = match settings.form {
                EncoderForm::Block(len) => (1, len),
                EncoderForm::Metadata => (2, 0),
                EncoderForm::Cluster(window) => (3, window),
            };
            header.u8(form);
            header.u32(parameter);
            header.put(trial);
        }
        let mut bytes = MAGIC.to_vec();
        bytes.u32(u32::try_from(header.len()).expect("a few hundred encoders"));
        bytes.put(&header);
        bytes
    }

    fn decode(bytes: &[u8]) -> Result<Self> {
        let mut get = FieldDecoder::new(HEADER, bytes);
        let mut file = || -> packfs_image::Result<_> {
            let len = get.u64()?;
            // Lengths are added to one another later: two of these fit in u64.
            get.check(len <= FILE_LEN_MAX, "a file would be longer than files can be")?;
            Ok(FileIdentity { len, digest: get.array()? })
        };
        let old = file()?;
        let new = file()?;
        let encoders = get.list(8, |get| {
            let choice =
                get.text()?.parse().map_err(|_| get.wrong("this version of packfs does not know its codec"))?;
            let form = get.u8()?;
            let parameter = get.u32()?;
            let form = match form {
                1 => EncoderForm::Block(parameter),
                2 => EncoderForm::Metadata,
                3 => EncoderForm::Cluster(parameter),
                _ => return Err(get.wrong("unknown form of an encoder")),
            };
            let settings = EncoderSettings { choice, form };
            // Before any encoder is made: a window or block length from a patch would decide how much memory is taken.
            get.check(settings.is_bounded(), "an encoder would need too much memory")?;
            Ok(PatchEncoder { settings, trial: get.array()? })
        })?;
        get.check(encoders.len() <= ENCODERS_MAX, "too many encoders")?;
        get.end()?;
        Ok(PatchHeader { old, new, encoders })
    }
}

/// A stored block of the old file that is part of a reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReferenceBlock {
    pub(crate) offset: u64,
    pub(crate) stored_len: u64,
    /// Form of its stream; `None` for plain bytes.
    pub(crate) form: Option<StreamForm>,
    pub(crate) plain_len: u64,
}

/// A part of the new file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PatchSegment {
    Copy { offset: u64, len: u64 },
    Plain { len: u64 },
    Encoded { call: EncodeCall, stored_len: u64, plain_len: u64 },
}

/// Instructions of a group: blocks of the reference, then parts of the new file in their order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct GroupProgram {
    pub(crate) reference: Vec<ReferenceBlock>,
    pub(crate) segments: Vec<PatchSegment>,
}

/// Sums of a program, which its group must agree with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ProgramSums {
    pub(crate) reference_len: u64,
    pub(crate) plain_len: u64,
    pub(crate) new_len: u64,
}

impl GroupProgram {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        put_varint(&mut bytes, self.reference.len() as u64);
        let mut end = 0;
        for block in &self.reference {
            bytes.u8(block.form.map_or(0, StreamForm::number));
            // Blocks are in the order of the old file, so distances are short.
            put_signed(&mut bytes, block.offset.wrapping_sub(end).cast_signed());
            put_varint(&mut bytes, block.stored_len);
            if block.form.is_some() {
                put_varint(&mut bytes, block.plain_len);
            }
            end = block.offset + block.stored_len;
        }
        put_varint(&mut bytes, self.segments.len() as u64);
        let mut copied_end = 0;
        for segment in &self.segments {
            match *segment {
                PatchSegment::Copy { offset, len } => {
                    put_varint(&mut bytes, 0);
                    // A copy may lie before the last one; the wrapped difference is then negative.
                    put_signed(&mut bytes, offset.wrapping_sub(copied_end).cast_signed());
                    put_varint(&mut bytes, len);
                    copied_end = offset + len;
                }
                PatchSegment::Plain { len } => {
                    put_varint(&mut bytes, 1);
                    put_varint(&mut bytes, len);
                }
                PatchSegment::Encoded { call, stored_len, plain_len } => {
                    put_varint(&mut bytes, 2 + call.settings as u64);
                    put_varint(&mut bytes, stored_len);
                    put_varint(&mut bytes, plain_len);
                    put_varint(&mut bytes, call.lookahead.into());
                    put_varint(&mut bytes, call.room.into());
                }
            }
        }
        bytes
    }

    /// Decodes a program whose references and copies must lie in an old file of `old_len` bytes.
    fn decode(bytes: &[u8], old_len: u64, encoders: usize) -> Result<(Self, ProgramSums)> {
        let mut get = FieldDecoder::new(PROGRAM, bytes);
        let mut program = GroupProgram::default();
        let mut sums = ProgramSums::default();
        let mut end = 0;
        // The count needs no limit: each block takes bytes of a program whose length is bounded.
        for _ in 0..varint(&mut get)? {
            let form = match get.u8()? {
                0 => None,
                number => {
                    let form = StreamForm::from_number(number);
                    Some(form.ok_or_else(|| get.wrong("this version of packfs does not know a codec"))?)
                }
            };
            let offset = moved(&mut get, end)?;
            let stored_len = varint(&mut get)?;
            let plain_len = if form.is_some() { varint(&mut get)? } else { stored_len };
            let most = if form.is_some() { STORED_BLOCK_MAX } else { REFERENCE_MAX.into() };
            get.check(stored_len <= most && plain_len <= u64::from(REFERENCE_MAX), "a block is too long")?;
            get.check(form.is_none() || is_sensible(stored_len, plain_len), "a block is too long")?;
            // Saturated, as an offset near the end of u64 must fail the comparison and not wrap.
            end = offset.saturating_add(stored_len);
            get.check(end <= old_len, "a block ends after the old file")?;
            sums.reference_len = sums.reference_len.saturating_add(plain_len);
            program.reference.push(ReferenceBlock { offset, stored_len, form, plain_len });
        }
        let mut copied_end = 0;
        for _ in 0..varint(&mut get)? {
            let segment = match varint(&mut get)? {
                0 => {
                    let offset = moved(&mut get, copied_end)?;
                    let len = varint(&mut get)?;
                    copied_end = offset.saturating_add(len);
                    get.check(copied_end <= old_len, "a copy ends after the old file")?;
                    PatchSegment::Copy { offset, len }
                }
                1 => PatchSegment::Plain { len: varint(&mut get)? },
                number => {
                    // 0 and 1 were handled above.
                    let settings = usize::try_from(number - 2).unwrap_or(usize::MAX);
                    get.check(settings < encoders, "there is no such encoder")?;
                    let stored_len = varint(&mut get)?;
                    let plain_len = varint(&mut get)?;
                    let lookahead = small(&mut get)?;
                    let room = small(&mut get)?;
                    let is_bounded = stored_len <= STORED_BLOCK_MAX
                        && is_sensible(stored_len, plain_len)
                        && u64::from(lookahead) <= PLAIN_BLOCK_MAX
                        && u64::from(room) <= STORED_BLOCK_MAX;
                    get.check(is_bounded, "a block is too long")?;
                    PatchSegment::Encoded { call: EncodeCall { settings, lookahead, room }, stored_len, plain_len }
                }
            };
            // The lookahead is plain bytes that the group carries, too.
            let (plain, new) = match segment {
                PatchSegment::Copy { len, .. } => (0, len),
                PatchSegment::Plain { len } => (len, len),
                PatchSegment::Encoded { call, stored_len, plain_len } => {
                    (plain_len + u64::from(call.lookahead), stored_len)
                }
            };
            sums.plain_len = sums.plain_len.saturating_add(plain);
            sums.new_len = sums.new_len.saturating_add(new);
            program.segments.push(segment);
        }
        get.end()?;
        Ok((program, sums))
    }
}

/// Lengths at the beginning of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GroupHead {
    pub(crate) packed_program_len: u32,
    pub(crate) program_len: u32,
    pub(crate) reference_len: u32,
    pub(crate) plain_len: u32,
    pub(crate) packed_plain_len: u32,
}

impl GroupHead {
    pub(crate) fn encode(&self) -> [u8; GROUP_HEAD_LEN] {
        let mut bytes = [0; GROUP_HEAD_LEN];
        let fields =
            [self.packed_program_len, self.program_len, self.reference_len, self.plain_len, self.packed_plain_len];
        for (to, field) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(fields) {
            *to = field.to_le_bytes();
        }
        bytes
    }

    fn decode(bytes: &[u8; GROUP_HEAD_LEN]) -> Self {
        let field = |n: usize| u32::from_le_bytes(bytes.as_chunks().0[n]);
        GroupHead {
            packed_program_len: field(0),
            program_len: field(1),
            reference_len: field(2),
            plain_len: field(3),
            packed_plain_len: field(4),
        }
    }
}

/// A group, read and checked; the plain bytes are still compressed.
#[derive(Debug)]
pub(crate) struct PatchGroup {
    pub(crate) program: GroupProgram,
    pub(crate) sums: ProgramSums,
    pub(crate) packed_plain: Vec<u8>,
    /// Offset of the next group in the patch.
    pub(crate) end: u64,
}

/// An open patch, whose own digest is correct.
#[derive(Debug, Clone)]
pub struct Patch {
    bytes: Arc<dyn ReadAt>,
    header: PatchHeader,
    /// Offset of the first group.
    start: u64,
    /// Offset of the digest.
    end: u64,
}

impl Patch {
    /// Opens a patch: reads all of it once, and compares its digest.
    ///
    /// # Errors
    /// A file that is no patch, a damaged one, or one that needs codecs unknown to this build.
    pub fn open(bytes: Arc<dyn ReadAt>) -> Result<Self> {
        let mut magic = [0; MAGIC.len()];
        let least = MAGIC.len() as u64 + 4 + DIGEST_LEN;
        let cannot = "cannot read the patch";
        if bytes.len() >= least {
            bytes.read_exact_at(&mut magic, 0).map_err(Error::io(cannot))?;
        }
        // Seven bytes are the name, the eighth is the version: a newer patch deserves a message of its own.
        if magic[..7] != MAGIC[..7] {
            return Err(Error::damaged(PATCH, 0, "it does not begin as patches of packfs do"));
        }
        if magic[7] != MAGIC[7] {
            return Err(Error::damaged(PATCH, 7, format!("version {} is not known", magic[7])));
        }
        // No underflow: a file without room for the digest has failed at its magic.
        let end = bytes.len() - DIGEST_LEN;
        let mut hasher = blake3::Hasher::new();
        // The digest first: after this, whatever is wrong was made so, and is not damage on the way.
        each_chunk(&*bytes, 0..end, cannot, &PatchEffort::default(), &mut |chunk| {
            hasher.update(chunk);
            Ok(())
        })?;
        let mut digest = [0; blake3::OUT_LEN];
        bytes.read_exact_at(&mut digest, end).map_err(Error::io(cannot))?;
        if digest != *hasher.finalize().as_bytes() {
            return Err(Error::damaged(PATCH, end, "its digest is wrong: it is damaged or was cut short"));
        }
        let mut len = [0; 4];
        let header_start = MAGIC.len() as u64 + 4;
        bytes.read_exact_at(&mut len, MAGIC.len() as u64).map_err(Error::io(cannot))?;
        let len = u32::from_le_bytes(len);
        // No overflow: 32 bits and 12.
        let start = header_start + u64::from(len);
        if len > HEADER_MAX || start > end {
            return Err(Error::damaged(HEADER, header_start, format!("a length of {len} bytes is not possible")));
        }
        let mut header = vec![0; len as usize];
        bytes.read_exact_at(&mut header, header_start).map_err(Error::io(cannot))?;
        let header = PatchHeader::decode(&header)?;
        Ok(Patch { bytes, header, start, end })
    }

    /// Returns the identity of the file that the patch is applied to.
    pub fn old(&self) -> FileIdentity {
        self.header.old
    }

    /// Returns the identity of the file that it makes.
    pub fn new_file(&self) -> FileIdentity {
        self.header.new
    }

    /// Returns the length of the patch in bytes.
    pub fn patch_len(&self) -> u64 {
        self.end + DIGEST_LEN
    }

    pub(crate) fn encoders(&self) -> &[PatchEncoder] {
        &self.header.encoders
    }

    /// Returns the offset of the first group.
    pub(crate) fn first_group(&self) -> u64 {
        self.start
    }

    /// Fails unless the groups end at `offset`.
    pub(crate) fn check_end(&self, offset: u64) -> Result<()> {
        if offset == self.end {
            return Ok(());
        }
        Err(Error::damaged(PATCH, offset, "something follows the last group"))
    }

    /// Reads the group at `offset` of the patch.
    pub(crate) fn group(&self, offset: u64) -> Result<PatchGroup> {
        let cannot = "cannot read the patch";
        let wrong = |why: &str| Error::damaged("group of the patch", offset, why);
        let left = self.end.saturating_sub(offset);
        if left < GROUP_HEAD_LEN as u64 {
            return Err(wrong("it ends too early"));
        }
        let mut head = [0; GROUP_HEAD_LEN];
        self.bytes.read_exact_at(&mut head, offset).map_err(Error::io(cannot))?;
        let head = GroupHead::decode(&head);
        // Before anything is allocated by these lengths.
        if head.plain_len > PLAIN_MAX || head.reference_len > REFERENCE_MAX || head.program_len > PROGRAM_MAX {
            return Err(wrong("it would need too much memory"));
        }
        let packed_len = u64::from(head.packed_program_len) + u64::from(head.packed_plain_len);
        // Compressed lengths need no limit of their own: the bytes must be in the patch.
        if packed_len > left - GROUP_HEAD_LEN as u64 {
            return Err(wrong("it ends too early"));
        }
        let program_at = offset + GROUP_HEAD_LEN as u64;
        let plain_at = program_at + u64::from(head.packed_program_len);
        let read = |at, len: u32| -> Result<Vec<u8>> {
            let mut bytes = vec![0; len as usize];
            self.bytes.read_exact_at(&mut bytes, at).map_err(Error::io(cannot))?;
            Ok(bytes)
        };
        let packed_program = read(program_at, head.packed_program_len)?;
        let program = crate::group::decompress(&packed_program, &[], head.program_len as usize)?
            .ok_or_else(|| wrong("its program does not decompress to its length"))?;
        let (program, sums) = GroupProgram::decode(&program, self.header.old.len, self.header.encoders.len())?;
        let expected = (u64::from(head.reference_len), u64::from(head.plain_len));
        // Groups that make nothing could keep `apply` busy for the length of the patch.
        if (sums.reference_len, sums.plain_len) != expected || sums.new_len == 0 {
            return Err(wrong("its lengths and its program do not agree"));
        }
        let packed_plain = read(plain_at, head.packed_plain_len)?;
        Ok(PatchGroup { program, sums, packed_plain, end: plain_at + u64::from(head.packed_plain_len) })
    }
}

/// Returns true for lengths that a block may have, so that a reference of bounded length is read in bounded time.
pub(crate) fn is_sensible(stored_len: u64, plain_len: u64) -> bool {
    // Zero plain bytes would let a program of a few MiB read the old file without end.
    (1..=PLAIN_BLOCK_MAX).contains(&plain_len) && (1..=plain_len + STORED_EXCESS).contains(&stored_len)
}

fn put_varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(0x80 | value.to_le_bytes()[0] & 0x7f);
        value >>= 7;
    }
    bytes.push(value.to_le_bytes()[0]);
}

fn put_signed(bytes: &mut Vec<u8>, value: i64) {
    put_varint(bytes, ((value << 1) ^ (value >> 63)).cast_unsigned());
}

fn varint(get: &mut FieldDecoder<'_>) -> packfs_image::Result<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = get.u8()?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err(get.wrong("a number is too long"))
}

/// Takes a length that fits in 32 bits.
fn small(get: &mut FieldDecoder<'_>) -> packfs_image::Result<u32> {
    let value = varint(get)?;
    u32::try_from(value).map_err(|_| get.wrong("a block is too long"))
}

/// Takes a distance, and returns the offset that lies so far from `end`.
fn moved(get: &mut FieldDecoder<'_>, end: u64) -> packfs_image::Result<u64> {
    let value = varint(get)?;
    // Undoes `n << 1 ^ n >> 63` for every value, so nothing needs a check before the sum.
    let distance = (value >> 1).cast_signed() ^ -((value & 1).cast_signed());
    end.checked_add_signed(distance).ok_or_else(|| get.wrong("an offset is not possible"))
}

#[cfg(test)]
mod tests {
    use packfs_blocks::hex::to_hex;

    use super::*;

    #[test]
    fn numbers_of_all_lengths_are_taken_as_they_were_put() {
        for value in [0, 1, 127, 128, 16_383, 16_384, u64::from(u32::MAX), u64::MAX] {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, value);
            assert_eq!(varint(&mut FieldDecoder::new("test", &bytes)).unwrap(), value);
            for (from, to) in [(value, 5), (5, value)] {
                let mut bytes = Vec::new();
                put_signed(&mut bytes, to.wrapping_sub(from).cast_signed());
                // Distances between offsets of files have 63 bits.
                if value < u64::MAX {
                    assert_eq!(moved(&mut FieldDecoder::new("test", &bytes), from).unwrap(), to);
                }
            }
        }
        assert!(varint(&mut FieldDecoder::new("test", &[0xff; 12])).is_err());
    }

    fn sample() -> GroupProgram {
        let call = EncodeCall { settings: 1, lookahead: 64, room: 4096 };
        GroupProgram {
            reference: vec![
                ReferenceBlock { offset: 10, stored_len: 20, form: None, plain_len: 20 },
                ReferenceBlock { offset: 5, stored_len: 3, form: StreamForm::from_number(7), plain_len: 300 },
            ],
            segments: vec![
                PatchSegment::Copy { offset: 40, len: 8 },
                PatchSegment::Plain { len: 7 },
                PatchSegment::Copy { offset: 0, len: 1 },
                PatchSegment::Encoded { call, stored_len: 4096, plain_len: 9000 },
            ],
        }
    }

    #[test]
    fn a_program_is_decoded_as_it_was_encoded_and_no_other_bytes_panic() {
        let bytes = sample().encode();
        let (program, sums) = GroupProgram::decode(&bytes, 100, 2).unwrap();
        assert_eq!(program, sample());
        assert_eq!(sums, ProgramSums { reference_len: 320, plain_len: 7 + 9064, new_len: 8 + 7 + 1 + 4096 });
        for (old_len, encoders) in [(40, 2), (100, 1)] {
            GroupProgram::decode(&bytes, old_len, encoders).unwrap_err();
        }
        for at in 0..bytes.len() {
            GroupProgram::decode(&bytes[..at], 100, 2).unwrap_err();
            for byte in 0..=255 {
                let mut bytes = bytes.clone();
                bytes[at] = byte;
                let _ = GroupProgram::decode(&bytes, 100, 2);
            }
        }
    }

    /// The bytes of version 1 never change: devices keep old versions of packfs.
    #[test]
    fn the_bytes_of_version_1_stay() {
        let program = to_hex(&sample().encode());
        assert_eq!(program, "02001414073103ac02040050080107005f01038020a846408020");
        let digest = [7; 32];
        let header = PatchHeader {
            old: FileIdentity { len: 1, digest },
            new: FileIdentity { len: 2, digest },
            encoders: vec![PatchEncoder {
                settings: EncoderSettings { choice: "lz4hc:9".parse().unwrap(), form: EncoderForm::Cluster(65_535) },
                trial: [9; 16],
            }],
        };
        let bytes = header.encode();
        assert_eq!(bytes[..12], *b"PFSDELT\x01\x7c\0\0\0");
        assert_eq!(PatchHeader::decode(&bytes[12..]).unwrap(), header);
        assert_eq!(bytes[12 + 96..12 + 103], *b"lz4hc:9");
    }
}
