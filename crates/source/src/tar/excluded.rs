//! Members that are left out, for hard links to them: only the first name of a file comes with its data, and the others may be
//! wanted.

use std::collections::HashMap;

use crate::archive::input::ArchiveInput;
use crate::archive::{ArchiveMember, MemberKind};
use crate::tree::{FileData, normal_path};
use crate::{Result, Store};

/// Members of an archive that are left out. All paths are clean.
#[derive(Default)]
pub(super) struct ExcludedMembers {
    /// Files of which all names so far are left out, by the first one.
    files: HashMap<Vec<u8>, WithheldFile>,
    /// Other names of the same files: an earlier one that is left out, or one in the tree.
    names: HashMap<Vec<u8>, Vec<u8>>,
}

/// A file that is not in the tree.
pub(super) struct WithheldFile {
    pub(super) member: ArchiveMember,
    /// Place of its data; `None` if the data is gone with the stream that it came from.
    pub(super) data: Option<FileData>,
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
                let known = self.known_name(&normal_path(target));
                if known != path {
                    self.names.insert(path, known);
                }
                return Ok(());
            }
            MemberKind::File(file) if file.size > 0 && !input.keeps_in_place() => None,
            MemberKind::File(file) if file.size > 0 => Some(input.keep(file.clone(), store)?),
            _ => Some(FileData::Empty),
        };
        // The later one of two members of a path counts.
        self.names.remove(&path);
        self.files.insert(path, WithheldFile { member, data });
        Ok(())
    }

    /// Returns the name under which the target of a link is known: in the tree, or else that of a [withheld
    /// file](ExcludedMembers::give_name).
    pub(super) fn known_name(&self, target: &[u8]) -> Vec<u8> {
        let mut name = target;
        // No circles: a name is added with the last of such a row, and never with itself.
        while let Some(next) = self.names.get(name) {
            name = next;
        }
        name.to_vec()
    }

    /// Returns the file whose first name is `known`, if it is withheld, and notes that it is at `path` in the tree from now
    /// on.
    pub(super) fn give_name(&mut self, known: &[u8], path: &[u8]) -> Option<WithheldFile> {
        let file = self.files.remove(known)?;
        self.names.insert(known.to_vec(), path.to_vec());
        Some(file)
    }
}
