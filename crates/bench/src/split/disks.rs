//! Disks to split over: directories, or simulated disks with their speeds, and the throughput they allow.

use std::fmt;
use std::str::FromStr;

use crate::{Error, Result};

/// A simulated disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskSpec {
    /// Speed in MB/s.
    pub speed: u32,
    /// MB after which it fails, if any.
    pub fails_after: Option<u32>,
}

/// The disks of the outputs. As text: `directories`; one speed (`50`), common to all disks; or the speeds of all disks
/// (`50,50,200`), some of which may fail after a number of MB (`50,50@20`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DiskProfile {
    /// Directories of unknown speed.
    Directories,
    /// A disk of this speed for each output.
    Equal(u32),
    /// These disks.
    Disks(Vec<DiskSpec>),
}

/// The profile of directories as text.
const DIRECTORIES: &str = "directories";

impl DiskProfile {
    /// Returns the disks for this number of outputs; `None` if their speeds are unknown.
    pub fn disks(&self, outputs: usize) -> Option<Vec<DiskSpec>> {
        match self {
            DiskProfile::Directories => None,
            DiskProfile::Equal(speed) => Some(vec![DiskSpec { speed: *speed, fails_after: None }; outputs]),
            DiskProfile::Disks(disks) => Some(disks.clone()),
        }
    }

    /// Returns the number of outputs, if the profile determines it.
    pub fn outputs(&self) -> Option<usize> {
        match self {
            DiskProfile::Disks(disks) => Some(disks.len()),
            _ => None,
        }
    }

    /// Returns true if a disk fails.
    pub fn fails(&self) -> bool {
        matches!(self, DiskProfile::Disks(disks) if disks.iter().any(|disk| disk.fails_after.is_some()))
    }
}

impl fmt::Display for DiskProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DiskProfile::Directories => f.write_str(DIRECTORIES),
            DiskProfile::Equal(speed) => speed.fmt(f),
            DiskProfile::Disks(disks) => {
                for (at, disk) in disks.iter().enumerate() {
                    write!(f, "{}{}", if at > 0 { "," } else { "" }, disk.speed)?;
                    if let Some(after) = disk.fails_after {
                        write!(f, "@{after}")?;
                    }
                }
                Ok(())
            }
        }
    }
}

impl FromStr for DiskProfile {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if text == DIRECTORIES {
            return Ok(DiskProfile::Directories);
        }
        let disks = text.split(',').map(parse_disk).collect::<Option<Vec<DiskSpec>>>().ok_or_else(|| {
            Error::Usage(format!(
                "{text}: no speeds of disks; accepted: MB a second as in 50 (all disks), 50,50,200 (these), or 50,50@20 \
                 (the second fails after 20 MB)"
            ))
        })?;
        Ok(match disks[..] {
            // A single speed is that of every output, but a failing disk is one particular disk.
            [DiskSpec { speed, fails_after: None }] => DiskProfile::Equal(speed),
            _ => DiskProfile::Disks(disks),
        })
    }
}

fn parse_disk(text: &str) -> Option<DiskSpec> {
    // A split over a disk of 0 MB/s would never end.
    let number = |text: &str| text.parse().ok().filter(|number| *number > 0);
    match text.split_once('@') {
        None => Some(DiskSpec { speed: number(text)?, fails_after: None }),
        Some((speed, after)) => Some(DiskSpec { speed: number(speed)?, fails_after: Some(number(after)?) }),
    }
}

/// Returns the total speed of all disks in bytes per second.
pub(crate) fn total_speed(disks: &[DiskSpec]) -> f64 {
    disks.iter().map(|disk| f64::from(disk.speed) * 1e6).sum()
}

/// Returns the seconds to store this many bytes if every disk is busy until the end.
pub(crate) fn seconds_shared(disks: &[DiskSpec], stored: u64) -> f64 {
    stored as f64 / total_speed(disks)
}

/// Returns the seconds to store this many bytes in ranges of equal length, one for each disk, which are assumed to
/// compress alike.
pub(crate) fn seconds_in_ranges(disks: &[DiskSpec], stored: u64) -> f64 {
    // Each disk gets as much as any other, so the slowest ends last.
    let slowest = disks.iter().map(|disk| disk.speed).min().unwrap_or(0);
    stored as f64 / disks.len() as f64 / (f64::from(slowest) * 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_are_read_and_written() {
        for (text, outputs, fails) in [
            ("directories", None, false),
            ("50", None, false),
            ("50,50,200", Some(3), false),
            ("50,50@20", Some(2), true),
            ("50@20", Some(1), true),
        ] {
            let profile: DiskProfile = text.parse().unwrap();
            assert_eq!(profile.to_string(), text);
            assert_eq!((profile.outputs(), profile.fails()), (outputs, fails), "{text}");
        }
        for text in ["", "0", "fast", "50,", "50@", "50@0", "-5", "1.5"] {
            let error = text.parse::<DiskProfile>().unwrap_err().to_string();
            assert!(error.contains("50,50,200"), "{text}: {error}");
        }
        assert_eq!("50".parse::<DiskProfile>().unwrap().disks(3).unwrap().len(), 3);
        assert_eq!(DiskProfile::Directories.disks(3), None);
    }

    /// Speeds of 1, 1, 1 and 4 times the size of the data: 0.25 s in ranges, 1/7 s shared.
    #[test]
    fn times_are_those_computed_by_hand() {
        let disks = "100,100,100,400".parse::<DiskProfile>().unwrap().disks(4).unwrap();
        assert_eq!(total_speed(&disks), 700e6);
        assert_eq!(seconds_in_ranges(&disks, 100_000_000), 0.25);
        assert!((seconds_shared(&disks, 100_000_000) - 1.0 / 7.0).abs() < 1e-12);
    }
}
