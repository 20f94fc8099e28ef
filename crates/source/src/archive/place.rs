//! Adds members to a tree: cleans and limits paths, resolves links; later members replace earlier ones.

use packfs_blocks::units::beyond;

use super::{ArchiveMember, MAX_PATH, MemberKind, Options};
use crate::tree::{
    ConflictPolicy, FileData, Ino, InodeAttributes, Kind, ROOT, Tree, XattrId, XattrSet, acl, components, normal_path,
    path_of,
};
use crate::{Error, Result, Warning, WarningKind};

/// Maximum number of components of a path.
const MAX_COMPONENTS: usize = 4096;

/// Cleans the path of a member (`of` says of which kind) or of a link target, which is not empty: drops a leading `/`,
/// `.` components and doubled slashes.
pub(crate) fn clean(path: &[u8], of: &'static str, at: u64) -> Result<Vec<u8>> {
    let bad = |why: String| Error::corrupt(of, at, why);
    check_length(path, of, at)?;
    // An image has no place above its root. Such members are made to be extracted elsewhere.
    if components(path).any(|name| name == b"..") {
        return Err(bad(format!("`{}`: a path with `..` leads out of the archive", path.escape_ascii())));
    }
    if components(path).count() > MAX_COMPONENTS {
        return Err(bad(format!("a path of more than the {MAX_COMPONENTS} components this reader allows")));
    }
    // An empty path of a member is its root, but an empty target leads nowhere.
    if path.is_empty() {
        return Err(bad("its link target is empty".into()));
    }
    Ok(normal_path(path))
}

fn check_length(path: &[u8], of: &'static str, at: u64) -> Result<()> {
    match path.len() {
        0..=MAX_PATH => Ok(()),
        len => {
            let why = format!("a path of {}", beyond(len as u64, MAX_PATH as u64));
            Err(Error::corrupt(of, at, why))
        }
    }
}

/// Adds a member that is no hard link under its clean `path`; returns its inode.
pub(crate) fn place(
    tree: &mut Tree,
    path: &[u8],
    member: ArchiveMember,
    data: FileData,
    options: &Options,
) -> Result<Ino> {
    let ArchiveMember { kind, mut mode, uid, gid, mtime, xattrs, lost, of, at, .. } = member;
    if !options.xattrs {
        // The group's bits stand for the mask of an ACL. Without the ACL they would give the group, and others, more than
        // they had.
        mode &= acl::kept_mode_bits(&xattrs, &XattrSet::new());
    }
    let xattrs = if options.xattrs { tree.xattrs.intern(xattrs) } else { XattrId::NONE };
    for why in lost.into_iter().filter(|_| options.xattrs) {
        tree.warnings.add(Warning::new(WarningKind::AclNotKept, path_of(path)).with_detail(why))?;
    }
    let meta = InodeAttributes { mode, uid, gid, mtime, xattrs };
    // The root is in every tree already.
    let Some((dir, name)) = tree.parent_of(path, InodeAttributes::IMPLICIT_DIR)? else {
        if !matches!(kind, MemberKind::Dir) {
            return Err(Error::corrupt(of, at, "the root is not a directory"));
        }
        tree.set_meta(ROOT, meta);
        return Ok(ROOT);
    };
    let kind = match kind {
        MemberKind::HardLink(_) => return Err(Error::Misuse("hard links are added by `place_link`".into())),
        MemberKind::File(file) => Kind::File { size: file.size, data },
        MemberKind::Symlink(target) => {
            check_length(&target, of, at)?;
            if target.is_empty() {
                return Err(Error::corrupt(of, at, format!("`{}` has an empty link target", path.escape_ascii())));
            }
            Kind::Symlink(target.into())
        }
        MemberKind::Char(device) => Kind::Char(device),
        MemberKind::Block(device) => Kind::Block(device),
        MemberKind::Dir => Kind::Dir,
        MemberKind::Fifo => Kind::Fifo,
        MemberKind::Socket => Kind::Socket,
    };
    tree.add(dir, name, meta, kind, ConflictPolicy::Replace)
}

/// Adds the hard link `link` to an inode under its clean `path`.
pub(crate) fn place_link(tree: &mut Tree, path: &[u8], ino: Ino, link: &ArchiveMember) -> Result<()> {
    let bad = |why: &str| Error::corrupt(link.of, link.at, format!("`{}` is a hard link {why}", path.escape_ascii()));
    // No system makes hard links to directories.
    if tree.is_dir(ino) {
        return Err(bad("to a directory"));
    }
    let Some((dir, name)) = tree.parent_of(path, InodeAttributes::IMPLICIT_DIR)? else {
        return Err(bad("from the root"));
    };
    tree.link(dir, name, ino, ConflictPolicy::Replace)
}
