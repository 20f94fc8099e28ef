//! Sorts files, without a look at most names: those of a large tree lie all over the memory, so files are compared by
//! the next eight bytes of their names, which lie beside each other.

use super::OrderedFile;

/// Number of bytes of a name that are compared at once.
const STEP: usize = 8;

/// Sorts files by rank, type, name and length; larger ones before the others, by name if they `gather`. Files that are
/// equal keep their order.
pub(super) fn sort(items: &mut [OrderedFile<'_>], gathers: bool, len: &impl Fn(&OrderedFile<'_>) -> u64) {
    // `None` comes first: larger files precede those by class.
    items.sort_by_key(|item| (item.rank, item.class));
    for alike in items.chunk_by_mut(|a, b| (a.rank, a.class) == (b.rank, b.class)) {
        match alike[0].class {
            Some(_) => by_name(alike, 0, &|same| same.sort_by_key(|item| len(item))),
            None if gathers => by_name(alike, 0, &|_| ()),
            None => {}
        }
    }
}

/// Sorts files by what their names have after `from` bytes that all of them share; those of one name by `finish`.
fn by_name(items: &mut [OrderedFile<'_>], from: usize, finish: &impl Fn(&mut [OrderedFile<'_>])) {
    if items.len() < 2 {
        return;
    }
    for item in &mut *items {
        item.next = next(item.name, from);
    }
    items.sort_by_key(|item| item.next);
    for same in items.chunk_by_mut(|a, b| a.next == b.next) {
        // No name has a NUL, so one with fewer than eight more bytes ends here.
        match same[0].next.to_be_bytes()[STEP - 1] {
            _ if same.len() == 1 => {}
            0 => finish(same),
            _ => by_name(same, from + STEP, finish),
        }
    }
}

/// Returns a number that sorts as the next bytes of a name do.
fn next(name: &[u8], from: usize) -> u64 {
    let rest = name.get(from..).unwrap_or_default();
    let mut bytes = [0; STEP];
    let len = rest.len().min(STEP);
    bytes[..len].copy_from_slice(&rest[..len]);
    u64::from_be_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::class::FileClass;
    use super::*;
    use crate::tree::Ino;

    proptest! {
        #[test]
        fn files_are_sorted_as_their_whole_names_are(
            files in proptest::collection::vec((-1..2, 0u8..3, "[ab]{0,3}(longname)?[ab]{0,3}(longname)?[ab\u{ff}]{1,3}", 0u64..3), 0..60),
            gathers in any::<bool>(),
        ) {
            let class = |n: u8| [None, Some(FileClass::UNKNOWN), Some(FileClass::of_name(b"x.txt"))][usize::from(n)];
            let item = |(ino, (rank, n, name, _)): (u32, &'static (i32, u8, String, u64))| {
                OrderedFile { rank: *rank, ino: Ino(ino), name: name.as_bytes(), next: 0, class: class(*n) }
            };
            let files: &'static [_] = Box::leak(files.into_boxed_slice());
            let mut items: Vec<_> = (0..).zip(files).map(item).collect();
            let len = |item: &OrderedFile<'_>| files[item.ino.0 as usize].3;
            let mut expected: Vec<_> = (0..).zip(files).map(item).collect();
            expected.sort_by(|a, b| (a.rank, a.class).cmp(&(b.rank, b.class)).then_with(|| match a.class {
                Some(_) => (a.name, len(a)).cmp(&(b.name, len(b))),
                None if gathers => a.name.cmp(b.name),
                None => std::cmp::Ordering::Equal,
            }));
            sort(&mut items, gathers, &len);
            let inos = |items: &[OrderedFile<'_>]| items.iter().map(|item| item.ino).collect::<Vec<_>>();
            prop_assert_eq!(inos(&items), inos(&expected));
        }
    }
}
