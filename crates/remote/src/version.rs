//! `ObjectVersion`: the marks by which a server tells versions of an object apart, and what an answer's marks prove.
//!
//! | opened with | an answer proves its version by |
//! |---|---|
//! | a strong entity tag | the same tag; a proxy may have made it weak |
//! | a weak entity tag | the same tag, and the same date if both have one |
//! | a date | the same date |
//!
//! A date has a granularity of one second, so an object is opened by its date only once the second of its modification
//! is over. An answer without the mark of the opened object proves nothing and is refused: another server, or another
//! object, may have given it.

use std::time::SystemTime;

use ureq::http::HeaderMap;

use crate::http::header_text;

/// Marks of one version of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ObjectVersion {
    tag: Option<EntityTag>,
    /// Time of the last modification, as the server writes it.
    modified: Option<String>,
}

/// An entity tag (RFC 9110, section 8.8.3).
#[derive(Debug, Clone, PartialEq, Eq)]
struct EntityTag {
    /// The text in quotes, or all of it if the server sends no quotes.
    opaque: String,
    /// True if it changes with every byte. A weak tag changes with the meaning of the object, so another weak tag is
    /// another version.
    strong: bool,
}

/// Result of a comparison of an answer's marks with those of the opened object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VersionComparison {
    Same,
    Other,
    /// The answer lacks the mark by which the object was opened.
    Unproven,
}

impl EntityTag {
    fn parse(header: &str) -> Option<Self> {
        let header = header.trim();
        let (rest, strong) = match header.strip_prefix("W/") {
            Some(rest) => (rest, false),
            None => (header, true),
        };
        let quoted = rest.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        let tag = EntityTag { opaque: quoted.unwrap_or(rest).to_owned(), strong: strong && quoted.is_some() };
        // An empty tag proves nothing: every version has it.
        (!tag.opaque.is_empty()).then_some(tag)
    }
}

impl ObjectVersion {
    /// Reads the marks in the headers of an answer.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let modified = header_text(headers, "last-modified").map(|date| date.trim().to_owned());
        ObjectVersion {
            tag: header_text(headers, "etag").and_then(EntityTag::parse),
            modified: modified.filter(|date| !date.is_empty()),
        }
    }

    /// Returns true if there is anything that tells versions apart.
    pub(crate) fn is_marked(&self) -> bool {
        self.tag.is_some() || self.modified.is_some()
    }

    /// Returns the strong entity tag as the server wrote it: other bytes have another one.
    pub(crate) fn strong_tag(&self) -> Option<String> {
        self.tag.as_ref().filter(|tag| tag.strong).map(|tag| format!("\"{}\"", tag.opaque))
    }

    /// Compares with the marks of a later answer.
    pub(crate) fn compare(&self, answer: &ObjectVersion) -> VersionComparison {
        let same_date = match (&self.modified, &answer.modified) {
            (Some(opened), Some(answered)) => Some(opened == answered),
            _ => None,
        };
        match (&self.tag, &answer.tag) {
            (Some(opened), Some(answered)) if opened.opaque != answered.opaque => VersionComparison::Other,
            // Servers with the same bytes may have received them at other times.
            (Some(opened), Some(answered)) if opened.strong && answered.strong => VersionComparison::Same,
            (Some(_), Some(_)) if same_date == Some(false) => VersionComparison::Other,
            (Some(_), Some(_)) => VersionComparison::Same,
            (None, None) if same_date == Some(true) => VersionComparison::Same,
            _ if same_date == Some(false) => VersionComparison::Other,
            // One side lacks the tag or the date.
            _ => VersionComparison::Unproven,
        }
    }

    /// Returns the header that makes a server refuse to answer with another version. `If-Match` takes strong tags only.
    pub(crate) fn condition(&self) -> Option<(&'static str, String)> {
        if let Some(tag) = self.strong_tag() {
            return Some(("If-Match", tag));
        }
        self.modified.as_ref().map(|date| ("If-Unmodified-Since", date.clone()))
    }

    /// Returns true if the object could be modified again without another date: it has no strong tag, and the second of
    /// its modification is not over by the server's clock. Without a clock in the answer nothing is known.
    pub(crate) fn may_change_unseen(&self, headers: &HeaderMap) -> bool {
        let parse = |date: &str| httpdate::parse_http_date(date).ok();
        let now = header_text(headers, "date").and_then(parse);
        let modified: Option<SystemTime> = self.modified.as_deref().and_then(parse);
        match (now, modified) {
            (Some(now), Some(modified)) => self.strong_tag().is_none() && now <= modified,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MONDAY: &str = "Mon, 23 Nov 2026 10:00:00 GMT";
    const TUESDAY: &str = "Tue, 24 Nov 2026 10:00:00 GMT";

    fn headers(all: &[(&'static str, &str)]) -> HeaderMap {
        all.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    /// Marks as in `"a" Monday`: a tag or `-`, and a date or `-`.
    fn version(tag: &str, date: &str) -> ObjectVersion {
        let named = [("etag", tag), ("last-modified", date)];
        ObjectVersion::of(&headers(&named.into_iter().filter(|(_, value)| *value != "-").collect::<Vec<_>>()))
    }

    #[test]
    fn each_combination_of_marks_has_a_verdict() {
        use VersionComparison::{Other, Same, Unproven};
        let cases = [
            // Opened with a strong tag.
            (("\"a\"", MONDAY), ("\"a\"", MONDAY), Same),
            (("\"a\"", MONDAY), ("\"a\"", TUESDAY), Same),
            (("\"a\"", MONDAY), ("\"a\"", "-"), Same),
            (("\"a\"", "-"), ("\"a\"", MONDAY), Same),
            (("\"a\"", MONDAY), ("\"b\"", MONDAY), Other),
            (("\"a\"", MONDAY), ("W/\"a\"", MONDAY), Same),
            (("\"a\"", MONDAY), ("W/\"a\"", TUESDAY), Other),
            (("\"a\"", MONDAY), ("W/\"b\"", MONDAY), Other),
            (("\"a\"", MONDAY), ("-", MONDAY), Unproven),
            (("\"a\"", MONDAY), ("-", TUESDAY), Other),
            (("\"a\"", MONDAY), ("-", "-"), Unproven),
            (("\"a\"", "-"), ("-", MONDAY), Unproven),
            // Opened with a weak tag.
            (("W/\"a\"", MONDAY), ("W/\"a\"", MONDAY), Same),
            (("W/\"a\"", "-"), ("W/\"a\"", "-"), Same),
            (("W/\"a\"", MONDAY), ("W/\"a\"", "-"), Same),
            (("W/\"a\"", MONDAY), ("W/\"a\"", TUESDAY), Other),
            (("W/\"a\"", "-"), ("W/\"b\"", "-"), Other),
            (("W/\"a\"", MONDAY), ("W/\"b\"", MONDAY), Other),
            // As Apache does, a second after the modification.
            (("W/\"a\"", MONDAY), ("\"a\"", MONDAY), Same),
            (("W/\"a\"", "-"), ("-", "-"), Unproven),
            (("W/\"a\"", MONDAY), ("-", MONDAY), Unproven),
            // Without quotes it is a tag of unknown strength.
            (("a", "-"), ("a", "-"), Same),
            (("a", "-"), ("b", "-"), Other),
            // Opened by date.
            (("-", MONDAY), ("-", MONDAY), Same),
            (("-", MONDAY), ("-", TUESDAY), Other),
            (("-", MONDAY), ("\"a\"", MONDAY), Unproven),
            (("-", MONDAY), ("\"a\"", TUESDAY), Other),
            (("-", MONDAY), ("-", "-"), Unproven),
            // Opened without any mark; an empty tag is none.
            (("-", "-"), ("-", "-"), Unproven),
            (("\"\"", "-"), ("\"\"", "-"), Unproven),
            (("-", "-"), ("\"a\"", "-"), Unproven),
            (("-", "-"), ("-", MONDAY), Unproven),
        ];
        for (opened, answered, verdict) in cases {
            let found = version(opened.0, opened.1).compare(&version(answered.0, answered.1));
            assert_eq!(found, verdict, "{opened:?} {answered:?}");
        }
    }

    #[test]
    fn conditions_and_names_in_the_cache_need_strong_tags() {
        let cases = [
            ("\"a\"", MONDAY, Some(("If-Match", "\"a\"")), true),
            ("W/\"a\"", MONDAY, Some(("If-Unmodified-Since", MONDAY)), false),
            ("W/\"a\"", "-", None, false),
            ("a", "-", None, false),
            ("-", MONDAY, Some(("If-Unmodified-Since", MONDAY)), false),
            ("-", "-", None, false),
        ];
        for (tag, date, condition, is_cached) in cases {
            let version = version(tag, date);
            assert_eq!(version.condition(), condition.map(|(name, value)| (name, value.to_owned())), "{tag} {date}");
            assert_eq!(version.strong_tag().is_some(), is_cached, "{tag}");
        }
    }

    #[test]
    fn an_object_of_this_second_may_change_unseen() {
        let later = "Mon, 23 Nov 2026 10:00:01 GMT";
        let cases = [
            ("-", MONDAY, Some(MONDAY), true),
            ("-", MONDAY, Some(later), false),
            ("W/\"a\"", MONDAY, Some(MONDAY), true),
            ("\"a\"", MONDAY, Some(MONDAY), false),
            // By clocks that differ, it was modified in the future.
            ("-", TUESDAY, Some(MONDAY), true),
            ("-", MONDAY, None, false),
            ("-", MONDAY, Some("now"), false),
            ("-", "-", Some(MONDAY), false),
        ];
        for (tag, modified, now, expected) in cases {
            let answer = headers(&now.map(|now| ("date", now)).into_iter().collect::<Vec<_>>());
            assert_eq!(version(tag, modified).may_change_unseen(&answer), expected, "{tag} {modified} {now:?}");
        }
    }
}
