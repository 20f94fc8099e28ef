//! The seam to the operating system: all that differs between systems is asked for here, and chosen in this file alone.
//!
//! Linux has everything. Elsewhere images are read and built in memory; outputs appear by a rename, and what only Linux
//! does is left out or refused with [`Unsupported`](std::io::ErrorKind::Unsupported). Without a Unix, paths are text:
//! other names are shown escaped.

#[cfg(not(unix))]
mod generic;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod portable;
#[cfg(unix)]
mod unix;

#[cfg(not(unix))]
pub use generic::*;
#[cfg(target_os = "linux")]
pub use linux::*;
#[cfg(not(target_os = "linux"))]
pub use portable::*;
#[cfg(unix)]
pub use unix::*;

/// Result of claiming a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileClaim {
    /// This process holds it.
    Ours,
    /// Another process holds it, or has removed it.
    Taken,
    /// There are no locks.
    Unknown,
}

/// Returns the name that container images have for the instruction set of this machine.
pub fn container_architecture() -> &'static str {
    // Rust and Go spell some architectures differently; the others are equal.
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "x86" => "386",
        "aarch64" => "arm64",
        "loongarch64" => "loong64",
        "powerpc64" => "ppc64le",
        other => other,
    }
}
