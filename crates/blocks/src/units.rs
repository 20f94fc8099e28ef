//! Sizes as people read them, in messages of all crates.

use std::fmt;
use std::ops::Range;

/// A number of bytes, shown in powers of 1024: as `4 GiB` if that is exact, else with three figures as `59.5 MiB`, and
/// below 1 KiB as `1 byte` or `300 bytes`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);

const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Size(bytes) = *self;
        match bytes {
            1 => return f.write_str("1 byte"),
            0..1024 => return write!(f, "{bytes} bytes"),
            _ => {}
        }
        let exact = (1..=UNITS.len()).rev().find(|power| bytes.is_multiple_of(1 << (10 * power)));
        match exact.map(|power| (bytes >> (10 * power), UNITS[power - 1])) {
            Some((whole, unit)) if whole < 1024 => write!(f, "{whole} {unit}"),
            _ => f.write_str(&rounded(bytes)),
        }
    }
}

/// Bytes from 1024 on with a unit and three figures: `1.00 KiB`, `59.5 MiB`.
pub fn rounded(bytes: u64) -> String {
    #[allow(clippy::cast_precision_loss, reason = "shown with three figures")]
    let mut value = bytes as f64 / 1024.0;
    let mut unit = UNITS[0];
    for next in &UNITS[1..] {
        // What would need four figures goes to the next unit.
        if value < 999.5 {
            break;
        }
        value /= 1024.0;
        unit = next;
    }
    let decimals = match value {
        // A decimal less from where rounding would add a figure.
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$} {unit}")
}

/// A whole number with all of its digits: `57,000`.
pub fn count(number: u64) -> String {
    group_digits(&number.to_string())
}

/// Puts a comma before each group of three digits.
pub fn group_digits(digits: &str) -> String {
    let mut shown = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

/// A size that is above a limit, and the limit: with the excess where they would look alike.
pub fn beyond(bytes: u64, limit: u64) -> String {
    let size = Size(bytes);
    let most = Size(limit);
    if limit >= 1024 && rounded(bytes) == rounded(limit) {
        return format!("{most} and {}; the limit is {most}", Size(bytes.saturating_sub(limit)));
    }
    format!("{size}; the limit is {most}")
}

/// A range of bytes by its length and where it begins: `1.20 GiB at 3.50 GiB`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ByteSpan(pub Range<u64>);

impl fmt::Display for ByteSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ByteSpan(Range { start, end }) = self;
        let len = Size(end.saturating_sub(*start));
        match *start {
            0 => write!(f, "{len} at its beginning"),
            start if start < 1 << 20 && !start.is_multiple_of(1024) => write!(f, "{len} at byte {start}"),
            start => write!(f, "{len} at {}", Size(start)),
        }
    }
}

/// Parses a number of bytes: digits with an optional unit of powers of 1024 (`128K`, `1M`, `4GiB`).
///
/// # Errors
/// A sentence that says what is accepted.
pub fn parse(text: &str) -> Result<u64, String> {
    const ACCEPTED: &str = "expected a number of bytes, or one with K, M, G or T (powers of 1024), as in 128K";
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let shift = match unit.to_ascii_lowercase().trim_end_matches("ib").trim_end_matches('b') {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return Err(ACCEPTED.into()),
    };
    let number: u64 = number.parse().map_err(|_| ACCEPTED.to_owned())?;
    number.checked_mul(1 << shift).ok_or_else(|| "more than 16 EiB".into())
}

/// Formats bytes as [`parse`] takes them, in the largest unit that divides them.
pub fn in_powers(bytes: u64) -> String {
    let units = [(30, "G"), (20, "M"), (10, "K")];
    match units.into_iter().find(|(shift, _)| bytes > 0 && bytes.is_multiple_of(1 << shift)) {
        Some((shift, unit)) => format!("{}{unit}", bytes >> shift),
        None => bytes.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_exact_where_that_is_short() {
        let cases = [
            (0, "0 bytes"),
            (1, "1 byte"),
            (1023, "1023 bytes"),
            (1024, "1 KiB"),
            (1025, "1.00 KiB"),
            (7 << 29, "3.50 GiB"),
            (131_072, "128 KiB"),
            (62_410_000, "59.5 MiB"),
            (4 << 30, "4 GiB"),
            ((4 << 30) + 1, "4.00 GiB"),
            (1025 << 20, "1.00 GiB"),
            (1_000_000 << 10, "977 MiB"),
            (1 << 60, "1 EiB"),
            (u64::MAX, "16.0 EiB"),
        ];
        for (bytes, text) in cases {
            assert_eq!(Size(bytes).to_string(), text, "{bytes}");
        }
    }

    #[test]
    fn limits_and_what_is_beyond_them_never_look_alike() {
        assert_eq!(beyond(300, 255), "300 bytes; the limit is 255 bytes");
        assert_eq!(beyond(70_000, 65_536), "68.4 KiB; the limit is 64 KiB");
        assert_eq!(beyond((4 << 30) + 1, 4 << 30), "4 GiB and 1 byte; the limit is 4 GiB");
        assert_eq!(beyond(u64::MAX, 256 << 40), "16.0 EiB; the limit is 256 TiB");
    }

    #[test]
    fn ranges_say_how_much_is_where() {
        assert_eq!(ByteSpan(0..4096).to_string(), "4 KiB at its beginning");
        assert_eq!(ByteSpan(8001..8002).to_string(), "1 byte at byte 8001");
        assert_eq!(ByteSpan(7 << 29..(7 << 29) + 1_288_490_189).to_string(), "1.20 GiB at 3.50 GiB");
        assert_eq!(ByteSpan(3_758_123_456..3_758_123_456 + (1 << 20)).to_string(), "1 MiB at 3.50 GiB");
    }
}
