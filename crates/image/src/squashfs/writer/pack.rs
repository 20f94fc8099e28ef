//! Processing of a block on workers: take it from an older image, or else probe, compress, verify.

use packfs_blocks::encode::{BlockEncoder, is_worth_a_try};
use packfs_blocks::{Buffer, Buffers, Digest};
use packfs_codec::{Choice, Codec, Encoder};

use crate::Result;
use crate::build::{Fate, Key, Noted, Unit, Units};
use crate::squashfs::format::{DATA_RAW, METADATA_RAW};

/// Options for compressing blocks; shared by all workers.
#[derive(Debug, Clone)]
pub(crate) struct Packing {
    pub(crate) choice: Choice,
    pub(crate) block_len: usize,
    pub(crate) verify: bool,
    /// True to store fragment blocks as they are.
    pub(crate) plain_fragments: bool,
    pub(crate) buffers: Buffers,
    pub(crate) units: Units,
}

/// A compressed or stored block with its size word.
#[derive(Debug)]
pub(crate) struct Packed {
    pub(crate) bytes: Buffer,
    pub(crate) word: u32,
    /// For the index, if there is one or an older image.
    pub(crate) noted: Option<Noted>,
    /// Position of these bytes in the older image, if they are from there.
    pub(crate) older: Option<u64>,
}

impl Packed {
    /// Makes a block that is stored as it is, and that later builds do not reuse.
    pub(crate) fn raw(bytes: Buffer) -> Self {
        Packed::new(bytes, DATA_RAW)
    }

    fn new(bytes: Buffer, flag: u32) -> Self {
        let word = flag | u32::try_from(bytes.len()).expect("at most a block");
        Packed { bytes, word, noted: None, older: None }
    }
}

/// Encoders of one worker, made when first needed.
pub(crate) struct Worker {
    packing: Packing,
    data: BlockEncoder,
    metadata: Option<Box<dyn Encoder>>,
}

impl Worker {
    pub(crate) fn new(packing: &Packing) -> Self {
        let data = BlockEncoder::new(&packing.choice, packing.block_len, packing.verify);
        Worker { packing: packing.clone(), data, metadata: None }
    }

    /// Packs a data or fragment block, of which the digest may be known, or takes it from an older image.
    pub(crate) fn pack(&mut self, raw: Buffer, digest: Option<Digest>) -> Result<Packed> {
        if !self.packing.units.is_on() {
            return self.encode(raw);
        }
        let key = Key::new(&digest.unwrap_or_else(|| Digest::of(&raw)), 0);
        let units = self.packing.units.clone();
        let (raw, fate) = match units.find(&key) {
            None => (raw, Fate::Fresh),
            Some(unit) => match self.take(raw, unit, key) {
                Ok(packed) => return Ok(packed),
                Err(raw) => (raw, Fate::Damaged),
            },
        };
        let packed = self.encode(raw)?;
        let check = Digest::of(&packed.bytes).half();
        Ok(Packed { noted: Some(Noted { key, check, fate }), ..packed })
    }

    /// Takes a block from an older image; gives it back if that has other bytes than it should.
    fn take(&mut self, raw: Buffer, unit: Unit<'_>, key: Key) -> std::result::Result<Packed, Buffer> {
        let mut stretches = unit.stretches();
        let (Some(stretch), None) = (stretches.next(), stretches.next()) else { return Err(raw) };
        let (noted, older) = (Some(Noted { key, check: unit.check(), fate: Fate::Taken }), Some(stretch.start));
        if stretch.raw {
            return Ok(Packed { noted, older, ..Packed::new(raw, DATA_RAW) });
        }
        if stretch.stored as usize >= raw.len() {
            return Err(raw);
        }
        let mut bytes = self.packing.buffers.take(stretch.stored as usize);
        let is_it = self.packing.units.read(&stretch, &mut bytes) && unit.has(&bytes);
        if !is_it || self.data.prover().prove_stored(&raw, &bytes).is_err() {
            return Err(raw);
        }
        Ok(Packed { noted, older, ..Packed::new(bytes, 0) })
    }

    /// Compresses a block if that makes it shorter.
    fn encode(&mut self, raw: Buffer) -> Result<Packed> {
        if is_worth_a_try(&self.packing.choice, &raw) {
            let mut bytes = self.packing.buffers.take(raw.len() - 1);
            if let Some(len) = self.data.encode(&raw, &mut bytes)? {
                bytes.truncate(len);
                return Ok(Packed::new(bytes, 0));
            }
        }
        Ok(Packed::new(raw, DATA_RAW))
    }

    /// Compresses a metadata block and adds its header; stores it as it is if `plain`.
    pub(crate) fn pack_metadata(&mut self, raw: &[u8], plain: bool) -> Result<Vec<u8>> {
        let mut block = vec![0; 2 + raw.len()];
        if !plain && self.packing.choice.codec() != Codec::None && raw.len() > 1 {
            let encoder = match &mut self.metadata {
                Some(encoder) => encoder,
                none => none.insert(self.packing.choice.metadata_encoder()?),
            };
            if let Some(len) = self.data.prover().encode(&mut **encoder, raw, &mut block[2..raw.len() + 1])? {
                block.truncate(2 + len);
                let header = u16::try_from(len).expect("at most 8192");
                block[..2].copy_from_slice(&header.to_le_bytes());
                return Ok(block);
            }
        }
        let header = METADATA_RAW | u16::try_from(raw.len()).expect("at most 8192");
        block[..2].copy_from_slice(&header.to_le_bytes());
        block[2..].copy_from_slice(raw);
        Ok(block)
    }
}
