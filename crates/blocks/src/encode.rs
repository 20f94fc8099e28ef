//! The one step that compresses a block: probe it, encode it, decode the result, compare. The
//! caller stores a block that does not shrink as it is.

use packfs_codec::{Choice, Codec, Decoder, Encoder};

use crate::probe::is_incompressible;

/// Reason why a block could not be encoded.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A compressed block did not decode to its original bytes.
    #[error("{codec}: a compressed block did not decode to its original bytes: faulty memory, processor or library")]
    Unproven {
        /// Name of the codec.
        codec: &'static str,
    },
    /// The codec failed.
    #[error(transparent)]
    Codec(#[from] packfs_codec::Error),
}

/// Result of encoding.
pub type Result<T> = std::result::Result<T, Error>;

/// Returns false if encoding `src` would save almost nothing. Codecs that give up early are not second-guessed.
pub fn is_worth_a_try(choice: &Choice, src: &[u8]) -> bool {
    choice.codec() != Codec::None && (choice.gives_up_early() || !is_incompressible(src))
}

/// Decodes what was encoded and compares, so that a fault of a codec, of memory or of the processor
/// never reaches an output. Used by one thread; the decoder is made when it is first needed.
pub struct BlockProver {
    codec: Codec,
    make: fn(Codec) -> packfs_codec::Result<Box<dyn Decoder>>,
    decoder: Option<Box<dyn Decoder>>,
    back: Vec<u8>,
    verify: bool,
}

impl std::fmt::Debug for BlockProver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prover").field("codec", &self.codec).field("verify", &self.verify).finish_non_exhaustive()
    }
}

impl BlockProver {
    /// Makes a prover for blocks. Without `verify` everything counts as proven.
    pub fn of_blocks(codec: Codec, verify: bool) -> Self {
        BlockProver { codec, make: Codec::decoder, decoder: None, back: Vec::new(), verify }
    }

    /// Makes a prover for clusters, which EROFS stores without the frame of a block.
    pub fn of_clusters(codec: Codec, verify: bool) -> Self {
        BlockProver { make: Codec::cluster_decoder, ..BlockProver::of_blocks(codec, verify) }
    }

    /// Fails unless `packed`, which an encoder made of `raw`, decodes to it.
    pub fn prove(&mut self, raw: &[u8], packed: &[u8]) -> Result<()> {
        if self.verify { self.prove_stored(raw, packed) } else { Ok(()) }
    }

    /// Fails unless `packed` decodes to `raw`, also without `verify`: for what comes from elsewhere than an encoder.
    pub fn prove_stored(&mut self, raw: &[u8], packed: &[u8]) -> Result<()> {
        let decoder = match &mut self.decoder {
            Some(decoder) => decoder,
            none => none.insert((self.make)(self.codec)?),
        };
        if self.back.len() < raw.len() {
            // In powers of two, so that it seldom has to grow again.
            self.back.resize(raw.len().next_power_of_two(), 0);
        }
        let back = &mut self.back[..raw.len()];
        match decoder.decode(packed, back) {
            Ok(len) if len == raw.len() && back == raw => Ok(()),
            // The state of the block is unknown then.
            Err(error @ packfs_codec::Error::NoMemory { .. }) => Err(error.into()),
            _ => Err(Error::Unproven { codec: self.codec.name() }),
        }
    }

    /// Encodes `src` into `dst` and proves the result; returns its length, or `None` if it does not fit.
    pub fn encode(&mut self, encoder: &mut dyn Encoder, src: &[u8], dst: &mut [u8]) -> Result<Option<usize>> {
        let len = encoder.encode(src, dst)?;
        if let Some(len) = len {
            self.prove(src, &dst[..len])?;
        }
        Ok(len)
    }
}

/// Encodes blocks with one codec. Used by one thread; encoder and decoder are made when they are first needed.
pub struct BlockEncoder {
    choice: Choice,
    block_len: usize,
    encoder: Option<Box<dyn Encoder>>,
    prover: BlockProver,
}

impl std::fmt::Debug for BlockEncoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BlockEncoder").field("choice", &self.choice).finish_non_exhaustive()
    }
}

impl BlockEncoder {
    /// Makes an encoder for blocks of at most `block_len` bytes.
    pub fn new(choice: &Choice, block_len: usize, verify: bool) -> Self {
        let prover = BlockProver::of_blocks(choice.codec(), verify);
        BlockEncoder { choice: choice.clone(), block_len, encoder: None, prover }
    }

    /// Encodes `src` into `dst` and proves the result; returns its length, or `None` if it does not
    /// fit. Does not probe: ask [`is_worth_a_try`] first, ideally before taking a buffer.
    pub fn encode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<Option<usize>> {
        let encoder = match &mut self.encoder {
            Some(encoder) => encoder,
            none => none.insert(self.choice.encoder(self.block_len)?),
        };
        self.prover.encode(&mut **encoder, src, dst)
    }

    /// Returns the prover, for output of other encoders of the same codec.
    pub fn prover(&mut self) -> &mut BlockProver {
        &mut self.prover
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Encodes with lz4; if told to lie, changes the last byte of the source first.
    struct WrongDecoder {
        wrong: bool,
    }

    impl Encoder for WrongDecoder {
        fn encode(&mut self, src: &[u8], dst: &mut [u8]) -> packfs_codec::Result<Option<usize>> {
            let choice: Choice = "lz4".parse()?;
            let mut src = src.to_vec();
            if self.wrong {
                *src.last_mut().unwrap() ^= 1;
            }
            choice.encoder(src.len())?.encode(&src, dst)
        }
    }

    #[test]
    fn a_block_that_does_not_decode_to_itself_is_an_error() {
        let src = b"again and again ".repeat(300);
        let mut dst = [0; 4000];
        for verify in [true, false] {
            let mut prover = BlockProver::of_blocks(Codec::Lz4, verify);
            assert!(prover.encode(&mut WrongDecoder { wrong: false }, &src, &mut dst).unwrap().is_some());
            let lied = prover.encode(&mut WrongDecoder { wrong: true }, &src, &mut dst);
            assert_eq!(matches!(lied, Err(Error::Unproven { codec: "lz4" })), verify);
            // Bytes that are not a block at all, and a block that decodes to less.
            assert_eq!(prover.prove(&src, &[0xFF; 9]).is_err(), verify);
            let len = prover.encode(&mut WrongDecoder { wrong: false }, &src[..100], &mut dst).unwrap().unwrap();
            assert_eq!(prover.prove(&src, &dst[..len]).is_err(), verify);
        }
    }

    #[test]
    fn blocks_are_probed_and_encoded() {
        let text = b"again and again ".repeat(4096);
        let noise = packfs_codec::testing::noise(65_536, 1);
        let mut dst = vec![0; 65_535];
        for codec in ["zstd:3", "lz4", "gzip:6"] {
            let choice: Choice = codec.parse().unwrap();
            let mut encoder = BlockEncoder::new(&choice, 65_536, true);
            let len = encoder.encode(&text, &mut dst).unwrap().unwrap();
            assert!(len < 4096, "{codec}: {len}");
            assert_eq!(choice.codec().decoder().unwrap().decode(&dst[..len], &mut vec![0; 65_536]).unwrap(), 65_536);
            assert_eq!(encoder.encode(&noise, &mut dst[..65_000]).unwrap(), None, "{codec}");
        }
        for (codec, block, worth) in
            [("none", &text, false), ("zstd", &text, true), ("zstd", &noise, false), ("lz4", &noise, true)]
        {
            assert_eq!(is_worth_a_try(&codec.parse().unwrap(), block), worth, "{codec}");
        }
    }
}
