//! Guesses from the calls in a block which processor its machine code is for.
//!
//! A machine-code filter helps by turning the relative targets of calls into absolute ones. So this
//! counts what a filter would change, and only calls to a nearby target: code has one every hundred
//! bytes or so, other data far fewer. The alternative, compressing a block once more for every
//! filter, takes a hundred times as long.

use crate::settings::BcjFilters;

/// A block is code if it has at least one call in this many bytes. On a Debian root the filters
/// picked this way come within a thousandth of the best choice for every block.
const BYTES_A_CALL: usize = 512;
/// As [`BYTES_A_CALL`], for Thumb code, whose calls are more frequent and easier to mistake.
const BYTES_A_THUMB_CALL: usize = 128;

/// Returns the filter among `allowed` that suits `block` best, or 0 if it does not look like code.
pub(super) fn likely_filter(block: &[u8], allowed: u16) -> u16 {
    let counts = [
        (BcjFilters::X86, x86(block), BYTES_A_CALL),
        (BcjFilters::POWERPC, words(block, is_powerpc_call), BYTES_A_CALL),
        (BcjFilters::ARM, words(block, is_arm_call), BYTES_A_CALL),
        (BcjFilters::ARMTHUMB, halfwords(block, is_thumb_call), BYTES_A_THUMB_CALL),
        (BcjFilters::SPARC, words(block, is_sparc_call), BYTES_A_CALL),
        (BcjFilters::ARM64, words(block, is_arm64_call), BYTES_A_CALL),
        (BcjFilters::RISCV, halfwords(block, is_riscv_call), BYTES_A_CALL),
    ];
    let likely = counts
        .iter()
        .filter(|(bit, calls, bytes)| allowed & bit != 0 && calls * bytes > block.len())
        .max_by_key(|(_, calls, bytes)| calls * bytes);
    likely.map_or(0, |(bit, ..)| *bit)
}

/// Counts `call` with a displacement below 16 MiB, at any byte.
fn x86(block: &[u8]) -> usize {
    block.windows(5).filter(|bytes| bytes[0] == 0xE8 && (bytes[4] == 0 || bytes[4] == 0xFF)).count()
}

/// Counts calls among instructions of four bytes at addresses that are multiples of four.
fn words(block: &[u8], is_call: impl Fn([u8; 4]) -> bool) -> usize {
    block.chunks_exact(4).filter(|b| is_call([b[0], b[1], b[2], b[3]])).count()
}

/// Counts calls among instructions of four bytes that start at even addresses.
fn halfwords(block: &[u8], is_call: impl Fn([u8; 4]) -> bool) -> usize {
    block.windows(4).step_by(2).filter(|b| is_call([b[0], b[1], b[2], b[3]])).count()
}

/// Returns true if the upper `count` bits of a displacement are those of a small number.
///
/// Displacements count words here, and all but the low 20 bits are upper bits, so calls reach up to
/// 4 MiB. That also keeps text, which would often pass for longer calls, from looking like code.
fn is_near(upper: u32, count: u32) -> bool {
    let mask = (1 << count) - 1;
    upper & mask == 0 || upper & mask == mask
}

/// Recognises `bl`, big-endian.
fn is_powerpc_call(bytes: [u8; 4]) -> bool {
    let word = u32::from_be_bytes(bytes);
    word & 0xFC00_0003 == 0x4800_0001 && is_near(word >> 20, 6)
}

/// Recognises `bl`, always executed.
fn is_arm_call(bytes: [u8; 4]) -> bool {
    let word = u32::from_le_bytes(bytes);
    word >> 24 == 0xEB && is_near(word >> 20, 4)
}

/// Recognises `bl` in its two halves.
fn is_thumb_call(bytes: [u8; 4]) -> bool {
    bytes[1] & 0xF8 == 0xF0 && bytes[3] & 0xF8 == 0xF8
}

/// Recognises `call`, big-endian.
fn is_sparc_call(bytes: [u8; 4]) -> bool {
    let word = u32::from_be_bytes(bytes);
    word >> 30 == 1 && is_near(word >> 20, 10)
}

/// Recognises `bl`.
fn is_arm64_call(bytes: [u8; 4]) -> bool {
    let word = u32::from_le_bytes(bytes);
    word >> 26 == 0x25 && is_near(word >> 20, 6)
}

/// Recognises `jal` to the return address register. Farther calls are pairs of instructions, which are rarer.
fn is_riscv_call(bytes: [u8; 4]) -> bool {
    u32::from_le_bytes(bytes) & 0xFFF == 0x0EF
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Choice;
    use crate::testing::noise;

    /// Makes bytes that look random, but never like a call.
    fn filler(len: usize, seed: u64) -> Vec<u8> {
        noise(len, seed).iter().map(|byte| byte & 0x27 | 0x10).collect()
    }

    /// Makes 64 KiB of code that calls one of a few functions every 48 bytes.
    fn code(call: impl Fn(u32, u32) -> [u8; 4], prefix: &[u8]) -> Vec<u8> {
        let mut block = filler(1 << 16, 42);
        for (number, at) in (0..block.len() - 64).step_by(48).enumerate() {
            let target = 4096 * (u32::try_from(number % 5).unwrap() + 1);
            block[at..at + prefix.len()].copy_from_slice(prefix);
            let bytes = call(u32::try_from(at).unwrap(), target);
            block[at + prefix.len()..][..4].copy_from_slice(&bytes);
        }
        block
    }

    fn away(at: u32, target: u32) -> u32 {
        target.wrapping_sub(at)
    }

    fn thumb(at: u32, target: u32) -> [u8; 4] {
        let away = away(at + 4, target) >> 1;
        let (high, low) = (0xF000 | away >> 11 & 0x7FF, 0xF800 | away & 0x7FF);
        (low << 16 | high).to_le_bytes()
    }

    fn riscv(at: u32, target: u32) -> [u8; 4] {
        let away = away(at, target);
        let bits =
            (away >> 20 & 1) << 31 | (away >> 1 & 0x3FF) << 21 | (away >> 11 & 1) << 20 | (away >> 12 & 0xFF) << 12;
        (bits | 0xEF).to_le_bytes()
    }

    #[test]
    fn code_is_recognised_by_its_calls_and_its_filter_makes_it_smaller() {
        let blocks = [
            (BcjFilters::X86, code(|at, target| away(at + 5, target).to_le_bytes(), &[0xE8])),
            (BcjFilters::POWERPC, code(|at, target| (0x4800_0001 | away(at, target) & 0x03FF_FFFC).to_be_bytes(), &[])),
            (
                BcjFilters::ARM,
                code(|at, target| (0xEB00_0000 | away(at + 8, target) >> 2 & 0xFF_FFFF).to_le_bytes(), &[]),
            ),
            (BcjFilters::ARMTHUMB, code(thumb, &[])),
            (
                BcjFilters::SPARC,
                code(|at, target| (0x4000_0000 | away(at, target) >> 2 & 0x3FFF_FFFF).to_be_bytes(), &[]),
            ),
            (
                BcjFilters::ARM64,
                code(|at, target| (0x9400_0000 | away(at, target) >> 2 & 0x03FF_FFFF).to_le_bytes(), &[]),
            ),
            (BcjFilters::RISCV, code(riscv, &[])),
        ];
        let len = |options: &str, block: &[u8]| {
            let choice: Choice = format!("xz:6:{options}").parse().unwrap();
            let mut dst = vec![0; block.len()];
            choice.encoder(block.len()).unwrap().encode(block, &mut dst).unwrap().unwrap()
        };
        for (bit, block) in blocks {
            let (name, _) = BcjFilters::NAMES.iter().find(|(_, b)| *b == bit).unwrap();
            assert_eq!(likely_filter(&block, BcjFilters::AUTO), bit, "{name}");
            assert_eq!(likely_filter(&block, BcjFilters::AUTO & !bit), 0, "{name} is not allowed");
            let plain = len("bcj=none", &block);
            let auto = len("bcj=auto", &block);
            let tried = len(&format!("bcj={name}"), &block);
            assert!(auto < plain, "{name}: {auto} {plain}");
            assert_eq!(tried, auto, "{name}");
        }
    }

    #[test]
    fn other_data_is_not_taken_for_code() {
        let random: Vec<u8> = filler(1 << 17, 7)
            .iter()
            .zip(filler(1 << 17, 8))
            .map(|(a, b)| a.wrapping_mul(37) ^ b.wrapping_mul(91))
            .collect();
        let text = "Of 40,000 small files, 7 hold most of the bytes; see block 0x48 @ 12.\n".repeat(2000);
        for block in [&[0; 4096][..], &[0xFF; 4096], &[0xE8; 4096], random.as_slice(), text.as_bytes(), &[], &[0xE8]] {
            assert_eq!(likely_filter(block, BcjFilters::AUTO), 0, "{:?}", &block[..block.len().min(8)]);
        }
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn this_very_program_is_x86_code() {
        let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let code =
            program.chunks(1 << 17).filter(|block| likely_filter(block, BcjFilters::AUTO) == BcjFilters::X86).count();
        assert!(code >= 3, "{code} blocks");
    }
}
