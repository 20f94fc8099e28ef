//! The members of an archive, one after the other, with all extended headers applied.

use zerocopy::IntoBytes;

use packfs_blocks::units::beyond;

use super::acl::{self, KnownAccounts};
use super::format::{BLOCK, TarHeader, flag, padded};
use super::header::{self, field, text};
use super::pax::PaxRecords;
use super::sparse;
use crate::archive::input::{ArchiveInput, StoredMember, truncated};
use crate::archive::{ArchiveMember, MAX_SIZE, MemberKind};
use crate::tree::acl::{access_list, defect, mode_limit};
use crate::tree::{DeviceNumber, Time, XattrSet};
use crate::{Error, Result, WarningKind};

/// Maximum number of bytes in the extended headers of one member, or in one global header.
const MAX_EXTENDED: u64 = 8 << 20;

/// Name of members in messages.
pub(crate) const STRUCTURE: &str = "tar member";

/// Reads members from `input`, which is positioned at a member's data after each.
pub(super) struct MemberReader<I> {
    pub(super) input: I,
    globals: PaxRecords,
    accounts: KnownAccounts,
    /// Offset of the header read last, and of the header after its data.
    last: u64,
    next: u64,
    /// Number of zero blocks since the last header: they end an archive.
    zeros: u64,
    /// True once a member was found.
    begun: bool,
    /// Warnings about the archive as a whole, each with an offset.
    pub(super) noted: Vec<(WarningKind, u64)>,
}

/// Extended headers before a member's own header.
#[derive(Default)]
struct ExtendedHeaders {
    /// Records of the last pax header, and its place. Of several, GNU tar, bsdtar and Go take the last, too.
    pax: Option<(Vec<u8>, u64)>,
    name: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    bytes: u64,
    first: Option<u64>,
}

impl<I: ArchiveInput> MemberReader<I> {
    pub(super) fn new(input: I) -> Self {
        let at = input.offset();
        MemberReader {
            input,
            globals: PaxRecords::default(),
            accounts: KnownAccounts::default(),
            last: at,
            next: at,
            zeros: 0,
            begun: false,
            noted: Vec::new(),
        }
    }

    /// Returns the next member; `None` at the end of the archive.
    pub(super) fn next(&mut self) -> Result<Option<ArchiveMember>> {
        let mut extended = ExtendedHeaders::default();
        while let Some((header, at)) = self.read_header()? {
            match header.typeflag {
                flag::PAX | flag::SOLARIS_PAX => {
                    let records = self.read_extended(&header, at, &mut extended)?;
                    extended.pax = Some((records, at));
                }
                flag::GNU_LONG_NAME => {
                    extended.name = Some(text(&self.read_extended(&header, at, &mut extended)?).to_vec())
                }
                flag::GNU_LONG_LINK => {
                    extended.link = Some(text(&self.read_extended(&header, at, &mut extended)?).to_vec())
                }
                flag::PAX_GLOBAL => {
                    let records = self.read_extended(&header, at, &mut ExtendedHeaders::default())?;
                    self.globals.add_global(&records, at)?;
                }
                flag::GNU_VOLUME => self.note_data(field(&header.size, "size", at)?, at)?,
                _ => return self.build_member(&header, at, extended).map(Some),
            }
        }
        match extended.first {
            None => Ok(None),
            Some(at) => Err(Error::corrupt("tar header", at, "an extended header with no member after it")),
        }
    }

    /// Skips the data of the previous member and reads a header; `None` at the end. Two zero
    /// blocks, or one and the end of the file, end an archive; another archive may follow.
    fn read_header(&mut self) -> Result<Option<(TarHeader, u64)>> {
        if !self.input.skip_to(self.next)? {
            let why = format!(
                "its data ends at byte {}, beyond the end of the archive: it is truncated, or the first of several volumes",
                self.next
            );
            return Err(Error::corrupt("tar member", self.last, why));
        }
        loop {
            let at = self.input.offset();
            let mut block = [0; BLOCK];
            let got = self.input.read(&mut block)?;
            let blank = block.iter().all(|byte| *byte == 0);
            match got {
                BLOCK if blank => self.zeros += 1,
                // At the end of the file nothing is read, which leaves the block blank, too.
                _ if blank && self.zeros > 0 => return Ok(None),
                0 if !self.begun => return Err(Error::corrupt("tar archive", at, "it ends before its first member")),
                0 => {
                    self.noted.push((WarningKind::ArchiveNotEnded, at));
                    return Ok(None);
                }
                // Bytes after the end; a block with the magic of a header is a damaged one.
                _ if self.zeros > 0 && !header::has_magic(&block) && header::check(&block, at).is_err() => {
                    // An empty archive may end anywhere, but what has other bytes first is none: an EROFS image, a disk.
                    if !self.begun {
                        let why = "after zeros comes something else than a member: it is no archive";
                        return Err(Error::corrupt("tar archive", at, why));
                    }
                    self.noted.push((WarningKind::BytesAfterArchive, at));
                    // Read to the end: a program that writes into a pipe expects everything to be read.
                    self.input.skip_to(u64::MAX)?;
                    return Ok(None);
                }
                BLOCK => {
                    let header = header::check(&block, at)?;
                    // Another archive begins, which the global headers of the last one do not concern.
                    if std::mem::take(&mut self.zeros) > 0 {
                        self.globals = PaxRecords::default();
                    }
                    (self.last, self.next) = (at, at + BLOCK as u64);
                    return Ok(Some((header, at)));
                }
                _ => return Err(truncated("tar header", at, got as u64, BLOCK as u64)),
            }
        }
    }

    /// Notes that the `len` bytes of data that begin here belong to the header at `at`: the next
    /// header follows them.
    fn note_data(&mut self, len: u64, at: u64) -> Result<()> {
        let end = padded(len).and_then(|len| len.checked_add(self.input.offset())).filter(|end| *end <= MAX_SIZE);
        self.next =
            end.ok_or_else(|| Error::corrupt("tar header", at, format!("the size of {len} bytes is too large")))?;
        Ok(())
    }

    /// Reads the data of an extended header.
    fn read_extended(&mut self, header: &TarHeader, at: u64, extended: &mut ExtendedHeaders) -> Result<Vec<u8>> {
        let len = field(&header.size, "size", at)?;
        extended.first.get_or_insert(at);
        extended.bytes = extended.bytes.saturating_add(len);
        let limited = usize::try_from(len).ok().filter(|_| extended.bytes <= MAX_EXTENDED).ok_or_else(|| {
            let why = format!("extended headers, all together {}", beyond(extended.bytes, MAX_EXTENDED));
            Error::corrupt("extended header", at, why)
        })?;
        self.note_data(len, at)?;
        let mut body = vec![0; limited];
        let got = self.input.read(&mut body)?;
        if got == limited { Ok(body) } else { Err(truncated("extended header", at, got as u64, len)) }
    }

    /// Builds a member from its headers.
    fn build_member(&mut self, header: &TarHeader, at: u64, extended: ExtendedHeaders) -> Result<ArchiveMember> {
        self.begun = true;
        let mut pax = PaxRecords::after(&self.globals);
        if let Some((records, at)) = &extended.pax {
            pax.add(records, *at)?;
        }
        let first = extended.first.unwrap_or(at);
        // GNU tar gives sparse members a made-up path (`GNUSparseFile.PID/NAME`), and their own name in a record.
        let name = pax.sparse.name.take().or(pax.path.take()).or(extended.name);
        let path = name.unwrap_or_else(|| header::name(header));
        let link = pax.linkpath.take().or(extended.link).unwrap_or_else(|| text(&header.linkname).to_vec());
        let kind = self.read_kind(header, at, first, &path, link, &mut pax)?;
        let uid = pax.uid.map_or_else(|| field(&header.uid, "user id", at), Ok)?;
        let gid = pax.gid.map_or_else(|| field(&header.gid, "group id", at), Ok)?;
        self.note_accounts(header, &pax, uid, gid);
        let (acls, lost) = self.convert_acls(&pax, matches!(kind, MemberKind::Dir));
        let mut mode = field::<i64>(&header.mode, "mode", at).map(|mode| u16::try_from(mode & 0o7777).unwrap_or(0))?;
        if !lost.is_empty() {
            mode &= acl::readable_mode_limit(pax.acl.as_deref().unwrap_or_default());
        }
        let mtime = match pax.mtime {
            Some(time) => time,
            None => Time { secs: field(&header.mtime, "time", at)?, nanos: 0 },
        };
        let xattrs: XattrSet = acls.into_iter().chain(pax.xattrs()).collect();
        // A sound list replaces the permission bits. One that no kernel accepts may only take rights away.
        mode = match access_list(&xattrs) {
            Some(list) if defect(list).is_none() => mode & 0o7000 | acl::permissions(list),
            Some(list) => mode & mode_limit(list),
            None => mode,
        };
        Ok(ArchiveMember { path, kind, mode, uid, gid, mtime, xattrs, lost, of: STRUCTURE, at: first })
    }

    /// Returns the type of a member, and reads the sparse map of a file. `link` is its target if it is a link.
    fn read_kind(
        &mut self,
        header: &TarHeader,
        at: u64,
        first: u64,
        path: &[u8],
        link: Vec<u8>,
        pax: &mut PaxRecords,
    ) -> Result<MemberKind> {
        Ok(match header.typeflag {
            flag::HARD_LINK => MemberKind::HardLink(link),
            flag::SYMLINK => MemberKind::Symlink(link),
            flag::CHAR => MemberKind::Char(device_number(header, at, pax)?),
            flag::BLOCK => MemberKind::Block(device_number(header, at, pax)?),
            flag::DIR => MemberKind::Dir,
            flag::GNU_DUMP_DIR => {
                self.note_data(field(&header.size, "size", at)?, at)?;
                MemberKind::Dir
            }
            // Archives from before there was a type for directories; the size is meaningless.
            flag::FILE | flag::V7_FILE if path.ends_with(b"/") => MemberKind::Dir,
            flag::FIFO => MemberKind::Fifo,
            flag::FILE | flag::V7_FILE | flag::CONTIGUOUS_FILE | flag::GNU_SPARSE => {
                MemberKind::File(self.read_file(header, at, first, pax)?)
            }
            flag::GNU_CONTINUED => {
                let why = "this is a later volume of a multi-volume archive: extract them all with GNU tar \
                           (`tar -xM -f VOLUME1 -f VOLUME2 ...`) and pack the directory";
                return Err(Error::corrupt("tar header", at, why));
            }
            other => {
                let other = other.escape_ascii();
                return Err(Error::Unsupported(format!("tar header at byte {at}: a member of type `{other}`")));
            }
        })
    }

    /// Remembers the numbers of the owner and the group.
    fn note_accounts(&mut self, header: &TarHeader, pax: &PaxRecords, uid: u32, gid: u32) {
        // The oldest archives have other data in place of the names.
        let named = header.magic.starts_with(b"ustar");
        let user = pax.uname.as_deref().unwrap_or_else(|| if named { text(&header.uname) } else { b"" });
        let group = pax.gname.as_deref().unwrap_or_else(|| if named { text(&header.gname) } else { b"" });
        self.accounts.note((user, uid), (group, gid));
    }

    /// Returns access control lists as attributes, and the reasons why others were dropped. An
    /// equal attribute in the archive itself takes precedence.
    fn convert_acls(&self, pax: &PaxRecords, is_dir: bool) -> (XattrSet, Vec<String>) {
        let mut acls = XattrSet::new();
        let mut lost = Vec::new();
        let lists =
            [(&pax.acl, "system.posix_acl_access", false), (&pax.default_acl, "system.posix_acl_default", true)];
        for (list, name, default) in lists {
            match list.as_deref().map(|list| acl::to_value(list, default, &self.accounts)) {
                Some(Ok(Some(_))) if default && !is_dir => {
                    lost.push("a default ACL on something other than a directory".into())
                }
                Some(Ok(Some(value))) => acls.push((name.as_bytes().into(), value.into())),
                Some(Err(why)) => lost.push(why),
                Some(Ok(None)) | None => {}
            }
        }
        if pax.foreign_acl {
            lost.push("of NFSv4".into());
        }
        (acls, lost)
    }

    /// Reads a regular file, including the sparse map if one follows the header.
    fn read_file(&mut self, header: &TarHeader, at: u64, first: u64, pax: &mut PaxRecords) -> Result<StoredMember> {
        let len = pax.size.map_or_else(|| field(&header.size, "size", at), Ok)?;
        let sparse = &mut pax.sparse;
        let (map, size) = match (header.typeflag, sparse.major, sparse.minor, sparse.size) {
            (flag::GNU_SPARSE, ..) if header.magic == *b"ustar " => {
                sparse::old_gnu(header.as_bytes(), &mut self.input, at).map(|(map, size)| (Some(map), size))?
            }
            (flag::GNU_SPARSE, ..) => {
                return Err(Error::Unsupported(format!(
                    "tar header at byte {at}: a sparse file in a form that GNU tar does not write"
                )));
            }
            // Format 1.0, whose map is part of the stored bytes.
            (_, Some(1), Some(0), Some(size)) => {
                self.note_data(len, at)?;
                let begin = self.input.offset();
                let map = sparse::in_front(&mut self.input, len)?;
                let stored = len.saturating_sub(self.input.offset() - begin);
                return Ok(StoredMember {
                    size,
                    len: stored,
                    map: Some(sparse::check(map, size, stored, at)?),
                    header: first,
                    sum: None,
                });
            }
            // Formats 0.0, which has no version, and 0.1: the map was among the records.
            (_, None | Some(0), _, Some(size)) => (Some(std::mem::take(&mut sparse.map)), size),
            (_, None, None, None) => (None, len),
            _ => return Err(Error::corrupt("pax header", first, "inconsistent GNU.sparse records")),
        };
        self.note_data(len, at)?;
        let map = map.map(|map| sparse::check(map, size, len, at)).transpose()?;
        Ok(StoredMember { size, len, map, header: first, sum: None })
    }
}

/// Returns the number of a device, from the records of a pax header or from the member's own header.
fn device_number(header: &TarHeader, at: u64, pax: &PaxRecords) -> Result<DeviceNumber> {
    Ok(DeviceNumber {
        major: pax.devmajor.map_or_else(|| field(&header.devmajor, "device number", at), Ok)?,
        minor: pax.devminor.map_or_else(|| field(&header.devminor, "device number", at), Ok)?,
    })
}
