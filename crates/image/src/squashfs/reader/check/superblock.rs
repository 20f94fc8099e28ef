//! Checks the superblock against the file, and against what Linux can mount.

use packfs_codec::Codec;

use crate::squashfs::format::SuperblockFlags;
use crate::squashfs::reader::SquashfsReader;
use packfs_tree::FindingCollector;

/// Unit in bytes of the size that a loop device shows to the kernel.
const PADDING: u64 = 1024;

pub(super) fn check(reader: &SquashfsReader, report: &mut FindingCollector<'_>) {
    let superblock = &reader.superblock;
    let file_len = reader.metadata.blocks.disk.len();
    let padded_len = superblock.bytes_used.next_multiple_of(PADDING);
    // Linux reads SquashFS in blocks of 1 KiB (`SQUASHFS_DEVBLK_SIZE`), and not the rest of a
    // device.
    if padded_len > file_len {
        let why = format!("a loop device cuts off the end of a file of {file_len} bytes: pad it to {padded_len}");
        report.note("superblock", 0, why);
    }
    let mut wrong = |why: String| report.add("superblock", 0, why);
    if superblock.codec == Codec::Lzma {
        wrong("the kernel does not read the legacy lzma codec".into());
    }
    let unknown = superblock.flags.bits() & !SuperblockFlags::all().bits();
    if unknown != 0 {
        wrong(format!("unknown flags {unknown:#06x}"));
    }
    // Not the other way round: a table may be missing although the flag allows it.
    if superblock.flags.contains(SuperblockFlags::NO_XATTRS) && superblock.xattr_table.is_some() {
        wrong("its flags say there are no xattrs, but it points to an xattr table".into());
    }
    if superblock.flags.contains(SuperblockFlags::EXPORTABLE) != superblock.export_table.is_some() {
        wrong("its flags and its pointer disagree on whether there is an export table".into());
    }
}
