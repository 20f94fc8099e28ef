//! The order of file data: similar files next to each other.
//!
//! Small files share clusters in the packed inode. Those with the same suffix have most in common,
//! then those with the same name (one for each language, for each package), then those of the same
//! length: they are placed together. Larger files come first, so that no worker has a lot to do
//! alone at the end.

use std::collections::HashSet;

use crate::Result;
use crate::tree::{Ino, Kind, Tree};

/// Longest suffix that indicates a file's type.
const ENDING_MAX: usize = 8;

/// The sort key of a small file: its suffix as a number, its name, and its length. Kept small: a
/// tree may have millions.
type Key<'t> = (u64, &'t [u8], u64);

/// Returns the files listed in `order`, then larger ones in the order of the tree, then those of up
/// to `small_max` bytes.
pub(super) fn similar(tree: &Tree, order: Vec<Ino>, small_max: u64) -> Result<Vec<Ino>> {
    let named: HashSet<Ino> = order.iter().copied().collect();
    let (mut files, mut small) = (order, Vec::<(u64, &[u8], Ino)>::new());
    tree.walk_named(|ino, name, _| {
        match tree.inode(ino).kind {
            Kind::File { size, .. } if !named.contains(&ino) => match size <= small_max {
                true => small.push((number(ending(name)), name, ino)),
                false => files.push(ino),
            },
            _ => {}
        }
        Ok(())
    })?;
    let size = |ino| if let Kind::File { size, .. } = tree.inode(ino).kind { size } else { 0 };
    // Stable: files with equal keys stay in the tree's order.
    small.sort_by(|a, b| {
        let key = |(ending, name, ino): &(u64, _, Ino)| -> Key<'_> { (*ending, *name, size(*ino)) };
        key(a).cmp(&key(b))
    });
    files.extend(small.into_iter().map(|(.., ino)| ino));
    Ok(files)
}

/// Returns a suffix as a number with the same order: names contain no NUL.
fn number(ending: &[u8]) -> u64 {
    let mut bytes = [0; ENDING_MAX];
    bytes[..ending.len()].copy_from_slice(ending);
    u64::from_be_bytes(bytes)
}

/// Returns the part of a name that says most about a file's contents: the one after the last dot
/// that is not a number.
fn ending(name: &[u8]) -> &[u8] {
    let mut parts = name.rsplit(|byte| *byte == b'.');
    let found = parts.find(|part| !part.iter().all(u8::is_ascii_digit)).unwrap_or_default();
    if found.len() > ENDING_MAX || found.len() == name.len() { b"" } else { found }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_indicate_the_type_of_a_file() {
        let table: [(&str, &str); 8] = [
            ("a.so", "so"),
            ("libc.so.6", "so"),
            ("libfoo.so.1.2.3", "so"),
            ("README", ""),
            (".hidden", "hidden"),
            ("copyright", ""),
            ("x.averylongending", ""),
            ("a.tar.gz", "gz"),
        ];
        for (name, expected) in table {
            assert_eq!(ending(name.as_bytes()), expected.as_bytes(), "{name}");
        }
    }

    #[test]
    fn suffixes_have_the_same_order_as_numbers() {
        let sorted: [&[u8]; 7] = [b"", b"a", b"aa", b"ab", b"b", b"longlong", b"\xff"];
        assert!(sorted.windows(2).all(|pair| pair[0] < pair[1] && number(pair[0]) < number(pair[1])));
    }
}
