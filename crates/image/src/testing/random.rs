//! How many random trees a test makes, and which: fifty in an ordinary run, always the same; as many as one likes, and
//! others each time, by scripts/random-trees.sh.

use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// Trees of an ordinary run.
const CASES: u32 = 50;

/// A runner for as many cases as `PACKFS_RANDOM_TREES` says, from the seed in `PACKFS_RANDOM_SEED`.
///
/// # Panics
/// If one of them is not a number.
pub fn random_trees() -> TestRunner {
    let number = |name: &str| {
        let text = std::env::var(name).ok()?;
        Some(text.parse::<u32>().unwrap_or_else(|_| panic!("{name}={text} is not a number")))
    };
    let seed = number("PACKFS_RANDOM_SEED").unwrap_or(0);
    let config = Config {
        cases: number("PACKFS_RANDOM_TREES").unwrap_or(CASES),
        // Options that do not go together are refused, and others drawn.
        max_global_rejects: u32::MAX,
        max_shrink_iters: 300,
        failure_persistence: None,
        ..Config::default()
    };
    let mut bytes = [0; 32];
    bytes[..4].copy_from_slice(&seed.to_le_bytes());
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
}
