//! Processing of a block on workers: probe, compress, verify.

use packfs_blocks::encode::{BlockEncoder, is_worth_a_try};
use packfs_blocks::{Buffer, Buffers};
use packfs_codec::{Choice, Codec, Encoder};

use crate::Result;
use crate::squashfs::format::{DATA_RAW, METADATA_RAW};

/// Options for compressing blocks; shared by all workers.
#[derive(Debug, Clone)]
pub(crate) struct Packing {
    pub(crate) choice: Choice,
    pub(crate) block_len: usize,
    pub(crate) verify: bool,
    pub(crate) buffers: Buffers,
}

/// A compressed or stored block with its size word.
#[derive(Debug)]
pub(crate) struct Packed {
    pub(crate) bytes: Buffer,
    pub(crate) word: u32,
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

    /// Compresses a data or fragment block if that makes it shorter; otherwise stores it as it is.
    pub(crate) fn pack(&mut self, raw: Buffer) -> Result<Packed> {
        if is_worth_a_try(&self.packing.choice, &raw) {
            let mut bytes = self.packing.buffers.take(raw.len() - 1);
            if let Some(len) = self.data.encode(&raw, &mut bytes)? {
                bytes.truncate(len);
                let word = u32::try_from(len).expect("shorter than a block");
                return Ok(Packed { bytes, word });
            }
        }
        let word = DATA_RAW | u32::try_from(raw.len()).expect("a block");
        Ok(Packed { bytes: raw, word })
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
