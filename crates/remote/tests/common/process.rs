//! Reading in a process of its own, for tests of variables.

use std::time::Duration;

use packfs_blocks::ReadAt;
use packfs_remote::{Options, Remote};

use crate::common::noise;

/// Reads the object at the address in `TEST_ADDRESS`, of `len` bytes of noise, and prints how that ended: for tests that
/// start this program again with other variables.
pub(crate) fn read_and_tell(len: usize) {
    let Ok(address) = std::env::var("TEST_ADDRESS") else { return };
    let options = Options::default().set(|all| (all.tries, all.pause) = (2, Duration::from_millis(1)));
    match Remote::open(&address, &options) {
        Ok(remote) => {
            let mut bytes = vec![0; len];
            remote.read_exact_at(&mut bytes, 0).unwrap();
            assert_eq!(bytes, noise(len));
            println!("read all of it");
        }
        Err(error) => println!("{error}"),
    }
}
