//! Numbers in human-readable form.

use std::time::Duration;

use packfs_blocks::calendar::{CivilDate, DAY};
pub(crate) use packfs_blocks::units::count;
use packfs_blocks::units::rounded;
use packfs_image::tree::Time;

/// Formats bytes with a unit of powers of 1024 and three digits: `4.00 KiB`, `59.5 MiB`.
pub(crate) fn bytes(n: u64) -> String {
    if n < 1024 { format!("{n} B") } else { rounded(n) }
}

/// Formats bytes with a unit and to the byte: `1.23 MiB (1,288,895 bytes)`, `14 B`.
pub(crate) fn exact(n: u64) -> String {
    if n < 1024 { bytes(n) } else { format!("{} ({} bytes)", bytes(n), count(n)) }
}

/// Formats several amounts of bytes in the unit of the largest: `9.25 + 0.50 MiB`.
pub(crate) fn sum(amounts: &[u64]) -> String {
    let most = bytes(amounts.iter().copied().max().unwrap_or(0));
    let unit = most.split_once(' ').map_or("B", |(_, unit)| unit);
    let power = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"].iter().position(|name| *name == unit).unwrap_or(0);
    let shown = amounts.iter().map(|&amount| {
        let value = as_f64(amount) / 1024_f64.powi(i32::try_from(power).unwrap_or(0));
        let digits = if amount == 0 || power == 0 || value >= 99.95 { 0 } else { usize::from(value < 9.995) + 1 };
        format!("{value:.digits$}")
    });
    format!("{} {unit}", shown.collect::<Vec<_>>().join(" + "))
}

/// Formats bytes per second.
pub(crate) fn speed(n: u64, time: Duration) -> String {
    format!("{}/s", bytes(per_second(n, time)))
}

/// Returns `n` per second, rounded; 0 while no time has passed.
pub(crate) fn per_second(n: u64, time: Duration) -> u64 {
    let micros = time.as_micros().max(1);
    u64::try_from(u128::from(n) * 1_000_000 / micros).unwrap_or(u64::MAX)
}

/// Returns how many times smaller `after` is than `before`.
pub(crate) fn ratio(before: u64, after: u64) -> f64 {
    if after == 0 { 0.0 } else { as_f64(before) / as_f64(after) }
}

/// Formats a ratio of sizes: `3.20 times smaller`, or `1.25 times larger` if it is below 1.
pub(crate) fn smaller(ratio: f64) -> String {
    match ratio {
        // Headers and padding: a factor of next to nothing tells nothing.
        ..0.01 => "larger than the data".into(),
        ..0.995 => format!("{:.2} times larger", 1.0 / ratio),
        _ => format!("{ratio:.2} times smaller"),
    }
}

/// Formats a count of things, by their name in the singular: `1 part`, `2 parts`, `2 entries`.
pub(crate) fn of(n: u64, what: &str) -> String {
    match what.strip_suffix('y') {
        _ if n == 1 => format!("1 {what}"),
        Some(stem) => format!("{} {stem}ies", count(n)),
        None => format!("{} {what}s", count(n)),
    }
}

/// Formats a duration: `0.42 s`, `37 s`, `2 min 05 s`, `3 h 12 min`.
pub(crate) fn span(time: Duration) -> String {
    let secs = time.as_secs();
    match secs {
        0..10 if time.subsec_nanos() > 0 => format!("{:.2} s", time.as_secs_f64()),
        0..10 => format!("{secs} s"),
        10..120 => format!("{secs} s"),
        120..7200 => format!("{} min {:02} s", secs / 60, secs % 60),
        _ => format!("{} h {:02} min", secs / 3600, secs / 60 % 60),
    }
}

/// Formats a point in time in UTC: `2026-01-02 03:04:05`.
pub(crate) fn utc(time: Time) -> String {
    let date = CivilDate::of_day(time.secs.div_euclid(DAY));
    let secs = time.secs.rem_euclid(DAY);
    format!("{date} {:02}:{:02}:{:02}", secs / 3600, secs / 60 % 60, secs % 60)
}

#[allow(clippy::cast_precision_loss, reason = "shown with three figures")]
fn as_f64(n: u64) -> f64 {
    n as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_and_counts_read_as_words() {
        let ratios = [(3.2, "3.20 times smaller"), (1.0, "1.00 times smaller"), (0.8, "1.25 times larger")];
        for (ratio, told) in ratios {
            assert_eq!(smaller(ratio), told);
        }
        assert_eq!(smaller(0.0), "larger than the data");
        assert_eq!([0, 1, 2000].map(|n| of(n, "entry")), ["0 entries", "1 entry", "2,000 entries"]);
        assert_eq!([1, 2].map(|n| of(n, "part")), ["1 part", "2 parts"]);
        assert_eq!(
            (of(0, "part"), of(1, "part"), of(2000, "part")),
            ("0 parts".into(), "1 part".into(), "2,000 parts".into())
        );
    }

    #[test]
    fn bytes_have_three_digits() {
        let cases = [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.00 KiB"),
            (10 << 10, "10.0 KiB"),
            (131_072, "128 KiB"),
            (1_048_575, "1.00 MiB"),
            (62_410_000, "59.5 MiB"),
            (u64::MAX, "16.0 EiB"),
        ];
        for (n, text) in cases {
            assert_eq!(bytes(n), text, "{n}");
        }
        assert_eq!([14, 131_072].map(exact), ["14 B", "128 KiB (131,072 bytes)"]);
    }

    #[test]
    fn sums_have_one_unit() {
        assert_eq!(sum(&[9_699_328, 524_288, 0, 300 << 20]), "9.25 + 0.50 + 0 + 300 MiB");
        assert_eq!(sum(&[10_485_000, 12 << 20]), "10.0 + 12.0 MiB");
        assert_eq!(sum(&[5, 1023]), "5 + 1023 B");
    }

    #[test]
    fn spans_and_counts_and_speeds() {
        assert_eq!(span(Duration::from_millis(420)), "0.42 s");
        assert_eq!(span(Duration::from_secs(7)), "7 s");
        assert_eq!(span(Duration::from_secs(37)), "37 s");
        assert_eq!(span(Duration::from_secs(125)), "2 min 05 s");
        assert_eq!(span(Duration::from_secs(11_520)), "3 h 12 min");
        assert_eq!([count(0), count(999), count(57_000), count(1_234_567)], ["0", "999", "57,000", "1,234,567"]);
        assert_eq!(speed(2 << 20, Duration::from_millis(500)), "4.00 MiB/s");
        assert_eq!(per_second(1, Duration::ZERO), 1_000_000);
        assert_eq!((ratio(10, 4), ratio(1, 0)), (2.5, 0.0));
    }

    #[test]
    fn dates_agree_with_their_parser() {
        for secs in [0, -1, 951_782_399, 951_782_400, 1_767_323_045, 4_294_967_295, -62_135_596_800] {
            let text = utc(Time { secs, nanos: 0 });
            assert_eq!(crate::args::parse_time(&text), Ok(Time { secs, nanos: 0 }), "{text}");
        }
        assert_eq!(utc(Time { secs: 1_767_323_045, nanos: 0 }), "2026-01-02 03:04:05");
    }
}
