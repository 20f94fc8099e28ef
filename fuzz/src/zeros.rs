//! A short form of files that are mostly padding: a zero byte is followed by two bytes with the number of zeros minus one.
//! So a few hundred bytes describe a dump of many aligned structures, and the fuzzer spends its time on their contents.

/// The longest file that is unpacked.
const MAX: usize = 256 << 10;

/// Unpacks any bytes.
pub fn unpack(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = bytes.iter();
    while let Some(byte) = rest.next()
        && out.len() < MAX
    {
        if *byte == 0 {
            let mut count = || usize::from(*rest.next().unwrap_or(&0));
            let zeros = count() + 256 * count() + 1;
            out.resize((out.len() + zeros).min(MAX), 0);
        } else {
            out.push(*byte);
        }
    }
    out
}

/// Packs a file into what [`unpack`] makes it of.
pub fn pack(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = bytes;
    while let Some(byte) = rest.first() {
        let zeros = rest.iter().take(1 << 16).take_while(|byte| **byte == 0).count();
        if zeros > 0 {
            out.push(0);
            out.extend(u16::try_from(zeros - 1).expect("at most 65535").to_le_bytes());
            rest = &rest[zeros..];
        } else {
            out.push(*byte);
            rest = &rest[1..];
        }
    }
    out
}
