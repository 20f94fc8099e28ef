//! Any bytes as an EROFS image, with its checksum made right, so that what it protects is tried too.

use std::sync::Arc;

use packfs_image::erofs::{ErofsReader, ReadOptions};

/// Byte of the superblock.
const SUPERBLOCK: usize = 1024;

/// Opens it and does everything a reader can do with it.
pub fn look(bytes: &[u8]) {
    let mut bytes = bytes.to_vec();
    let _ = mend(&mut bytes);
    let options = ReadOptions::default().set(|all| all.cache_bytes = 1 << 20);
    if let Ok(image) = ErofsReader::open(Arc::new(bytes), options) {
        crate::image::look(&image);
    }
}

/// Puts the right checksum into the superblock: over what lies behind the first 1024 bytes of the first block, or
/// else over one block, with the checksum itself as zero.
fn mend(bytes: &mut [u8]) -> Option<()> {
    let log = *bytes.get(SUPERBLOCK + 12)?;
    let block = 1usize.checked_shl(log.into()).filter(|block| (512..=64 << 10).contains(block))?;
    let len = if block > SUPERBLOCK { block - SUPERBLOCK } else { block };
    let covered = bytes.get_mut(SUPERBLOCK..SUPERBLOCK + len)?;
    covered[4..8].fill(0);
    let sum = crc32c(covered);
    covered[4..8].copy_from_slice(&sum.to_le_bytes());
    Some(())
}

const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut n = 0;
    while n < 256 {
        let (mut crc, mut bit) = (n as u32, 0);
        while bit < 8 {
            crc = crc >> 1 ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 };
            bit += 1;
        }
        table[n] = crc;
        n += 1;
    }
    table
};

/// CRC-32C without the last inversion, as EROFS has it.
fn crc32c(bytes: &[u8]) -> u32 {
    bytes.iter().fold(!0, |crc, byte| crc >> 8 ^ TABLE[usize::from(crc as u8 ^ byte)])
}
