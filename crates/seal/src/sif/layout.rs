//! Header and descriptors as they are in the file, little endian.

use std::ops::RangeInclusive;

use zerocopy::little_endian::{I32, I64, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::architecture::SifArchitecture;
use super::{GROUP, IMAGE_START};

/// Byte offset of the table of descriptors, as Apptainer places it.
pub(super) const TABLE_START: u64 = 4096;
/// Descriptors in the table, used or free: as many as Apptainer makes, which can add objects to the free ones.
const TABLE_CAPACITY: usize = 48;
/// Length of the table in bytes.
const TABLE_LEN: u64 = (TABLE_CAPACITY * size_of::<SifDescriptor>()) as u64;
/// Byte offset of the data, as the header says it: the end of the table. The gap before the image counts as data.
const DATA_START: u64 = TABLE_START + TABLE_LEN;

/// The line that makes the file a program.
const LAUNCH_LINE: &[u8; 31] = b"#!/usr/bin/env run-singularity\n";
pub(super) const MAGIC: [u8; 10] = *b"SIF_MAGIC\0";
pub(super) const VERSION: [u8; 3] = *b"01\0";
/// The time of files without times: second 0 of year 1, the zero of Go.
const NO_TIME: i64 = -62_135_596_800;

/// Bits that tell a group from an object in a descriptor's links.
const GROUP_MASK: u32 = 0xf000_0000;

/// The header of a file.
#[derive(Debug, Clone, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct SifHeader {
    launch_script: [u8; 32],
    pub(super) magic: [u8; 10],
    pub(super) version: [u8; 3],
    arch: [u8; 3],
    id: [u8; 16],
    created_at: I64,
    modified_at: I64,
    descriptors_free: I64,
    pub(super) descriptors_total: I64,
    pub(super) descriptors_offset: I64,
    pub(super) descriptors_size: I64,
    data_offset: I64,
    data_size: I64,
}

impl SifHeader {
    /// Makes the header of a file whose primary partition is for `architecture`.
    pub(super) fn new(architecture: SifArchitecture) -> Self {
        let mut launch_script = [0; 32];
        launch_script[..LAUNCH_LINE.len()].copy_from_slice(LAUNCH_LINE);
        SifHeader {
            launch_script,
            magic: MAGIC,
            version: VERSION,
            arch: architecture.code(),
            id: [0; 16],
            created_at: NO_TIME.into(),
            modified_at: NO_TIME.into(),
            descriptors_free: signed(TABLE_CAPACITY as u64),
            descriptors_total: signed(TABLE_CAPACITY as u64),
            descriptors_offset: signed(TABLE_START),
            descriptors_size: signed(TABLE_LEN),
            data_offset: signed(DATA_START),
            data_size: 0.into(),
        }
    }

    /// Returns the header of a file with these objects.
    pub(super) fn with_objects(mut self, descriptors: &[SifDescriptor]) -> Self {
        self.descriptors_free = signed((TABLE_CAPACITY - descriptors.len()) as u64);
        let padded_lens = descriptors.iter().map(|descriptor| descriptor.size_with_padding.get());
        self.data_size = padded_lens.sum::<i64>().into();
        self
    }

    /// Returns the bytes that a signature covers: those that do not change when objects are added.
    pub(super) fn signed_bytes(&self) -> Vec<u8> {
        [&self.launch_script[..], &self.magic, &self.version, &self.id].concat()
    }
}

/// The descriptor of an object.
#[derive(Debug, Clone, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct SifDescriptor {
    data_type: U32,
    used: u8,
    id: U32,
    group_id: U32,
    linked_id: U32,
    offset: I64,
    size: I64,
    size_with_padding: I64,
    created_at: I64,
    modified_at: I64,
    uid: I64,
    gid: I64,
    name: [u8; 128],
    extra: [u8; 384],
}

/// Kinds of objects that matter here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ObjectKind {
    Partition,
    Signature,
    Other,
}

const PARTITION: u32 = 0x4004;
const SIGNATURE: u32 = 0x4005;

/// File system and use of a partition that Apptainer runs, in `extra`.
const SQUASHFS: i32 = 1;
const PRIMARY: i32 = 2;

/// Hash functions of signatures, in `extra`: SHA-256 is the first of five.
const SHA256: i32 = 1;
const HASHES: RangeInclusive<i32> = SHA256..=5;

/// The beginning of `extra` of a partition.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct PartitionExtra {
    fs_type: I32,
    part_type: I32,
    arch: [u8; 3],
}

impl SifDescriptor {
    /// Describes the image, which is the first object.
    pub(super) fn partition(len: u64, architecture: SifArchitecture) -> Self {
        let extra = PartitionExtra { fs_type: SQUASHFS.into(), part_type: PRIMARY.into(), arch: architecture.code() };
        let place = ObjectPlace { start: IMAGE_START, len, gap: IMAGE_START - DATA_START };
        Self::new(PARTITION, 1, place, GROUP | GROUP_MASK, 0, extra.as_bytes())
    }

    /// Describes the signature of the group, which follows the image.
    pub(super) fn signature(start: u64, len: u64) -> Self {
        let place = ObjectPlace { start, len, gap: 0 };
        // Signatures are in group 0, which is none, and linked to the group that they cover.
        Self::new(SIGNATURE, 2, place, GROUP_MASK, GROUP | GROUP_MASK, I32::new(SHA256).as_bytes())
    }

    fn new(data_type: u32, id: u32, place: ObjectPlace, group_id: u32, linked_id: u32, extra_start: &[u8]) -> Self {
        let mut extra = [0; 384];
        extra[..extra_start.len()].copy_from_slice(extra_start);
        SifDescriptor {
            data_type: data_type.into(),
            used: 1,
            id: id.into(),
            group_id: group_id.into(),
            linked_id: linked_id.into(),
            offset: signed(place.start),
            size: signed(place.len),
            size_with_padding: signed(place.gap + place.len),
            created_at: NO_TIME.into(),
            modified_at: NO_TIME.into(),
            uid: 0.into(),
            gid: 0.into(),
            name: [0; 128],
            extra,
        }
    }

    pub(super) fn is_used(&self) -> bool {
        self.used != 0
    }

    /// Returns the number of the object.
    pub(crate) fn id(&self) -> u32 {
        self.id.get()
    }

    /// Returns the group of the object; `None` if it is in none.
    pub(crate) fn group(&self) -> Option<u32> {
        Some(self.group_id.get() & !GROUP_MASK).filter(|group| *group != 0)
    }

    /// Returns the group that a signature covers; `None` for the signature of one object, as old versions made them.
    pub(crate) fn signed_group(&self) -> Option<u32> {
        let linked = self.linked_id.get();
        (linked & GROUP_MASK == GROUP_MASK).then_some(linked & !GROUP_MASK)
    }

    pub(crate) fn kind(&self) -> ObjectKind {
        match self.data_type.get() {
            PARTITION => ObjectKind::Partition,
            SIGNATURE => ObjectKind::Signature,
            _ => ObjectKind::Other,
        }
    }

    /// Returns the byte offset of the object; `None` if it is negative.
    pub(crate) fn start(&self) -> Option<u64> {
        u64::try_from(self.offset.get()).ok()
    }

    /// Returns the length of the object in bytes; `None` if it is negative.
    pub(crate) fn len(&self) -> Option<u64> {
        u64::try_from(self.size.get()).ok()
    }

    /// Returns the end of the object; `None` if no file is as long.
    pub(crate) fn end(&self) -> Option<u64> {
        self.start()?.checked_add(self.len()?)
    }

    /// Returns true for the partition that Apptainer runs.
    pub(crate) fn is_primary(&self) -> bool {
        self.kind() == ObjectKind::Partition && self.partition_extra().part_type.get() == PRIMARY
    }

    /// Returns true for a partition that is said to be SquashFS.
    pub(crate) fn is_squashfs(&self) -> bool {
        self.partition_extra().fs_type.get() == SQUASHFS
    }

    /// Returns true if the hash function of a signature has a known number. Apptainer takes no other, but verifies with
    /// SHA-256 whatever it is.
    pub(crate) fn has_known_hash(&self) -> bool {
        I32::read_from_prefix(&self.extra).is_ok_and(|(number, _)| HASHES.contains(&number.get()))
    }

    /// Returns the bytes that a signature covers, in which the number is relative to the first object of its group.
    pub(crate) fn signed_bytes(&self, relative_id: u32) -> Vec<u8> {
        [
            self.data_type.as_bytes(),
            &[self.used],
            &relative_id.to_le_bytes(),
            self.linked_id.as_bytes(),
            self.size.as_bytes(),
            self.created_at.as_bytes(),
            self.uid.as_bytes(),
            self.gid.as_bytes(),
            &self.name,
            &self.extra,
        ]
        .concat()
    }

    fn partition_extra(&self) -> PartitionExtra {
        let (extra, _) = PartitionExtra::read_from_prefix(&self.extra).expect("it is shorter than the field");
        extra
    }
}

/// Where an object lies, and how many bytes before it belong to nothing.
struct ObjectPlace {
    start: u64,
    len: u64,
    gap: u64,
}

/// Returns the table with these descriptors, and free ones after them.
pub(super) fn encode_table(descriptors: &[SifDescriptor]) -> Vec<u8> {
    let mut table = descriptors.as_bytes().to_vec();
    table.resize(TABLE_CAPACITY * size_of::<SifDescriptor>(), 0);
    table
}

/// Returns a length or an offset as the format has it. No file has 2^63 bytes.
fn signed(value: u64) -> I64 {
    i64::try_from(value).unwrap_or(i64::MAX).into()
}
