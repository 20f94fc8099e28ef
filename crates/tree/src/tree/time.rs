//! Points in time as trees and images store them.

use std::fmt;
use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds and nanoseconds since 1970, the seconds possibly negative.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time {
    /// Whole seconds.
    pub secs: i64,
    /// Nanoseconds, in 0..1_000_000_000.
    pub nanos: u32,
}

impl Time {
    /// Returns the nearest time that 32 bits hold, from 1970 to 2106.
    #[must_use]
    pub fn clipped(self) -> Time {
        let secs = self.secs.clamp(0, u32::MAX.into());
        if secs == self.secs { self } else { Time { secs, nanos: 0 } }
    }
}

/// Converts exactly, as Linux counts seconds in 64 bits, too.
impl From<SystemTime> for Time {
    fn from(time: SystemTime) -> Self {
        let seconds = |duration: std::time::Duration| i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
        match time.duration_since(UNIX_EPOCH) {
            Ok(after) => Time { secs: seconds(after), nanos: after.subsec_nanos() },
            Err(error) => {
                let before = error.duration();
                match before.subsec_nanos() {
                    0 => Time { secs: seconds(before).saturating_neg(), nanos: 0 },
                    // Nanoseconds count forward from the second before.
                    nanos => Time { secs: seconds(before).saturating_neg() - 1, nanos: 1_000_000_000 - nanos },
                }
            }
        }
    }
}

/// The error of a text that is not a [`Time`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotATime;

impl fmt::Display for NotATime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a time is a number of seconds since 1970, such as 1700000000 or 0.5")
    }
}

impl std::error::Error for NotATime {}

/// Parses seconds since 1970: `1700000000`, `-1.5`, `0.000000001`. The fraction has at most nine digits.
impl FromStr for Time {
    type Err = NotATime;

    fn from_str(text: &str) -> Result<Self, NotATime> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if !digits(whole.strip_prefix('-').unwrap_or(whole)) || !digits(fraction) || fraction.len() > 9 {
            return Err(NotATime);
        }
        let secs: i64 = whole.parse().map_err(|_| NotATime)?;
        let nanos: u32 = format!("{fraction:0<9}").parse().map_err(|_| NotATime)?;
        match (whole.starts_with('-'), nanos) {
            (true, 1..) => Ok(Time { secs: secs.checked_sub(1).ok_or(NotATime)?, nanos: 1_000_000_000 - nanos }),
            _ => Ok(Time { secs, nanos }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_seconds_with_a_fraction() {
        let table = [
            ("0", Some((0, 0))),
            ("1700000000", Some((1_700_000_000, 0))),
            ("1.5", Some((1, 500_000_000))),
            ("-1", Some((-1, 0))),
            ("-1.25", Some((-2, 750_000_000))),
            ("-0.5", Some((-1, 500_000_000))),
            ("0.000000001", Some((0, 1))),
            ("-9223372036854775808", Some((i64::MIN, 0))),
            ("-9223372036854775808.1", None),
            ("9223372036854775808", None),
            ("0.0000000001", None),
            ("", None),
            ("-", None),
            ("+1", None),
            ("1.", None),
            (".5", None),
            ("yesterday", None),
        ];
        for (text, expected) in table {
            let time: Option<Time> = text.parse().ok();
            assert_eq!(time, expected.map(|(secs, nanos)| Time { secs, nanos }), "{text}");
        }
    }
    #[test]
    fn times_of_the_system_are_kept() {
        use std::time::Duration;
        let second = Duration::from_secs(1);
        let quarter = Duration::from_millis(250);
        for (time, secs, nanos) in [
            (UNIX_EPOCH, 0, 0),
            (UNIX_EPOCH + second + quarter, 1, 250_000_000),
            (UNIX_EPOCH - second, -1, 0),
            (UNIX_EPOCH - second - quarter, -2, 750_000_000),
            (UNIX_EPOCH - quarter, -1, 750_000_000),
        ] {
            assert_eq!(Time::from(time), Time { secs, nanos });
        }
    }
}
