//! Attributes of inodes as the kernel wants them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{FileAttr, INodeNo};
use packfs_image::image::{FileType, Stat};
use packfs_image::tree::{DeviceNumber, Time};

/// Block size to report; the kernel does as it thinks best anyway.
const BLOCK_SIZE: u32 = 4096;
/// Length to report for directories, whose lengths in different formats have different meanings.
const DIR_SIZE: u64 = 4096;

/// Owners that replace those in the image.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct OwnerOverride {
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
}

/// Returns the attributes of an inode.
pub(crate) fn inode_attributes(number: INodeNo, stat: &Stat, owner: OwnerOverride) -> FileAttr {
    let mtime = system_time(stat.mtime);
    let (kind, size, rdev) = match &stat.kind {
        FileType::Dir => (fuser::FileType::Directory, DIR_SIZE, 0),
        FileType::File { size } => (fuser::FileType::RegularFile, *size, 0),
        FileType::Symlink { target } => (fuser::FileType::Symlink, target.len() as u64, 0),
        FileType::Char(device) => (fuser::FileType::CharDevice, 0, rdev(*device)),
        FileType::Block(device) => (fuser::FileType::BlockDevice, 0, rdev(*device)),
        FileType::Fifo => (fuser::FileType::NamedPipe, 0, 0),
        FileType::Socket => (fuser::FileType::Socket, 0, 0),
    };
    FileAttr {
        ino: number,
        size,
        // In units of 512 bytes, whatever the block size (stat(2)).
        blocks: size.div_ceil(512),
        atime: mtime,
        mtime,
        ctime: mtime,
        crtime: mtime,
        kind,
        perm: stat.mode,
        nlink: stat.nlink,
        uid: owner.uid.unwrap_or(stat.uid),
        gid: owner.gid.unwrap_or(stat.gid),
        rdev,
        blksize: BLOCK_SIZE,
        flags: 0,
    }
}

/// Returns the attributes that say: no such inode.
pub(crate) fn no_attributes() -> FileAttr {
    FileAttr {
        ino: INodeNo(0),
        size: 0,
        blocks: 0,
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind: fuser::FileType::RegularFile,
        perm: 0,
        nlink: 0,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: BLOCK_SIZE,
        flags: 0,
    }
}

/// Packs a device number as Linux does: 12 bits of major between 8 and 12 bits of minor.
fn rdev(device: DeviceNumber) -> u32 {
    (device.minor & 0xff) | (device.major & 0xfff) << 8 | (device.minor & 0xf_ff00) << 12
}

/// Returns a time; the beginning of 1970 for one that the system's clock cannot have.
fn system_time(time: Time) -> SystemTime {
    let nanos = Duration::from_nanos(time.nanos.into());
    let secs = Duration::from_secs(time.secs.unsigned_abs());
    let whole = if time.secs < 0 { UNIX_EPOCH.checked_sub(secs) } else { UNIX_EPOCH.checked_add(secs) };
    whole.and_then(|whole| whole.checked_add(nanos)).unwrap_or(UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_numbers_and_times_are_packed_as_the_kernel_does() {
        let device = |major, minor| rdev(DeviceNumber { major, minor });
        assert_eq!((device(1, 3), device(8, 255), device(4095, 0xf_ffff)), (0x103, 0x8ff, u32::MAX));
        assert_eq!(device(0, 256), 0x0010_0000);
        let before = system_time(Time { secs: -2, nanos: 500_000_000 });
        assert_eq!(UNIX_EPOCH.duration_since(before).unwrap(), Duration::from_millis(1500));
        assert_eq!(system_time(Time { secs: 7, nanos: 1 }), UNIX_EPOCH + Duration::new(7, 1));
    }
}
