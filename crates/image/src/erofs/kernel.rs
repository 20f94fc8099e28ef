//! Which Linux reads what: the table of kernel gates, for writing (`--target-kernel`) and for telling what
//! an image needs.

use std::fmt;
use std::str::FromStr;

/// A Linux version, as far as it matters: 6.1, 5.15.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kernel {
    /// The first number.
    pub major: u16,
    /// The second number.
    pub minor: u16,
}

impl Kernel {
    /// What images are written for unless asked otherwise.
    pub const DEFAULT: Kernel = Kernel { major: 6, minor: 1 };
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl FromStr for Kernel {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no kernel version; expected two numbers, such as 6.1");
        let mut parts = text.split(['.', '-']);
        let mut number = || parts.next().and_then(|part| part.parse().ok()).ok_or_else(wrong);
        Ok(Kernel { major: number()?, minor: number()? })
    }
}

/// Something of the format that not every kernel reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Feature {}
