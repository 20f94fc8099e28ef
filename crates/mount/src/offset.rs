//! Finds an image in a file that holds more: an AppImage, after the ELF program that runs it, or a SIF container, which
//! has a table of its parts.

use std::io;

use packfs_blocks::ReadAt;
use packfs_image::source::open::{SNIFF_LEN, sniff};

/// Magic word of a SIF file, and its position: after the line that makes the file a program.
const SIF_MAGIC: &[u8; 10] = b"SIF_MAGIC\0";
const SIF_MAGIC_OFF: u64 = 32;
/// Positions of the number of descriptors and of their table in the header of a SIF file: they follow launch line,
/// magic, version, architecture, UUID, two times and the number of free descriptors.
const SIF_COUNT_OFF: u64 = SIF_MAGIC_OFF + 10 + 3 + 3 + 16 + 8 + 8 + 8;
const SIF_TABLE_OFF: u64 = SIF_COUNT_OFF + 8;
/// Length of a SIF descriptor, and positions in it: type, use, and where its data is.
const SIF_DESCRIPTOR_LEN: u64 = 585;
const SIF_USED_OFF: usize = 4;
const SIF_DATA_OFF: usize = 17;
/// Most descriptors to look at: Apptainer makes 48 of them.
const SIF_DESCRIPTORS_MAX: u64 = 4096;
/// Type of a descriptor of a partition.
const SIF_PARTITION: u32 = 0x4004;

/// Returns the offset at which an image begins; `None` if there is none where known containers have one.
pub fn find_image(file: &dyn ReadAt) -> io::Result<Option<u64>> {
    if is_image(file, 0)? {
        return Ok(Some(0));
    }
    // A candidate counts only if an image begins there: most ELF programs have none after them.
    for candidate in [end_of_elf(file)?, find_sif_image(file)?].into_iter().flatten() {
        if is_image(file, candidate)? {
            return Ok(Some(candidate));
        }
    }
    Ok(None)
}

fn is_image(file: &dyn ReadAt, offset: u64) -> io::Result<bool> {
    let mut head = [0; SNIFF_LEN];
    let len = file.read_at(&mut head, offset)?;
    Ok(sniff(&head[..len]).is_image())
}

/// Returns the end of an ELF program: that of its section table, which comes last.
fn end_of_elf(file: &dyn ReadAt) -> io::Result<Option<u64>> {
    let mut head = [0; 64];
    if file.read_at(&mut head, 0)? < head.len() || !head.starts_with(b"\x7fELF") {
        return Ok(None);
    }
    // `e_ident`: class 2 is 64 bits, data 1 is little endian. The program may be for another machine.
    let wide = head[4] == 2;
    let little = head[5] == 1;
    let half = |at: usize| {
        let bytes = [head[at], head[at + 1]];
        u64::from(if little { u16::from_le_bytes(bytes) } else { u16::from_be_bytes(bytes) })
    };
    // `e_shoff`.
    let (at, len) = if wide { (0x28, 8) } else { (0x20, 4) };
    let mut table = [0; 8];
    table[..len].copy_from_slice(&head[at..at + len]);
    if !little {
        table[..len].reverse();
    }
    // `e_shentsize` and `e_shnum`.
    let (size, count) = if wide { (half(0x3a), half(0x3c)) } else { (half(0x2e), half(0x30)) };
    // Both factors have 16 bits, so the product cannot overflow.
    Ok(u64::from_le_bytes(table).checked_add(size * count))
}

/// Returns the offset of the first partition of a SIF file that holds an image.
fn find_sif_image(file: &dyn ReadAt) -> io::Result<Option<u64>> {
    let mut magic = [0; 10];
    file.read_at(&mut magic, SIF_MAGIC_OFF)?;
    if magic != *SIF_MAGIC {
        return Ok(None);
    }
    let word = |at: u64| -> io::Result<u64> {
        let mut word = [0; 8];
        file.read_exact_at(&mut word, at)?;
        Ok(u64::from_le_bytes(word))
    };
    let count = word(SIF_COUNT_OFF)?;
    let table = word(SIF_TABLE_OFF)?;
    // The count comes from the file, so a damaged one must not keep the loop busy.
    for number in 0..count.min(SIF_DESCRIPTORS_MAX) {
        let mut bytes = [0; SIF_DATA_OFF + 8];
        let Some(at) = table.checked_add(number * SIF_DESCRIPTOR_LEN) else { break };
        if file.read_at(&mut bytes, at)? < bytes.len() {
            break;
        }
        let data_type = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        let offset = bytes[SIF_DATA_OFF..].first_chunk().map_or(0, |offset| u64::from_le_bytes(*offset));
        if data_type == SIF_PARTITION && bytes[SIF_USED_OFF] != 0 && is_image(file, offset)? {
            return Ok(Some(offset));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn squashfs(at: usize) -> Vec<u8> {
        let mut bytes = vec![0; at + 96];
        bytes[at..at + 4].copy_from_slice(b"hsqs");
        bytes
    }

    #[test]
    fn images_are_found_at_the_beginning_behind_a_program_and_in_a_container() {
        let found = |bytes: Vec<u8>| find_image(&bytes).unwrap();
        assert_eq!(found(squashfs(0)), Some(0));
        let mut erofs = vec![0; 2048];
        erofs[1024..1028].copy_from_slice(&[0xe2, 0xe1, 0xf5, 0xe0]);
        assert_eq!(found(erofs), Some(0));
        let mut elf = squashfs(4096 + 64 * 3);
        elf[..6].copy_from_slice(b"\x7fELF\x02\x01");
        elf[0x28..0x30].copy_from_slice(&4096u64.to_le_bytes());
        elf[0x3a..0x3e].copy_from_slice(&[64, 0, 3, 0]);
        assert_eq!(found(elf), Some(4096 + 64 * 3));
        let mut old = squashfs(1000 + 40);
        old[..6].copy_from_slice(b"\x7fELF\x01\x02");
        old[0x20..0x24].copy_from_slice(&1000u32.to_be_bytes());
        old[0x2e..0x32].copy_from_slice(&[0, 40, 0, 1]);
        assert_eq!(found(old), Some(1040));
        let mut sif = squashfs(65536);
        sif[32..42].copy_from_slice(SIF_MAGIC);
        let numbers = [2u64.to_le_bytes(), 4096u64.to_le_bytes()].concat();
        let at = usize::try_from(SIF_COUNT_OFF).unwrap();
        sif[at..at + 16].copy_from_slice(&numbers);
        let descriptor = &mut sif[4096 + 585..];
        descriptor[..4].copy_from_slice(&SIF_PARTITION.to_le_bytes());
        descriptor[4] = 1;
        descriptor[17..25].copy_from_slice(&65536u64.to_le_bytes());
        assert_eq!(found(sif), Some(65536));
    }

    #[test]
    fn other_files_have_none_whatever_they_claim() {
        let found = |bytes: Vec<u8>| find_image(&bytes).unwrap();
        assert_eq!(found(Vec::new()), None);
        assert_eq!(found(b"\x7fELF".to_vec()), None);
        assert_eq!(found([b"\x7fELF\x02\x01".to_vec(), vec![0xff; 100]].concat()), None);
        let mut sif = vec![0xff; 200];
        sif[32..42].copy_from_slice(SIF_MAGIC);
        assert_eq!(found(sif), None);
    }
}
