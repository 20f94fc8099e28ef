//! The entries of a directory, in little memory: there may be tens of millions in a tree.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::collections::btree_map;
use std::fmt;

use super::Ino;

/// Entries of a directory by name, in byte order.
///
/// Names that are added in their order, as almost all sources list them, lie in one piece of memory with a byte more for
/// each, and four for an inode that does not follow that of the name before. The first change of another kind turns them
/// into a map, with about 70 bytes for each.
#[derive(Clone, Default)]
pub struct DirEntries(Option<Box<EntryStore>>);

#[derive(Clone)]
enum EntryStore {
    Row(EntryRow),
    Map(BTreeMap<Box<[u8]>, Ino>),
}

/// Number of entries from one mark to the next.
const STEP: usize = 32;

/// Bit of the first byte of an entry: its inode follows.
const HAS_INO: u8 = 0x80;
/// First byte of an entry with a name of 127 bytes or more: only the writers know how long a name may be. The length
/// follows in four bytes, then the inode.
const LONG: u8 = u8::MAX;

/// Entries one after the other: the length of the name in a byte, the inode in four unless it is the one after that of
/// the entry before, the name.
#[derive(Clone, Default)]
struct EntryRow {
    bytes: Vec<u8>,
    /// Start of every [`STEP`]th entry, which has its inode, so that a search need not begin at the front.
    marks: Vec<u32>,
    count: u32,
    /// Start and inode of the last entry.
    last: (u32, u32),
}

/// An entry of a row.
struct RowEntry<'r> {
    name: &'r [u8],
    ino: Ino,
    /// Position of the next entry.
    end: usize,
}

impl EntryRow {
    /// Returns the entry at a position of `bytes`, after one with the inode `before`.
    fn entry(&self, at: usize, before: u32) -> RowEntry<'_> {
        let number = |at: usize| u32::from_le_bytes(self.bytes[at..at + 4].try_into().expect("four bytes"));
        let (len, ino_at) = match self.bytes[at] {
            LONG => (number(at + 1) as usize, Some(at + 5)),
            len if len & HAS_INO == 0 => (usize::from(len), None),
            len => (usize::from(len & !HAS_INO), Some(at + 1)),
        };
        let start = ino_at.map_or(at + 1, |ino_at| ino_at + 4);
        // The inode after the one before needs no bytes.
        let ino = Ino(ino_at.map_or(before.wrapping_add(1), number));
        RowEntry { name: &self.bytes[start..start + len], ino, end: start + len }
    }

    /// Returns the name of an entry.
    fn name(&self, at: u32) -> &[u8] {
        self.entry(at as usize, 0).name
    }

    /// Returns the entry with a name, if it is there.
    fn find(&self, name: &[u8]) -> Option<RowEntry<'_>> {
        // The last mark whose name is not greater.
        let behind = self.marks.partition_point(|at| self.name(*at) <= name);
        let mut at = self.marks[behind.checked_sub(1)?] as usize;
        // The entry at a mark has its inode, so what was before it does not matter.
        let mut before = 0;
        let end = self.marks.get(behind).map_or(self.bytes.len(), |end| *end as usize);
        while at < end {
            let found = self.entry(at, before);
            match found.name.cmp(name) {
                Ordering::Less => (at, before) = (found.end, found.ino.0),
                Ordering::Equal => return Some(found),
                Ordering::Greater => return None,
            }
        }
        None
    }

    /// Returns true if a name belongs after all others.
    fn is_behind(&self, name: &[u8]) -> bool {
        self.count == 0 || self.name(self.last.0) < name
    }

    /// Appends a name after all others; returns false if there is no room.
    fn push(&mut self, name: &[u8], ino: Ino) -> bool {
        // Positions have 32 bits: 4 GiB of names in one directory become a map.
        let (Ok(start), Ok(len)) = (u32::try_from(self.bytes.len()), u32::try_from(name.len())) else { return false };
        let Some(count) = self.count.checked_add(1) else { return false };
        // Most directories never change after their scan, so room for growth is kept small.
        let needed = name.len() + 9;
        if self.bytes.capacity() - self.bytes.len() < needed {
            self.bytes.reserve_exact(needed.max(self.bytes.len() / 8 + 32));
        }
        let is_mark = (self.count as usize).is_multiple_of(STEP);
        if is_mark {
            if self.marks.len() == self.marks.capacity() {
                self.marks.reserve_exact(self.marks.len() / 4 + 1);
            }
            self.marks.push(start);
        }
        let follows = !is_mark && ino.0 == self.last.1.wrapping_add(1);
        // Both bits of the first byte have a meaning besides the length.
        match u8::try_from(len).ok().filter(|len| *len < LONG & !HAS_INO) {
            Some(len) if follows => self.bytes.push(len),
            Some(len) => self.bytes.push(len | HAS_INO),
            None => {
                self.bytes.push(LONG);
                self.bytes.extend_from_slice(&len.to_le_bytes());
            }
        }
        if !follows || self.bytes[start as usize] == LONG {
            self.bytes.extend_from_slice(&ino.0.to_le_bytes());
        }
        self.bytes.extend_from_slice(name);
        (self.count, self.last) = (count, (start, ino.0));
        true
    }
}

impl DirEntries {
    /// Returns the inode with a name.
    pub fn get(&self, name: &[u8]) -> Option<Ino> {
        match &**self.0.as_ref()? {
            EntryStore::Row(row) => row.find(name).map(|found| found.ino),
            EntryStore::Map(map) => map.get(name).copied(),
        }
    }

    /// Gives an inode a name; returns the one that had it.
    pub fn insert(&mut self, name: &[u8], ino: Ino) -> Option<Ino> {
        let store = self.0.get_or_insert_with(|| Box::new(EntryStore::Row(EntryRow::default())));
        if let EntryStore::Row(row) = &mut **store {
            // As almost every source adds them.
            if row.is_behind(name) {
                if row.push(name, ino) {
                    return None;
                }
            } else if let Some(found) = row.find(name)
                && found.ino == ino
            {
                return Some(ino);
            }
        }
        store.as_map().insert(name.into(), ino)
    }

    /// Gives back room for more entries.
    pub(super) fn shrink(&mut self) {
        if let Some(EntryStore::Row(row)) = self.0.as_deref_mut() {
            row.bytes.shrink_to_fit();
            row.marks.shrink_to_fit();
        }
    }

    /// Removes a name; returns the inode that had it.
    pub fn remove(&mut self, name: &[u8]) -> Option<Ino> {
        let store = self.0.as_mut()?;
        // A name that is not there must not cost the map.
        if let EntryStore::Row(row) = &**store {
            row.find(name)?;
        }
        store.as_map().remove(name)
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        match self.0.as_deref() {
            None => 0,
            Some(EntryStore::Row(row)) => row.count as usize,
            Some(EntryStore::Map(map)) => map.len(),
        }
    }

    /// Returns true if there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns all names with their inodes, in byte order.
    pub fn iter(&self) -> EntryIter<'_> {
        EntryIter(match self.0.as_deref() {
            None => EntryWalk::None,
            Some(EntryStore::Row(row)) => EntryWalk::Row(row, 0, 0),
            Some(EntryStore::Map(map)) => EntryWalk::Map(map.iter()),
        })
    }
}

impl EntryStore {
    fn as_map(&mut self) -> &mut BTreeMap<Box<[u8]>, Ino> {
        if let EntryStore::Row(row) = self {
            *self = EntryStore::Map(EntryWalk::Row(row, 0, 0).map(|(name, ino)| (name.into(), ino)).collect());
        }
        match self {
            EntryStore::Map(map) => map,
            EntryStore::Row(_) => unreachable!("made a map above"),
        }
    }
}

impl fmt::Debug for DirEntries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter().map(|(name, ino)| (name.escape_ascii().to_string(), ino.0))).finish()
    }
}

impl<'e> IntoIterator for &'e DirEntries {
    type Item = (&'e [u8], Ino);
    type IntoIter = EntryIter<'e>;

    fn into_iter(self) -> EntryIter<'e> {
        self.iter()
    }
}

/// Entries of a directory with their names, in byte order.
#[derive(Clone)]
pub struct EntryIter<'e>(EntryWalk<'e>);

#[derive(Clone)]
enum EntryWalk<'e> {
    None,
    /// With the position of the next entry, and the inode of the one before.
    Row(&'e EntryRow, usize, u32),
    Map(btree_map::Iter<'e, Box<[u8]>, Ino>),
}

impl fmt::Debug for EntryIter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.clone().map(|(name, _)| name.escape_ascii().to_string())).finish()
    }
}

impl<'e> Iterator for EntryIter<'e> {
    type Item = (&'e [u8], Ino);

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next()
    }
}

impl<'e> Iterator for EntryWalk<'e> {
    type Item = (&'e [u8], Ino);

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            EntryWalk::None => None,
            EntryWalk::Row(row, at, _) if *at == row.bytes.len() => None,
            EntryWalk::Row(row, at, before) => {
                let found = row.entry(*at, *before);
                (*at, *before) = (found.end, found.ino.0);
                Some((found.name, found.ino))
            }
            EntryWalk::Map(map) => map.next().map(|(name, ino)| (&**name, *ino)),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn entries_are_those_of_a_map_whatever_the_order(
            steps in proptest::collection::vec((any::<bool>(), "[ab]{0,4}", 0u32..100), 0..40), sorted in any::<bool>(),
        ) {
            let mut steps = steps;
            if sorted {
                steps.sort_by(|a, b| (!a.0, &a.1).cmp(&(!b.0, &b.1)));
            }
            let (mut entries, mut map) = (DirEntries::default(), BTreeMap::<Vec<u8>, Ino>::new());
            for (adds, name, ino) in steps {
                let name = name.into_bytes();
                let ino = Ino(ino);
                let (done, expected) = match adds {
                    true => (entries.insert(&name, ino), map.insert(name.clone(), ino)),
                    false => (entries.remove(&name), map.remove(&name)),
                };
                prop_assert_eq!(done, expected);
                prop_assert_eq!(entries.get(&name), map.get(&name).copied());
                prop_assert_eq!((entries.len(), entries.is_empty()), (map.len(), map.is_empty()));
                prop_assert!(entries.iter().eq(map.iter().map(|(name, ino)| (&name[..], *ino))));
            }
        }
    }

    #[test]
    fn names_are_found_wherever_marks_are_and_however_long() {
        let name =
            |n: u32| format!("{n:05}{}", "x".repeat([0, 121, 122, 123, 250, 251, 70_000][n as usize % 7])).into_bytes();
        let mut entries = DirEntries::default();
        for n in 0..200 {
            entries.insert(&name(2 * n), Ino(n));
        }
        assert!(matches!(entries.0.as_deref(), Some(EntryStore::Row(_))));
        for n in 0..200 {
            assert_eq!(entries.get(&name(2 * n)), Some(Ino(n)));
            assert_eq!(entries.get(&name(2 * n + 1)), None);
        }
        for n in 0..200 {
            assert_eq!(entries.insert(&name(2 * n), Ino(n + 1)), Some(Ino(n)));
        }
        assert!(entries.iter().eq(
            (0..200).map(|n| (name(2 * n), Ino(n + 1))).collect::<Vec<_>>().iter().map(|(name, ino)| (&name[..], *ino))
        ));
        assert_eq!(entries.get(b""), None);
    }

    #[test]
    fn names_in_order_take_little_memory() {
        let mut entries = DirEntries::default();
        for n in 0..10_000 {
            entries.insert(format!("{n:08}").as_bytes(), Ino(n));
        }
        let Some(EntryStore::Row(row)) = entries.0.as_deref() else { panic!("a map") };
        assert!(row.bytes.capacity() + 4 * row.marks.capacity() < 10_000 * 11);
        assert_eq!(size_of::<DirEntries>(), 8);
    }
}
