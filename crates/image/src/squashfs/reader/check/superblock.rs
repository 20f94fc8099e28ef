//! The superblock against the file, and against what Linux mounts.

use packfs_codec::Codec;

use crate::finding::Report;
use crate::squashfs::format::flags;
use crate::squashfs::reader::Reader;

/// A loop device gives the kernel whole units of this many bytes only.
const PADDING: u64 = 1024;
/// All bits of the superblock's flags that writers set.
const FLAGS_KNOWN: u16 = 0x0ffb;

pub(super) fn check(reader: &Reader, report: &mut Report<'_>) {
    let (superblock, file_len) = (&reader.superblock, reader.metadata.blocks.disk.len());
    let padded_len = superblock.bytes_used.next_multiple_of(PADDING);
    if padded_len > file_len {
        let why = format!("a loop device cuts off the end of a file of {file_len} bytes: pad it to {padded_len}");
        report.note("superblock", 0, why);
    }
    let mut wrong = |why: String| report.add("superblock", 0, why);
    if superblock.codec == Codec::Lzma {
        wrong("the kernel does not read the legacy lzma codec".into());
    }
    if superblock.flags & !FLAGS_KNOWN != 0 {
        wrong(format!("unknown flags {:#06x}", superblock.flags & !FLAGS_KNOWN));
    }
    if superblock.flags & flags::NO_XATTRS != 0 && superblock.xattr_table.is_some() {
        wrong("its flags deny the xattr table that it points at".into());
    }
    if (superblock.flags & flags::EXPORTABLE != 0) != superblock.export_table.is_some() {
        wrong("its flags and its pointer do not agree on whether there is an export table".into());
    }
}
