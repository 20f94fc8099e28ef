//! Makes indexes in every form from lists of extents; written from the description of the format,
//! not from the reader.

use super::super::{MappedExtent, MappedInode, PieceStorage, StoredBytes, StoredPosition};
use crate::erofs::format::Layout;

/// A planned extent.
#[derive(Debug, Clone, Copy)]
pub(in crate::erofs::reader) struct Listed {
    pub(in crate::erofs::reader) logical: u64,
    pub(in crate::erofs::reader) len: u64,
    pub(in crate::erofs::reader) block: u64,
    pub(in crate::erofs::reader) blocks: u64,
    pub(in crate::erofs::reader) plain: bool,
    pub(in crate::erofs::reader) second: bool,
    pub(in crate::erofs::reader) partial: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::erofs::reader) enum Form {
    Full,
    Loose,
    Dense,
    Records(u8),
}

pub(in crate::erofs::reader) const FORMS: [Form; 7] =
    [Form::Full, Form::Loose, Form::Dense, Form::Records(4), Form::Records(8), Form::Records(16), Form::Records(32)];

#[derive(Debug, Clone, Copy)]
pub(in crate::erofs::reader) struct Shape {
    pub(in crate::erofs::reader) form: Form,
    pub(in crate::erofs::reader) block_bits: u8,
    pub(in crate::erofs::reader) bits: u32,
    pub(in crate::erofs::reader) big: bool,
    pub(in crate::erofs::reader) second: bool,
    pub(in crate::erofs::reader) partial: bool,
    /// Offset of the payload.
    pub(in crate::erofs::reader) at: u64,
}

impl Shape {
    pub(in crate::erofs::reader) fn new(form: Form, block_bits: u8, bits: u32, big: bool, at: u64) -> Shape {
        let records = matches!(form, Form::Records(_));
        let partial = records || form == Form::Full;
        Shape { form, block_bits, bits, big: big || records, second: form == Form::Full, partial, at }
    }

    pub(in crate::erofs::reader) fn is_index(&self) -> bool {
        !matches!(self.form, Form::Records(_))
    }

    pub(in crate::erofs::reader) fn even(&self) -> bool {
        matches!(self.form, Form::Records(4 | 8))
    }
}

impl Listed {
    pub(in crate::erofs::reader) fn mapped(&self, shape: Shape) -> MappedExtent {
        let bytes = 1 << shape.block_bits;
        let stored = StoredBytes { place: StoredPosition::Image(self.block * bytes), len: self.blocks * bytes };
        let data = match self.plain {
            true => PieceStorage::Plain { stored, rotated: false },
            false => PieceStorage::Packed { stored, algorithm: if self.second { 3 } else { 2 }, partial: self.partial },
        };
        MappedExtent { logical: self.logical, len: self.len, data }
    }
}

/// An index, and the fields of its inode.
pub(in crate::erofs::reader) struct Made {
    pub(in crate::erofs::reader) bytes: Vec<u8>,
    pub(in crate::erofs::reader) facts: MappedInode,
    pub(in crate::erofs::reader) list: Vec<Listed>,
}

/// Writes the index; the file has `cut` bytes less than the extents, if the last has as many.
pub(in crate::erofs::reader) fn write(shape: Shape, mut list: Vec<Listed>, cut: u64) -> Made {
    let last = list.last_mut().unwrap();
    last.len -= cut.min(last.len - 1);
    // A count of blocks needs a cluster after the head's that is not the one in which the file ends.
    let cluster = 1 << shape.bits;
    let end = last.logical + last.len;
    if shape.is_index() && end / cluster - last.logical / cluster < 2 {
        last.blocks = 1;
        last.len = if last.plain { last.len.min(1 << shape.block_bits) } else { last.len };
        // Without an entry after it, Linux reads the extent to the end of its logical cluster.
        let has_entry = (last.logical + last.len) / cluster > last.logical / cluster;
        last.plain &= has_entry || cluster - last.logical % cluster <= 1 << shape.block_bits;
    }
    let size = last.logical + last.len;
    let mut bytes = vec![0; usize::try_from(shape.at).unwrap()];
    let layout = if matches!(shape.form, Form::Loose | Form::Dense) {
        Layout::CompressedCompact
    } else {
        Layout::CompressedFull
    };
    match shape.form {
        Form::Records(len) => records(&mut bytes, shape, &list, len),
        _ => index(&mut bytes, shape, &list, size),
    }
    let facts = MappedInode {
        size,
        layout,
        start_block: None,
        chunk_format: 0,
        payload: shape.at,
        block_bits: shape.block_bits,
    };
    Made { bytes, facts, list }
}

fn header(bytes: &mut Vec<u8>, low: u32, advise: u16, algorithms: u8, bits: u8) {
    bytes.extend(low.to_le_bytes());
    bytes.extend(advise.to_le_bytes());
    bytes.extend([algorithms, bits]);
}

fn records(bytes: &mut Vec<u8>, shape: Shape, list: &[Listed], len: u8) {
    let (recsize, even) = (usize::from(len), shape.even());
    let advise = 1 | (len.ilog2() as u16 - 2) << 1;
    let bits = (shape.bits - u32::from(shape.block_bits)) as u8;
    header(bytes, if even { 0 } else { list.len() as u32 }, advise, 0, if even { bits } else { 0 });
    bytes.resize(bytes.len().next_multiple_of(recsize), 0);
    if len == 4 {
        bytes.extend((list[0].block << shape.block_bits).to_le_bytes());
    }
    for one in list {
        let format = if one.plain { 0 } else { 3 };
        let word = (one.blocks << shape.block_bits) as u32 | u32::from(one.partial) << 27 | format << 28;
        let start = one.block << shape.block_bits;
        let mut record = word.to_le_bytes().to_vec();
        record.extend(start.to_le_bytes());
        record.extend(one.logical.to_le_bytes());
        record.resize(32, 0);
        bytes.extend(&record[..recsize]);
    }
}

/// Contents of an entry, whatever its form: type, value, block, distances.
#[derive(Debug, Clone, Copy)]
struct Entry {
    kind: u16,
    value: u64,
    block: u64,
    forward: u64,
    partial: bool,
}

const INNER: u16 = 2;

fn entries(shape: Shape, list: &[Listed], size: u64) -> Vec<Entry> {
    let count = size.div_ceil(1 << shape.bits);
    let mut out = Vec::new();
    for n in 0..count {
        let start = n << shape.bits;
        let end = start + (1 << shape.bits);
        let next = list.iter().find(|one| one.logical >= end).map_or(count, |one| one.logical >> shape.bits);
        if let Some(one) = list.iter().find(|one| one.logical >= start && one.logical < end) {
            let kind = if one.plain { 0 } else { 1 + u16::from(one.second) * 2 };
            out.push(Entry { kind, value: one.logical - start, block: one.block, forward: 0, partial: one.partial });
            continue;
        }
        let one = list.iter().rfind(|one| one.logical < start).unwrap();
        let back = n - (one.logical >> shape.bits);
        let value = if back == 1 && shape.big { 0x800 | one.blocks } else { back.min(2047) };
        out.push(Entry { kind: INNER, value, block: 0, forward: (next - n).min(2047), partial: false });
    }
    // The end of an extent from an earlier cluster has an entry of its own.
    let used = size % (1 << shape.bits);
    if let Some(last) = out.last_mut()
        && last.kind == INNER
        && used > 0
    {
        *last = Entry { kind: 0, value: used, block: 0, forward: 0, partial: false };
        let end = out.len() as u64 - 1;
        for (n, entry) in out.iter_mut().enumerate() {
            entry.forward = entry.forward.min(end - n as u64);
        }
    }
    out
}

fn index(bytes: &mut Vec<u8>, shape: Shape, list: &[Listed], size: u64) {
    let dense = shape.form == Form::Dense;
    let advise = u16::from(dense) | if shape.big { 6 } else { 0 };
    header(bytes, 0, advise, 0x32, (shape.bits - u32::from(shape.block_bits)) as u8);
    let entries = entries(shape, list, size);
    if shape.form != Form::Full {
        return packs(bytes, shape, &entries, dense);
    }
    bytes.extend([0; 8]);
    for entry in entries {
        bytes.extend((entry.kind | u16::from(entry.partial) << 15).to_le_bytes());
        if entry.kind == INNER {
            bytes.extend([0; 2]);
            bytes.extend((entry.value as u16).to_le_bytes());
            bytes.extend((entry.forward as u16).to_le_bytes());
        } else {
            bytes.extend((entry.value as u16).to_le_bytes());
            bytes.extend((entry.block as u32).to_le_bytes());
        }
    }
}

fn packs(bytes: &mut Vec<u8>, shape: Shape, mut entries: &[Entry], dense: bool) {
    let mut before = None;
    while !entries.is_empty() {
        let aligned = bytes.len().is_multiple_of(32);
        // Loose packs fill up to a multiple of 32 bytes; dense ones follow as long as there are entries for them.
        let n = if dense && aligned && entries.len() >= 16 { 16 } else { 2.min(entries.len()) };
        let (pack, rest) = entries.split_at(n);
        write_pack(bytes, shape, pack, if n == 16 { 16 } else { 2 }, before);
        before = pack.iter().rfind(|entry| entry.kind != INNER).map(|entry| entry.block).or(before);
        entries = rest;
    }
}

fn write_pack(bytes: &mut Vec<u8>, shape: Shape, pack: &[Entry], n: usize, before: Option<u64>) {
    let len = if n == 16 { 32 } else { 8 };
    let (width, low) = ((len - 4) * 8 / n, 12.max(shape.bits as usize));
    let mut bits = vec![false; len * 8];
    for (i, entry) in pack.iter().enumerate() {
        let counts = entry.kind == INNER && entry.value & 0x800 != 0;
        let value = if i + 1 == n && entry.kind == INNER && !counts { entry.forward } else { entry.value };
        let word = value | u64::from(entry.kind) << low;
        for bit in 0..width {
            bits[i * width + bit] = word >> bit & 1 == 1;
        }
    }
    let head = pack.iter().find(|entry| entry.kind != INNER).map(|entry| entry.block);
    let starts_with_count = pack[0].kind == INNER && pack[0].value & 0x800 != 0;
    let base = match (shape.big, starts_with_count) {
        (true, true) => before.unwrap(),
        (true, false) => head.unwrap_or(0),
        (false, _) => head.map_or(0, |block| block.wrapping_sub(1)),
    };
    for (at, bit) in (0..32).map(|bit| ((len - 4) * 8 + bit, base as u32 >> bit & 1 == 1)) {
        bits[at] = bit;
    }
    for byte in bits.chunks(8) {
        bytes.push(byte.iter().rev().fold(0, |byte, bit| byte << 1 | u8::from(*bit)));
    }
}
