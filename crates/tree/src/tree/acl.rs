//! POSIX ACLs as Linux stores them in attributes: names, constants, and values that the kernel refuses.

use super::XattrSet;

/// Name of the attribute with the ACL of a file.
pub const ACCESS: &[u8] = b"system.posix_acl_access";
/// Name of the attribute with the ACL that new entries of a directory inherit.
pub const DEFAULT: &[u8] = b"system.posix_acl_default";
/// The only version; a value begins with it.
pub const VERSION: u32 = 2;
/// All permission bits.
const PERMISSIONS: u16 = 7;
/// Id of entries without a user or group.
pub const NO_ID: u32 = u32::MAX;

/// Tags of entries, in their required order.
pub mod tag {
    /// The owner.
    pub const USER_OBJ: u16 = 0x01;
    /// A named user.
    pub const USER: u16 = 0x02;
    /// The group of the file.
    pub const GROUP_OBJ: u16 = 0x04;
    /// A named group.
    pub const GROUP: u16 = 0x08;
    /// What named users and all groups get at most.
    pub const MASK: u16 = 0x10;
    /// Everybody else.
    pub const OTHER: u16 = 0x20;
}

/// Returns true if `name` is that of an ACL.
pub fn is_name(name: &[u8]) -> bool {
    name == ACCESS || name == DEFAULT
}

/// Permission bits in a mode of all but the owner.
pub const SHARED_BITS: u16 = 0o077;
/// Permission bits in a mode.
pub const PERMISSION_BITS: u16 = 0o777;
/// All mode bits.
const ALL_BITS: u16 = 0o7777;

/// Returns the mode bits that an inode may keep when its attributes `before` become `after`: all of them, unless its
/// ACL is left out.
///
/// With an ACL, the group bits of the mode are the mask: the most that any named user or group may do. Without it,
/// they would give the group all of that, so only what the ACL gives to the group itself remains. And whom the ACL names
/// then belongs to the group or to others, which must not get more than it gave that user or group.
pub fn kept_mode_bits(before: &XattrSet, after: &XattrSet) -> u16 {
    match (access_list(before), access_list(after)) {
        (Some(list), None) => mode_limit(list),
        _ => ALL_BITS,
    }
}

/// Returns the ACL of a file; of several, which a set not yet in a tree may have, the last one counts.
pub fn access_list(set: &XattrSet) -> Option<&[u8]> {
    set.iter().rfind(|(name, _)| **name == *ACCESS).map(|(_, value)| &**value)
}

/// Returns the attributes of an inode after a change of its mode; `None` if they do not change. As `posix_acl_chmod` of Linux
/// does it: the permissions of the group are those of the mask, if there is one.
pub fn after_chmod(set: &XattrSet, mode: u16) -> Option<XattrSet> {
    let mut list = access_list(set).filter(|list| defect(list).is_none())?.to_vec();
    let (_, entries) = list.split_at_mut_checked(4)?;
    let (entries, _) = entries.as_chunks_mut::<8>();
    let tag_of = |entry: &[u8; 8]| u16::from_le_bytes([entry[0], entry[1]]);
    let has_mask = entries.iter().any(|entry| tag_of(entry) == tag::MASK);
    for entry in entries {
        let bits = match tag_of(entry) {
            tag::USER_OBJ => mode >> 6,
            tag::MASK => mode >> 3,
            tag::GROUP_OBJ if !has_mask => mode >> 3,
            tag::OTHER => mode,
            _ => continue,
        };
        [entry[2], entry[3]] = (bits & PERMISSIONS).to_le_bytes();
    }
    let mut changed = set.clone();
    changed.retain(|(name, _)| **name != *ACCESS);
    changed.push((ACCESS.into(), list.into()));
    Some(changed)
}

/// Returns all mode bits without those that an ACL denies to the group or to anybody it names.
pub fn mode_limit(list: &[u8]) -> u16 {
    // After the version: the value was not checked, so what is too short has no entries.
    let (_, entries) = list.split_at_checked(4).unwrap_or_default();
    let (entries, _) = entries.as_chunks::<8>();
    mode_limit_of(entries.iter().map(|[tag_low, tag_high, bits, ..]| {
        let tag = u16::from_le_bytes([*tag_low, *tag_high]);
        (tag, u16::from(*bits) & PERMISSIONS)
    }))
}

/// As [`mode_limit`], for the tags and permissions of entries.
pub fn mode_limit_of(entries: impl Iterator<Item = (u16, u16)>) -> u16 {
    let mut owning_group = PERMISSIONS;
    let mut named_users = PERMISSIONS;
    let mut named_groups = PERMISSIONS;
    let mut mask = PERMISSIONS;
    let mut has_names = false;
    for (tag, bits) in entries {
        has_names |= matches!(tag, tag::USER | tag::GROUP);
        match tag {
            tag::USER => named_users &= bits,
            tag::GROUP => named_groups &= bits,
            tag::GROUP_OBJ => owning_group &= bits,
            tag::MASK => mask &= bits,
            _ => {}
        }
    }
    let group = owning_group & mask & named_users;
    let others = if has_names { mask & named_users & named_groups } else { PERMISSIONS };
    ALL_BITS & !SHARED_BITS | group << 3 | others
}

/// Writes an ACL as text, one entry a line, with numbers in place of names. `None` if the kernel would refuse it.
pub fn to_text(list: &[u8]) -> Option<String> {
    // A reader of the text would otherwise get what no system accepts.
    if defect(list).is_some() {
        return None;
    }
    let (_, entries) = list.split_at_checked(4)?;
    let (entries, _) = entries.as_chunks::<8>();
    let mut text = String::new();
    for [t0, t1, bits, _, id @ ..] in entries {
        let class = match u16::from_le_bytes([*t0, *t1]) {
            tag::USER_OBJ | tag::USER => "user",
            tag::GROUP_OBJ | tag::GROUP => "group",
            tag::MASK => "mask",
            _ => "other",
        };
        let id = Some(u32::from_le_bytes(*id)).filter(|id| *id != NO_ID).map_or_else(String::new, |id| id.to_string());
        let letter = |bit: u8, letter| if bits & bit == 0 { '-' } else { letter };
        let [read, write, execute] = [letter(4, 'r'), letter(2, 'w'), letter(1, 'x')];
        text.push_str(&format!("{class}:{id}:{read}{write}{execute}\n"));
    }
    Some(text)
}

/// Returns the reason why the kernel refuses a value, if it does.
pub fn defect(value: &[u8]) -> Option<String> {
    // As `posix_acl_from_xattr` and `posix_acl_valid` of Linux check it.
    let Some((version, entries)) = value.split_first_chunk() else {
        return Some(format!("{} bytes are too few", value.len()));
    };
    let version = u32::from_le_bytes(*version);
    if version != VERSION {
        return Some(format!("version {version} is not {VERSION}"));
    }
    let (entries, rest) = entries.as_chunks::<8>();
    if !rest.is_empty() {
        return Some(format!("{} bytes are not a whole number of entries", value.len()));
    }
    let mut seen = 0;
    let mut last = 0;
    for [t0, t1, p0, p1, id @ ..] in entries {
        let tag = u16::from_le_bytes([*t0, *t1]);
        let bits = u16::from_le_bytes([*p0, *p1]);
        let id = u32::from_le_bytes(*id);
        // Users and groups may be named more than once, the others are unique.
        let many = matches!(tag, tag::USER | tag::GROUP);
        if !tag.is_power_of_two() || tag > tag::OTHER {
            return Some(format!("unknown tag {tag:#x}"));
        }
        if tag < last || (tag == last && !many) {
            return Some(format!("tag {tag:#x} after {last:#x} is out of order"));
        }
        if bits & !PERMISSIONS != 0 {
            return Some(format!("permissions {bits:#o} of tag {tag:#x}"));
        }
        if many && id == NO_ID {
            return Some(format!("no id with tag {tag:#x}"));
        }
        if !many && id != NO_ID {
            return Some(format!("id {id} with tag {tag:#x}, which has none"));
        }
        (seen, last) = (seen | tag, tag);
    }
    let named = seen & (tag::USER | tag::GROUP) != 0;
    // With named users or groups, the mask is required.
    let needed = tag::USER_OBJ | tag::GROUP_OBJ | tag::OTHER | if named { tag::MASK } else { 0 };
    let missing = needed & !seen;
    (missing != 0).then(|| format!("no entries with the tags {missing:#x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acl(version: u32, entries: &[(u16, u16, u32)]) -> Vec<u8> {
        let entries = entries
            .iter()
            .map(|(tag, bits, id)| [&tag.to_le_bytes()[..], &bits.to_le_bytes(), &id.to_le_bytes()].concat());
        [version.to_le_bytes().to_vec(), entries.flatten().collect()].concat()
    }

    #[test]
    fn without_its_acl_a_file_gives_nobody_more_than_the_acl_did() {
        let with_mask =
            |group, mask| acl(2, &[(1, 6, NO_ID), (2, 6, 7), (4, group, NO_ID), (16, mask, NO_ID), (32, 4, NO_ID)]);
        let with_names = |user, group, mask| {
            acl(2, &[(1, 6, NO_ID), (2, user, 7), (4, 7, NO_ID), (8, group, 3), (16, mask, NO_ID), (32, 5, NO_ID)])
        };
        let plain = acl(2, &[(1, 6, NO_ID), (4, 5, NO_ID), (32, 4, NO_ID)]);
        let set = |list: &[u8]| vec![(ACCESS.into(), list.into())];
        let none = XattrSet::new();
        for (mode, list, expected) in [
            (0o4664, with_mask(0, 6), 0o4604),
            (0o664, with_mask(4, 6), 0o644),
            (0o644, with_mask(6, 4), 0o644),
            (0o604, with_mask(7, 7), 0o604),
            (0o674, plain.clone(), 0o654),
            (0o664, b"damaged".to_vec(), 0o664),
            // A user or group that gets less than the group or others, of which it is one then.
            (0o644, with_names(0, 7, 4), 0o600),
            (0o675, with_names(5, 7, 7), 0o655),
            (0o675, with_names(7, 4, 7), 0o674),
            (0o645, with_names(7, 7, 4), 0o644),
        ] {
            assert_eq!(mode & kept_mode_bits(&set(&list), &none), expected, "{mode:o} {list:?}");
        }
        let list = set(&with_mask(0, 6));
        assert_eq!(kept_mode_bits(&list, &set(&plain)), 0o7777, "replaced by another one");
        assert_eq!((kept_mode_bits(&none, &none), kept_mode_bits(&none, &list)), (0o7777, 0o7777));
        let default = vec![(DEFAULT.into(), with_mask(0, 6).into())];
        assert_eq!(kept_mode_bits(&default, &none), 0o7777, "a default ACL says nothing of the directory itself");
    }

    #[test]
    fn a_new_mode_changes_the_acl_as_chmod_does() {
        let masked = |owner, mask, other| {
            acl(2, &[(1, owner, NO_ID), (2, 6, 7), (4, 5, NO_ID), (16, mask, NO_ID), (32, other, NO_ID)])
        };
        let plain = |owner, group, other| acl(2, &[(1, owner, NO_ID), (4, group, NO_ID), (32, other, NO_ID)]);
        for (before, mode, after) in [
            (masked(7, 7, 5), 0o750, Some(masked(7, 5, 0))),
            (masked(7, 7, 5), 0o4700, Some(masked(7, 0, 0))),
            (masked(6, 4, 4), 0o664, Some(masked(6, 6, 4))),
            (plain(7, 5, 5), 0o640, Some(plain(6, 4, 0))),
            (b"damaged".to_vec(), 0o640, None),
        ] {
            let other = || (b"user.x".as_slice().into(), b"1".as_slice().into());
            let set = vec![(ACCESS.into(), before.clone().into()), other()];
            let expected = after.map(|list| vec![other(), (ACCESS.into(), list.into())]);
            assert_eq!(after_chmod(&set, mode), expected, "{mode:o}");
        }
        assert_eq!(after_chmod(&vec![(DEFAULT.into(), plain(7, 5, 5).into())], 0o640), None);
    }

    #[test]
    fn an_acl_becomes_text_that_other_programs_read() {
        let list = acl(2, &[(1, 7, NO_ID), (2, 6, 70000), (4, 5, NO_ID), (8, 0, 3), (16, 7, NO_ID), (32, 1, NO_ID)]);
        let text = "user::rwx\nuser:70000:rw-\ngroup::r-x\ngroup:3:---\nmask::rwx\nother::--x\n";
        assert_eq!(to_text(&list).as_deref(), Some(text));
        assert_eq!(to_text(&list[..12]), None);
    }

    #[test]
    fn acls_that_the_kernel_accepts_have_no_defect() {
        let plain = [(1, 7, NO_ID), (4, 5, NO_ID), (32, 0, NO_ID)];
        let full = [(1, 7, NO_ID), (2, 6, 10), (2, 5, 3), (4, 5, NO_ID), (8, 4, 1), (16, 7, NO_ID), (32, 0, NO_ID)];
        assert_eq!(defect(&acl(2, &plain)), None);
        assert_eq!(defect(&acl(2, &full)), None);
        let changed = |n: usize, entry| {
            let mut entries = full.to_vec();
            entries[n] = entry;
            acl(2, &entries)
        };
        let cases: [(Vec<u8>, &str); 11] = [
            (vec![2, 0, 0], "too few"),
            (acl(1, &full), "version 1"),
            ([acl(2, &full), vec![0]].concat(), "not a whole number of entries"),
            (acl(2, &[]), "the tags 0x25"),
            (acl(2, &[full[0], full[1], full[3], full[6]]), "the tags 0x10"),
            (changed(0, (3, 7, 0)), "tag 0x3"),
            (changed(6, (64, 7, 0)), "tag 0x40"),
            (changed(3, (1, 7, NO_ID)), "tag 0x1 after 0x2"),
            (changed(1, (2, 8, 10)), "permissions 0o10"),
            (changed(4, (8, 4, NO_ID)), "no id"),
            (changed(0, (1, 7, 5)), "id 5 with tag 0x1"),
        ];
        for (value, expected) in cases {
            let found = defect(&value).unwrap_or_default();
            assert!(found.contains(expected), "{found}");
        }
    }
}
