//! Dates as HTTP writes them: `Sun, 06 Nov 1994 08:49:37 GMT`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Last second of the year 9999: the form has four digits for the year.
const MAX: u64 = 253_402_300_799;

/// Formats seconds since 1970; `None` for times before it and after the year 9999, which inodes may have.
pub(crate) fn format(secs: i64) -> Option<String> {
    let secs = u64::try_from(secs).ok().filter(|secs| *secs <= MAX)?;
    Some(httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(secs)))
}

/// Reads a date in one of the three forms of RFC 9110, section 5.6.7.
pub(crate) fn parse(text: &[u8]) -> Option<SystemTime> {
    httpdate::parse_http_date(std::str::from_utf8(text).ok()?.trim()).ok()
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
            (253_402_300_799, "Fri, 31 Dec 9999 23:59:59 GMT"),
        ];
        for (secs, text) in cases {
            assert_eq!(format(secs).as_deref(), Some(text));
            assert_eq!(parse(text.as_bytes()), Some(UNIX_EPOCH + Duration::from_secs(secs.unsigned_abs())));
        }
        assert_eq!((format(-1), format(253_402_300_800)), (None, None));
        assert_eq!(parse(b"yesterday"), None);
    }
}
