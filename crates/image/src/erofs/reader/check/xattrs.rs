//! Checks the extended attributes of an inode: names, filter, and values that the kernel interprets.

use std::collections::HashSet;

use super::digests;
use crate::Result;
use crate::build::FileDigest;
use crate::erofs::format::{Compat, xattr_prefix};
use crate::erofs::reader::ErofsReader;
use crate::erofs::reader::inode::{Inode, InodeType, STRUCTURE};
use crate::erofs::reader::metadata::OffsetSpace;
use crate::erofs::reader::xattr::{self, StoredXattr};
use crate::tree::{acl, capability};
use packfs_tree::{FindingCollector, Severity};

/// Facts about the attributes of an inode.
#[derive(Debug, Default)]
struct XattrSurvey {
    digest: Option<FileDigest>,
    /// Length of a digest of an unknown kind.
    odd_digest_len: Option<usize>,
    names: HashSet<Box<[u8]>>,
    /// Bits of the filter that the names set.
    filter_bits: u32,
    shares: bool,
    has_user: bool,
    /// True if a name that mkfs.erofs repeats occurs more than once.
    repeats: bool,
    wrong: Vec<String>,
}

impl XattrSurvey {
    fn add(&mut self, reader: &ErofsReader, inode: &Inode, pair: &StoredXattr) {
        let is_digest = reader.is_digest(pair);
        if is_digest && inode.kind == InodeType::File {
            self.digest = digests::of(pair);
            self.odd_digest_len = self.digest.is_none().then_some(pair.value.len());
        }
        let wrong = &mut self.wrong;
        match pair.full_name() {
            None if pair.is_padding() => return,
            // Its prefix is one that the image defines.
            None if is_digest => {}
            None => wrong.push(format!("unknown xattr prefix {:#x}", pair.prefix)),
            Some(name) if name.ends_with(b".") && pair.name.is_empty() => {
                wrong.push(format!("xattr `{}` has no name after its prefix", name.escape_ascii()));
            }
            Some(name) if name.contains(&0) => wrong.push("NUL in the name of an xattr".into()),
            Some(name) if *name == *xattr::MAY_REPEAT && self.names.contains(&name) => self.repeats = true,
            Some(name) if self.names.contains(&name) => wrong.push(format!("xattr `{}` twice", name.escape_ascii())),
            Some(name) => drop(self.names.insert(name)),
        }
        // Also for padding it would be wrong: it has no name.
        self.filter_bits |= pair.filter_bit();
        wrong.extend(value_defect(pair, inode.kind));
        self.shares |= pair.shared.is_some();
        self.has_user |= pair.base == xattr_prefix::USER;
    }
}

/// Checks the attributes of an inode. Returns the digest of its data, if it has one.
pub(super) fn check(
    reader: &ErofsReader,
    inode: &Inode,
    report: &mut FindingCollector<'_>,
) -> Result<Option<FileDigest>> {
    if inode.xattr_len == 0 {
        return Ok(None);
    }
    let mut survey = XattrSurvey::default();
    let filter = xattr::each(reader, inode, &mut |pair| survey.add(reader, inode, &pair));
    let XattrSurvey { digest, odd_digest_len, filter_bits, shares, has_user, repeats, mut wrong, .. } = survey;
    if let Some(filter) = report.take(filter)?
        && reader.superblock.xattr_filter
        && filter & filter_bits != 0
    {
        wrong.push(format!("its xattr filter {filter:#010x} denies names that it has"));
    }
    // Linux looks for them in the metabox or in the image, by this feature alone.
    let apart = !reader.superblock.compat.contains(Compat::SHARED_XATTRS_IN_METABOX);
    if shares && apart && inode.place.space == OffsetSpace::Metabox {
        let text = "xattrs are shared outside the metabox by inodes in it: Linux 6.18 does not show them";
        report.shared(Severity::Note, STRUCTURE, reader.superblock.xattr_start, text, || {
            format!("inode {}", inode.nid.0)
        });
    }
    if has_user && !matches!(inode.kind, InodeType::File | InodeType::Dir) {
        let text = "`user.` attributes on an inode that is neither a file nor a directory: Linux does not show them";
        report.note(STRUCTURE, inode.place.byte, format!("inode {}: {text}", inode.nid.0));
    }
    if repeats {
        let name = xattr::MAY_REPEAT.escape_ascii();
        let text = format!("xattr `{name}` more than once, as mkfs.erofs writes it: Linux takes the first");
        report.note(STRUCTURE, inode.place.byte, format!("inode {}: {text}", inode.nid.0));
    }
    if let Some(len) = odd_digest_len {
        let text = format!("inode {}: its digest of {len} bytes is of an unknown kind", inode.nid.0);
        report.note(STRUCTURE, inode.place.byte, text);
    }
    for why in wrong {
        report.add(STRUCTURE, inode.place.byte, format!("inode {}: {why}", inode.nid.0));
    }
    Ok(digest)
}

/// Returns the reason why the kernel refuses the value of an attribute, if it does.
fn value_defect(pair: &StoredXattr, kind: InodeType) -> Option<String> {
    let which = match pair.base {
        xattr_prefix::ACL_ACCESS => "access",
        xattr_prefix::ACL_DEFAULT => "default",
        _ if pair.full_name().as_deref() == Some(capability::NAME) => {
            return capability::defect(&pair.value).map(|why| format!("capabilities: {why}"));
        }
        _ => return None,
    };
    let why = if !pair.name.is_empty() {
        Some(format!("`{}` after the name", pair.name.escape_ascii()))
    } else if kind == InodeType::Symlink {
        Some("a symlink cannot have one".into())
    } else if which == "default" && kind != InodeType::Dir {
        Some("only directories can have one".into())
    } else {
        acl::defect(&pair.value)
    };
    why.map(|why| format!("{which} ACL: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acls_are_allowed_only_where_the_kernel_allows_them() {
        let entries =
            [(1u16, 7u16), (4, 5), (32, 0)].map(|(tag, bits)| [tag, bits, !0, !0].map(u16::to_le_bytes).concat());
        let value: Box<[u8]> = [&[2, 0, 0, 0][..], &entries.concat()].concat().into();
        let pair = |base, name: &[u8]| StoredXattr {
            prefix: base,
            base,
            name: name.into(),
            value: value.clone(),
            shared: None,
        };
        assert_eq!(value_defect(&pair(xattr_prefix::ACL_ACCESS, b""), InodeType::File), None);
        assert_eq!(value_defect(&pair(xattr_prefix::ACL_DEFAULT, b""), InodeType::Dir), None);
        assert_eq!(value_defect(&pair(xattr_prefix::USER, b"x"), InodeType::File), None);
        for (pair, kind, expected) in [
            (pair(xattr_prefix::ACL_DEFAULT, b""), InodeType::File, "only directories"),
            (pair(xattr_prefix::ACL_ACCESS, b""), InodeType::Symlink, "a symlink"),
            (pair(xattr_prefix::ACL_ACCESS, b"x"), InodeType::File, "after the name"),
        ] {
            assert!(value_defect(&pair, kind).is_some_and(|why| why.contains(expected)));
        }
    }
}
