//! LZMA2: chunks of LZMA and of uncompressed bytes, each of which may reset a part of the state.

use super::lzma::{DecodingStop, LzmaDecoder, OutputWindow, OverlongCopy, RangeDecoder};
use super::{StreamResult, TOO_SHORT, take};

/// Control bytes: the end, and chunks of uncompressed bytes, the first of which also empties the dictionary.
const END: u8 = 0;
const RAW_FIRST: u8 = 1;
const RAW: u8 = 2;
/// The first control byte of LZMA chunks. Bits above the length's say what a chunk resets.
const ENCODED: u8 = 0x80;
/// The first control bytes of chunks that reset the state, also bring new properties, and also empty the dictionary.
const RESETS_STATE: u8 = 0xa0;
const RESETS_BITS: u8 = 0xc0;
const RESETS_ALL: u8 = 0xe0;
/// Bits of a control byte that belong to the decoded length.
const LEN_BITS: u8 = 0x1f;

/// Parts of the state that have to be reset before a chunk may rely on them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PendingReset {
    Nothing,
    /// Properties and state.
    Model,
    /// The dictionary, too.
    All,
}

/// Decodes chunks from the beginning of `src` until their end, and cuts them off.
pub(super) fn decode(lzma: &mut LzmaDecoder, src: &mut &[u8], out: &mut OutputWindow<'_>) -> StreamResult<()> {
    let mut pending = PendingReset::All;
    loop {
        let [control] = take(src)?;
        if control == END {
            return Ok(());
        }
        if control >= RESETS_ALL || control == RAW_FIRST {
            out.reset();
            pending = PendingReset::Model;
        }
        let is_valid = match control {
            RAW_FIRST => true,
            RAW => pending != PendingReset::All,
            RESETS_BITS.. => pending != PendingReset::All,
            ENCODED.. => pending == PendingReset::Nothing,
            _ => false,
        };
        if !is_valid {
            return Err("a chunk that relies on what was never there");
        }
        if control < ENCODED {
            let len = usize::from(u16::from_be_bytes(take(src)?)) + 1;
            out.append(src.split_off(..len).ok_or(TOO_SHORT)?)?;
            continue;
        }
        let decoded_len = usize::from(control & LEN_BITS) << 16 | usize::from(u16::from_be_bytes(take(src)?));
        let encoded_len = usize::from(u16::from_be_bytes(take(src)?)) + 1;
        if control >= RESETS_BITS {
            let [properties] = take(src)?;
            lzma.start(properties)?;
            pending = PendingReset::Nothing;
        } else if control >= RESETS_STATE {
            lzma.restart();
        }
        let mut range = RangeDecoder::new(src.split_off(..encoded_len).ok_or(TOO_SHORT)?)?;
        let end = out.at + decoded_len + 1;
        let stop = lzma.decode(&mut range, out, end, OverlongCopy::Refuse)?;
        if stop != DecodingStop::Full || !range.end() || !range.rest().is_empty() {
            return Err("a chunk that is longer or shorter than it says");
        }
    }
}
