//! `packfs bench` as a user runs it.

mod common;

use common::{fail, run_in, succeed};

#[test]
fn memory_is_the_same_for_the_same_seed_wherever_it_goes() {
    let dir = tempfile::tempdir().unwrap();
    let options = ["--seed", "7", "--shares", "zero=2,text=1,random=1"];
    let memory = |rest: &[&str]| run_in(dir.path(), &[&["bench", "memory"], &options[..], rest].concat());
    assert!(memory(&["2500000", "-o", "a"]).status.success());
    let piped = memory(&["2500000"]);
    assert!(piped.status.success());
    let file = std::fs::read(dir.path().join("a")).unwrap();
    assert_eq!(file.len(), 2_500_000);
    assert!(file == piped.stdout);
    succeed(dir.path(), &["bench", "memory", "0", "-o", "empty"]);
    assert_eq!(std::fs::metadata(dir.path().join("empty")).unwrap().len(), 0);
}

#[test]
fn memory_says_what_it_does_not_do() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("kept"), "kept").unwrap();
    let error = fail(dir.path(), 1, &["bench", "memory", "4K", "-o", "kept"]);
    assert!(error.contains("--force"), "{error}");
    assert_eq!(std::fs::read(dir.path().join("kept")).unwrap(), b"kept");
    let error = fail(dir.path(), 2, &["bench", "memory", "4K", "--shares", "holes=1"]);
    assert!(error.contains("zero, same, text, pointers, code, random"), "{error}");
    fail(dir.path(), 2, &["bench"]);
}
