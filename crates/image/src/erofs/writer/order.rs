//! The order of file data: like beside like.
//!
//! Small files share clusters in the packed inode. Those with the same ending of their names have most in
//! common, so they lie together; all others keep the tree's order, which is the order of a walk.

use std::collections::HashSet;

use crate::Result;
use crate::tree::{Ino, Kind, Tree};

/// Longest ending that says what a file is.
const ENDING_MAX: usize = 8;

/// The files that `order` names, then those of up to `small_max` bytes by the endings of their names, then the rest.
pub(super) fn similar(tree: &Tree, order: Vec<Ino>, small_max: u64) -> Result<Vec<Ino>> {
    let named: HashSet<Ino> = order.iter().copied().collect();
    let mut small = Vec::new();
    tree.walk(|ino, path| {
        if let Kind::File { size, .. } = tree.inode(ino).kind
            && size <= small_max
            && !named.contains(&ino)
        {
            let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
            small.push((ending(name).into(), ino));
        }
        Ok(())
    })?;
    // Stable: files with the same ending stay in the tree's order.
    small.sort_by(|a: &(Box<[u8]>, Ino), b| a.0.cmp(&b.0));
    Ok(order.into_iter().chain(small.into_iter().map(|(_, ino)| ino)).collect())
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
}
