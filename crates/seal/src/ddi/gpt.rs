//! Partition tables (GPT) of disk images with sectors of 512 bytes.
//!
//! Source: UEFI specification 2.10, chapter 5. The table lies at the beginning and again at the end; firmware, Linux and
//! systemd read the second one only if the first is damaged.

use packfs_blocks::{Output, ReadAt};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::error::{Error, Result};
use crate::verity::Uuid;

/// Bytes of a sector, in which all positions count. Tables for larger sectors differ; systemd's loop devices do not
/// need them.
const SECTOR_LEN: usize = 512;
/// The same, for positions.
pub(crate) const SECTOR: u64 = SECTOR_LEN as u64;
/// Where the first partition begins, in bytes: as fdisk and systemd-repart place it, so that it is aligned on any disk.
pub(crate) const FIRST_PARTITION: u64 = 1 << 20;
/// Attribute of a partition that must not be written.
pub(crate) const READ_ONLY: u64 = 1 << 60;

const MAGIC: [u8; 8] = *b"EFI PART";
const REVISION: u32 = 0x0001_0000;
/// Bytes of the header that its checksum covers.
const HEADER_LEN: u32 = 92;
const _: () = assert!(size_of::<TableHeader>() == HEADER_LEN as usize);
/// Entries of a table. UEFI reserves 16 KiB for entries of 128 bytes, which is room for 128.
const ENTRIES: u32 = 128;
const ENTRY_LEN: u32 = 128;
const _: () = assert!(size_of::<TableEntry>() == ENTRY_LEN as usize);
/// Bytes of all entries.
const ENTRIES_LEN: usize = ENTRIES as usize * ENTRY_LEN as usize;
/// Sectors of the entries.
const ENTRY_SECTORS: u64 = ENTRIES_LEN as u64 / SECTOR;
/// Longest list of entries that is read, in bytes. Tables of other programs may have more than 128; a header must not
/// decide how much memory is taken.
const ENTRIES_MAX: u64 = 1 << 20;
/// Where the MBR partitions begin in the first sector.
const PROTECTIVE_AT: usize = 446;
/// MBR type by which programs that do not know GPT leave the disk alone.
const PROTECTIVE: u8 = 0xee;

/// `EFI_PARTITION_TABLE_HEADER`.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct TableHeader {
    signature: [u8; 8],
    revision: U32,
    header_size: U32,
    header_crc32: U32,
    reserved: U32,
    my_lba: U64,
    alternate_lba: U64,
    first_usable_lba: U64,
    last_usable_lba: U64,
    disk_guid: [u8; 16],
    partition_entry_lba: U64,
    number_of_partition_entries: U32,
    size_of_partition_entry: U32,
    partition_entry_array_crc32: U32,
}

/// `EFI_PARTITION_ENTRY`.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct TableEntry {
    partition_type_guid: [u8; 16],
    unique_partition_guid: [u8; 16],
    starting_lba: U64,
    /// Inclusive.
    ending_lba: U64,
    attributes: U64,
    partition_name: [u8; 72],
}

/// A partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DiskPartition {
    pub(crate) kind: Uuid,
    pub(crate) uuid: Uuid,
    /// Byte offset of its beginning, a multiple of a sector.
    pub(crate) start: u64,
    /// Length in bytes, a multiple of a sector.
    pub(crate) len: u64,
    pub(crate) attributes: u64,
    /// Label of at most 36 ASCII characters; empty in tables that were read, as nothing here depends on it.
    pub(crate) label: String,
}

/// Reason why a table cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TableError {
    #[error("there is no partition table")]
    Missing,
    #[error("{0}")]
    Damaged(&'static str),
}

/// A partition table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PartitionTable {
    pub(crate) disk: Uuid,
    pub(crate) partitions: Vec<DiskPartition>,
    /// True if the table at the end of the disk is sound and equal.
    pub(crate) has_backup: bool,
}

/// Returns the length of a disk whose last partition ends at `end`: the second table lies after it. The length is a
/// multiple of 4 KiB, as loop devices and disks of such sectors want it.
pub(crate) fn disk_len(end: u64) -> u64 {
    // One sector more than the entries for the header, which must be the last sector.
    (end.next_multiple_of(SECTOR) + (ENTRY_SECTORS + 1) * SECTOR).next_multiple_of(4096)
}

impl PartitionTable {
    /// Writes both tables, and the first sector, to a disk of `len` bytes.
    pub(crate) fn write(&self, len: u64, output: &Output) -> Result<()> {
        let last = len / SECTOR - 1;
        let mut entries = vec![0; ENTRIES_LEN];
        for (partition, bytes) in self.partitions.iter().zip(entries.chunks_exact_mut(ENTRY_LEN as usize)) {
            bytes.copy_from_slice(TableEntry::of(partition).as_bytes());
        }
        let header = TableHeader {
            signature: MAGIC,
            revision: REVISION.into(),
            header_size: HEADER_LEN.into(),
            header_crc32: 0.into(),
            // Filled in by `sector`: it covers all other fields.
            reserved: 0.into(),
            my_lba: 1.into(),
            alternate_lba: last.into(),
            first_usable_lba: (FIRST_PARTITION / SECTOR).into(),
            last_usable_lba: (last - ENTRY_SECTORS - 1).into(),
            disk_guid: mixed(self.disk),
            partition_entry_lba: 2.into(),
            number_of_partition_entries: ENTRIES.into(),
            size_of_partition_entry: ENTRY_LEN.into(),
            partition_entry_array_crc32: crc32fast::hash(&entries).into(),
        };
        let backup = TableHeader {
            // The headers of the two tables point at each other, and each at its own entries.
            my_lba: header.alternate_lba,
            alternate_lba: header.my_lba,
            partition_entry_lba: (last - ENTRY_SECTORS).into(),
            ..header
        };
        let mut head = protective_sector(last);
        head.extend_from_slice(&header.sector());
        head.extend_from_slice(&entries);
        // At the end, the order is reversed: entries first, so that the header is in the last sector.
        let mut tail = entries;
        tail.extend_from_slice(&backup.sector());
        let write = |bytes: &[u8], at| output.write_all_at(bytes, at).map_err(Error::write("the partition table"));
        write(&head, 0)?;
        write(&tail, (last - ENTRY_SECTORS) * SECTOR)
    }

    /// Reads the table at the beginning of a disk, and compares it with the one at the end.
    ///
    /// # Errors
    /// [`Error::Io`]. A table that is wrong is the inner error.
    pub(crate) fn read(disk: &dyn ReadAt) -> Result<std::result::Result<Self, TableError>> {
        let first = match HeaderAndEntries::read(disk, 1)? {
            Ok(first) => first,
            Err(error) => return Ok(Err(error)),
        };
        // Only the entries are compared: the headers differ by design.
        let second = HeaderAndEntries::read(disk, first.header.alternate_lba.get())?;
        let has_backup = second.is_ok_and(|second| second.entries == first.entries);
        let partitions = first.partitions(disk.len() / SECTOR);
        let disk = Uuid(mixed(Uuid(first.header.disk_guid)));
        Ok(partitions.map(|partitions| PartitionTable { disk, partitions, has_backup }))
    }
}

/// Parts of a table as they are stored, with checksums that match.
struct HeaderAndEntries {
    header: TableHeader,
    entries: Vec<u8>,
}

impl HeaderAndEntries {
    /// Reads the table whose header is in a sector.
    fn read(disk: &dyn ReadAt, sector: u64) -> Result<std::result::Result<Self, TableError>> {
        let mut bytes = [0; SECTOR_LEN];
        if !read_if_inside(disk, &mut bytes, sector)? || !bytes.starts_with(&MAGIC) {
            return Ok(Err(TableError::Missing));
        }
        // A sector is longer than a header.
        let Ok((header, _)) = TableHeader::read_from_prefix(&bytes) else { return Ok(Err(TableError::Missing)) };
        if !header.is_sound(&bytes, sector) {
            return Ok(Err(TableError::Damaged("the header of the partition table does not match its checksum")));
        }
        // Both factors have 32 bits, so the product of 64 bits cannot overflow.
        let entry_len = u64::from(header.size_of_partition_entry.get());
        let entries_len = entry_len * u64::from(header.number_of_partition_entries.get());
        // A length of zero would make chunks_exact panic, and a huge table would fill the memory.
        if entry_len < u64::from(ENTRY_LEN) || !entry_len.is_multiple_of(8) || entries_len > ENTRIES_MAX {
            return Ok(Err(TableError::Damaged("the partition table has entries of an impossible size")));
        }
        // At most 1 MiB, by the check above.
        let mut entries = vec![0; usize::try_from(entries_len).unwrap_or_default()];
        if !read_if_inside(disk, &mut entries, header.partition_entry_lba.get())? {
            return Ok(Err(TableError::Damaged("the partition table lies beyond the end of the image")));
        }
        if crc32fast::hash(&entries) != header.partition_entry_array_crc32.get() {
            return Ok(Err(TableError::Damaged("the entries of the partition table do not match their checksum")));
        }
        Ok(Ok(HeaderAndEntries { header, entries }))
    }

    /// Returns the partitions; fails if one does not lie on the disk.
    fn partitions(&self, sectors: u64) -> std::result::Result<Vec<DiskPartition>, TableError> {
        let mut partitions = Vec::new();
        for bytes in self.entries.chunks_exact(self.header.size_of_partition_entry.get() as usize) {
            let Ok((entry, _)) = TableEntry::read_from_prefix(bytes) else { continue };
            // A type of zero marks an unused entry, which may lie between used ones.
            if entry.partition_type_guid == [0; 16] {
                continue;
            }
            let start = entry.starting_lba.get();
            let end = entry.ending_lba.get();
            // With this, no product of a sector number overflows later, and no read goes beyond the disk.
            if start > end || end >= sectors {
                return Err(TableError::Damaged("a partition lies beyond the end of the image"));
            }
            partitions.push(DiskPartition {
                kind: Uuid(mixed(Uuid(entry.partition_type_guid))),
                uuid: Uuid(mixed(Uuid(entry.unique_partition_guid))),
                start: start * SECTOR,
                len: (end - start + 1) * SECTOR,
                attributes: entry.attributes.get(),
                label: String::new(),
            });
        }
        Ok(partitions)
    }
}

impl TableHeader {
    /// Returns the sector of the header, with its checksum.
    fn sector(mut self) -> Vec<u8> {
        self.header_crc32 = crc32fast::hash(self.as_bytes()).into();
        let mut sector = self.as_bytes().to_vec();
        sector.resize(SECTOR_LEN, 0);
        sector
    }

    /// Returns true if the checksum in `sector` is right, and the header is one for this place.
    fn is_sound(&self, bytes: &[u8], sector: u64) -> bool {
        // The length comes from the disk; one above a sector finds no bytes.
        let Some(covered) = bytes.get(..self.header_size.get() as usize) else { return false };
        let mut covered = covered.to_vec();
        let at = std::mem::offset_of!(TableHeader, header_crc32);
        // The checksum counts as zero in itself. A header that does not even hold it is too short.
        let Some(checksum) = covered.get_mut(at..at + 4) else { return false };
        checksum.fill(0);
        covered.len() >= HEADER_LEN as usize
            && crc32fast::hash(&covered) == self.header_crc32.get()
            // A header that was copied to another sector keeps its checksum, but not its meaning.
            && self.my_lba.get() == sector
    }
}

impl TableEntry {
    fn of(partition: &DiskPartition) -> Self {
        let mut partition_name = [0; 72];
        // zip stops after 36 units; labels are ASCII of at most that length.
        for (unit, bytes) in partition.label.encode_utf16().zip(partition_name.chunks_exact_mut(2)) {
            bytes.copy_from_slice(&unit.to_le_bytes());
        }
        TableEntry {
            partition_type_guid: mixed(partition.kind),
            unique_partition_guid: mixed(partition.uuid),
            starting_lba: (partition.start / SECTOR).into(),
            ending_lba: ((partition.start + partition.len) / SECTOR - 1).into(),
            attributes: partition.attributes.into(),
            partition_name,
        }
    }
}

/// Swaps the bytes of a UUID between the order of its digits and that of the table, where the first three groups are little
/// endian.
fn mixed(uuid: Uuid) -> [u8; 16] {
    let mut bytes = uuid.0;
    bytes[..4].reverse();
    bytes[4..6].reverse();
    bytes[6..8].reverse();
    bytes
}

/// Returns the first sector: one partition that takes the whole disk, for programs that do not know GPT.
fn protective_sector(last: u64) -> Vec<u8> {
    let mut sector = vec![0; SECTOR_LEN];
    // The field has 32 bits. UEFI prescribes all ones for larger disks.
    let sectors = u32::try_from(last).unwrap_or(u32::MAX);
    let entry = &mut sector[PROTECTIVE_AT..PROTECTIVE_AT + 16];
    // Positions by heads and cylinders, as UEFI 5.2.3 has them: the second sector, and "beyond what can be said".
    entry[1..4].copy_from_slice(&[0x00, 0x02, 0x00]);
    entry[4] = PROTECTIVE;
    entry[5..8].copy_from_slice(&[0xff, 0xff, 0xff]);
    entry[8..12].copy_from_slice(&1u32.to_le_bytes());
    entry[12..].copy_from_slice(&sectors.to_le_bytes());
    sector[510..].copy_from_slice(&[0x55, 0xaa]);
    sector
}

/// Reads from a sector on; returns false if the disk ends before.
fn read_if_inside(disk: &dyn ReadAt, bytes: &mut [u8], sector: u64) -> Result<bool> {
    // Positions come from the disk: neither product nor sum may overflow before they are compared.
    let inside =
        sector.checked_mul(SECTOR).filter(|at| at.checked_add(bytes.len() as u64).is_some_and(|end| end <= disk.len()));
    let Some(at) = inside else { return Ok(false) };
    disk.read_exact_at(bytes, at).map_err(Error::io("cannot read the partition table"))?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> PartitionTable {
        let uuid = |byte| Uuid([byte; 16]);
        let partition = |n: u8| DiskPartition {
            kind: uuid(n),
            uuid: uuid(n + 16),
            start: FIRST_PARTITION + u64::from(n) * 8192,
            len: 4096,
            attributes: READ_ONLY,
            label: String::new(),
        };
        PartitionTable { disk: uuid(9), partitions: vec![partition(1), partition(2)], has_backup: true }
    }

    fn written(table: &PartitionTable) -> Vec<u8> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk");
        let output = Output::create(&path, 0o666, false).unwrap();
        table.write(disk_len(FIRST_PARTITION + 3 * 8192), &output).unwrap();
        output.commit().unwrap();
        std::fs::read(path).unwrap()
    }

    #[test]
    fn tables_are_read_as_they_were_written() {
        let table = sample();
        let disk = written(&table);
        assert!(disk.len().is_multiple_of(4096));
        assert_eq!(PartitionTable::read(&disk).unwrap(), Ok(table));
    }

    #[test]
    fn digits_and_bytes_of_a_uuid_are_those_of_uefi() {
        let uuid: Uuid = "c12a7328-f81f-11d2-ba4b-00a0c93ec93b".parse().unwrap();
        let stored = *b"\x28\x73\x2a\xc1\x1f\xf8\xd2\x11\xba\x4b\x00\xa0\xc9\x3e\xc9\x3b";
        assert_eq!((mixed(uuid), Uuid(mixed(Uuid(stored)))), (stored, uuid));
    }

    #[test]
    fn each_damage_has_its_error() {
        let disk = written(&sample());
        let read = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut disk = disk.clone();
            change(&mut disk);
            PartitionTable::read(&disk).unwrap()
        };
        assert_eq!(read(&|disk| disk.truncate(600)), Err(TableError::Missing));
        assert_eq!(read(&|disk| disk[512] ^= 1), Err(TableError::Missing));
        for (at, told) in [(512 + 40, "header"), (1024 + 40, "entries")] {
            let error = read(&|disk| disk[at] ^= 1).unwrap_err().to_string();
            assert!(error.contains(told), "{at}: {error}");
        }
        let error = read(&|disk| disk.truncate(1 << 20)).unwrap_err().to_string();
        assert!(error.contains("beyond"), "{error}");
        for at in [disk.len() - 512, disk.len() - 1000] {
            let end = disk.len() - 33 * 512;
            let at = if at < disk.len() - 512 { end } else { at };
            let table = read(&|disk| disk[at] ^= 1).unwrap();
            assert!(!table.has_backup, "{at}");
        }
    }

    #[test]
    fn no_change_of_a_byte_is_a_panic_or_a_lot_of_memory() {
        let disk = written(&sample());
        for at in 512..1024 + 2 * ENTRY_LEN as usize {
            for value in [0, 1, 0x7f, 0xff] {
                let mut disk = disk.clone();
                disk[at] = value;
                // With a checksum that is right, the fields themselves are tried.
                let mut header: TableHeader = TableHeader::read_from_prefix(&disk[512..]).unwrap().0;
                header.header_crc32 = 0.into();
                header.partition_entry_array_crc32 = crc32fast::hash(&disk[1024..1024 + ENTRIES_LEN]).into();
                disk[512..1024].copy_from_slice(&header.sector());
                let _ = PartitionTable::read(&disk).unwrap();
            }
        }
    }
}
