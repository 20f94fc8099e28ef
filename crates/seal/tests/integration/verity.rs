//! Trees with the bytes of veritysetup, and what is found in damaged ones.

use std::fs;
use std::path::Path;

use packfs_blocks::Output;
use packfs_seal::verity::{HashArea, Uuid, VerityFinding, VerityOptions, seal, verify};
use packfs_seal::{Error, HashAlgorithm, RootHash, from_hex};

use crate::common::{effort, have, noise, run, seal_into};

const UUID: &str = "01234567-89ab-cdef-0123-456789abcdef";
const SALT: &str = "00112233445566778899aabbccddeeff";

/// A tree of veritysetup: its options, and the number of bytes of data.
struct TreeCase {
    data_len: usize,
    algorithm: HashAlgorithm,
    data_block_size: u32,
    hash_block_size: u32,
    salt: &'static str,
    has_superblock: bool,
}

const USUAL: TreeCase = TreeCase {
    data_len: 4096,
    algorithm: HashAlgorithm::Sha256,
    data_block_size: 4096,
    hash_block_size: 4096,
    salt: SALT,
    has_superblock: true,
};

const CASES: [TreeCase; 10] = [
    USUAL,
    TreeCase { data_len: 2 * 4096, ..USUAL },
    TreeCase { data_len: 128 * 4096, ..USUAL },
    TreeCase { data_len: 129 * 4096, ..USUAL },
    TreeCase { data_len: 3_000 * 4096, salt: "", ..USUAL },
    TreeCase { data_len: 700 * 4096, algorithm: HashAlgorithm::Sha512, ..USUAL },
    TreeCase { data_len: 700 * 512, data_block_size: 512, hash_block_size: 512, ..USUAL },
    TreeCase { data_len: 700 * 1024, data_block_size: 1024, ..USUAL },
    TreeCase { data_len: 300 * 4096, hash_block_size: 1024, ..USUAL },
    TreeCase { data_len: 300 * 4096, has_superblock: false, ..USUAL },
];

impl TreeCase {
    fn options(&self) -> VerityOptions {
        VerityOptions::default().set(|all| {
            all.algorithm = self.algorithm;
            all.data_block_size = self.data_block_size;
            all.hash_block_size = self.hash_block_size;
            all.salt = from_hex(self.salt);
            all.uuid = Some(UUID.parse().unwrap());
            all.has_superblock = self.has_superblock;
        })
    }

    /// Has veritysetup seal the file `image` into the file `theirs`; returns the root hash.
    fn format(&self, dir: &Path) -> String {
        let mut args = vec![
            "format".to_owned(),
            "image".to_owned(),
            "theirs".to_owned(),
            format!("--hash={}", self.algorithm),
            format!("--data-block-size={}", self.data_block_size),
            format!("--hash-block-size={}", self.hash_block_size),
            format!("--salt={}", if self.salt.is_empty() { "-" } else { self.salt }),
        ];
        if self.has_superblock {
            args.push(format!("--uuid={UUID}"));
        } else {
            args.push("--no-superblock".to_owned());
        }
        let args: Vec<_> = args.iter().map(String::as_str).collect();
        let printed = run(dir, "veritysetup", &args);
        let line = printed.lines().find(|line| line.starts_with("Root hash:")).unwrap();
        line.split_whitespace().last().unwrap().to_owned()
    }
}

#[test]
fn the_bytes_are_those_of_veritysetup_for_any_number_of_threads() {
    if !have("the_bytes_are_those_of_veritysetup_for_any_number_of_threads", "veritysetup") {
        return;
    }
    for case in CASES {
        let dir = tempfile::tempdir().unwrap();
        let data = noise(case.data_len);
        fs::write(dir.path().join("image"), &data).unwrap();
        let expected = case.format(dir.path());
        for threads in [0, 1, 3] {
            let sealed = seal_into(&dir.path().join("ours"), &data, &case.options(), threads);
            let what = format!("{} bytes of {} bytes, {threads} threads", case.data_len, case.data_block_size);
            assert_eq!(sealed.root_hash.to_string(), expected, "{what}");
            let theirs = fs::read(dir.path().join("theirs")).unwrap();
            assert!(fs::read(dir.path().join("ours")).unwrap() == theirs, "{what}: the hash areas differ");
            assert_eq!(sealed.area.end(), Some(theirs.len() as u64), "{what}");
        }
    }
}

#[test]
fn an_appended_tree_is_verified_by_veritysetup() {
    if !have("an_appended_tree_is_verified_by_veritysetup", "veritysetup") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let data = noise(1000 * 4096);
    let output = Output::create(&dir.path().join("sealed"), 0o666, false).unwrap();
    output.write_all_at(&data, 0).unwrap();
    let sealed = seal(&data, &VerityOptions::default(), data.len() as u64, Some(&output), &effort(2)).unwrap();
    output.commit().unwrap();
    let root_hash = sealed.root_hash.to_string();
    let offset = format!("--hash-offset={}", data.len());
    run(dir.path(), "veritysetup", &["verify", "sealed", "sealed", &root_hash, &offset]);
    let shown = run(dir.path(), "veritysetup", &["dump", "sealed", &offset]);
    assert!(shown.contains(&sealed.area.superblock.uuid.to_string()), "{shown}");
}

#[test]
fn salt_and_uuid_come_from_the_image() {
    let data = noise(3 * 4096);
    let root_hash = |data: &Vec<u8>| seal(data, &VerityOptions::default(), 0, None, &effort(0)).unwrap();
    let once = root_hash(&data);
    assert_eq!(once, root_hash(&data));
    assert_eq!(once.area.superblock.salt.len(), 32);
    let mut other = data;
    other[0] ^= 1;
    assert_ne!(once.area.superblock.salt, root_hash(&other).area.superblock.salt);
    assert_ne!(once.area.superblock.uuid, Uuid::default());
}

/// Seals data, changes the byte at `at` of the image or, after its end, of the hash area, and returns the findings.
fn findings(data: &[u8], at: usize) -> Vec<VerityFinding> {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("tree");
    let mut data = data.to_vec();
    let sealed = seal_into(&file, &data, &VerityOptions::default(), 2);
    let mut tree = fs::read(&file).unwrap();
    if at < data.len() {
        data[at] ^= 1;
    } else {
        let at = at - data.len();
        tree[at] ^= 1;
    }
    let mut found = Vec::new();
    let area = HashArea::read(&tree, 0).unwrap();
    verify(&data, &tree, &area, &sealed.root_hash, &effort(2), &mut |finding| found.push(finding)).unwrap();
    found
}

#[test]
fn each_damaged_block_is_found() {
    let data = noise(300 * 4096);
    let tree = data.len();
    for (at, expected) in [
        (0, vec![VerityFinding::DataBlock { block: 0, offset: 0 }]),
        (299 * 4096 + 4095, vec![VerityFinding::DataBlock { block: 299, offset: 299 * 4096 }]),
        // The UUID of the superblock is not covered.
        (tree + 16, vec![]),
        (tree + 4096, vec![VerityFinding::RootHash]),
        // The last digest in use, and unused bytes after it.
        (
            tree + 4 * 4096 + 43 * 32,
            vec![
                VerityFinding::HashBlock { offset: 4 * 4096 },
                VerityFinding::DataBlock { block: 299, offset: 299 * 4096 },
            ],
        ),
        (tree + 4 * 4096 + 44 * 32, vec![VerityFinding::HashBlock { offset: 4 * 4096 }]),
    ] {
        assert_eq!(findings(&data, at), expected, "{at}");
    }
    // The only block has no tree, and its digest is the root hash.
    let single = [VerityFinding::DataBlock { block: 0, offset: 0 }];
    assert_eq!(findings(&noise(4096), 5), single);
}

#[test]
fn impossible_parameters_are_refused() {
    let data = noise(4096);
    let try_with = |data: &Vec<u8>, change: fn(&mut VerityOptions), offset| {
        seal(data, &VerityOptions::default().set(change), offset, None, &effort(0)).unwrap_err().to_string()
    };
    for (data, change, offset, why) in [
        (data.clone(), (|all| all.data_block_size = 4095) as fn(&mut VerityOptions), 0, "data block size 4095"),
        (data.clone(), |all| all.hash_block_size = 256, 0, "hash block size 256"),
        (data.clone(), |all| all.hash_block_size = 1 << 20, 0, "hash block size"),
        (data.clone(), |all| all.salt = Some(vec![0; 257]), 0, "salt of 257 bytes"),
        (data.clone(), |_| (), 4095, "hash offset 4095"),
        (data[1..].to_vec(), |_| (), 0, "4095 bytes"),
        (Vec::new(), |_| (), 0, "0 bytes"),
    ] {
        let told = try_with(&data, change, offset);
        assert!(told.contains(why), "{why}: {told}");
    }
}

#[test]
fn hostile_superblocks_are_errors() {
    let data = noise(4096);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("tree");
    let sealed = seal_into(&file, &data, &VerityOptions::default(), 0);
    let tree = fs::read(&file).unwrap();
    for (at, byte) in (0..92).flat_map(|at| [0, 1, 0x7f, 0xff].map(|byte| (at, byte))) {
        let mut wrong = tree.clone();
        wrong[at] = byte;
        let Ok(area) = HashArea::read(&wrong, 0) else { continue };
        // It ends: with findings, or with an error.
        let _ = verify(&data, &wrong, &area, &sealed.root_hash, &effort(0), &mut |_| ());
    }
    assert!(matches!(HashArea::read(&tree, u64::MAX), Err(Error::Io { .. })));
}

#[test]
fn root_hashes_are_pairs_of_digits_of_a_known_length() {
    let text = "ab".repeat(32);
    assert_eq!(text.to_uppercase().parse::<RootHash>().unwrap().to_string(), text);
    assert_eq!("ab".repeat(64).parse::<RootHash>().unwrap().algorithm(), HashAlgorithm::Sha512);
    for wrong in ["", "ab", &format!("{text}\n"), &text[1..], &format!("{text}ab")] {
        assert!(wrong.parse::<RootHash>().is_err(), "{wrong:?}");
    }
}
