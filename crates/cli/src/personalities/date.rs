//! Times of other programs' command lines: seconds, or anything that `date` reads, in the time zone of the user.

use std::process::{Command, Stdio};

use super::refusals;
use crate::args::value;

/// Returns the seconds since 1970 that a text means.
pub(super) fn seconds(text: &str) -> Result<i64, String> {
    // First, as most callers, such as build systems, give seconds; no process is started for these.
    if let Ok(secs) = text.parse() {
        return Ok(secs);
    }
    if text == "inode" {
        return Err(refusals::NEWEST_TIME.error(text));
    }
    // `date` reads too many forms to have them again here, and knows the time zone. It may be missing, or
    // take no `-d`: then packfs's own forms count.
    let ran = Command::new("date").args(["-d", text, "+%s"]).stdin(Stdio::null()).output();
    let told = ran.ok().filter(|ran| ran.status.success()).and_then(|ran| String::from_utf8(ran.stdout).ok());
    let secs = told.and_then(|told| told.trim().parse().ok()).or_else(|| value::time(text).ok().map(|time| time.secs));
    secs.ok_or_else(|| "expected seconds since 1970, or a time that `date` reads".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_date() {
        assert_eq!(seconds("5"), Ok(5));
        assert_eq!(seconds("Wed Feb 15 21:02:39 GMT 2023"), Ok(1_676_494_959));
        for wrong in ["inode", "nosuch", "; touch /tmp/x"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}
