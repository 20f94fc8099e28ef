//! POSIX access control lists: converts the text in archives to the value of `system.posix_acl_*` on Linux.
//!
//! GNU tar and star write `SCHILY.acl.access` and `SCHILY.acl.default` with one entry per line.
//! bsdtar separates entries by commas and, like star, adds the number of a named user or group as a
//! fourth field.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::path::PathBuf;

use packfs_blocks::name::decode_octal;

use crate::tree::acl::{NO_ID, VERSION, mode_limit_of, tag};

/// Maximum number of accounts remembered from one archive, which bounds the memory that hostile archives can take.
const MAX_ACCOUNTS: usize = 65_536;

/// Numbers of named users and groups: from the archive's own headers if they have them, otherwise from this system.
#[derive(Debug)]
pub(super) struct KnownAccounts {
    users: AccountIds,
    groups: AccountIds,
}

#[derive(Debug)]
struct AccountIds {
    seen: HashMap<Box<[u8]>, u32>,
    file: PathBuf,
    system: OnceCell<HashMap<Box<[u8]>, u32>>,
}

impl Default for KnownAccounts {
    fn default() -> Self {
        KnownAccounts { users: AccountIds::of("/etc/passwd"), groups: AccountIds::of("/etc/group") }
    }
}

impl KnownAccounts {
    /// Remembers owner and group of a member; empty names are ignored.
    pub(super) fn note(&mut self, user: (&[u8], u32), group: (&[u8], u32)) {
        self.users.note(user.0, user.1);
        self.groups.note(group.0, group.1);
    }
}

impl AccountIds {
    fn of(file: &str) -> Self {
        AccountIds { seen: HashMap::new(), file: file.into(), system: OnceCell::new() }
    }

    fn note(&mut self, name: &[u8], id: u32) {
        if let Some(known) = self.seen.get_mut(name) {
            *known = id;
        } else if !name.is_empty() && self.seen.len() < MAX_ACCOUNTS {
            self.seen.insert(name.into(), id);
        }
    }

    fn get(&self, name: &[u8]) -> Option<u32> {
        let system = || self.system.get_or_init(|| parse_accounts(&std::fs::read(&self.file).unwrap_or_default()));
        self.seen.get(name).or_else(|| system().get(name)).copied()
    }
}

/// Parses a passwd or group file: `NAME:PASSWORD:NUMBER:...`, one per line. The first entry of a name counts.
fn parse_accounts(text: &[u8]) -> HashMap<Box<[u8]>, u32> {
    let mut accounts = HashMap::new();
    for line in text.split(|byte| *byte == b'\n') {
        let mut fields = line.split(|byte| *byte == b':');
        if let (Some(name), Some(id)) = (fields.next(), fields.nth(1).and_then(number)) {
            accounts.entry(name.into()).or_insert(id);
        }
    }
    accounts
}

/// Returns the entries in the text of an ACL, without comments.
fn acl_entries(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let lines = text.split(|byte| matches!(byte, b',' | b'\n'));
    let entries = lines.map(|line| line.split(|byte| *byte == b'#').next().unwrap_or_default().trim_ascii());
    entries.filter(|entry| !entry.is_empty())
}

/// Converts an ACL to its value; `None` if it says no more than the mode does. `default` is for
/// lists that new entries of a directory inherit, which are always kept. The error is for a
/// warning.
pub(super) fn to_value(text: &[u8], default: bool, accounts: &KnownAccounts) -> Result<Option<Vec<u8>>, String> {
    let mut entries = Vec::new();
    for line in acl_entries(text) {
        entries.push(parse_entry(line, accounts)?);
    }
    // The kernel accepts entries only in the order of their tags.
    entries.sort_unstable();
    if entries.windows(2).any(|pair| pair[0][..2] == pair[1][..2]) {
        return Err("a duplicate entry".into());
    }
    let has = |tag: u16| entries.iter().any(|entry| entry[0] == u32::from(tag));
    if entries.is_empty() {
        return Ok(None);
    }
    if ![tag::USER_OBJ, tag::GROUP_OBJ, tag::OTHER].into_iter().all(has) {
        return Err("the entry of the owner, the group or others is missing".into());
    }
    if (has(tag::USER) || has(tag::GROUP)) && !has(tag::MASK) {
        return Err("the mask is missing".into());
    }
    if entries.len() == 3 && !default {
        return Ok(None);
    }
    Ok(Some(encode_acl(&entries)))
}

/// Returns the mode bits that a list which cannot be kept does not deny to the group or to anybody it names, as far as its
/// entries can be read.
pub(super) fn readable_mode_limit(text: &[u8]) -> u16 {
    // Who the unknown names are makes no difference.
    let entries = acl_entries(text).filter_map(|line| NamedEntry::parse(line).ok());
    mode_limit_of(entries.map(|entry| (entry.tag, low_half(entry.permissions))))
}

/// Returns the permission bits of a file with this list: Linux shows the mask as the group's bits.
/// bsdtar instead writes the group's own entry into the header.
pub(super) fn permissions(value: &[u8]) -> u16 {
    let entries = || value.get(4..).unwrap_or_default().chunks_exact(8);
    let half = |entry: &[u8], at: usize| u16::from_le_bytes([entry[at], entry[at + 1]]);
    let of = |tag| entries().find(|entry| half(entry, 0) == tag).map(|entry| half(entry, 2) & 7);
    let group = of(tag::MASK).or_else(|| of(tag::GROUP_OBJ)).unwrap_or(0);
    of(tag::USER_OBJ).unwrap_or(0) << 6 | group << 3 | of(tag::OTHER).unwrap_or(0)
}

/// Tag, id and permissions, in the sort order of entries.
type AclEntry = [u32; 3];

/// Returns a tag or permissions in the width that they are stored in.
fn low_half(number: u32) -> u16 {
    u16::try_from(number).unwrap_or(0)
}

fn encode_acl(entries: &[AclEntry]) -> Vec<u8> {
    let mut value = VERSION.to_le_bytes().to_vec();
    for [tag, id, permissions] in entries {
        value.extend(low_half(*tag).to_le_bytes());
        value.extend(low_half(*permissions).to_le_bytes());
        value.extend(id.to_le_bytes());
    }
    value
}

/// An entry as it is written: `user:NAME:rwx`, `user::rwx`, `mask::rwx` or `other:rwx`, perhaps with an id at the end.
struct NamedEntry<'t> {
    tag: u16,
    /// Empty for entries of the file's own classes.
    name: &'t [u8],
    id: Option<u32>,
    permissions: u32,
}

impl<'t> NamedEntry<'t> {
    fn parse(line: &'t [u8]) -> Result<Self, String> {
        let malformed = || malformed_entry(line);
        let fields: Vec<&[u8]> = line.split(|byte| *byte == b':').map(<[u8]>::trim_ascii).collect();
        // Each line of a default list may say that it is one.
        let fields = match &fields[..] {
            [b"default" | b"d", rest @ ..] => rest,
            all => all,
        };
        let (who, name, permissions, id) = match *fields {
            // Solaris leaves out the empty name.
            [who @ (b"mask" | b"m" | b"other" | b"o"), permissions] => (who, &b""[..], permissions, None),
            [who, name, permissions] => (who, name, permissions, None),
            [who, name, permissions, id] => (who, name, permissions, Some(number(id).ok_or_else(malformed)?)),
            _ => return Err(malformed()),
        };
        let permissions = parse_permissions(permissions).ok_or_else(malformed)?;
        let tag = match (who, name.is_empty()) {
            (b"user" | b"u", true) => tag::USER_OBJ,
            (b"group" | b"g", true) => tag::GROUP_OBJ,
            (b"mask" | b"m", true) => tag::MASK,
            (b"other" | b"o", true) => tag::OTHER,
            (b"user" | b"u", false) => tag::USER,
            (b"group" | b"g", false) => tag::GROUP,
            _ => return Err(malformed()),
        };
        Ok(NamedEntry { tag, name, id, permissions })
    }
}

/// Parses one entry, with the id of the account that it names.
fn parse_entry(line: &[u8], accounts: &KnownAccounts) -> Result<AclEntry, String> {
    let NamedEntry { tag, name, id, permissions } = NamedEntry::parse(line)?;
    let (known, what) = match tag {
        tag::USER => (&accounts.users, "user"),
        tag::GROUP => (&accounts.groups, "group"),
        _ => return Ok([tag.into(), NO_ID, permissions]),
    };
    let id = id.or_else(|| number(name)).or_else(|| known.get(&decode_octal(name)));
    match id {
        Some(NO_ID) => Err(malformed_entry(line)),
        Some(id) => Ok([tag.into(), id, permissions]),
        None => Err(format!("unknown {what} `{}`", name.escape_ascii())),
    }
}

fn malformed_entry(line: &[u8]) -> String {
    format!("`{}` is not a valid entry", line.escape_ascii())
}

/// Parses any of `r`, `w` and `x` with `-` for missing ones, or an octal digit.
fn parse_permissions(text: &[u8]) -> Option<u32> {
    if let [digit @ b'0'..=b'7'] = text {
        return Some(u32::from(digit - b'0'));
    }
    if text.is_empty() || text.len() > 3 {
        return None;
    }
    text.iter().try_fold(0, |all, letter| {
        Some(
            all | match letter {
                b'r' => 4,
                b'w' => 2,
                b'x' => 1,
                b'-' => 0,
                _ => return None,
            },
        )
    })
}

fn number(digits: &[u8]) -> Option<u32> {
    super::pax::parse_decimal(digits).and_then(|n| u32::try_from(n).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Accounts of a made-up system and archive.
    fn accounts_of(dir: &std::path::Path) -> KnownAccounts {
        std::fs::write(dir.join("passwd"), "root:x:0:0::/:/bin/sh\ndaemon:x:1:1\nbroken\nseen:x:99:99\n").unwrap();
        std::fs::write(dir.join("group"), "bin:x:2:\nmy group:x:7:\n").unwrap();
        let of = |name: &str| AccountIds::of(dir.join(name).to_str().unwrap());
        let mut accounts = KnownAccounts { users: of("passwd"), groups: of("group") };
        accounts.note((b"seen", 50), (b"", 1));
        accounts.note((b"seen", 1005), (b"", 2));
        accounts
    }

    /// Makes a value by hand.
    fn value(entries: &[(u16, u16, u32)]) -> Vec<u8> {
        let mut value = vec![2, 0, 0, 0];
        for (tag, permissions, id) in entries {
            value.extend([tag.to_le_bytes(), permissions.to_le_bytes()].concat());
            value.extend(id.to_le_bytes());
        }
        value
    }

    #[test]
    fn the_text_of_every_writer_becomes_the_kernels_value() {
        let dir = tempfile::tempdir().unwrap();
        let accounts = accounts_of(dir.path());
        let named =
            value(&[(1, 6, NO_ID), (2, 6, 1), (2, 1, 12345), (4, 4, NO_ID), (8, 4, 2), (16, 7, NO_ID), (32, 4, NO_ID)]);
        let gnu = "user::rw-\nuser:daemon:rw-\t#effective:r--\nuser:12345:--x\ngroup::r--\ngroup:bin:r--\nmask::rwx\nother::r--\n";
        let bsd = "user::rw-,group::r--,other::r--,user:who:rw-:1,user:12345:--x,group:bin:r--:2,mask::rwx";
        let solaris = "user::rw-,user:daemon:rw-,user:12345:--x,group::r--,group:bin:r--,mask:rwx,other:r--";
        let short = "d:u::6,d:u:daemon:6,d:u:12345:1,d:g::4,d:g:bin:4,d:m::7,d:o::4";
        for text in [gnu, bsd, solaris, short] {
            assert_eq!(to_value(text.as_bytes(), false, &accounts), Ok(Some(named.clone())), "{text}");
        }
        assert_eq!(permissions(&named), 0o674);
        let from_headers = "user::r,user:seen:r,group::-,group:my\\040group:w,mask::x,other::---";
        let want = value(&[(1, 4, NO_ID), (2, 4, 1005), (4, 0, NO_ID), (8, 2, 7), (16, 1, NO_ID), (32, 0, NO_ID)]);
        assert_eq!(to_value(from_headers.as_bytes(), false, &accounts), Ok(Some(want)));
    }

    #[test]
    fn an_acl_that_equals_the_mode_is_dropped_unless_it_is_a_default() {
        let accounts = KnownAccounts::default();
        let plain = b"user::rwx\ngroup::r-x\nother::r-x";
        assert_eq!(to_value(plain, false, &accounts), Ok(None));
        let want = value(&[(1, 7, NO_ID), (4, 5, NO_ID), (32, 5, NO_ID)]);
        assert_eq!(to_value(plain, true, &accounts), Ok(Some(want)));
        assert_eq!(to_value(b"", true, &accounts), Ok(None));
        let masked = value(&[(1, 6, NO_ID), (4, 4, NO_ID), (16, 4, NO_ID), (32, 4, NO_ID)]);
        assert_eq!(to_value(b"user::rw-,group::r--,mask::r--,other::r--", false, &accounts), Ok(Some(masked)));
    }

    #[test]
    fn errors_say_why_an_acl_cannot_be_kept() {
        let dir = tempfile::tempdir().unwrap();
        let accounts = accounts_of(dir.path());
        for (text, why) in [
            ("user::rwx,group::r-x", "others is missing"),
            ("user::rwx,user:bob:r,group::r,mask::r,other::r", "unknown user `bob`"),
            ("user::rwx,user:1:r,group::r,other::r", "the mask is missing"),
            ("user::rwx,user:daemon:r,user:1:w,group::r,mask::r,other::r", "a duplicate entry"),
            ("user::rwz,group::r,other::r", "`user::rwz` is not a valid entry"),
            ("user::,group::r,other::r", "`user::` is not a valid entry"),
            ("everyone@:rwx:allow", "is not a valid entry"),
            ("user:4294967295:r,user::r,group::r,other::r,mask::r", "is not a valid entry"),
            ("x", "`x` is not a valid entry"),
            (":", "is not a valid entry"),
            ("default", "is not a valid entry"),
        ] {
            let said = to_value(text.as_bytes(), false, &accounts).unwrap_err();
            assert!(said.contains(why), "{text}: {said}");
        }
    }
}
