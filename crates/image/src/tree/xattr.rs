//! Extended attributes, each set held once however many inodes have it.

use std::collections::HashMap;

/// One set: full name (`user.mime_type`) and value, sorted by name, names unique.
pub type XattrSet = Vec<(Box<[u8]>, Box<[u8]>)>;

/// Which set an inode has. [`XattrId::NONE`] is the empty set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct XattrId(pub u32);

impl XattrId {
    /// No extended attributes.
    pub const NONE: XattrId = XattrId(0);
}

/// All sets of a tree.
#[derive(Debug)]
pub struct Xattrs {
    sets: Vec<XattrSet>,
    ids: HashMap<XattrSet, XattrId>,
}

impl Default for Xattrs {
    fn default() -> Self {
        Xattrs { sets: vec![XattrSet::new()], ids: HashMap::new() }
    }
}

impl Xattrs {
    /// The id of a set; sorts it, and of two values for one name keeps the last.
    pub fn intern(&mut self, set: XattrSet) -> XattrId {
        let mut by_name = std::collections::BTreeMap::new();
        by_name.extend(set);
        if by_name.is_empty() {
            return XattrId::NONE;
        }
        let set: XattrSet = by_name.into_iter().collect();
        if let Some(id) = self.ids.get(&set) {
            return *id;
        }
        let id = XattrId(u32::try_from(self.sets.len()).expect("fewer sets than inodes"));
        self.sets.push(set.clone());
        self.ids.insert(set, id);
        id
    }

    /// The set behind an id.
    pub fn get(&self, id: XattrId) -> &XattrSet {
        &self.sets[id.0 as usize]
    }

    /// Number of different sets, the empty one included.
    pub fn len(&self) -> usize {
        self.sets.len()
    }

    /// Whether no inode has extended attributes.
    pub fn is_empty(&self) -> bool {
        self.sets.len() == 1
    }
}
