//! File capabilities as Linux stores them in an attribute, and values that the kernel refuses to show.

/// Name of the attribute.
pub const NAME: &[u8] = b"security.capability";
/// Revisions with the lengths of their values. The kernel also obeys revision 1, but nobody can read or set it.
const REVISIONS: [(u32, usize); 2] = [(0x0200_0000, LEN_2), (0x0300_0000, LEN_2 + 4)];
/// Length of a value of revision 2: header, and two words each of permitted and inheritable capabilities.
const LEN_2: usize = 20;
/// Header bit outside the revision: capabilities are effective at once.
const EFFECTIVE: u32 = 1;
/// An id that is not valid as the root user of a user namespace.
const NO_ID: u32 = u32::MAX;

/// Returns the value for capabilities that a program has at once: 32 permitted and inheritable bits at a time, low ones
/// first.
pub fn effective(capabilities: u64) -> Vec<u8> {
    let header = REVISIONS[0].0 | EFFECTIVE;
    let bits = capabilities.to_le_bytes();
    let (low, high) = bits.split_at(4);
    [&header.to_le_bytes()[..], low, &[0; 4], high, &[0; 4]].concat()
}

/// Returns the reason why the kernel refuses a value, if it does.
pub fn defect(value: &[u8]) -> Option<String> {
    let Some(header) = value.first_chunk().map(|header| u32::from_le_bytes(*header)) else {
        return Some(format!("{} bytes are too few", value.len()));
    };
    match REVISIONS.iter().find(|(revision, _)| header & !EFFECTIVE == *revision) {
        None => Some(format!("header {header:#010x} is not of revision 2 or 3")),
        Some((_, len)) if value.len() != *len => Some(format!("{} bytes instead of {len}", value.len())),
        // As `get_vfs_caps_from_disk` of Linux, which takes it from the owner of the namespace.
        Some(_) if value.get(LEN_2..) == Some(&NO_ID.to_le_bytes()[..]) => {
            Some(format!("{NO_ID} is not a valid root user of a user namespace"))
        }
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_the_kernel_shows_have_no_defect() {
        let value = |header: u32, len: usize| [&header.to_le_bytes()[..], &vec![0; len - 4]].concat();
        let namespace = |root: u32| [&value(0x0300_0000, 20)[..], &root.to_le_bytes()].concat();
        for right in [value(0x0200_0000, 20), value(0x0200_0001, 20), namespace(0), namespace(100_000)] {
            assert_eq!(defect(&right), None, "{right:?}");
        }
        for (wrong, why) in [
            (vec![1, 0, 0], "3 bytes are too few"),
            (value(0x0100_0000, 12), "revision"),
            (value(0x0400_0000, 24), "revision"),
            (value(0x0200_0002, 20), "revision"),
            (value(0x0200_0000, 24), "24 bytes instead of 20"),
            (value(0x0300_0001, 20), "20 bytes instead of 24"),
            (namespace(u32::MAX), "not a valid root"),
        ] {
            assert!(defect(&wrong).is_some_and(|said| said.contains(why)), "{wrong:?}");
        }
    }
}
