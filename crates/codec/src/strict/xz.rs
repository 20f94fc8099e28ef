//! Headers of xz streams: the checks, filters and dictionaries that Linux's decoder supports.

/// Length of the stream header: magic, flags, checksum.
const STREAM_HEADER: usize = 12;
/// Offset of the type of check in the stream header.
const CHECK: usize = 7;
/// The largest check type that Linux supports: 0 (none) or 1 (CRC32).
const CHECK_MAX: u8 = 1;
/// Flags of a block header: number of filters less 1, and the presence of the two lengths.
const FILTERS: u8 = 0x03;
const LENGTHS: [u8; 2] = [0x40, 0x80];
/// Filter ids: LZMA2, and those for machine code.
const LZMA2: u64 = 0x21;
const MACHINE_CODE: std::ops::RangeInclusive<u64> = 4..=11;
/// Code of the largest dictionary that Linux parses, 3 GiB.
const DICT_MAX: u8 = 39;

/// Returns the reason why Linux cannot decode a stream with a dictionary of at most `window` bytes.
/// Damage is left to the decoder to report.
pub(super) fn defect(stream: &[u8], window: u32) -> Option<String> {
    let check = *stream.get(CHECK)?;
    if check > CHECK_MAX {
        return Some(format!("check {check}; Linux supports 0 (none) and 1 (CRC32)"));
    }
    let [_, flags, rest @ ..] = stream.get(STREAM_HEADER..)? else { return None };
    let mut rest = rest;
    for _ in LENGTHS.iter().filter(|bit| flags & **bit != 0) {
        number(&mut rest)?;
    }
    match flags & FILTERS {
        0 => {}
        1 => {
            let filter = number(&mut rest)?;
            let properties = number(&mut rest)?;
            if !MACHINE_CODE.contains(&filter) || properties != 0 {
                return Some(format!("filter {filter:#x} with {properties} bytes of properties before LZMA2"));
            }
        }
        more => return Some(format!("{} filters; Linux takes two", more + 1)),
    }
    let filter = number(&mut rest)?;
    let len = number(&mut rest)?;
    let dict = *rest.first()?;
    if filter != LZMA2 || len != 1 || dict > DICT_MAX {
        return None;
    }
    let dict = u64::from(2 | dict & 1) << (dict / 2 + 11);
    (dict > window.into()).then(|| format!("a dictionary of {dict} bytes; Linux allocates {window}"))
}

/// Reads a number of seven bits per byte.
fn number(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..63).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}
