//! Counts the names of files. In damaged and hostile images, a file may have the inode number of another one, for which
//! sinks would take it. Such a number has more names than links.

use std::collections::HashMap;

use crate::image::{FileType, Stat};
use crate::tree::path_of;
use crate::{Error, Result};

/// Inode numbers that one bitmap covers. Numbers of an image lie close together, so a file takes less than a byte.
/// Hostile images scatter them, and larger bitmaps would then take more memory.
const BITMAP_NUMBERS: u64 = 64 * BITMAP_WORDS as u64;
const BITMAP_WORDS: usize = 64;

/// Names of files met so far.
#[derive(Debug, Default)]
pub(crate) struct NameCounts {
    /// Files with one link, as bitmaps by the number of their first inode divided by [`BITMAP_NUMBERS`].
    single: HashMap<u64, Box<[u64; BITMAP_WORDS]>>,
    /// Number of names of each file with several links.
    linked: HashMap<u64, u32>,
}

impl NameCounts {
    /// Counts a name of an inode. Fails if it has more of them than links, as `check` does.
    pub(crate) fn add(&mut self, path: &[u8], stat: &Stat) -> Result<()> {
        if stat.kind == FileType::Dir {
            return Ok(());
        }
        // A count of 0 is damage, but not one of too many names.
        let links = stat.nlink.max(1);
        let names = if links == 1 { self.add_single(stat.ino) } else { self.add_linked(stat.ino) };
        if names <= links {
            return Ok(());
        }
        let why = format!("inode {} has {names} names or more, and a link count of {}", stat.ino, stat.nlink);
        Err(Error::Damaged { path: path_of(path), why })
    }

    /// Returns the number of names so far: 1 or 2.
    fn add_single(&mut self, ino: u64) -> u32 {
        let bitmap = self.single.entry(ino / BITMAP_NUMBERS).or_insert_with(|| Box::new([0; BITMAP_WORDS]));
        let number = ino % BITMAP_NUMBERS;
        let word = &mut bitmap[usize::try_from(number / 64).expect("less than 64")];
        let bit = 1 << (number % 64);
        let names = if *word & bit == 0 { 1 } else { 2 };
        *word |= bit;
        names
    }

    fn add_linked(&mut self, ino: u64) -> u32 {
        let names = self.linked.entry(ino).or_default();
        *names = names.saturating_add(1);
        *names
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Time;

    #[test]
    fn a_file_has_no_more_names_than_links() {
        let stat = |ino, nlink| Stat {
            kind: FileType::Fifo,
            ino,
            mode: 0,
            uid: 0,
            gid: 0,
            mtime: Time { secs: 0, nanos: 0 },
            nlink,
            has_xattrs: false,
        };
        let mut counts = NameCounts::default();
        let mut add = |stat: &Stat| counts.add(b"a/name", stat).map_err(|error| error.to_string());
        for ino in [0, 1, 63, 64, 4095, 4096, 1 << 40, u64::MAX] {
            assert_eq!(add(&stat(ino, 1)), Ok(()), "{ino}");
        }
        assert_eq!(add(&stat(64, 1)), Err("a/name: inode 64 has 2 names or more, and a link count of 1".into()));
        assert!(add(&stat(1 << 40, 0)).is_err());
        for _ in 0..3 {
            assert_eq!(add(&stat(7, 3)), Ok(()));
        }
        assert_eq!(add(&stat(7, 3)), Err("a/name: inode 7 has 4 names or more, and a link count of 3".into()));
        let dir = Stat { kind: FileType::Dir, ..stat(1, 9) };
        assert_eq!((add(&dir), add(&dir)), (Ok(()), Ok(())), "a walk enters a directory once");
    }
}
