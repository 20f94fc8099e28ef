//! POSIX ACLs as Linux stores them in attributes: names, constants, and values that the kernel refuses.

/// Name of the attribute with the ACL of a file.
pub(crate) const ACCESS: &[u8] = b"system.posix_acl_access";
/// Name of the attribute with the ACL that new entries of a directory inherit.
pub(crate) const DEFAULT: &[u8] = b"system.posix_acl_default";
/// Pattern of both names.
pub(crate) const PATTERN: &str = "system.posix_acl_{access,default}";
/// The only version; a value begins with it.
pub(crate) const VERSION: u32 = 2;
/// All permission bits.
const PERMISSIONS: u16 = 7;
/// Id of entries without a user or group.
pub(crate) const NO_ID: u32 = u32::MAX;

/// Tags of entries, in their required order.
pub(crate) mod tag {
    pub(crate) const USER_OBJ: u16 = 0x01;
    pub(crate) const USER: u16 = 0x02;
    pub(crate) const GROUP_OBJ: u16 = 0x04;
    pub(crate) const GROUP: u16 = 0x08;
    pub(crate) const MASK: u16 = 0x10;
    pub(crate) const OTHER: u16 = 0x20;
}

/// Returns the reason why the kernel refuses a value, if it does.
pub(crate) fn defect(value: &[u8]) -> Option<String> {
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
    let (mut seen, mut last) = (0, 0);
    for [t0, t1, p0, p1, id @ ..] in entries {
        let (tag, bits, id) = (u16::from_le_bytes([*t0, *t1]), u16::from_le_bytes([*p0, *p1]), u32::from_le_bytes(*id));
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
