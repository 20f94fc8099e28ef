//! Conditions of requests (RFC 9110, section 13): what a client has already, and what it insists on.

use super::date;
use super::request::HttpRequest;

/// Identity of what is to be sent.
#[derive(Debug, Clone)]
pub(crate) struct ContentVersion {
    /// Strong entity tag, with its quotes.
    pub(crate) etag: String,
    /// Time of modification, as HTTP writes it.
    pub(crate) modified: Option<String>,
}

/// Result of the conditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConditionOutcome {
    /// Send it.
    Send,
    /// The client has it: 304.
    NotModified,
    /// It is not what the client insists on: 412.
    Failed,
}

impl ContentVersion {
    /// Evaluates all conditions except `If-Range`.
    pub(crate) fn judge(&self, request: &HttpRequest) -> ConditionOutcome {
        let is_wanted = match (request.header("if-match"), request.header("if-unmodified-since")) {
            // `If-Match` counts more than a date (section 13.2.2).
            (Some(list), _) => self.is_in(list, false),
            (None, Some(date)) => !self.is_modified_since(date),
            (None, None) => true,
        };
        if !is_wanted {
            return ConditionOutcome::Failed;
        }
        match (request.header("if-none-match"), request.header("if-modified-since")) {
            (Some(list), _) if self.is_in(list, true) => ConditionOutcome::NotModified,
            // Dates are those that were sent before, so a date that differs is another version.
            (None, Some(date)) if self.is_date(date) => ConditionOutcome::NotModified,
            _ => ConditionOutcome::Send,
        }
    }

    /// Returns true if a range counts: no `If-Range`, or one that names this version.
    pub(crate) fn allows_range(&self, request: &HttpRequest) -> bool {
        // Only the strong tag, or the exact date (section 13.1.5): parts of two versions must not be joined.
        let named = |text: &[u8]| text.trim_ascii() == self.etag.as_bytes() || self.is_date(text);
        request.header("if-range").is_none_or(named)
    }

    /// Returns true if it was certainly modified after a date. An invalid date does not count (section 13.1.4), nor
    /// does an unknown time of modification.
    fn is_modified_since(&self, text: &[u8]) -> bool {
        let modified = self.modified.as_ref().and_then(|modified| date::parse(modified.as_bytes()));
        modified.zip(date::parse(text)).is_some_and(|(modified, date)| modified > date)
    }

    fn is_date(&self, text: &[u8]) -> bool {
        self.modified.as_ref().is_some_and(|modified| modified.as_bytes() == text.trim_ascii())
    }

    /// Returns true if a list of entity tags has this one. Weak ones count only where `weak` says so.
    fn is_in(&self, list: &[u8], weak: bool) -> bool {
        // `*` stands for any version, and there is one.
        list.trim_ascii() == b"*"
            || list.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).any(|tag| {
                let strong = if weak { tag.strip_prefix(b"W/").unwrap_or(tag) } else { tag };
                strong == self.etag.as_bytes()
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_judged_as_the_standard_says() {
        let date = "Sun, 06 Nov 1994 08:49:37 GMT";
        let version = ContentVersion { etag: "\"a\"".into(), modified: Some(date.into()) };
        let since = format!("If-Modified-Since: {date}");
        let range = format!("If-Range: {date}");
        let cases = [
            ("X: y", ConditionOutcome::Send, true),
            ("If-None-Match: \"b\", W/\"a\"", ConditionOutcome::NotModified, true),
            ("If-None-Match: *", ConditionOutcome::NotModified, true),
            ("If-None-Match: \"b\"", ConditionOutcome::Send, true),
            ("If-Match: \"b\" , \"a\"", ConditionOutcome::Send, true),
            ("If-Match: W/\"a\"", ConditionOutcome::Failed, true),
            ("If-Match: \"b\"", ConditionOutcome::Failed, true),
            (&since, ConditionOutcome::NotModified, true),
            ("If-Modified-Since: Sun, 06 Nov 1994 08:49:36 GMT", ConditionOutcome::Send, true),
            ("If-Unmodified-Since: Sun, 06 Nov 1994 08:49:37 GMT", ConditionOutcome::Send, true),
            ("If-Unmodified-Since: Sunday, 06-Nov-94 08:49:38 GMT", ConditionOutcome::Send, true),
            ("If-Unmodified-Since: Sun, 06 Nov 1994 08:49:36 GMT", ConditionOutcome::Failed, true),
            ("If-Unmodified-Since: yesterday", ConditionOutcome::Send, true),
            // The tag counts where both are sent.
            ("If-Match: \"a\"\r\nIf-Unmodified-Since: Sun, 06 Nov 1994 08:49:36 GMT", ConditionOutcome::Send, true),
            ("If-Match: \"b\"\r\nIf-Unmodified-Since: Sun, 06 Nov 1994 08:49:37 GMT", ConditionOutcome::Failed, true),
            ("If-Range: \"a\"", ConditionOutcome::Send, true),
            (&range, ConditionOutcome::Send, true),
            ("If-Range: W/\"a\"", ConditionOutcome::Send, false),
            ("If-Range: \"b\"", ConditionOutcome::Send, false),
        ];
        for (header, verdict, range) in cases {
            let head = format!("GET / HTTP/1.1\r\nHost: h\r\n{header}\r\n\r\n");
            let (request, _) = HttpRequest::parse(head.as_bytes()).unwrap().unwrap();
            assert_eq!((version.judge(&request), version.allows_range(&request)), (verdict, range), "{header}");
        }
    }
}
