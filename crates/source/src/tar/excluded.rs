//! Members that are left out, for hard links to them: only the first name of a file comes with its data, and the others may be
//! wanted.

use std::collections::HashMap;

use crate::archive::input::ArchiveInput;
use crate::archive::{ArchiveMember, MemberKind};
use crate::tree::{FileData, Ino, Tree, normal_path};
use crate::{Result, Store};

/// Members of an archive that are left out. All paths are clean.
#[derive(Default)]
pub(super) struct ExcludedMembers {
    /// Files by the name that has the data; `None` if that is gone with the stream that it came from.
    files: HashMap<Vec<u8>, Option<ExcludedFile>>,
    /// Hard links that are left out, and the names that they lead to.
    links: HashMap<Vec<u8>, Vec<u8>>,
}

/// A file of which a name is left out.
pub(super) struct ExcludedFile {
    pub(super) member: ArchiveMember,
    pub(super) data: FileData,
    /// The file in the tree, once another name is there.
    pub(super) ino: Option<Ino>,
}

impl ExcludedFile {
    /// Returns the file in the tree, unless it has lost its last name there.
    pub(super) fn ino_in(&self, tree: &Tree) -> Option<Ino> {
        self.ino.filter(|ino| !tree.is_gone(*ino))
    }
}

impl ExcludedMembers {
    /// Adds a member that is left out. Data in a stream is not kept: most of it is not wanted, and would have to be stored.
    pub(super) fn add(
        &mut self,
        path: Vec<u8>,
        member: ArchiveMember,
        input: &mut dyn ArchiveInput,
        store: &mut dyn Store,
    ) -> Result<()> {
        let data = match &member.kind {
            MemberKind::Dir => return Ok(()),
            MemberKind::HardLink(target) => {
                let first = self.first_name(&normal_path(target)).to_vec();
                if first != path {
                    self.links.insert(path, first);
                }
                return Ok(());
            }
            MemberKind::File(file) if file.size > 0 && !input.keeps_in_place() => None,
            MemberKind::File(file) if file.size > 0 => Some(input.keep(file.clone(), store)?),
            _ => Some(FileData::Empty),
        };
        // The later one of two members of a path counts.
        self.links.remove(&path);
        self.files.insert(path, data.map(|data| ExcludedFile { member, data, ino: None }));
        Ok(())
    }

    /// Returns the name that a link leads to, through those that are left out.
    pub(super) fn first_name<'n>(&'n self, target: &'n [u8]) -> &'n [u8] {
        let mut name = target;
        // No circles: each link was added with the last name of such a row, which was another one.
        while let Some(next) = self.links.get(name) {
            name = next;
        }
        name
    }

    /// Returns the file with this name, if it is left out.
    pub(super) fn find(&mut self, name: &[u8]) -> Option<&mut Option<ExcludedFile>> {
        self.files.get_mut(name)
    }
}
