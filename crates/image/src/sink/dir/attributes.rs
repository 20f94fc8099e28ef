//! Extended attributes of an extracted entry, set in an order in which all of them fit.
//!
//! ext4 keeps an attribute in the inode if there is room for it when it is set, and otherwise in one block. So the
//! order decides whether a set fits that did fit at its source. If there is no room for an attribute, other orders are
//! tried.

use rustix::io::{Errno, Result};

/// Maximum number of orders that are tried after the first one. 64 cover every choice of the first one or two of up to
/// ten attributes. Each order costs two system calls per attribute, for entries without room only.
const ORDERS_MAX: usize = 64;

/// Extended attributes of one entry.
pub(super) trait AttributeStore {
    /// Sets an attribute.
    fn set(&self, name: &[u8], value: &[u8]) -> Result<()>;

    /// Removes an attribute; there may be none.
    fn remove(&self, name: &[u8]);
}

/// Name and value of an attribute.
pub(super) type NamedValue = (Box<[u8]>, Box<[u8]>);

/// Sets all attributes of an entry. Returns the indices of those that could not be set, with the errors.
pub(super) fn set_all(entry: &impl AttributeStore, wanted: &[NamedValue]) -> Vec<(usize, Errno)> {
    let given: Vec<usize> = (0..wanted.len()).collect();
    let failed = set_in_order(entry, wanted, &given);
    if wanted.len() < 2 || !has_no_room(&failed) {
        return failed;
    }
    for order in other_orders(wanted) {
        wanted.iter().for_each(|(name, _)| entry.remove(name));
        let failed = set_in_order(entry, wanted, &order);
        if !has_no_room(&failed) {
            return failed;
        }
    }
    wanted.iter().for_each(|(name, _)| entry.remove(name));
    set_in_order(entry, wanted, &given)
}

fn set_in_order(entry: &impl AttributeStore, wanted: &[NamedValue], order: &[usize]) -> Vec<(usize, Errno)> {
    let set = |at: &usize| {
        let (name, value) = &wanted[*at];
        entry.set(name, value).err().map(|errno| (*at, errno))
    };
    order.iter().filter_map(set).collect()
}

fn has_no_room(failed: &[(usize, Errno)]) -> bool {
    failed.iter().any(|(_, errno)| *errno == Errno::NOSPC)
}

/// Returns other orders, the promising ones first: the first attributes get the room in the inode.
fn other_orders(wanted: &[NamedValue]) -> Vec<Vec<usize>> {
    let mut largest_first: Vec<usize> = (0..wanted.len()).collect();
    largest_first.sort_by_key(|at| std::cmp::Reverse(wanted[*at].0.len() + wanted[*at].1.len()));
    let beginning_with = |first: &[usize]| {
        let rest = largest_first.iter().filter(|at| !first.contains(at));
        first.iter().chain(rest).copied().collect::<Vec<_>>()
    };
    let smallest_first: Vec<usize> = largest_first.iter().rev().copied().collect();
    let mut orders = vec![largest_first.clone(), smallest_first];
    orders.extend(largest_first.iter().map(|first| beginning_with(&[*first])));
    for (n, first) in largest_first.iter().enumerate() {
        orders.extend(largest_first[n + 1..].iter().map(|second| beginning_with(&[*first, *second])));
    }
    orders.truncate(ORDERS_MAX);
    orders
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// Room in the inode and in the block, and the attributes in both.
    struct Ext4Inode {
        room: [usize; 2],
        set: RefCell<[Vec<NamedValue>; 2]>,
    }

    impl AttributeStore for Ext4Inode {
        fn set(&self, name: &[u8], value: &[u8]) -> Result<()> {
            let places = &mut *self.set.borrow_mut();
            for (place, room) in places.iter_mut().zip(self.room) {
                let used: usize = place.iter().map(|(name, value)| name.len() + value.len()).sum();
                if used + name.len() + value.len() <= room {
                    place.push((name.into(), value.into()));
                    return Ok(());
                }
            }
            Err(Errno::NOSPC)
        }

        fn remove(&self, name: &[u8]) {
            self.set.borrow_mut().iter_mut().for_each(|place| place.retain(|(other, _)| **other != *name));
        }
    }

    #[test]
    fn a_set_that_fits_in_some_order_is_set() {
        // Lengths with the name, and whether all can be set in an inode with room for 100 bytes and a block of 1000.
        for (lens, fit) in [
            (&[20, 80, 995][..], true),
            (&[60, 90, 940], true),
            (&[70, 50, 50, 930], true),
            (&[10, 70, 50, 50, 920], true),
            (&[101, 900], false),
            (&[100, 1000], true),
            (&[90, 90, 990], false),
            (&[1001], false),
        ] {
            let entry = Ext4Inode { room: [100, 1000], set: RefCell::default() };
            let wanted: Vec<NamedValue> = (0..lens.len())
                .map(|n| (vec![b'a' + u8::try_from(n).unwrap()].into(), vec![0; lens[n] - 1].into()))
                .collect();
            let failed = set_all(&entry, &wanted);
            assert_eq!(failed.is_empty(), fit, "{lens:?}: {failed:?}");
            let set: usize = entry.set.borrow().iter().map(Vec::len).sum();
            assert_eq!(set + failed.len(), lens.len(), "{lens:?}");
            assert!(failed.iter().all(|(_, errno)| *errno == Errno::NOSPC));
        }
    }

    #[test]
    fn orders_are_few_and_whole() {
        let wanted: Vec<NamedValue> = (0..40).map(|n| (vec![n].into(), vec![0; n.into()].into())).collect();
        let orders = other_orders(&wanted);
        assert_eq!(orders.len(), ORDERS_MAX);
        for mut order in orders {
            order.sort_unstable();
            assert!(order.into_iter().eq(0..wanted.len()));
        }
    }
}
