//! Changes to a whole tree after it is filled: owners, modes, times, extended attributes.

use std::str::FromStr;

use super::{ExcludeXattrs, Ino, Inode, InodeAttributes, Kind, Time, Tree};
use crate::image::{FileType, Stat};
use crate::{Error, Result};

/// Changes to apply. The default changes nothing.
#[derive(Debug, Clone, Default)]
pub struct TreeTransform {
    /// Owner of every inode.
    pub uid: Option<u32>,
    /// Group of every inode.
    pub gid: Option<u32>,
    /// Number added to every owner, also to [`uid`](Self::uid).
    pub uid_offset: i64,
    /// Number added to every group.
    pub gid_offset: i64,
    /// Change to the permissions of everything except symbolic links.
    pub mode: ModeChange,
    /// Change to times.
    pub time: TimeChange,
    /// True to drop all extended attributes.
    pub drop_xattrs: bool,
    /// Names of extended attributes to drop.
    pub exclude_xattrs: ExcludeXattrs,
}

/// Change to times.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TimeChange {
    /// Keeps them.
    #[default]
    Keep,
    /// Sets all to this one.
    Set(Time),
    /// Sets those later than this one to it, as SOURCE_DATE_EPOCH requires.
    Clamp(Time),
}

impl TreeTransform {
    /// Changes every inode of the tree. Fails if an offset leads to an owner or group outside 32 bits.
    pub fn apply(&self, tree: &mut Tree) -> Result<()> {
        if self.leaves_out_xattrs() {
            tree.exclude_xattrs(|name| self.leaves_out(name));
        }
        let all = tree.inos();
        self.apply_to(tree, all)
    }

    /// Adds the offsets to the owners and groups of the inodes from number `first` on.
    pub fn shift_owners_from(&self, tree: &mut Tree, first: usize) -> Result<()> {
        let shift =
            TreeTransform { uid_offset: self.uid_offset, gid_offset: self.gid_offset, ..TreeTransform::default() };
        let later = tree.inos().skip(first);
        shift.apply_to(tree, later)
    }

    fn apply_to(&self, tree: &mut Tree, inos: impl Iterator<Item = Ino>) -> Result<()> {
        for ino in inos {
            // Inodes without a name were replaced by later sources.
            let inode = tree.inode(ino);
            if inode.links > 0 {
                let meta = self.change(&inode).map_err(|why| Error::limit(tree.path_of(ino), why))?;
                tree.change_meta(ino, meta);
            }
        }
        Ok(())
    }

    /// Returns true if extended attributes of some names are left out.
    pub fn leaves_out_xattrs(&self) -> bool {
        self.drop_xattrs || !self.exclude_xattrs.is_empty()
    }

    /// Returns true if the extended attribute of this name is left out.
    pub fn leaves_out(&self, name: &[u8]) -> bool {
        self.drop_xattrs || self.exclude_xattrs.matches(name)
    }

    /// Returns the attributes that an inode gets, except those that were [left out](Self::leaves_out) before.
    pub fn change(&self, inode: &Inode<'_>) -> std::result::Result<InodeAttributes, String> {
        let (uid, gid) = self.owner(inode.uid, inode.gid)?;
        let mode = match inode.kind {
            Kind::Symlink(_) => inode.mode,
            _ => self.mode.apply(inode.mode, matches!(inode.kind, Kind::Dir)),
        };
        Ok(InodeAttributes { mode, uid, gid, mtime: self.time.apply(inode.mtime), xattrs: inode.xattrs })
    }

    /// Returns the owner and group that `uid` and `gid` become.
    fn owner(&self, uid: u32, gid: u32) -> std::result::Result<(u32, u32), String> {
        let uid = shifted("owner", self.uid.unwrap_or(uid), self.uid_offset)?;
        Ok((uid, shifted("group", self.gid.unwrap_or(gid), self.gid_offset)?))
    }

    /// Changes the attributes of an inode of an image.
    pub fn change_stat(&self, stat: &mut Stat) -> Result<()> {
        (stat.uid, stat.gid) = self.owner(stat.uid, stat.gid).map_err(Error::Misuse)?;
        if !matches!(stat.kind, FileType::Symlink { .. }) {
            stat.mode = self.mode.apply(stat.mode, stat.kind == FileType::Dir);
        }
        stat.mtime = self.time.apply(stat.mtime);
        stat.has_xattrs &= !self.drop_xattrs;
        Ok(())
    }
}

/// Adds an offset to an owner or group, which messages name as `what`.
pub fn shifted(what: &str, id: u32, offset: i64) -> std::result::Result<u32, String> {
    // Whether the format holds an owner that nobody changes is decided by the limits of the format.
    if offset == 0 {
        return Ok(id);
    }
    let id = i64::from(id).checked_add(offset).and_then(|id| u32::try_from(id).ok()).filter(|id| *id < u32::MAX);
    id.ok_or_else(|| format!("the {what} is outside 0 to 4294967294 with an offset of {offset}"))
}

impl TimeChange {
    fn apply(self, time: Time) -> Time {
        match self {
            TimeChange::Keep => time,
            TimeChange::Set(time) => time,
            TimeChange::Clamp(latest) => time.min(latest),
        }
    }
}

impl Tree {
    /// Removes the attributes whose names `is_excluded` accepts from every inode. Without its ACL, an inode gives its
    /// group no more permissions than the ACL did.
    pub fn exclude_xattrs(&mut self, is_excluded: impl Fn(&[u8]) -> bool) {
        let becomes = self.xattrs.exclude(is_excluded);
        for ino in self.inos() {
            let meta = self.meta(ino);
            let reduced = becomes[meta.xattrs.0 as usize];
            self.set_meta(ino, InodeAttributes { xattrs: reduced.id, mode: meta.mode & reduced.mode_bits, ..meta });
        }
    }
}

/// Changes to permissions as in chmod: clauses separated by commas, each symbolic (`u+rwX`,
/// `go=u-w`) or octal (`0644`). A clause that begins with `D` applies only to directories, with `F`
/// to everything else. A clause without classes applies to all of them, whatever the umask.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModeChange(Vec<ModeClause>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct ModeClause {
    dirs: bool,
    others: bool,
    what: ClauseChange,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum ClauseChange {
    /// Exactly these bits.
    Octal(u16),
    /// Steps for these classes (a mask of [`USER`], [`GROUP`], [`OTHER`]), applied in order.
    Symbolic(u16, Vec<ModeStep>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ModeStep {
    op: u8,
    bits: StepBits,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StepBits {
    /// Permissions of one class (`rwx` as 0 to 7), and whether `X`, `s` and `t` are given.
    Given { rwx: u16, x_if_any: bool, set_id: bool, sticky: bool },
    /// The permissions of this class, given by the shift of its bits.
    Copy(u16),
}

const USER: u16 = 0o4700;
const GROUP: u16 = 0o2070;
const OTHER: u16 = 0o1007;

impl ModeChange {
    /// Returns the permission bits after the change.
    pub fn apply(&self, mode: u16, is_dir: bool) -> u16 {
        let fits = |clause: &&ModeClause| if is_dir { clause.dirs } else { clause.others };
        self.0.iter().filter(fits).fold(mode, |mode, clause| match &clause.what {
            ClauseChange::Octal(bits) => *bits,
            ClauseChange::Symbolic(who, steps) => steps.iter().fold(mode, |mode, step| step.apply(mode, *who, is_dir)),
        })
    }
}

impl ModeStep {
    fn apply(self, mode: u16, who: u16, is_dir: bool) -> u16 {
        let everywhere = |rwx: u16| rwx << 6 | rwx << 3 | rwx;
        let bits = match self.bits {
            StepBits::Copy(shift) => everywhere(mode >> shift & 7),
            StepBits::Given { rwx, x_if_any, set_id, sticky } => {
                let x = x_if_any && (is_dir || mode & 0o111 != 0);
                let special = if set_id { 0o6000 } else { 0 } | if sticky { 0o1000 } else { 0 };
                everywhere(rwx | u16::from(x)) | special
            }
        } & who;
        match self.op {
            b'+' => mode | bits,
            b'-' => mode & !bits,
            _ => mode & !who | bits,
        }
    }
}

impl FromStr for ModeChange {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let clauses = text.split(',').map(|text| parse_clause(text.as_bytes())).collect::<Option<_>>();
        clauses.map(ModeChange).ok_or_else(|| {
            let good = "octal (0644) or symbolic (u+rwX,go-w), optionally after D (directories) or F (everything else)";
            Error::option("mode", text, format!("not a valid mode change; accepted: {good}"))
        })
    }
}

fn parse_clause(text: &[u8]) -> Option<ModeClause> {
    let (dirs, others, text) = match text {
        [b'D', rest @ ..] => (true, false, rest),
        [b'F', rest @ ..] => (false, true, rest),
        text => (true, true, text),
    };
    let what = match text.first()? {
        b'0'..=b'7' => ClauseChange::Octal(parse_octal(text)?),
        _ => parse_symbolic(text)?,
    };
    Some(ModeClause { dirs, others, what })
}

fn parse_octal(text: &[u8]) -> Option<u16> {
    let text = std::str::from_utf8(text).ok()?;
    u16::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o7777)
}

fn parse_symbolic(text: &[u8]) -> Option<ClauseChange> {
    let is_op = |byte: &u8| matches!(byte, b'+' | b'-' | b'=');
    let start = text.iter().position(is_op)?;
    let who = text[..start].iter().try_fold(0, |who, class| match class {
        b'u' => Some(who | USER),
        b'g' => Some(who | GROUP),
        b'o' => Some(who | OTHER),
        b'a' => Some(0o7777),
        _ => None,
    })?;
    let who = if start == 0 { 0o7777 } else { who };
    let mut steps = Vec::new();
    let mut rest = &text[start..];
    while let [op, after @ ..] = rest {
        let end = after.iter().position(is_op).unwrap_or(after.len());
        steps.push(ModeStep { op: *op, bits: parse_bits(&after[..end])? });
        rest = &after[end..];
    }
    Some(ClauseChange::Symbolic(who, steps))
}

fn parse_bits(text: &[u8]) -> Option<StepBits> {
    match text {
        b"u" => return Some(StepBits::Copy(6)),
        b"g" => return Some(StepBits::Copy(3)),
        b"o" => return Some(StepBits::Copy(0)),
        _ => {}
    }
    let mut rwx = 0;
    let mut x_if_any = false;
    let mut set_id = false;
    let mut sticky = false;
    for letter in text {
        match letter {
            b'r' => rwx |= 4,
            b'w' => rwx |= 2,
            b'x' => rwx |= 1,
            b'X' => x_if_any = true,
            b's' => set_id = true,
            b't' => sticky = true,
            _ => return None,
        }
    }
    Some(StepBits::Given { rwx, x_if_any, set_id, sticky })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::testing::{Attrs, Node, Spec, What as Is};
    use crate::tree::{ROOT, XattrId};

    #[test]
    fn modes_change_as_chmod_does() {
        let table = [
            ("0644", 0o7777, false, 0o644),
            ("D755,F644", 0o700, true, 0o755),
            ("D755,F644", 0o700, false, 0o644),
            ("u+rwX,go+rX", 0o600, false, 0o644),
            ("u+rwX,go+rX", 0o700, false, 0o755),
            ("u+rwX,go+rX", 0o600, true, 0o755),
            ("a-w", 0o777, false, 0o555),
            ("-w", 0o777, false, 0o555),
            ("+x", 0o644, false, 0o755),
            ("go=", 0o7777, false, 0o4700),
            ("go=u-w", 0o640, false, 0o644),
            ("o=g", 0o750, false, 0o755),
            ("u=rw,g=u", 0o000, false, 0o660),
            ("u+s", 0o755, false, 0o4755),
            ("g+s", 0o755, true, 0o2755),
            ("o+s", 0o755, false, 0o755),
            ("+t", 0o755, true, 0o1755),
            ("ug-s,o-t", 0o7755, true, 0o755),
            ("a=rX", 0o100, false, 0o555),
            ("a=rX", 0o600, false, 0o444),
            ("Du+x,Fu-x", 0o700, false, 0o600),
            ("u-x+X", 0o711, false, 0o711),
            ("u-x+X", 0o700, false, 0o600),
        ];
        for (text, mode, is_dir, expected) in table {
            let change: ModeChange = text.parse().unwrap();
            assert_eq!(change.apply(mode, is_dir), expected, "{text} on {mode:o}: {expected:o}");
        }
        for text in ["", "D", "u", "u+q", "z+r", "8", "10000", "0644,", "u+ru", "755x", "u+r,,g+r"] {
            assert!(text.parse::<ModeChange>().is_err(), "{text}");
        }
    }

    #[test]
    fn chmod_agrees() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("f");
        std::fs::write(&file, "").unwrap();
        for text in ["u+rwX,go+rX", "go=u-w", "a=rX", "ug+s,o-rwx", "u=g,g=o,o=", "u-x+X", "a-t+t", "g=rws,o=t"] {
            let change: ModeChange = text.parse().unwrap();
            for mode in (0..=0o7777u16).step_by(185) {
                std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode.into())).unwrap();
                let status = std::process::Command::new("chmod").arg(text).arg(&file).status().unwrap();
                assert!(status.success());
                let now = std::fs::metadata(&file).unwrap().permissions().mode() & 0o7777;
                assert_eq!(u32::from(change.apply(mode, false)), now, "{text} on {mode:04o}");
            }
        }
    }

    #[test]
    fn every_inode_of_a_tree_is_changed() {
        let mut attrs = Attrs::plain(0o700);
        attrs.mtime = Time { secs: 2000, nanos: 5 };
        attrs.xattrs.insert("user.a".into(), b"b".to_vec());
        let link = Node { attrs: attrs.clone(), what: Is::Symlink(b"x".to_vec()) };
        let file = Node { attrs, what: Is::File(vec![]) };
        let spec = Spec::of([(b"l".to_vec(), link), (b"f".to_vec(), file)]);
        let show = |transform: TreeTransform| {
            let mut tree = spec.tree().unwrap();
            transform.apply(&mut tree).unwrap();
            let inode = |path: &[u8]| tree.inode(tree.lookup(path).unwrap());
            let f = inode(b"f");
            let l = inode(b"l");
            (f.uid, f.gid, f.mode, l.mode, f.mtime, inode(b"").mtime, f.xattrs, tree.inode(ROOT).mode)
        };
        let time = |secs| Time { secs, nanos: 0 };
        let was = show(TreeTransform::default());
        let uid = was.0;
        let gid = was.1;
        let old = Time { secs: 2000, nanos: 5 };
        let root = time(1_000_000_001);
        assert_eq!(was, (uid, gid, 0o700, 0o700, old, root, was.6, 0o755));
        assert_ne!(was.6, XattrId::NONE);
        let transform = TreeTransform {
            uid: Some(7),
            gid: Some(8),
            mode: "Da-w,F644".parse().unwrap(),
            time: TimeChange::Set(time(9)),
            drop_xattrs: true,
            ..TreeTransform::default()
        };
        assert_eq!(show(transform), (7, 8, 0o644, 0o700, time(9), time(9), XattrId::NONE, 0o555));
        let clamp = TreeTransform { time: TimeChange::Clamp(time(5000)), ..TreeTransform::default() };
        assert_eq!((show(clamp.clone()).4, show(clamp).5), (old, time(5000)));
        let shift =
            TreeTransform { uid: Some(7), uid_offset: 100, gid_offset: 1 - i64::from(gid), ..TreeTransform::default() };
        assert_eq!((show(shift.clone()).0, show(shift).1), (107, 1));
        let exclude = ExcludeXattrs::new(["user.*"]).unwrap();
        assert_eq!(show(TreeTransform { exclude_xattrs: exclude, ..TreeTransform::default() }).6, XattrId::NONE);
    }

    #[test]
    fn an_owner_that_nobody_changes_is_left_to_the_limits() {
        let mut attrs = Attrs::plain(0o700);
        attrs.owner = (u32::MAX, 5);
        let mut tree = Spec::of([(b"f".to_vec(), Node { attrs, what: Is::File(vec![]) })]).tree().unwrap();
        TreeTransform { mode: "F644".parse().unwrap(), ..TreeTransform::default() }.apply(&mut tree).unwrap();
        let inode = tree.inode(tree.lookup(b"f").unwrap());
        assert_eq!((inode.uid, inode.gid, inode.mode), (u32::MAX, 5, 0o644));
    }

    #[test]
    fn an_owner_outside_32_bits_is_an_error_with_the_path() {
        let mut attrs = Attrs::plain(0o700);
        attrs.owner = (5, u32::MAX - 1);
        let spec = Spec::of([(b"f".to_vec(), Node { attrs, what: Is::File(vec![]) })]);
        for (uid_offset, gid_offset, why) in [
            (-6, 0, "the owner is outside 0 to 4294967294 with an offset of -6"),
            (i64::MAX, 0, "the owner is outside"),
            (0, 1, "the group is outside"),
        ] {
            let transform = TreeTransform { uid_offset, gid_offset, ..TreeTransform::default() };
            let mut tree = spec.tree().unwrap();
            // The root's owner has room for every offset.
            tree.set_meta(ROOT, InodeAttributes { uid: 1000, gid: 0, ..tree.meta(ROOT) });
            let told = transform.apply(&mut tree).unwrap_err().to_string();
            assert!(told.contains(why), "{told}");
            assert!(told.starts_with("f: ") || uid_offset == i64::MAX, "{told}");
        }
    }
}
