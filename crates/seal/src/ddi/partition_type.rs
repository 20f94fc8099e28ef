//! Types of partitions by which systemd knows what is in them.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};
use crate::verity::Uuid;

/// Purpose and architecture of the data partition of a disk image, as in `root-x86-64`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DdiType(&'static TypeRow);

/// Types of the three partitions.
#[derive(Debug, PartialEq, Eq)]
struct TypeRow {
    name: &'static str,
    data: u128,
    hash_tree: u128,
    signature: u128,
}

const fn row(name: &'static str, data: u128, hash_tree: u128, signature: u128) -> TypeRow {
    TypeRow { name, data, hash_tree, signature }
}

/// Source: Discoverable Partitions Specification of the UAPI group; sd-gpt.h of systemd.
#[rustfmt::skip]
static TYPES: [TypeRow; 16] = [
    row("root-x86-64", 0x4f68bce3e8cd4db196e7fbcaf984b709, 0x2c7357edebd246d9aec123d437ec2bf5, 0x41092b059fc84523994f2def0408b176),
    row("usr-x86-64", 0x8484680c952148c69c11b0720656f69e, 0x77ff5f63e7b64633acf41565b864c0e6, 0xe7bb33fb06cf4e818273e543b413e2e2),
    row("root-x86", 0x44479540f29741b29af7d131d5f0458a, 0xd13c5d3bb5d1422ab29f9454fdc89d76, 0x5996fc05109c48de808b23fa0830b676),
    row("usr-x86", 0x75250d768cc6458ebd66bd47cc81a812, 0x8f461b0d14ee4e819aa9049b6fb97abd, 0x974a71c0de4143c3be5d5c5ccd1ad2c0),
    row("root-arm64", 0xb921b0451df041c3af444c6f280d3fae, 0xdf3300ced69f4c92978c9bfb0f38d820, 0x6db69de629f44758a7a5962190f00ce3),
    row("usr-arm64", 0xb0e01050ee5f4390949a9101b17104e9, 0x6e11a4e7fbca4dedb9e9e1a512bb664e, 0xc23ce4ff44bd4b00b2d4b41b3419e02a),
    row("root-arm", 0x69dad7102ce44e3cb16c21a1d49abed3, 0x7386cdf2203c47a9a498f2ecce45a2d6, 0x42b0455feb11491d98d356145ba9d037),
    row("usr-arm", 0x7d0359a302b34f0a865c654403e70625, 0xc215d7517bcd4649be906627490a4c05, 0xd7ff812f37d14902a810d76ba57b975a),
    row("root-riscv64", 0x72ec70a6cf7440e6bd494bda08e8f224, 0xb6ed5582440b4209b8da5ff7c419ea3d, 0xefe0f087ea8d4469821a4c2a96a8386a),
    row("usr-riscv64", 0xbeaec34b8442439ba40b984381ed097d, 0x8f1056be9b0547c481d6be53128e5b54, 0xd2f9000a7a18453fb5cd4d32f77a7b32),
    row("root-ppc64-le", 0xc31c45e63f39412e80fb4809c4980599, 0x906bd94445894aaea4e4dd983917446a, 0xd4a236e7e8734c07bf1dbf6cf7f1c3c6),
    row("usr-ppc64-le", 0x15bb03af77e74d4ab12bc0d084f7491c, 0xee2b998321e8415386d9b6901a54d1ce, 0xc8bfbd1e268e45218bbabf314c399557),
    row("root-s390x", 0x5eead9a9fe094a1ea1d7520d00531306, 0xb325bfbec7be4ab88357139e652d2f6b, 0xc80187a573a3491a901a017c3fa953e9),
    row("usr-s390x", 0x8a4f577050aa4ed3874a99b710db6fea, 0x31741cc41a2a4111a581e00b447d2d06, 0x3f324816667b46ae86ee9b0c0c6c11b4),
    row("root-loongarch64", 0x77055800792c4f94b39a98c91b762bb6, 0xf3393b22e9af4613a9489d3bfbd0c535, 0x5afb67ebecc84f85ae8eac1e7c50e7d0),
    row("usr-loongarch64", 0xe611c702575c4cbe9a46434fa0bf7e3f, 0xf46b2c2659ae48f09106c50ed47f673d, 0xb024f315d330444c846144bbde524e99),
];

impl DdiType {
    /// Returns all types.
    pub fn all() -> impl Iterator<Item = DdiType> {
        TYPES.iter().map(DdiType)
    }

    /// Returns the type of a root file system for the architecture for which this program was compiled; `None` for one
    /// that has no type here.
    pub fn own_root() -> Option<DdiType> {
        // Rust and the specification spell some architectures differently; the others are equal.
        let architecture = match std::env::consts::ARCH {
            "x86_64" => "x86-64",
            "aarch64" => "arm64",
            "powerpc64" if cfg!(target_endian = "little") => "ppc64-le",
            other => other,
        };
        format!("root-{architecture}").parse().ok()
    }

    /// Returns the name, as in `root-x86-64`.
    pub fn name(self) -> &'static str {
        self.0.name
    }

    /// Returns true for a tree that is mounted at /usr.
    pub fn is_usr(self) -> bool {
        self.0.name.starts_with("usr-")
    }

    pub(crate) fn data(self) -> Uuid {
        // Constants are written as the specification prints them, which is big endian.
        Uuid(self.0.data.to_be_bytes())
    }

    pub(crate) fn hash_tree(self) -> Uuid {
        Uuid(self.0.hash_tree.to_be_bytes())
    }

    pub(crate) fn signature(self) -> Uuid {
        Uuid(self.0.signature.to_be_bytes())
    }
}

impl fmt::Display for DdiType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for DdiType {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let why = "root-ARCHITECTURE or usr-ARCHITECTURE, as in root-x86-64 and usr-arm64";
        DdiType::all().find(|known| known.name() == text).ok_or(Error::BadText { what: "partition type", why })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_and_uuids_are_all_different() {
        let uuids: BTreeSet<[u8; 16]> = DdiType::all()
            .flat_map(|kind| [kind.data(), kind.hash_tree(), kind.signature()])
            .map(|uuid| uuid.0)
            .collect();
        assert_eq!(uuids.len(), 3 * TYPES.len());
        for kind in DdiType::all() {
            assert_eq!(kind.name().parse::<DdiType>().unwrap(), kind);
            assert_eq!(kind.is_usr(), kind.name().starts_with("usr"));
        }
        assert!("root".parse::<DdiType>().is_err());
    }

    #[test]
    fn the_types_are_those_of_the_specification() {
        let root: DdiType = "root-x86-64".parse().unwrap();
        assert_eq!(root.data().to_string(), "4f68bce3-e8cd-4db1-96e7-fbcaf984b709");
        assert_eq!(root.hash_tree().to_string(), "2c7357ed-ebd2-46d9-aec1-23d437ec2bf5");
        assert_eq!(root.signature().to_string(), "41092b05-9fc8-4523-994f-2def0408b176");
    }
}
