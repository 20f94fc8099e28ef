//! What workers do to a block: probe, compress, prove.

use packfs_blocks::{Buffer, Buffers, probe};
use packfs_codec::{Choice, Codec, Decoder, Encoder};

use crate::squashfs::format::{DATA_RAW, METADATA_LEN, METADATA_RAW};
use crate::{Error, Result};

/// How blocks are packed; shared by all workers.
#[derive(Debug, Clone)]
pub(crate) struct Packing {
    pub(crate) choice: Choice,
    pub(crate) block_len: usize,
    pub(crate) verify: bool,
    pub(crate) buffers: Buffers,
}

/// A packed block with its size word.
#[derive(Debug)]
pub(crate) struct Packed {
    pub(crate) bytes: Buffer,
    pub(crate) word: u32,
}

/// One worker's tools, made when first needed.
pub(crate) struct Worker {
    packing: Packing,
    data: Option<Box<dyn Encoder>>,
    metadata: Option<Box<dyn Encoder>>,
    decoder: Option<Box<dyn Decoder>>,
    proof: Vec<u8>,
}

impl Worker {
    pub(crate) fn new(packing: &Packing) -> Self {
        Worker { packing: packing.clone(), data: None, metadata: None, decoder: None, proof: Vec::new() }
    }

    /// Packs a data or fragment block: compressed if that makes it shorter, else as it is.
    pub(crate) fn pack(&mut self, raw: Buffer) -> Result<Packed> {
        let choice = &self.packing.choice;
        if choice.codec() != Codec::None && (choice.gives_up_early() || !probe::is_incompressible(&raw)) {
            let encoder = match &mut self.data {
                Some(encoder) => encoder,
                none => none.insert(choice.encoder(self.packing.block_len)?),
            };
            let mut bytes = self.packing.buffers.take(raw.len() - 1);
            if let Some(len) = encoder.encode(&raw, &mut bytes)? {
                bytes.truncate(len);
                self.prove(&raw, &bytes)?;
                let word = u32::try_from(len).expect("shorter than a block");
                return Ok(Packed { bytes, word });
            }
        }
        let word = DATA_RAW | u32::try_from(raw.len()).expect("a block");
        Ok(Packed { bytes: raw, word })
    }

    /// Packs a metadata block with its header; `raw` as it is when `plain`.
    pub(crate) fn pack_metadata(&mut self, raw: &[u8], plain: bool) -> Result<Vec<u8>> {
        let mut block = vec![0; 2 + raw.len()];
        if !plain && self.packing.choice.codec() != Codec::None && raw.len() > 1 {
            let encoder = match &mut self.metadata {
                Some(encoder) => encoder,
                none => none.insert(self.packing.choice.metadata_encoder()?),
            };
            if let Some(len) = encoder.encode(raw, &mut block[2..raw.len() + 1])? {
                block.truncate(2 + len);
                self.prove(raw, &block[2..])?;
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

    /// Decodes what was encoded and compares: a fault of a codec, of memory or of the processor never
    /// reaches an image.
    fn prove(&mut self, raw: &[u8], packed: &[u8]) -> Result<()> {
        if !self.packing.verify {
            return Ok(());
        }
        let codec = self.packing.choice.codec();
        let decoder = match &mut self.decoder {
            Some(decoder) => decoder,
            none => none.insert(codec.decoder()?),
        };
        self.proof.resize(self.packing.block_len.max(METADATA_LEN), 0);
        let same = decoder.decode(packed, &mut self.proof[..raw.len()]).is_ok_and(|len| self.proof[..len] == *raw);
        if same {
            return Ok(());
        }
        Err(Error::Unproven { codec: codec.name() })
    }
}
