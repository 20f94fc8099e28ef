//! Cpio archives as a source: new ASCII (`newc`, with or without checksums) and portable ASCII (`odc`), and several of
//! them in a row, as in an initramfs: some plain ones, then compressed ones.

mod header;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use self::header::{CpioHeader, HeaderForm, MAGIC_LEN};
use super::archive::input::{ArchiveInput, StoredMember, truncated};
use super::archive::place::{clean, place};
use super::archive::seekable::SeekableInput;
use super::archive::stream::StreamInput;
use super::archive::{ArchiveMember, MAX_PATH, MemberKind, Options};
use super::decompress;
use super::stream_formats::{STREAM_MAGIC_LEN, StreamCodec};
use super::{Source, Store};
use crate::tree::{ConflictPolicy, FileData, Ino, InodeAttributes, Kind, Time, Tree, XattrSet};
use crate::{Error, Result, Warning, WarningKind};

/// Name of members in messages.
pub(super) const STRUCTURE: &str = "cpio member";
/// Permission bits in a mode, and bits of the type.
const PERMISSIONS: u32 = 0o7777;
const TYPE: u32 = 0o170_000;
/// Greatest number of compressed archives inside each other.
const MAX_NESTED: usize = 16;

/// An archive, with all that follows it.
pub(super) struct CpioSource<I> {
    input: Option<I>,
    options: Options,
}

impl<I: ArchiveInput> CpioSource<I> {
    pub(super) fn new(input: I, options: Options) -> Self {
        CpioSource { input: Some(input), options }
    }
}

/// Returns true if `head` begins with a header.
pub(super) fn is_header(head: &[u8]) -> bool {
    HeaderForm::of(head).is_some()
}

/// Returns the name of the member whose header is next.
pub(super) fn name_of(mut input: SeekableInput) -> Option<Vec<u8>> {
    let mut magic = [0; MAGIC_LEN];
    let at = input.offset();
    // The position is that of the header, which its name follows.
    input.read(&mut magic).ok()?;
    CpioHeader::read(&mut input, HeaderForm::of(&magic)?, at).ok().map(|header| header.name)
}

impl<I: ArchiveInput> Source for CpioSource<I> {
    fn scan(&mut self, tree: &mut Tree, store: &mut dyn Store) -> Result<()> {
        let input = self.input.take().ok_or_else(|| Error::Misuse("an archive can be listed only once".into()))?;
        let mut scan =
            CpioScan { tree, store, options: &self.options, links: HashMap::new(), nameless: HashMap::new() };
        let mut rest = scan.read_archives(input)?;
        // In a loop, not by recursion: the depth comes from the file.
        for _ in 0..MAX_NESTED {
            match rest {
                None => return Ok(()),
                Some(compressed) => rest = scan.read_archives(compressed)?,
            }
        }
        Err(Error::Unsupported(format!("cpio: more than {MAX_NESTED} compressed archives inside each other")))
    }
}

/// Identity of a file with several names: device and inode number, and the type.
type FileIdentity = ((u32, u32, u32), u32);

struct CpioScan<'s> {
    tree: &'s mut Tree,
    store: &'s mut dyn Store,
    options: &'s Options,
    /// Files with several names in the current archive.
    links: HashMap<FileIdentity, Ino>,
    /// Those of which all names so far are left out.
    nameless: HashMap<FileIdentity, NamelessFile>,
}

/// A file with several names, of which all so far are left out.
#[derive(Default)]
struct NamelessFile {
    names: u32,
    /// Size and place of its data, if a name came with it.
    data: Option<(u64, FileData)>,
}

impl CpioScan<'_> {
    /// Reads one archive after the other. Returns what follows if it is compressed.
    fn read_archives<I: ArchiveInput>(&mut self, mut input: I) -> Result<Option<StreamInput>> {
        let mut begun = false;
        let mut ended = false;
        loop {
            // Zeros are padding only between archives; within one they are damage.
            let (at, head) = self.read_magic(&mut input, ended)?;
            match HeaderForm::of(&head) {
                Some(form) => {
                    (begun, ended) = (true, !self.read_member(&mut input, form, at)?);
                    if ended {
                        // Numbers of inodes begin anew in each archive.
                        self.links.clear();
                        self.nameless.clear();
                    }
                }
                None if !begun => return Err(Error::corrupt("cpio header", at, "its magic number is wrong")),
                None if head.is_empty() && ended => break,
                None if head.is_empty() => return Err(truncated("cpio header", at, 0, MAGIC_LEN as u64)),
                None if !ended => {
                    // An archive without a trailer was cut off.
                    let why = format!("its magic number is `{}`", head.escape_ascii());
                    return Err(Error::corrupt("cpio header", at, why));
                }
                None => return self.read_rest(input, head, at),
            }
        }
        input.finish()?;
        Ok(None)
    }

    /// Reads the magic of a header, and its position; between archives there may be zeros in front.
    fn read_magic(&self, input: &mut dyn ArchiveInput, zeros: bool) -> Result<(u64, Vec<u8>)> {
        // Byte by byte, as the next header may begin anywhere after zeros.
        let mut head = vec![0; 1];
        loop {
            let at = input.offset();
            if input.read(&mut head)? == 0 {
                return Ok((at, Vec::new()));
            }
            if head[0] != 0 || !zeros {
                head.resize(MAGIC_LEN, 0);
                let got = input.read(&mut head[1..])?;
                head.truncate(1 + got);
                return Ok((at, head));
            }
        }
    }

    /// Returns what follows the archives if it is compressed. Anything else is not part of them.
    fn read_rest<I: ArchiveInput>(&mut self, mut input: I, mut head: Vec<u8>, at: u64) -> Result<Option<StreamInput>> {
        let begun = head.len();
        // More bytes, since compression is recognised by more than cpio is.
        head.resize(STREAM_MAGIC_LEN, 0);
        let got = input.read(&mut head[begun..])?;
        head.truncate(begun + got);
        let name = input.name().to_owned();
        if StreamCodec::of_stream(&head, &name)?.is_some() {
            let rest = input.rest(head)?;
            let bytes = decompress::reader(rest, &name)?;
            return Ok(Some(StreamInput::new(bytes, name, STRUCTURE, None)));
        }
        let warning = Warning::new(WarningKind::BytesAfterArchive, name).with_detail(format!("at byte {at}"));
        self.tree.warnings.add(warning)?;
        // Read to the end: a program that writes into a pipe expects everything to be read.
        input.skip_to(u64::MAX)?;
        input.finish()?;
        Ok(None)
    }

    /// Reads the member at `at`, whose magic was read already. Returns `false` if it ends the archive.
    fn read_member(&mut self, input: &mut dyn ArchiveInput, form: HeaderForm, at: u64) -> Result<bool> {
        let header = CpioHeader::read(input, form, at)?;
        let begin = input.offset();
        // The system's offsets are signed.
        let end = begin.checked_add(header.size).filter(|end| *end <= super::archive::MAX_SIZE);
        let end = end.ok_or_else(|| {
            Error::corrupt("cpio header", at, format!("the size of {} bytes is too large", header.size))
        })?;
        let end = header.padded(end);
        if header.is_trailer() {
            // The trailer may have data, which nobody wants.
            input.skip_to(end)?;
            return Ok(false);
        }
        // Members without names cannot be placed, but what follows is sound.
        let path = match header.name.is_empty() {
            true => {
                let warning = Warning::new(WarningKind::MemberWithoutName, input.name().to_owned());
                self.tree.warnings.add(warning.with_detail(format!("at byte {at}")))?;
                None
            }
            false => Some(clean(&header.name, STRUCTURE, at)?),
        };
        if let Some(path) = path {
            self.add_member(input, &header, &path)?;
        }
        match input.skip_to(end)? {
            true => Ok(true),
            false => Err(truncated(STRUCTURE, at, input.offset() - at, end - at)),
        }
    }

    fn add_member(&mut self, input: &mut dyn ArchiveInput, header: &CpioHeader, path: &[u8]) -> Result<()> {
        let mut kind = self.read_kind(input, header)?;
        let is_dir = matches!(kind, MemberKind::Dir);
        // The type, too: some writers reuse numbers for different files.
        let id = (header.id, header.mode & TYPE);
        // A later member may have replaced all names so far: then this one is another file.
        let is_known = |first: &Ino| header.nlink > 1 && !is_dir && !self.tree.is_gone(*first);
        let known = self.links.get(&id).copied().filter(is_known);
        let excluded = self.options.exclude.covers(path, is_dir);
        if excluded && known.is_none() {
            return match kind {
                MemberKind::File(file) if header.nlink > 1 => self.leave_out(input, header, file, id),
                _ => Ok(()),
            };
        }
        // Only one name has the data, usually the last.
        let has_data = known.is_some_and(|first| matches!(self.tree.inode(first).kind, Kind::File { size: 1.., .. }));
        let data = match &mut kind {
            // A second name with data again, as some writers do, has the same.
            MemberKind::File(file) if file.size > 0 && !has_data => Some(input.keep(file.clone(), self.store)?),
            // An earlier name was left out, but had the data.
            MemberKind::File(file) if known.is_none() && header.nlink > 1 => {
                let found = self.nameless.remove(&id).and_then(|nameless| nameless.data);
                found.map(|(size, data)| {
                    file.size = size;
                    data
                })
            }
            _ => None,
        };
        if let Some(first) = known {
            let name = (!excluded).then_some(path);
            return self.add_name(first, header, data, name);
        }
        let member = describe(header, kind);
        let ino = place(self.tree, path, member, data.unwrap_or(FileData::Empty), self.options)?;
        // Directories have several links by their nature.
        if header.nlink > 1 && !is_dir {
            self.links.insert(id, ino);
        }
        Ok(())
    }

    /// Adds another name to the file `first`, unless it is left out, and the data that came with the name.
    fn add_name(&mut self, first: Ino, header: &CpioHeader, data: Option<FileData>, name: Option<&[u8]>) -> Result<()> {
        if let (Some(data), Kind::File { .. }) = (data, self.tree.inode(first).kind) {
            self.tree.set_file(first, header.size, data)?;
        }
        // The root has no further names.
        if let Some(path) = name
            && let Some((dir, name)) = self.tree.parent_of(path, InodeAttributes::IMPLICIT_DIR)?
        {
            self.tree.link(dir, name, first, ConflictPolicy::Replace)?;
        }
        Ok(())
    }

    /// Keeps the data of a file for names that are still to come, although this one is left out.
    fn leave_out(
        &mut self,
        input: &mut dyn ArchiveInput,
        header: &CpioHeader,
        file: StoredMember,
        id: FileIdentity,
    ) -> Result<()> {
        let nameless = self.nameless.entry(id).or_default();
        // As many names as there are links: after the last nobody needs the data.
        nameless.names += 1;
        // Most writers give the data to the last name: a stream's would be stored for nothing.
        if file.size > 0 && nameless.data.is_none() && nameless.names < header.nlink {
            nameless.data = Some((file.size, input.keep(file, self.store)?));
        }
        Ok(())
    }

    /// Returns the type of a member, with the target of a symbolic link, which is its data.
    fn read_kind(&self, input: &mut dyn ArchiveInput, header: &CpioHeader) -> Result<MemberKind> {
        let CpioHeader { size, device, at, sum, .. } = *header;
        Ok(match header.mode & TYPE {
            0o100_000 => MemberKind::File(StoredMember { size, len: size, map: None, header: at, sum }),
            0o040_000 => MemberKind::Dir,
            0o120_000 => MemberKind::Symlink(read_link_target(input, header)?),
            0o020_000 => MemberKind::Char(device),
            0o060_000 => MemberKind::Block(device),
            0o010_000 => MemberKind::Fifo,
            0o140_000 => MemberKind::Socket,
            other => return Err(Error::corrupt(STRUCTURE, at, format!("its type {other:o} is not known"))),
        })
    }
}

/// Returns the member that a header describes, which gets its path when it is added.
fn describe(header: &CpioHeader, kind: MemberKind) -> ArchiveMember {
    ArchiveMember {
        path: Vec::new(),
        kind,
        mode: u16::try_from(header.mode & PERMISSIONS).unwrap_or_default(),
        uid: header.uid,
        gid: header.gid,
        // Times before 1970 do not exist in cpio.
        mtime: Time { secs: i64::try_from(header.mtime).unwrap_or(i64::MAX), nanos: 0 },
        xattrs: XattrSet::new(),
        lost: Vec::new(),
        of: STRUCTURE,
        at: header.at,
    }
}

/// Reads the target of a symbolic link. Its checksum is not compared: GNU cpio writes 0, and Linux looks only at those
/// of files.
fn read_link_target(input: &mut dyn ArchiveInput, header: &CpioHeader) -> Result<Vec<u8>> {
    let len = usize::try_from(header.size).ok().filter(|len| *len <= MAX_PATH);
    let why = || format!("a symbolic link of {} bytes: more than {MAX_PATH}", header.size);
    let len = len.ok_or_else(|| Error::corrupt(STRUCTURE, header.at, why()))?;
    let mut target = vec![0; len];
    let got = input.read(&mut target)?;
    if got < len {
        return Err(truncated(STRUCTURE, header.at, got as u64, header.size));
    }
    // Some writers count the NUL at the end.
    target.truncate(target.iter().position(|byte| *byte == 0).unwrap_or(len));
    Ok(target)
}
