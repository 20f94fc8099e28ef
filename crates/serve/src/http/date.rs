//! Dates as HTTP writes them: `Sun, 06 Nov 1994 08:49:37 GMT`.

const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
/// Last second of the year 9999: the form has four digits for the year.
const MAX: i64 = 253_402_300_799;

/// Formats seconds since 1970; `None` for times before it and after the year 9999.
pub(crate) fn format(secs: i64) -> Option<String> {
    let secs = u64::try_from(secs).ok().filter(|_| secs <= MAX)?;
    let (days, second) = (secs / 86400, secs % 86400);
    let (year, month, day) = civil(days);
    let name = |names: &[&'static str], number: u64| usize::try_from(number).ok().and_then(|n| names.get(n).copied());
    let (weekday, month) = (name(&DAYS, days % 7)?, name(&MONTHS, month - 1)?);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    Some(format!("{weekday}, {day:02} {month} {year:04} {hour:02}:{minute:02}:{second:02} GMT"))
}

/// Returns year, month and day of a day since 1970. Years are counted from March, so that a leap day is the last.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        // As `date -u -d @N` prints them.
        let cases = [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"),
            (4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT"),
            (MAX, "Fri, 31 Dec 9999 23:59:59 GMT"),
        ];
        for (secs, text) in cases {
            assert_eq!(format(secs).as_deref(), Some(text));
        }
        assert_eq!((format(-1), format(MAX + 1)), (None, None));
    }
}
