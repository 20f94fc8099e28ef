//! Machines for which the programs in a container are.

use std::fmt;
use std::str::FromStr;

use packfs_blocks::system::container_architecture;

use crate::error::{Error, Result};

/// A machine, by the name that Go has for it, as in `amd64`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SifArchitecture(&'static ArchitectureRow);

#[derive(Debug, PartialEq, Eq)]
struct ArchitectureRow {
    name: &'static str,
    /// Text in header and descriptors.
    code: [u8; 3],
}

const fn row(name: &'static str, code: &[u8; 3]) -> ArchitectureRow {
    ArchitectureRow { name, code: *code }
}

/// Source: pkg/sif/arch.go.
static ARCHITECTURES: [ArchitectureRow; 13] = [
    row("386", b"01\0"),
    row("amd64", b"02\0"),
    row("arm", b"03\0"),
    row("arm64", b"04\0"),
    row("ppc64", b"05\0"),
    row("ppc64le", b"06\0"),
    row("mips", b"07\0"),
    row("mipsle", b"08\0"),
    row("mips64", b"09\0"),
    row("mips64le", b"10\0"),
    row("s390x", b"11\0"),
    row("riscv64", b"12\0"),
    row("loong64", b"13\0"),
];

impl SifArchitecture {
    /// Returns all machines.
    pub fn all() -> impl Iterator<Item = SifArchitecture> {
        ARCHITECTURES.iter().map(SifArchitecture)
    }

    /// Returns the machine for which this program was compiled; `None` for one that SIF does not know.
    pub fn own() -> Option<SifArchitecture> {
        container_architecture().parse().ok()
    }

    /// Returns the name, as in `amd64`.
    pub fn name(self) -> &'static str {
        self.0.name
    }

    /// Returns the text in header and descriptors.
    pub(super) fn code(self) -> [u8; 3] {
        self.0.code
    }
}

impl fmt::Display for SifArchitecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for SifArchitecture {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let why = "it is named as in Go: amd64, arm64, riscv64, ppc64le and others";
        SifArchitecture::all().find(|known| known.name() == text).ok_or(Error::BadText { what: "architecture", why })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_codes_belong_together() {
        for (n, known) in SifArchitecture::all().enumerate() {
            assert_eq!(known.name().parse::<SifArchitecture>().unwrap(), known);
            assert_eq!(known.code()[..], *format!("{:02}\0", n + 1).as_bytes());
        }
        assert!("x86_64".parse::<SifArchitecture>().is_err());
    }
}
