//! Attributes of an entry of a directory, as the system tells them, in the form that scans keep and write to files.

use rustix::fs::{FileType, Stat};

use crate::Result;
use crate::tree::Time;
use packfs_tree::encoding::{FieldDecoder, FieldEncoder};

/// Attributes of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EntryAttrs {
    /// Type and permissions.
    pub(super) mode: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    /// Device and inode number: equal for all names of one file.
    pub(super) id: (u64, u64),
    /// True if the entry has other names.
    pub(super) linked: bool,
    /// Number of the device that a device file stands for.
    pub(super) rdev: u64,
    /// Length in bytes.
    pub(super) size: u64,
    /// True if less is stored than the length, so that there may be holes.
    pub(super) is_sparse: bool,
    pub(super) mtime: Time,
    pub(super) ctime: Time,
}

const LINKED: u8 = 1;
const SPARSE: u8 = 2;

impl EntryAttrs {
    /// Attributes of a directory of which nothing else is known.
    pub(super) const DIRECTORY: EntryAttrs = EntryAttrs {
        mode: FileType::Directory.as_raw_mode(),
        uid: 0,
        gid: 0,
        id: (0, 0),
        linked: false,
        rdev: 0,
        size: 0,
        is_sparse: false,
        mtime: Time { secs: 0, nanos: 0 },
        ctime: Time { secs: 0, nanos: 0 },
    };

    pub(super) fn of(stat: &Stat) -> EntryAttrs {
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        // `st_blocks` counts 512 bytes on every file system.
        let stored = u64::try_from(stat.st_blocks).unwrap_or(u64::MAX).saturating_mul(512);
        EntryAttrs {
            mode: stat.st_mode,
            uid: stat.st_uid,
            gid: stat.st_gid,
            // An inode number is unique only on its device.
            id: (stat.st_dev, stat.st_ino),
            linked: stat.st_nlink > 1,
            rdev: stat.st_rdev,
            size,
            is_sparse: stored < size,
            mtime: Time { secs: stat.st_mtime, nanos: u32::try_from(stat.st_mtime_nsec).unwrap_or(0) },
            ctime: Time { secs: stat.st_ctime, nanos: u32::try_from(stat.st_ctime_nsec).unwrap_or(0) },
        }
    }

    pub(super) fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.mode)
    }

    pub(super) fn encode(&self, to: &mut dyn FieldEncoder) {
        [self.mode, self.uid, self.gid].into_iter().for_each(|number| to.u32(number));
        to.u8(if self.linked { LINKED } else { 0 } | if self.is_sparse { SPARSE } else { 0 });
        [self.id.0, self.id.1, self.rdev, self.size].into_iter().for_each(|number| to.u64(number));
        for time in [self.mtime, self.ctime] {
            to.u64(time.secs.cast_unsigned());
            to.u32(time.nanos);
        }
    }

    pub(super) fn decode(from: &mut FieldDecoder<'_>) -> Result<EntryAttrs> {
        let mode = from.u32()?;
        let uid = from.u32()?;
        let gid = from.u32()?;
        let flags = from.u8()?;
        let id = (from.u64()?, from.u64()?);
        let rdev = from.u64()?;
        let size = from.u64()?;
        let mut time = || Ok::<_, crate::Error>(Time { secs: from.u64()?.cast_signed(), nanos: from.u32()? });
        let mtime = time()?;
        let ctime = time()?;
        // The rest are plain numbers: any value is valid.
        from.check(mtime.nanos < 1_000_000_000, "a second has too many nanoseconds")?;
        let linked = flags & LINKED != 0;
        let is_sparse = flags & SPARSE != 0;
        Ok(EntryAttrs { mode, uid, gid, id, linked, rdev, size, is_sparse, mtime, ctime })
    }
}
