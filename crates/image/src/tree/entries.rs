//! The entries of a directory, in little memory: there may be tens of millions in a tree.

use std::collections::BTreeMap;
use std::collections::btree_map;
use std::fmt;

use super::Ino;

/// Entries of a directory by name, in byte order.
///
/// Names that are added in their order, as almost all sources list them, lie in one piece of memory with eight bytes for
/// each. The first change of another kind turns them into a map, with about 70 bytes for each.
#[derive(Clone, Default)]
pub struct DirEntries(Option<Box<Store>>);

#[derive(Clone)]
enum Store {
    Row(Row),
    Map(BTreeMap<Box<[u8]>, Ino>),
}

/// Names one behind the other, each with its end and its inode.
#[derive(Clone, Default)]
struct Row {
    names: Vec<u8>,
    ends: Vec<(u32, Ino)>,
}

impl Row {
    fn name(&self, at: usize) -> &[u8] {
        let start = if at == 0 { 0 } else { self.ends[at - 1].0 };
        &self.names[start as usize..self.ends[at].0 as usize]
    }

    fn find(&self, name: &[u8]) -> Result<usize, usize> {
        let (mut low, mut high) = (0, self.ends.len());
        while low < high {
            let middle = low.midpoint(high);
            match self.name(middle).cmp(name) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => return Ok(middle),
            }
        }
        Err(low)
    }

    /// Appends a name behind all others; returns false if there is no room.
    fn push(&mut self, name: &[u8], ino: Ino) -> bool {
        let Ok(end) = u32::try_from(self.names.len() + name.len()) else { return false };
        // Most directories never change after their scan, so room for growth is kept small.
        if self.ends.len() == self.ends.capacity() {
            self.ends.reserve_exact(self.ends.len() / 4 + 4);
        }
        if self.names.capacity() - self.names.len() < name.len() {
            self.names.reserve_exact(name.len().max(self.names.len() / 4 + 64));
        }
        self.names.extend_from_slice(name);
        self.ends.push((end, ino));
        true
    }
}

impl DirEntries {
    /// Returns the inode with a name.
    pub fn get(&self, name: &[u8]) -> Option<Ino> {
        match &**self.0.as_ref()? {
            Store::Row(row) => row.find(name).ok().map(|at| row.ends[at].1),
            Store::Map(map) => map.get(name).copied(),
        }
    }

    /// Gives an inode a name; returns the one that had it.
    pub fn insert(&mut self, name: &[u8], ino: Ino) -> Option<Ino> {
        let store = self.0.get_or_insert_with(|| Box::new(Store::Row(Row::default())));
        if let Store::Row(row) = &mut **store {
            let at = match row.ends.len().checked_sub(1) {
                Some(last) if row.name(last) >= name => row.find(name),
                _ => Err(row.ends.len()),
            };
            match at {
                Ok(at) => return Some(std::mem::replace(&mut row.ends[at].1, ino)),
                Err(at) if at == row.ends.len() && row.push(name, ino) => return None,
                Err(_) => {}
            }
        }
        store.as_map().insert(name.into(), ino)
    }

    /// Removes a name; returns the inode that had it.
    pub fn remove(&mut self, name: &[u8]) -> Option<Ino> {
        let store = self.0.as_mut()?;
        if let Store::Row(row) = &**store {
            row.find(name).ok()?;
        }
        store.as_map().remove(name)
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        match self.0.as_deref() {
            None => 0,
            Some(Store::Row(row)) => row.ends.len(),
            Some(Store::Map(map)) => map.len(),
        }
    }

    /// Returns true if there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns all names with their inodes, in byte order.
    pub fn iter(&self) -> Iter<'_> {
        Iter(match self.0.as_deref() {
            None => Walk::None,
            Some(Store::Row(row)) => Walk::Row(row, 0),
            Some(Store::Map(map)) => Walk::Map(map.iter()),
        })
    }
}

impl Store {
    fn as_map(&mut self) -> &mut BTreeMap<Box<[u8]>, Ino> {
        if let Store::Row(row) = self {
            let named = |at| (row.name(at).into(), row.ends[at].1);
            *self = Store::Map((0..row.ends.len()).map(named).collect());
        }
        match self {
            Store::Map(map) => map,
            Store::Row(_) => unreachable!("made a map above"),
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
    type IntoIter = Iter<'e>;

    fn into_iter(self) -> Iter<'e> {
        self.iter()
    }
}

/// Entries of a directory with their names, in byte order.
#[derive(Clone)]
pub struct Iter<'e>(Walk<'e>);

#[derive(Clone)]
enum Walk<'e> {
    None,
    Row(&'e Row, usize),
    Map(btree_map::Iter<'e, Box<[u8]>, Ino>),
}

impl fmt::Debug for Iter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.clone().map(|(name, _)| name.escape_ascii().to_string())).finish()
    }
}

impl<'e> Iterator for Iter<'e> {
    type Item = (&'e [u8], Ino);

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            Walk::None => None,
            Walk::Row(row, at) => {
                let (_, ino) = row.ends.get(*at)?;
                *at += 1;
                Some((row.name(*at - 1), *ino))
            }
            Walk::Map(map) => map.next().map(|(name, ino)| (&**name, *ino)),
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
                let (name, ino) = (name.into_bytes(), Ino(ino));
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
    fn names_in_order_take_little_memory() {
        let mut entries = DirEntries::default();
        for n in 0..10_000 {
            entries.insert(format!("{n:08}").as_bytes(), Ino(n));
        }
        let Some(Store::Row(row)) = entries.0.as_deref() else { panic!("a map") };
        assert!(row.names.capacity() + 8 * row.ends.capacity() < 10_000 * 20);
        assert_eq!(size_of::<DirEntries>(), 8);
    }
}
