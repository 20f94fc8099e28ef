//! The order of file data: like beside like.
//!
//! Small files share clusters in the packed inode. Those with the same ending of their names have most in
//! common, then those with the same name (one for each language, for each package), then those of the same
//! length: they lie together. Larger ones go before them, so that no worker has much to do alone at the end.

use std::collections::HashSet;

use crate::Result;
use crate::tree::{Ino, Kind, Tree};

/// Longest ending that says what a file is.
const ENDING_MAX: usize = 8;

/// The sort key of a small file: the ending of its name as a number, the name, and its length. Kept small: a
/// tree may have millions.
type Key<'t> = (u64, &'t [u8], u64);

/// The files that `order` names, then larger ones in the order of the tree, then those of up to `small_max` bytes.
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
    // Stable: what is alike in all this stays in the tree's order.
    small.sort_by(|a, b| {
        let key = |(ending, name, ino): &(u64, _, Ino)| -> Key<'_> { (*ending, *name, size(*ino)) };
        key(a).cmp(&key(b))
    });
    files.extend(small.into_iter().map(|(.., ino)| ino));
    Ok(files)
}

/// An ending as a number that has the same order: names hold no NUL.
fn number(ending: &[u8]) -> u64 {
    let mut bytes = [0; ENDING_MAX];
    bytes[..ending.len()].copy_from_slice(ending);
    u64::from_be_bytes(bytes)
}

/// What says most about a file's contents: the part behind the last dot that is not a number.
fn ending(name: &[u8]) -> &[u8] {
    let mut parts = name.rsplit(|byte| *byte == b'.');
    let found = parts.find(|part| !part.iter().all(u8::is_ascii_digit)).unwrap_or_default();
    if found.len() > ENDING_MAX || found.len() == name.len() { b"" } else { found }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_say_what_a_file_is() {
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
    fn endings_have_the_same_order_as_numbers() {
        let sorted: [&[u8]; 7] = [b"", b"a", b"aa", b"ab", b"b", b"longlong", b"\xff"];
        assert!(sorted.windows(2).all(|pair| pair[0] < pair[1] && number(pair[0]) < number(pair[1])));
    }
}
