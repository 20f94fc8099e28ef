//! The machine-code filters of xz, backwards: targets of calls become relative again, as they were in the program.
//!
//! A filter sees a block as a whole. What is left at its end, fewer bytes than an instruction, was never filtered.

use super::StreamResult;

/// Identifier of the filter that stores differences of bytes. No image has it: it comes before data, not code.
const DELTA: u64 = 3;

/// An instruction set whose calls a filter finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InstructionSet {
    X86,
    PowerPc,
    Ia64,
    Arm,
    ArmThumb,
    Sparc,
    Arm64,
    Riscv,
}

/// A filter of a block.
#[derive(Debug, Clone, Copy)]
pub(super) struct MachineCodeFilter {
    instructions: InstructionSet,
    /// Address of the block's first byte, by which targets were made absolute.
    start: u32,
}

impl MachineCodeFilter {
    /// Reads a filter's identifier and properties.
    pub(super) fn new(id: u64, properties: &[u8]) -> StreamResult<Self> {
        let (instructions, alignment) = match id {
            4 => (InstructionSet::X86, 1),
            5 => (InstructionSet::PowerPc, 4),
            6 => (InstructionSet::Ia64, 16),
            7 => (InstructionSet::Arm, 4),
            8 => (InstructionSet::ArmThumb, 2),
            9 => (InstructionSet::Sparc, 4),
            10 => (InstructionSet::Arm64, 4),
            11 => (InstructionSet::Riscv, 2),
            DELTA => return Err("the delta filter is not supported"),
            _ => return Err("an unknown filter"),
        };
        let start = match properties {
            [] => 0,
            [a, b, c, d] => u32::from_le_bytes([*a, *b, *c, *d]),
            _ => return Err("unsupported properties of a filter"),
        };
        if start % alignment != 0 {
            return Err("unsupported properties of a filter");
        }
        Ok(MachineCodeFilter { instructions, start })
    }

    /// Undoes the filter.
    pub(super) fn undo(self, code: &mut [u8]) {
        let start = self.start;
        match self.instructions {
            InstructionSet::X86 => x86(code, start),
            InstructionSet::PowerPc => each_word(code, start, |word, pc| powerpc(word.swap_bytes(), pc).swap_bytes()),
            InstructionSet::Ia64 => ia64(code, start),
            InstructionSet::Arm => each_word(code, start, arm),
            InstructionSet::ArmThumb => arm_thumb(code, start),
            InstructionSet::Sparc => each_word(code, start, |word, pc| sparc(word.swap_bytes(), pc).swap_bytes()),
            InstructionSet::Arm64 => each_word(code, start, arm64),
            InstructionSet::Riscv => riscv(code, start),
        }
    }
}

/// Returns the address of offset `at`. Addresses wrap around.
#[allow(clippy::cast_possible_truncation, reason = "only the lower bits count")]
fn address(start: u32, at: usize) -> u32 {
    start.wrapping_add(at as u32)
}

/// Replaces each little-endian word by what `change` makes of it and its address.
fn each_word(code: &mut [u8], start: u32, change: impl Fn(u32, u32) -> u32) {
    let mut pc = start;
    for bytes in code.as_chunks_mut::<4>().0 {
        *bytes = change(u32::from_le_bytes(*bytes), pc).to_le_bytes();
        pc = pc.wrapping_add(4);
    }
}

/// `bl`: 24 bits of words, from two words further on.
fn arm(word: u32, pc: u32) -> u32 {
    if word >> 24 != 0xeb {
        return word;
    }
    let target = (word << 2).wrapping_sub(pc.wrapping_add(8));
    0xeb00_0000 | target >> 2 & 0x00ff_ffff
}

/// `bl` (relative, with link): 24 bits of words.
fn powerpc(word: u32, pc: u32) -> u32 {
    if word & 0xfc00_0003 != 0x4800_0001 {
        return word;
    }
    0x4800_0001 | word.wrapping_sub(pc) & 0x03ff_fffc
}

/// `call` with a target within 23 bits of words, whose sign fills the bits above.
fn sparc(word: u32, pc: u32) -> u32 {
    if !matches!(word >> 22, 0x100 | 0x1ff) {
        return word;
    }
    let target = (word << 2).wrapping_sub(pc) >> 2;
    let sign = 0_u32.wrapping_sub(target >> 22 & 1);
    0x4000_0000 | sign << 22 & 0x3fff_ffff | target & 0x003f_ffff
}

/// `bl`, and `adrp` of a page within 512 MiB.
fn arm64(word: u32, pc: u32) -> u32 {
    if word >> 26 == 0x25 {
        return 0x9400_0000 | word.wrapping_sub(pc >> 2) & 0x03ff_ffff;
    }
    let page = word >> 29 & 3 | word >> 3 & 0x001f_fffc;
    if word & 0x9f00_0000 != 0x9000_0000 || page.wrapping_add(0x0002_0000) & 0x001c_0000 != 0 {
        return word;
    }
    let page = page.wrapping_sub(pc >> 12);
    let sign = 0_u32.wrapping_sub(page & 0x0002_0000) & 0x00e0_0000;
    word & 0x9000_001f | (page & 3) << 29 | (page & 0x0003_fffc) << 3 | sign
}

/// `bl` in two halves of 11 bits each, at even addresses.
fn arm_thumb(code: &mut [u8], start: u32) {
    let mut at = 0;
    while let Some(bytes) = code.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<4>()) {
        let halves = u32::from_le_bytes(*bytes);
        if halves & 0xf800_f800 != 0xf800_f000 {
            at += 2;
            continue;
        }
        let target = (halves & 0x7ff) << 12 | (halves >> 16 & 0x7ff) << 1;
        let relative = target.wrapping_sub(address(start, at + 4));
        *bytes = (0xf800_f000 | relative >> 12 & 0x7ff | (relative >> 1 & 0x7ff) << 16).to_le_bytes();
        at += 4;
    }
}

/// Calls in bundles of 16 bytes: a template of five bits, which tells the slots that may branch, and three slots of 41.
fn ia64(code: &mut [u8], start: u32) {
    /// Bits of the slots that hold branches, by template.
    const BRANCH_SLOTS: [u8; 32] =
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 4, 6, 6, 0, 0, 7, 7, 4, 4, 0, 0, 4, 4, 0, 0];
    const SLOT_BITS: u32 = 41;
    const SLOT: u128 = (1 << SLOT_BITS) - 1;
    /// The displacement, in bundles: 20 bits, and its sign.
    const DISPLACEMENT: u128 = 0xf_ffff << 13 | 1 << 36;
    let mut pc = start;
    for bytes in code.as_chunks_mut::<16>().0 {
        let mut bundle = u128::from_le_bytes(*bytes);
        let slots = BRANCH_SLOTS[usize::from(bytes[0] & 0x1f)];
        for slot in (0..3).filter(|slot| slots >> slot & 1 == 1) {
            let shift = 5 + slot * SLOT_BITS;
            let instruction = bundle >> shift & SLOT;
            if instruction >> 37 != 5 || instruction >> 9 & 7 != 0 {
                continue;
            }
            let target = (instruction >> 13 & 0xf_ffff | (instruction >> 36 & 1) << 20) << 4;
            let relative = target.wrapping_sub(pc.into()) >> 4;
            let displacement = (relative & 0xf_ffff) << 13 | (relative >> 20 & 1) << 36;
            bundle = bundle & !(DISPLACEMENT << shift) | displacement << shift;
        }
        *bytes = bundle.to_le_bytes();
        pc = pc.wrapping_add(16);
    }
}

/// `call` and `jmp`, at any byte. Code has no alignment, so bytes of a displacement may look like another call. Whether one
/// was changed, and how, depends on those of the four bytes before that began something like a call but were left alone.
fn x86(code: &mut [u8], start: u32) {
    const CALL_LEN: usize = 5;
    let is_sign = |byte: u8| byte == 0 || byte == 0xff;
    // Bit n: the byte n bytes ago was left alone. Bit n + 4: and what it began ends in a sign, as the displacement of a call
    // does.
    let mut left_alone = 0_u32;
    let mut last_end = 0;
    let mut at = 0;
    while let Some([opcode, displacement @ ..]) = code.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<CALL_LEN>())
    {
        if !matches!(*opcode, 0xe8 | 0xe9) {
            at += 1;
            continue;
        }
        let since_last = at + CALL_LEN - last_end;
        last_end = at + CALL_LEN;
        left_alone = match since_last {
            0..=CALL_LEN => (0..since_last).fold(left_alone, |bits, _| (bits & 0x77) << 1),
            _ => 0,
        };
        let ends_in_sign = is_sign(displacement[3]);
        // At most one byte, and none whose end is a sign.
        if !ends_in_sign || !matches!(left_alone, 0 | 0b10 | 0b100 | 0b1000) {
            left_alone |= if ends_in_sign { 0x11 } else { 1 };
            at += 1;
            continue;
        }
        let pc = address(start, at + CALL_LEN);
        let mut relative = u32::from_le_bytes(*displacement).wrapping_sub(pc);
        if let Some(bytes_ago) = left_alone.checked_ilog2() {
            // That byte's end must not become a sign, or it would have been taken for a call: then the encoder inverted
            // the bits from there on and tried again.
            if is_sign(relative.to_be_bytes()[bytes_ago as usize]) {
                relative = (relative ^ u32::MAX >> (bytes_ago * 8)).wrapping_sub(pc);
            }
        }
        let sign = 0_u32.wrapping_sub(relative >> 24 & 1) << 24;
        *displacement = (sign | relative & 0x00ff_ffff).to_le_bytes();
        left_alone = 0;
        at += CALL_LEN;
    }
}

/// `jal` to a return address register, and `auipc` together with the instruction after it, which adds the lower 12 bits.
/// Such a pair was stored as an `auipc` to x2 with bits of that instruction, and the target, big-endian. A pair that looked
/// so already was stored as an `auipc` to another register.
fn riscv(code: &mut [u8], start: u32) {
    const PAIR_LEN: usize = 8;
    const AUIPC: u32 = 0x17;
    const AUIPC_TO_X2: u32 = AUIPC | 2 << 7;
    let mut at = 0;
    while let Some(bytes) = code.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<PAIR_LEN>()) {
        let [a, b, c, d, second @ ..] = *bytes;
        let first = u32::from_le_bytes([a, b, c, d]);
        let pc = address(start, at);
        at += match first & 0x7f {
            0x6f if first & 0x0d80 == 0x80 => {
                bytes[..4].copy_from_slice(&riscv_call(first, pc).to_le_bytes());
                4
            }
            AUIPC if first & 0xe80 != 0 => {
                let second = u32::from_le_bytes(second);
                let uses_register = (first << 8 ^ second) & 0x000f_8000 == 0;
                if !uses_register || second & 3 != 3 {
                    6
                } else {
                    let target = (first & 0xffff_f000).wrapping_add(second >> 20);
                    bytes[..4].copy_from_slice(&(AUIPC_TO_X2 | second << 12).to_le_bytes());
                    bytes[4..].copy_from_slice(&target.to_le_bytes());
                    PAIR_LEN
                }
            }
            AUIPC => {
                let register = first >> 27;
                // The lowest bits of an instruction of four bytes are set; and no pair uses x0 or x2.
                let is_stored_pair = first & 0x3fff == (AUIPC_TO_X2 | 3 << 12) && !matches!(register, 0 | 2);
                if is_stored_pair {
                    let relative = u32::from_be_bytes(second).wrapping_sub(pc);
                    // The lower 12 bits are added with their sign.
                    let upper = relative.wrapping_add(0x800) & 0xffff_f000;
                    bytes[..4].copy_from_slice(&(AUIPC | register << 7 | upper).to_le_bytes());
                    bytes[4..].copy_from_slice(&(first >> 12 | relative << 20).to_le_bytes());
                    PAIR_LEN
                } else {
                    4
                }
            }
            _ => 2,
        };
    }
}

/// Makes the target of a stored `jal` relative: it was stored big-endian in the upper 20 bits.
fn riscv_call(word: u32, pc: u32) -> u32 {
    let [_, low, mid, high] = word.to_le_bytes().map(u32::from);
    let target = (low & 0xf0) << 13 | mid << 9 | high << 1;
    let relative = target.wrapping_sub(pc);
    let sign = relative >> 20 & 1;
    let bits_1_to_10 = relative >> 1 & 0x3ff;
    let bit_11 = relative >> 11 & 1;
    let bits_12_to_19 = relative >> 12 & 0xff;
    word & 0xfff | bits_12_to_19 << 12 | bit_11 << 20 | bits_1_to_10 << 21 | sign << 31
}
