//! Reading in a process of its own, for tests of variables.

use std::process::Command;
use std::time::Duration;

use packfs_blocks::ReadAt;
use packfs_remote::{RemoteObject, RemoteOptions};

use crate::common::noise;

/// Reads the object at the address in `TEST_ADDRESS`, of `len` bytes of noise, and prints how that ended: for tests that
/// start this program again with other variables.
pub(crate) fn read_and_tell(len: usize) {
    let Ok(address) = std::env::var("TEST_ADDRESS") else { return };
    let options = RemoteOptions::default().set(|all| (all.tries, all.pause) = (2, Duration::from_millis(1)));
    match RemoteObject::open(&address, &options) {
        Ok(remote) => {
            let mut bytes = vec![0; len];
            remote.read_exact_at(&mut bytes, 0).unwrap();
            assert_eq!(bytes, noise(len));
            println!("read all of it");
        }
        Err(error) => println!("{error}"),
    }
}

/// Returns this program, to run one of the tests that others start. `test` is its name with that of its module.
pub(crate) fn again(test: &str) -> Command {
    let mut process = Command::new(std::env::current_exe().unwrap());
    process.args(["--exact", test, "--ignored", "--nocapture"]);
    process
}

/// Reads `address` by one of the tests that others start, in a process with these variables and without those that
/// `hidden` names; returns what it says.
pub(crate) fn read(test: &str, address: &str, hidden: impl Fn(&str) -> bool, variables: &[(&str, &str)]) -> String {
    let mut process = again(test);
    process.env("TEST_ADDRESS", address);
    for (name, _) in std::env::vars_os().filter(|(name, _)| hidden(&name.to_string_lossy())) {
        process.env_remove(name);
    }
    let output = process.env("HOME", "/nonexistent").env("no_proxy", "*").envs(variables.iter().copied()).output();
    String::from_utf8_lossy(&output.unwrap().stdout).into_owned()
}
