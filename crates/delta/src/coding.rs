//! Decoding and encoding of single blocks, as settings in a patch describe it. It knows codecs, and no images.

use packfs_codec::{Choice, Codec, Decoder, Encoder};
use packfs_image::stored_blocks::{BlockCoding, DecodedLen};

use crate::error::Result;

/// Greatest number of bytes that a block decodes to. Clusters of EROFS reach 12 MiB; the rest is room, and bounds the
/// memory of hostile patches.
pub(crate) const PLAIN_BLOCK_MAX: u64 = 16 << 20;
/// Greatest number of stored bytes of a block: both formats end at 1 MiB. It bounds what a patch may have encoded.
pub(crate) const STORED_BLOCK_MAX: u64 = 2 << 20;
/// Longest block for which an encoder may be made: that of SquashFS. Tables of encoders grow with it.
const BLOCK_LEN_MAX: u32 = 1 << 20;
/// Largest window of a cluster encoder: the largest dictionary that Linux takes for LZMA.
const WINDOW_MAX: u32 = 8 << 20;
/// Most memory that an encoder of a patch may take, and all those that a worker keeps: that of xz with all filters and its
/// largest blocks is below.
pub(crate) const ENCODER_MEMORY_MAX: usize = 512 << 20;
/// Length of metadata blocks of SquashFS.
const METADATA_LEN: usize = 8192;
/// Bytes of output buffer beyond the length of a block, for an encoder without a limit on its output.
const SPARE_LEN: usize = 1 << 10;
/// Length of the data that tells encoders apart. Like the data, it is part of the format.
const TRIAL_LEN: usize = 64 << 10;

/// Form of a stored stream: which decoder reads it, and where it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamForm {
    /// It takes the whole block.
    Block(Codec),
    /// It is at the end of the block, after zeros.
    Cluster(Codec),
}

/// Forms by their number in a patch, which counts from 1. Never change the order.
const STREAM_FORMS: [StreamForm; 10] = [
    StreamForm::Block(Codec::Zstd),
    StreamForm::Block(Codec::Gzip),
    StreamForm::Block(Codec::Xz),
    StreamForm::Block(Codec::Lzma),
    StreamForm::Block(Codec::Lzo),
    StreamForm::Block(Codec::Lz4),
    StreamForm::Cluster(Codec::Lz4),
    StreamForm::Cluster(Codec::Lzma),
    StreamForm::Cluster(Codec::Deflate),
    StreamForm::Cluster(Codec::Zstd),
];

impl StreamForm {
    /// Returns the form of a block of an image; `None` for plain bytes.
    pub(crate) fn of(coding: BlockCoding) -> Option<Self> {
        match coding {
            BlockCoding::Block(codec) | BlockCoding::Metadata(codec) => Some(StreamForm::Block(codec)),
            BlockCoding::Cluster(codec) => Some(StreamForm::Cluster(codec)),
            _ => None,
        }
        // A patch cannot name other codecs; their blocks are carried as they are.
        .filter(|form| STREAM_FORMS.contains(form))
    }

    /// Returns the number in a patch.
    pub(crate) fn number(self) -> u8 {
        let at = STREAM_FORMS.iter().position(|form| *form == self).unwrap_or(0);
        u8::try_from(at + 1).unwrap_or(0)
    }

    /// Returns the form of a number in a patch.
    pub(crate) fn from_number(number: u8) -> Option<Self> {
        STREAM_FORMS.get(usize::from(number).checked_sub(1)?).copied()
    }

    fn decoder(self) -> packfs_codec::Result<Box<dyn Decoder>> {
        match self {
            StreamForm::Block(codec) => codec.decoder(),
            StreamForm::Cluster(codec) => codec.cluster_decoder(),
        }
    }

    /// Returns the stream in a stored block.
    fn stream(self, stored: &[u8]) -> &[u8] {
        match self {
            StreamForm::Block(_) => stored,
            StreamForm::Cluster(_) => {
                // Clusters are padded at their beginning, and no stream of these codecs begins with a zero.
                let start = stored.iter().position(|byte| *byte != 0).unwrap_or(stored.len());
                &stored[start..]
            }
        }
    }
}

/// Decoders of one thread, made when first needed.
#[derive(Default)]
pub(crate) struct BlockDecoders {
    decoders: Vec<(StreamForm, Box<dyn Decoder>)>,
    scratch: Vec<u8>,
}

impl BlockDecoders {
    /// Decodes a block that must fill `plain`; returns false if it does not.
    pub(crate) fn decode_exactly(&mut self, form: StreamForm, stored: &[u8], plain: &mut [u8]) -> Result<bool> {
        let expected = plain.len();
        match self.decoder(form)?.decode(form.stream(stored), plain) {
            Ok(len) => Ok(len == expected),
            // A damaged block of an image is no error: the patch has its bytes as they are.
            Err(packfs_codec::Error::Corrupt { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Decodes a block of an image; `None` if it cannot be decoded, or not in a way that a patch describes.
    pub(crate) fn decode(&mut self, form: StreamForm, stored: &[u8], len: DecodedLen) -> Result<Option<Vec<u8>>> {
        let most = match len {
            DecodedLen::Exactly(len) | DecodedLen::AtMost(len) => len,
            // MicroLZMA does not know where it ends.
            DecodedLen::AtLeast(_) if form == StreamForm::Cluster(Codec::Lzma) => return Ok(None),
            DecodedLen::AtLeast(_) => PLAIN_BLOCK_MAX,
        };
        // Blocks that `apply` would refuse are carried as they are.
        if most > PLAIN_BLOCK_MAX || stored.len() as u64 > STORED_BLOCK_MAX {
            return Ok(None);
        }
        let most = usize::try_from(most).unwrap_or_default();
        if let DecodedLen::Exactly(_) = len {
            let mut plain = vec![0; most];
            let is_decoded = self.decode_exactly(form, stored, &mut plain)?;
            return Ok(is_decoded.then_some(plain));
        }
        // Taken out of `self`, as the decoder borrows all of it; a failure loses only the allocation.
        let mut scratch = std::mem::take(&mut self.scratch);
        if scratch.len() < most {
            scratch.resize(most, 0);
        }
        // Cluster decoders insist on the exact length, which is not known here. Those for blocks read the same streams.
        let form_of_unknown_len = match form {
            StreamForm::Block(codec) | StreamForm::Cluster(codec) => StreamForm::Block(codec),
        };
        let decoded = self.decoder(form_of_unknown_len)?.decode(form.stream(stored), &mut scratch[..most]);
        let plain = match decoded {
            Ok(len) => Some(scratch[..len].to_vec()),
            Err(packfs_codec::Error::Corrupt { .. }) => None,
            Err(error) => return Err(error.into()),
        };
        self.scratch = scratch;
        Ok(plain)
    }

    fn decoder(&mut self, form: StreamForm) -> Result<&mut dyn Decoder> {
        // At most a handful of forms: a search is faster than a map.
        let at = match self.decoders.iter().position(|(known, _)| *known == form) {
            Some(at) => at,
            None => {
                self.decoders.push((form, form.decoder()?));
                self.decoders.len() - 1
            }
        };
        Ok(&mut *self.decoders[at].1)
    }
}

/// Settings with which an encoder is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EncoderSettings {
    pub(crate) choice: Choice,
    pub(crate) form: EncoderForm,
}

/// Kind of an encoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EncoderForm {
    /// For blocks of up to this number of bytes.
    Block(u32),
    /// For metadata blocks of SquashFS.
    Metadata,
    /// For clusters, with this window.
    Cluster(u32),
}

impl EncoderSettings {
    /// Makes the encoder. Settings from a patch are checked by [`EncoderSettings::is_bounded`] first.
    pub(crate) fn encoder(&self) -> packfs_codec::Result<Box<dyn Encoder>> {
        match self.form {
            EncoderForm::Block(len) => self.choice.encoder(len as usize),
            EncoderForm::Metadata => self.choice.metadata_encoder(),
            EncoderForm::Cluster(window) => self.choice.cluster_encoder(window),
        }
    }

    /// Returns an upper bound of the bytes of memory that the encoder takes.
    pub(crate) fn memory(&self) -> usize {
        match self.form {
            EncoderForm::Block(len) => self.choice.encoder_memory(len as usize),
            EncoderForm::Metadata => self.choice.encoder_memory(METADATA_LEN),
            EncoderForm::Cluster(window) => self.choice.cluster_memory(window),
        }
    }

    /// Returns true if the encoder takes no more memory than those of images do.
    pub(crate) fn is_bounded(&self) -> bool {
        match self.form {
            EncoderForm::Block(len) => len <= BLOCK_LEN_MAX && self.memory() <= ENCODER_MEMORY_MAX,
            EncoderForm::Metadata => true,
            EncoderForm::Cluster(window) => window <= WINDOW_MAX,
        }
    }

    /// Returns a fingerprint of the encoder: the digest of what it makes of a sample. Another version of a library may
    /// compress the same block differently.
    pub(crate) fn trial(&self) -> Result<[u8; 16]> {
        let len = match self.form {
            EncoderForm::Block(len) => TRIAL_LEN.min(len as usize),
            EncoderForm::Metadata => METADATA_LEN,
            EncoderForm::Cluster(_) => TRIAL_LEN,
        };
        let sample = trial_sample(len);
        let mut dst = vec![0; len];
        let mut encoder = self.encoder()?;
        let mut hasher = blake3::Hasher::new();
        let whole = encoder.encode(&sample, &mut dst)?.unwrap_or_default();
        hasher.update(&dst[..whole]);
        // Clusters are filled by another call, which a new version of a library may change on its own.
        if matches!(self.form, EncoderForm::Cluster(_)) {
            // So little room that the encoder must stop within the sample, as it does in images.
            let room = len / 8;
            let prefix = encoder.encode_prefix(&sample, &mut dst[..room])?;
            hasher.update(&dst[..prefix.map_or(0, |prefix| prefix.len)]);
        }
        Ok(*hasher.finalize().as_bytes().first_chunk().unwrap_or(&[0; 16]))
    }
}

/// Returns data that exercises encoders: words of several lengths, numbers with a stride, runs. It is part of the format: with
/// other data, every patch that was made before would be refused.
fn trial_sample(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    // Written out, and not from a library: it must never change.
    let mut draw = |limit: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 20) % limit
    };
    // Room for the longest piece, which may pass the end before it is cut off.
    let mut sample = Vec::with_capacity(len + 64);
    while sample.len() < len {
        match draw(8) {
            0..=3 => sample.extend(format!("word{} ", draw(400)).bytes()),
            4 | 5 => sample.extend_from_slice(&(draw(5000) * 16).to_le_bytes()[..4]),
            6 => sample.resize(sample.len() + usize::try_from(draw(40)).unwrap_or_default(), 0),
            _ => sample.extend_from_slice(&draw(u64::MAX).to_le_bytes()),
        }
    }
    sample.truncate(len);
    sample
}

/// How a block is encoded: the encoder by its number, and the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EncodeCall {
    /// Number of the settings.
    pub(crate) settings: usize,
    /// Number of bytes that the encoder is shown after those of the block.
    pub(crate) lookahead: u32,
    /// Number of bytes that it may fill; 0 if it encodes all that it is given.
    pub(crate) room: u32,
}

/// Encodes the first `plain_len` bytes of `input` so that they take all of `stored`; returns false if they do not.
pub(crate) fn encode_exactly(
    encoder: &mut dyn Encoder,
    form: EncoderForm,
    call: EncodeCall,
    input: &[u8],
    plain_len: usize,
    scratch: &mut Vec<u8>,
    stored: &mut [u8],
) -> Result<bool> {
    let Some(plain) = input.get(..plain_len) else { return Ok(false) };
    // Spare room does not change the result, and some encoders need it while they work.
    let room = if call.room == 0 { plain_len + SPARE_LEN } else { call.room as usize };
    if scratch.len() < room {
        scratch.resize(room, 0);
    }
    let dst = &mut scratch[..room];
    let len = if call.room == 0 {
        encoder.encode(plain, dst)?
    } else {
        // An encoder that takes another number of bytes would make another block.
        encoder.encode_prefix(input, dst)?.filter(|prefix| prefix.taken == plain_len).map(|prefix| prefix.len)
    };
    let Some(len) = len.filter(|len| *len <= stored.len()) else { return Ok(false) };
    let padding = stored.len() - len;
    // Blocks and metadata of SquashFS have their exact length; only EROFS fills up.
    if padding > 0 && !matches!(form, EncoderForm::Cluster(_)) {
        return Ok(false);
    }
    stored[..padding].fill(0);
    stored[padding..].copy_from_slice(&scratch[..len]);
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sample_of_trials_never_changes() {
        let digest = blake3::hash(&trial_sample(TRIAL_LEN)).to_hex();
        assert_eq!(digest[..16], *"2983ff4f77a17ffb");
    }
}
