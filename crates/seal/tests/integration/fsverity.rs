//! Digests of fs-verity.

use std::fs;

use packfs_seal::{Error, FsVerityOptions, HashAlgorithm, fsverity_digest, to_hex};

use crate::common::{effort, have, noise, run};

#[test]
fn digests_are_those_of_fsverity() {
    if !have("digests_are_those_of_fsverity", "fsverity") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    for len in [0, 1, 4095, 4096, 4097, 128 * 4096, 128 * 4096 + 1, 3_000_000] {
        let data = noise(len);
        fs::write(dir.path().join("file"), &data).unwrap();
        for (algorithm, block_size, salt) in [
            (HashAlgorithm::Sha256, 4096, &b""[..]),
            (HashAlgorithm::Sha512, 4096, b""),
            (HashAlgorithm::Sha256, 1024, b"salt"),
            (HashAlgorithm::Sha512, 65536, &[0xff; 32]),
        ] {
            let mut args = vec!["digest".to_owned(), "--compact".to_owned(), "file".to_owned()];
            args.push(format!("--hash-alg={algorithm}"));
            args.push(format!("--block-size={block_size}"));
            if !salt.is_empty() {
                args.push(format!("--salt={}", to_hex(salt)));
            }
            let expected = run(dir.path(), "fsverity", &args.iter().map(String::as_str).collect::<Vec<_>>());
            let options = FsVerityOptions::default().set(|all| {
                all.algorithm = algorithm;
                all.block_size = block_size;
                all.salt = salt.to_vec();
            });
            let digest = fsverity_digest(&data, &options, &effort(2)).unwrap();
            assert_eq!(digest.to_string(), expected.trim_end(), "{len} bytes, {args:?}");
        }
    }
}

#[test]
fn impossible_parameters_are_refused() {
    for change in [
        (|all| all.block_size = 512) as fn(&mut FsVerityOptions),
        |all| all.block_size = 5000,
        |all| all.block_size = 1 << 17,
        |all| all.salt = vec![0; 33],
    ] {
        let refused = fsverity_digest(&noise(1), &FsVerityOptions::default().set(change), &effort(0));
        assert!(matches!(refused, Err(Error::InvalidOption { .. })), "{refused:?}");
    }
}
