//! Tar archives as a source: v7, ustar, GNU and pax.
//!
//! - `format`, `header`, `pax`, `acl`, `sparse`: check blocks and records.
//! - `members`: reads one member after the other, which `archive` adds to a tree.

use self::members::MemberReader;
pub(super) use self::members::STRUCTURE;
use super::archive::input::ArchiveInput;
use super::archive::place::{clean, place};
use super::archive::seekable::SeekableInput;
use super::archive::{MemberKind, Options};
use super::{Source, Store};
use crate::tree::{FileData, Tree};
use crate::{Error, Result, Warning, WarningKind};

mod acl;
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
}

impl<I: ArchiveInput> TarSource<I> {
    pub(super) fn new(input: I, options: Options) -> Self {
        TarSource { members: Some(MemberReader::new(input)), options }
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
                continue;
            }
            let data = match &member.kind {
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
}

fn at_byte(at: u64) -> String {
    format!("at byte {at}")
}
