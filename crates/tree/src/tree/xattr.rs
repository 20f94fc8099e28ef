//! Extended attributes; each distinct set is stored once, however many inodes have it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use globset::{Candidate, GlobBuilder, GlobSet, GlobSetBuilder};

use super::acl;
use crate::{Error, Result};

/// One set: full name (`user.mime_type`) and value, sorted by name, names unique.
pub type XattrSet = Vec<(Box<[u8]>, Box<[u8]>)>;

/// Id of the set of an inode. [`XattrId::NONE`] is the empty set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct XattrId(pub u32);

impl XattrId {
    /// No extended attributes.
    pub const NONE: XattrId = XattrId(0);
}

/// A set from which attributes were left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReducedSet {
    /// The set that is left.
    pub id: XattrId,
    /// Mode bits that inodes with the set may keep: not all of them if it lost an ACL.
    pub mode_bits: u16,
}

/// All sets of a tree. The list and the map share each set, so that it is in memory once: with signatures (IMA), every
/// file has a set of its own.
#[derive(Debug)]
pub struct TreeXattrs {
    sets: Vec<Arc<XattrSet>>,
    ids: HashMap<Arc<XattrSet>, XattrId>,
}

impl Default for TreeXattrs {
    fn default() -> Self {
        TreeXattrs { sets: vec![Arc::default()], ids: HashMap::new() }
    }
}

impl TreeXattrs {
    /// Returns the id of a set; sorts it, and of two values for one name keeps the last.
    pub fn intern(&mut self, set: XattrSet) -> XattrId {
        let mut by_name = BTreeMap::new();
        by_name.extend(set);
        if by_name.is_empty() {
            return XattrId::NONE;
        }
        let set: XattrSet = by_name.into_iter().collect();
        if let Some(id) = self.ids.get(&set) {
            return *id;
        }
        let id = XattrId(u32::try_from(self.sets.len()).expect("fewer sets than inodes"));
        let set = Arc::new(set);
        self.sets.push(Arc::clone(&set));
        self.ids.insert(set, id);
        id
    }

    /// Returns the set with an id.
    pub fn get(&self, id: XattrId) -> &XattrSet {
        &self.sets[id.0 as usize]
    }

    /// Returns all sets in the order of their ids, the empty one first.
    pub fn sets(&self) -> impl Iterator<Item = &XattrSet> {
        self.sets.iter().map(|set| &**set)
    }

    /// Returns the number of different sets, including the empty one.
    pub fn len(&self) -> usize {
        self.sets.len()
    }

    /// Returns true if no inode has extended attributes.
    pub fn is_empty(&self) -> bool {
        self.sets.len() == 1
    }

    /// Removes the attributes whose names `is_excluded` accepts. Returns the new set of each old one.
    pub fn exclude(&mut self, is_excluded: impl Fn(&[u8]) -> bool) -> Vec<ReducedSet> {
        let before = std::mem::take(self);
        // The list is then the only owner of the sets, and each is freed once it is reduced.
        drop(before.ids);
        let reduce = |set: Arc<XattrSet>| {
            let kept: XattrSet = set.iter().filter(|(name, _)| !is_excluded(name)).cloned().collect();
            let mode_bits = acl::kept_mode_bits(&set, &kept);
            ReducedSet { id: self.intern(kept), mode_bits }
        };
        before.sets.into_iter().map(reduce).collect()
    }
}

/// Attributes to leave out: glob patterns over whole names, `system.posix_acl_*`.
#[derive(Debug, Clone, Default)]
pub struct ExcludeXattrs(GlobSet);

impl ExcludeXattrs {
    /// Compiles patterns; a malformed one fails with [`Error::BadPattern`].
    pub fn new<P: AsRef<str>>(patterns: impl IntoIterator<Item = P>) -> Result<Self> {
        let mut set = GlobSetBuilder::new();
        for pattern in patterns {
            let pattern = pattern.as_ref();
            let glob = GlobBuilder::new(pattern).backslash_escape(true).build();
            set.add(glob.map_err(|e| Error::pattern(pattern, format!("is malformed: {}", e.kind())))?);
        }
        let set = set.build();
        set.map(ExcludeXattrs).map_err(|_| Error::pattern("", "is too large"))
    }

    /// Returns true if there are no patterns.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if the attribute of this name is left out.
    pub fn matches(&self, name: &[u8]) -> bool {
        self.0.is_match_candidate(&Candidate::from_bytes(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(names: &[&str]) -> XattrSet {
        names.iter().map(|name| (name.as_bytes().into(), b"v"[..].into())).collect()
    }

    #[test]
    fn a_set_is_in_memory_once() {
        let mut xattrs = TreeXattrs::default();
        let ids = [xattrs.intern(set(&["user.a"])), xattrs.intern(set(&["user.b"])), xattrs.intern(set(&["user.a"]))];
        assert_eq!(ids, [XattrId(1), XattrId(2), XattrId(1)]);
        let known = xattrs.ids.keys().find(|known| ***known == set(&["user.b"])).unwrap();
        assert!(Arc::ptr_eq(known, &xattrs.sets[2]));
        let becomes = xattrs.exclude(|name| name == b"user.a").into_iter().map(|reduced| reduced.id);
        assert_eq!(becomes.collect::<Vec<_>>(), [XattrId::NONE, XattrId::NONE, XattrId(1)]);
        assert_eq!(*xattrs.get(XattrId(1)), set(&["user.b"]));
    }

    #[test]
    fn patterns_match_whole_names() {
        let table = [
            ("user.*", "user.a.b", true),
            ("user.*", "trusted.user.a", false),
            ("system.posix_acl_*", "system.posix_acl_default", true),
            ("*.overlay.*", "trusted.overlay.opaque", true),
            ("user.a", "user.ab", false),
            ("user.{a,b}", "user.b", true),
            ("user.*", "user.a/b", true),
        ];
        for (pattern, name, expected) in table {
            assert_eq!(
                ExcludeXattrs::new([pattern]).unwrap().matches(name.as_bytes()),
                expected,
                "{pattern} on {name}"
            );
        }
        assert!(ExcludeXattrs::new(["user.["]).unwrap_err().to_string().contains("`user.[`"));
        assert!(ExcludeXattrs::default().is_empty() && !ExcludeXattrs::default().matches(b"user.a"));
    }

    #[test]
    fn sets_that_become_equal_are_merged() {
        let mut xattrs = TreeXattrs::default();
        let sets = [&["user.a"][..], &["user.a", "security.x"], &["security.x"]];
        let ids = sets.map(|names| xattrs.intern(set(names)));
        let becomes = xattrs.exclude(|name| name.starts_with(b"security."));
        let now = ids.map(|id| becomes[id.0 as usize].id);
        assert_eq!((now[0] == now[1], now[2]), (true, XattrId::NONE));
        assert_eq!((xattrs.get(now[0]), xattrs.len()), (&set(&["user.a"]), 2));
    }
}
