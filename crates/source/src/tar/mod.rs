//! Tar archives as a source: v7, ustar, GNU and pax.
//!
//! - `format`, `header`, `pax`, `acl`, `sparse`: check blocks and records.
//! - `members`: reads one member after the other, which `archive` adds to a tree.
//! - `excluded`: remembers those that are left out.

use self::excluded::ExcludedMembers;
use self::members::MemberReader;
pub(super) use self::members::STRUCTURE;
use super::archive::input::ArchiveInput;
use super::archive::place::{clean, place, place_link};
use super::archive::seekable::SeekableInput;
use super::archive::{ArchiveMember, MemberKind, Options};
use super::{Source, Store};
use crate::tree::{FileData, Tree, path_of};
use crate::{Error, Result, Warning, WarningKind};

mod acl;
mod excluded;
pub mod format;
mod header;
mod members;
mod pax;
mod sparse;
#[cfg(test)]
pub(crate) mod tests;

/// Returns the name of the member whose first header is next.
pub(super) fn name_of(input: SeekableInput) -> Option<Vec<u8>> {
    MemberReader::new(input).next().ok().flatten().map(|member| member.path)
}

/// Returns true if `head` begins with the header of a member, even a damaged one.
pub(super) fn is_header(head: &[u8]) -> bool {
    header::has_magic(head) || head.first_chunk().is_some_and(|block| header::check(block, 0).is_ok())
}

/// An archive.
pub(super) struct TarSource<I> {
    members: Option<MemberReader<I>>,
    options: Options,
    excluded: ExcludedMembers,
    /// Hard links whose files are not there.
    left_out: Vec<Error>,
}

impl<I: ArchiveInput> TarSource<I> {
    pub(super) fn new(input: I, options: Options) -> Self {
        let members = Some(MemberReader::new(input));
        TarSource { members, options, excluded: ExcludedMembers::default(), left_out: Vec::new() }
    }

    /// Adds a hard link; the first one to a file that was left out is the file.
    fn add_link(&mut self, tree: &mut Tree, path: &[u8], link: &ArchiveMember, target: &[u8]) -> Result<()> {
        let target = clean(target, STRUCTURE, link.at)?;
        let first = self.excluded.first_name(&target).to_vec();
        let why = match self.excluded.find(&first) {
            Some(Some(file)) => match file.ino_in(tree) {
                Some(ino) => return place_link(tree, path, ino, link),
                None => {
                    file.ino = Some(place(tree, path, file.member.clone(), file.data.clone(), &self.options)?);
                    return Ok(());
                }
            },
            Some(None) => "which is left out: to keep it, give the archive as an uncompressed file",
            None => match tree.link_target(&first)? {
                Some(ino) => return place_link(tree, path, ino, link),
                None => "which no earlier member is",
            },
        };
        let target = target.escape_ascii();
        let why = format!("a hard link to `{target}`, {why}");
        self.left_out.push(Error::Damaged { path: path_of(path), why });
        Ok(())
    }
}

impl<I: ArchiveInput> Source for TarSource<I> {
    fn scan(&mut self, tree: &mut Tree, store: &mut dyn Store) -> Result<()> {
        let taken = self.members.take();
        let mut members = taken.ok_or_else(|| Error::Misuse("an archive can be listed only once".into()))?;
        while let Some(member) = members.next()? {
            if member.path.is_empty() {
                let name = members.input.name().to_owned();
                tree.warnings
                    .add(Warning::new(WarningKind::MemberWithoutName, name).with_detail(at_byte(member.at)))?;
                continue;
            }
            let path = clean(&member.path, STRUCTURE, member.at)?;
            if self.options.exclude.covers(&path, matches!(member.kind, MemberKind::Dir)) {
                self.excluded.add(path, member, &mut members.input, store)?;
                continue;
            }
            let data = match &member.kind {
                MemberKind::HardLink(target) => {
                    self.add_link(tree, &path, &member, target)?;
                    continue;
                }
                MemberKind::File(file) if file.size > 0 => members.input.keep(file.clone(), store)?,
                _ => FileData::Empty,
            };
            place(tree, &path, member, data, &self.options)?;
        }
        for (kind, at) in members.noted {
            tree.warnings.add(Warning::new(kind, members.input.name()).with_detail(at_byte(at)))?;
        }
        if self.options.refer {
            tree.devices.extend(members.input.device()?);
        }
        members.input.finish()
    }

    fn left_out(&self) -> &[Error] {
        &self.left_out
    }
}

fn at_byte(at: u64) -> String {
    format!("at byte {at}")
}
