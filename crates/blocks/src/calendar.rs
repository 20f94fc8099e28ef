//! Dates of the Gregorian calendar, before its first year as well, in UTC.

use std::fmt;

/// Seconds of a day. Leap seconds are not counted, as in the time of Unix.
pub const DAY: i64 = 86_400;
/// Days of 400 years, after which the calendar repeats.
const ERA: i64 = 146_097;
/// Days from 1 March of the year 0 to 1 January 1970.
const TO_1970: i64 = 719_468;

/// A date, shown as in `2026-01-02`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CivilDate {
    /// Year; 0 is the one before the year 1.
    pub year: i64,
    /// Month, from 1 to 12.
    pub month: i64,
    /// Day of the month, from 1.
    pub day: i64,
}

impl CivilDate {
    /// Returns the date of a day, counted from 1 January 1970.
    pub fn of_day(days: i64) -> Self {
        // Years begin in March, so that the leap day is the last of its year.
        let days = days + TO_1970;
        let day_of_era = days.rem_euclid(ERA);
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        // From March on, every five months have 153 days, so the lengths of months need no table.
        let month_from_march = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
        let month = (month_from_march + 2) % 12 + 1;
        let year = days.div_euclid(ERA) * 400 + year_of_era + i64::from(month <= 2);
        CivilDate { year, month, day }
    }

    /// Returns the day, counted from 1 January 1970. A day or month that does not exist counts on from the last that does.
    pub fn days_since_1970(self) -> i64 {
        let CivilDate { year, month, day } = self;
        let year_from_march = if month > 2 { year } else { year - 1 };
        let month_from_march = if month > 2 { month - 3 } else { month + 9 };
        let leap_days =
            year_from_march.div_euclid(4) - year_from_march.div_euclid(100) + year_from_march.div_euclid(400);
        365 * year_from_march + leap_days + (153 * month_from_march + 2) / 5 + day - 1 - TO_1970
    }
}

impl fmt::Display for CivilDate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `date -u -d @SECONDS +%F` prints them.
    #[test]
    fn days_and_dates_are_those_of_the_calendar() {
        let cases = [
            (0, "1970-01-01"),
            (-1, "1969-12-31"),
            (11_016, "2000-02-29"),
            (11_017, "2000-03-01"),
            (47_541, "2100-03-01"),
            (-719_528, "0000-01-01"),
            (-719_529, "-001-12-31"),
        ];
        for (day, text) in cases {
            let date = CivilDate::of_day(day);
            assert_eq!((date.to_string().as_str(), date.days_since_1970()), (text, day));
        }
        for day in (-800_000..800_000).step_by(97) {
            assert_eq!(CivilDate::of_day(day).days_since_1970(), day);
        }
        assert_eq!(CivilDate { year: 1999, month: 2, day: 31 }.days_since_1970(), 10_653);
    }
}
