//! Random trees built with random options: a hundred in an ordinary run, always the same ones; scripts/random-trees.sh
//! runs any number of others.

use std::fmt::Debug;
use std::path::Path;

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};

use super::{Snapshot, Spec, snapshot_tree};
use crate::{Error, Result, Tree};

/// Number of trees in an ordinary run.
const CASES: u32 = 100;

/// Makes a runner for as many cases as `PACKFS_RANDOM_TREES` says, with the seed in `PACKFS_RANDOM_SEED`.
///
/// # Panics
/// If one of them is not a number.
fn random_trees() -> TestRunner {
    let number = |name: &str| {
        let text = std::env::var(name).ok()?;
        Some(text.parse::<u32>().unwrap_or_else(|_| panic!("{name}={text} is not a number")))
    };
    let seed = number("PACKFS_RANDOM_SEED").unwrap_or(0);
    let config = Config {
        cases: number("PACKFS_RANDOM_TREES").unwrap_or(CASES),
        // Invalid combinations of options are refused, and others drawn.
        max_global_rejects: u32::MAX,
        max_shrink_iters: 300,
        failure_persistence: None,
        ..Config::default()
    };
    let mut bytes = [0; 32];
    bytes[..4].copy_from_slice(&seed.to_le_bytes());
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
}

/// Builds images of `cases`. Each must contain its tree, as judged by `wrong`, and be the same
/// bytes for another number of threads. Invalid combinations of options are drawn anew.
///
/// # Panics
/// If an image is wrong.
pub fn random_images<O: Debug + Clone>(
    cases: impl Strategy<Value = (Spec, O)>,
    build: impl Fn(Tree, &Path, &O) -> Result<()>,
    other_threads: impl Fn(O) -> O,
    wrong: impl Fn(&Tree, Snapshot, &Path) -> Vec<String>,
) {
    let ran = random_trees().run(&cases, |(spec, options)| {
        let dir = tempfile::tempdir().expect("there is room for an image");
        let image = dir.path().join("image");
        let again = dir.path().join("again");
        let tree = || spec.tree().map_err(|error| TestCaseError::fail(error.to_string()));
        let fail = |error: Error| TestCaseError::fail(error.to_string());
        match build(tree()?, &image, &options) {
            Ok(()) => {}
            Err(error @ Error::InvalidOption { .. }) => return Err(TestCaseError::reject(error.to_string())),
            Err(error) => return Err(fail(error)),
        }
        let original = tree()?;
        let found = wrong(&original, snapshot_tree(&original).map_err(fail)?, &image);
        if !found.is_empty() {
            return Err(TestCaseError::fail(found.join("\n")));
        }
        build(tree()?, &again, &other_threads(options)).map_err(fail)?;
        let same = std::fs::read(&image)? == std::fs::read(&again)?;
        same.then_some(()).ok_or_else(|| TestCaseError::fail("other threads, other bytes"))
    });
    if let Err(failed) = ran {
        panic!("{failed}");
    }
}
