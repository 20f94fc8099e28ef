//! Parsers of single values. Each error lists what is accepted.

use std::ffi::OsString;
use std::ops::{Range, RangeInclusive};
use std::path::{Component, Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use nix::unistd::{Group, User};
use packfs_blocks::calendar::{CivilDate, DAY};
pub(crate) use packfs_blocks::units::parse as size;
use packfs_image::Part;
use packfs_image::sink::compress::StreamCompression;
use packfs_image::tree::Time;

/// Formats bytes as [`size`] takes them, in the largest unit that divides them.
pub(crate) fn as_size(bytes: impl Into<u64>) -> String {
    packfs_blocks::units::in_powers(bytes.into())
}

/// Parses a count.
pub(crate) fn count<N: std::str::FromStr>(text: &str) -> Result<N, String> {
    text.parse().map_err(|_| "expected a whole number, 0 or more".to_owned())
}

/// Returns a parser of whole numbers in a range.
pub(crate) fn number_in<N: TryFrom<i64>>(range: RangeInclusive<i64>) -> impl Fn(&str) -> Result<N, String> + Clone {
    move |text| {
        let number =
            text.parse().ok().filter(|number| range.contains(number)).and_then(|number| number.try_into().ok());
        number.ok_or_else(|| format!("expected a whole number from {} to {}", range.start(), range.end()))
    }
}

/// Parses what is added to owners or groups. Whether a sum is one, only the entries show.
pub(crate) fn id_offset(text: &str) -> Result<i64, String> {
    text.parse().map_err(|_| "expected a whole number to add, as in 100000 or -5".to_owned())
}

/// Parses a range of bytes: `OFFSET:LENGTH`, each as in [`size`].
pub(crate) fn range(text: &str) -> Result<Range<u64>, String> {
    let (offset, len) = text.split_once(':').ok_or("expected OFFSET:LENGTH, as in 1G:64K")?;
    let offset = size(offset)?;
    let len = size(len)?;
    Ok(offset..offset.checked_add(len).ok_or("the end is beyond 16 EiB")?)
}

/// Parses a part of some work: `I/N`, where I counts from 0.
pub(crate) fn part(text: &str) -> Result<Part, String> {
    const ACCEPTED: &str = "expected I/N, as in 0/4: part I of N, counted from 0";
    let (index, count) = text.split_once('/').ok_or(ACCEPTED)?;
    let (index, count): (u32, u32) = index.parse().ok().zip(count.parse().ok()).ok_or(ACCEPTED)?;
    Part::new(index, count).ok_or_else(|| match count {
        0 => "there are no parts".into(),
        _ => format!("the parts are 0/{count} to {}/{count}", count - 1),
    })
}

/// Parses a number of worker threads.
pub(crate) fn jobs(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(n) if n <= 1024 => Ok(n),
        _ => Err("expected a number of threads from 0 (serial) to 1024".into()),
    }
}

/// Parses letters of types of files, except directories.
pub(crate) fn types(text: &str) -> Result<String, String> {
    const LETTERS: &str = "flbcps";
    match text.chars().all(|letter| LETTERS.contains(letter)) && !text.is_empty() {
        true => Ok(text.into()),
        false => Err(format!("expected some of the letters {LETTERS}, as in bcps")),
    }
}

/// Compression of an archive; `None` for none, whatever its name says.
pub(crate) type ArchiveCompression = Option<StreamCompression>;

/// Parses `none`, or a format with or without a level.
pub(crate) fn compression(text: &str) -> Result<ArchiveCompression, String> {
    if text == "none" { Ok(None) } else { text.parse().map(Some) }
}

/// Parses a point in time: seconds since 1970 (`1767312000`, `@1767312000`), a date in UTC
/// (`2026-01-02`, `2026-01-02T03:04:05Z`), or `now`.
pub(crate) fn time(text: &str) -> Result<Time, String> {
    if let Ok(time) = text.strip_prefix('@').unwrap_or(text).parse() {
        return Ok(time);
    }
    if text == "now" {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_err(|_| "the clock is set before 1970")?;
        let secs = i64::try_from(now.as_secs()).map_err(|_| "the clock is out of range")?;
        return Ok(Time { secs, nanos: 0 });
    }
    let secs = date(text).ok_or(
        "expected seconds since 1970 (1767312000), a date in UTC (2026-01-02 or 2026-01-02T03:04:05Z), or `now`",
    )?;
    Ok(Time { secs, nanos: 0 })
}

fn date(text: &str) -> Option<i64> {
    let (day, clock) = text.split_once(['T', ' ']).unwrap_or((text, "00:00:00"));
    let [year, month, day] = numbers(day, '-', &[4, 2, 2])?;
    let [hour, minute, second] = numbers(clock.strip_suffix('Z').unwrap_or(clock), ':', &[2, 2, 2])?;
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let in_month = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        _ => return None,
    };
    // A leap second has the number 60.
    if !(1..=in_month).contains(&day) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    Some(CivilDate { year, month, day }.days_since_1970() * DAY + hour * 3600 + minute * 60 + second)
}

/// Parses exactly three numbers of the given widths, separated by `by`.
fn numbers(text: &str, by: char, widths: &[usize; 3]) -> Option<[i64; 3]> {
    let mut parts = text.split(by);
    let mut out = [0; 3];
    for (slot, width) in out.iter_mut().zip(widths) {
        let part = parts.next().filter(|p| p.len() == *width && p.bytes().all(|b| b.is_ascii_digit()))?;
        *slot = part.parse().ok()?;
    }
    parts.next().is_none().then_some(out)
}

/// Several values as one value of the command line: of a `Vec`, clap takes each as a value of its own.
#[derive(Debug, Clone)]
pub(crate) struct ValueList<T>(pub(crate) Vec<T>);

/// Returns a path as an operand that cannot be mistaken for an option.
pub(crate) fn operand(path: &Path) -> OsString {
    let looks_like_option = path.as_os_str().as_encoded_bytes().starts_with(b"-");
    if looks_like_option { Path::new(".").join(path).into() } else { path.into() }
}

/// Parses the path of a directory in an archive.
pub(crate) fn inside(text: &str) -> Result<PathBuf, String> {
    let path = text.trim_end_matches('/');
    if path.is_empty() || path.starts_with('/') || Path::new(path).components().any(|part| part == Component::ParentDir)
    {
        return Err("expected a directory without `..`, and without `/` in front".into());
    }
    Ok(path.into())
}

/// Parses `USER:GROUP`, by number or name; either may be omitted to leave it unchanged.
pub(crate) fn owner(text: &str) -> Result<(Option<u32>, Option<u32>), String> {
    const ACCEPTED: &str = "expected USER:GROUP, as in 0:0 or root:adm; `USER:` and `:GROUP` change only one of them";
    let (user, group) = text.split_once(':').ok_or(ACCEPTED)?;
    let user = (!user.is_empty()).then(|| self::user(user)).transpose()?;
    let group = (!group.is_empty()).then(|| self::group(group)).transpose()?;
    if user.is_none() && group.is_none() { Err(ACCEPTED.into()) } else { Ok((user, group)) }
}

/// Parses a user: a number, or a name that this system knows.
pub(crate) fn user(text: &str) -> Result<u32, String> {
    id(text, "user", |name| Ok(User::from_name(name)?.map(|user| user.uid.as_raw())))
}

/// Parses a group: a number, or a name that this system knows.
pub(crate) fn group(text: &str) -> Result<u32, String> {
    id(text, "group", |name| Ok(Group::from_name(name)?.map(|group| group.gid.as_raw())))
}

fn id(text: &str, what: &str, find: impl FnOnce(&str) -> nix::Result<Option<u32>>) -> Result<u32, String> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        // The largest number means "no user" to the kernel.
        const MAX: u32 = u32::MAX - 1;
        let id = text.parse().ok().filter(|id| *id <= MAX);
        return id.ok_or_else(|| format!("`{text}` is not the number of a {what}: expected 0 to {MAX}"));
    }
    match find(text) {
        Ok(Some(id)) => Ok(id),
        Ok(None) => Err(format!("this system has no {what} `{text}`: give a number")),
        Err(errno) => Err(format!("cannot look up the {what} `{text}`: {}", errno.desc())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_take_units_of_1024() {
        let good = [("0", 0), ("4096", 4096), ("4k", 4096), ("128K", 131_072), ("1MiB", 1 << 20), ("2gb", 2 << 30)];
        for (text, bytes) in good {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for (bytes, text) in
            [(0, "0"), (4096, "4K"), (1 << 20, "1M"), (3 << 29, "1536M"), (1_u64 << 41, "2048G"), (1025, "1025")]
        {
            assert_eq!((as_size(bytes), size(text)), (text.to_owned(), Ok(bytes)));
        }
        for bad in ["", "K", "-1", "1.5M", "12x", "1kk", "1 K", "99999999999T", "18446744073709551616"] {
            assert!(size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn numbers_are_whole_and_in_range() {
        let shards = number_in::<u32>(1..=9);
        assert_eq!((shards("1"), shards("9")), (Ok(1), Ok(9)));
        for bad in ["0", "10", "-1", "", "abc", "1.5", "99999999999999999999"] {
            assert_eq!(shards(bad), Err("expected a whole number from 1 to 9".into()), "{bad}");
        }
        assert_eq!((id_offset("100000"), id_offset("-5")), (Ok(100_000), Ok(-5)));
        assert!(id_offset("abc").is_err());
    }

    #[test]
    fn ranges_are_an_offset_and_a_length() {
        assert_eq!(range("0:0"), Ok(0..0));
        assert_eq!(range("1G:64K"), Ok(1 << 30..(1 << 30) + 65_536));
        for bad in ["", ":", "5", "5:", ":5", "1-2", "0:x", "18446744073709551615:1"] {
            assert!(range(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn times_are_seconds_or_dates_in_utc() {
        let good = [
            ("0", 0),
            ("@0", 0),
            ("-5", -5),
            ("1767312000", 1_767_312_000),
            ("1970-01-01", 0),
            ("1969-12-31T23:59:59Z", -1),
            ("2000-02-29", 951_782_400),
            ("2026-01-02", 1_767_312_000),
            ("2026-01-02T03:04:05", 1_767_323_045),
            ("2026-01-02 03:04:05Z", 1_767_323_045),
            ("2106-02-07T06:28:15Z", i64::from(u32::MAX)),
        ];
        for (text, secs) in good {
            assert_eq!(time(text), Ok(Time { secs, nanos: 0 }), "{text}");
        }
        for bad in ["", "@", "yesterday", "2026-13-01", "2026-02-29", "2026-1-2", "2026-01-02T25:00:00", "20260102Z"] {
            assert!(time(bad).is_err(), "{bad}");
        }
        assert_eq!(time("1.5"), Ok(Time { secs: 1, nanos: 500_000_000 }));
        assert!(time("now").unwrap().secs > 1_767_312_000);
    }

    #[test]
    fn owners_are_numbers_or_names_and_may_be_half() {
        assert_eq!(owner("0:0"), Ok((Some(0), Some(0))));
        assert_eq!(owner("1000:"), Ok((Some(1000), None)));
        assert_eq!(owner(":5"), Ok((None, Some(5))));
        assert_eq!(owner("root:root"), Ok((Some(0), Some(0))));
        assert_eq!(owner("4294967294:"), Ok((Some(u32::MAX - 1), None)));
        for bad in ["", ":", "0", "no such user:0", "-1:0", "4294967295:0", "0:4294967295", "1:2:3"] {
            assert!(owner(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn jobs_are_bounded() {
        assert_eq!((jobs("0"), jobs("7")), (Ok(0), Ok(7)));
        for bad in ["", "-1", "many", "5000"] {
            assert!(jobs(bad).is_err(), "{bad}");
        }
    }
}
