//! The `Range` header (RFC 9110, section 14).

use std::ops::Range;

/// Number of ranges to answer in one response; with more, the whole is sent. A list of many small ranges costs a server
/// far more than its client. zsync asks for 20 at once, and gives up where it gets the whole.
const RANGES_MAX: usize = 32;

/// Part of a representation that a request is for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RangeSelection {
    /// All of it: there is no range, or none that counts.
    Whole,
    /// At least one range, none empty, all within the length.
    Parts(Vec<Range<u64>>),
    /// Only ranges past the end.
    Unsatisfiable,
}

/// Returns what a header wants of `len` bytes. What is not a list of byte ranges is ignored, as the standard says.
pub(crate) fn parse(header: &[u8], len: u64) -> RangeSelection {
    // A header that is not understood is as good as none.
    let Some(specs) = parse_specs(header) else { return RangeSelection::Whole };
    let parts: Vec<_> = specs.iter().filter_map(|spec| clip_range(*spec, len)).collect();
    // Ranges that begin past the end are dropped; only if none is left, the request fails (section 14.1.2).
    match parts.len() {
        0 => RangeSelection::Unsatisfiable,
        // Overlaps would send bytes twice for one request.
        1..=RANGES_MAX if !ranges_overlap(&parts) => RangeSelection::Parts(parts),
        _ => RangeSelection::Whole,
    }
}

/// First and last byte; without the first, the number of bytes from the end.
type RangeSpec = (Option<u64>, Option<u64>);

fn parse_specs(header: &[u8]) -> Option<Vec<RangeSpec>> {
    let (unit, list) = std::str::from_utf8(header).ok()?.split_once('=')?;
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        // Other units are ignored, as section 14.2 wants.
        return None;
    }
    let specs: Option<Vec<RangeSpec>> =
        list.split(',').map(str::trim).filter(|one| !one.is_empty()).map(parse_spec).collect();
    specs.filter(|specs| !specs.is_empty())
}

fn parse_spec(text: &str) -> Option<RangeSpec> {
    let (first, last) = text.split_once('-')?;
    match (parse_number(first)?, parse_number(last)?) {
        (None, None) => None,
        // A range that ends before it begins makes the whole header invalid (section 14.1.1).
        (Some(first), Some(last)) if last < first => None,
        spec => Some(spec),
    }
}

/// Reads digits; a number too large to store is as good as the largest. `None` for anything else.
#[expect(clippy::option_option, reason = "no number is one of the forms")]
fn parse_number(text: &str) -> Option<Option<u64>> {
    let text = text.trim();
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| (!text.is_empty()).then(|| text.parse().unwrap_or(u64::MAX)))
}

fn clip_range((first, last): RangeSpec, len: u64) -> Option<Range<u64>> {
    let range = match (first, last) {
        // The last byte belongs to the range.
        (Some(first), last) => first..last.map_or(len, |last| last.saturating_add(1).min(len)),
        (None, last) => len.saturating_sub(last.unwrap_or(0))..len,
    };
    (!range.is_empty()).then_some(range)
}

fn ranges_overlap(parts: &[Range<u64>]) -> bool {
    let mut sorted: Vec<_> = parts.iter().collect();
    sorted.sort_unstable_by_key(|part| part.start);
    sorted.windows(2).any(|pair| pair[0].end > pair[1].start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_those_of_the_standard_and_nonsense_is_ignored() {
        let max = u64::MAX;
        let huge = format!("bytes={max}-{max}0");
        let many = format!("bytes={}", (0..33).map(|n| format!("{n}-{n},")).collect::<String>());
        let most = format!("bytes={}", (0..32).map(|n| format!("{n}-{n},")).collect::<String>());
        let singles = (0..32).map(|n| n..n + 1).collect();
        let one = |start, end| RangeSelection::Parts(std::iter::once(start..end).collect());
        let cases = [
            ("bytes=0-0", one(0, 1)),
            ("Bytes = 5-", one(5, 100)),
            ("bytes=90-1000", one(90, 100)),
            ("bytes=-1", one(99, 100)),
            ("bytes=-1000", one(0, 100)),
            ("bytes=0-99999999999999999999999999", one(0, 100)),
            ("bytes=200-300, 7-8", one(7, 9)),
            ("bytes=50-59,,0-9", RangeSelection::Parts(vec![50..60, 0..10])),
            ("bytes=100-", RangeSelection::Unsatisfiable),
            ("bytes=-0", RangeSelection::Unsatisfiable),
            (&huge, RangeSelection::Unsatisfiable),
            (&most, RangeSelection::Parts(singles)),
            (&many, RangeSelection::Whole),
            ("bytes=0-,0-,0-", RangeSelection::Whole),
            ("bytes=9-0", RangeSelection::Whole),
            ("bytes=", RangeSelection::Whole),
            ("bytes=-", RangeSelection::Whole),
            ("bytes=a-b", RangeSelection::Whole),
            ("bytes=1-2-3", RangeSelection::Whole),
            ("bytes=+1-2", RangeSelection::Whole),
            ("lines=0-1", RangeSelection::Whole),
            ("0-1", RangeSelection::Whole),
        ];
        for (header, wanted) in cases {
            assert_eq!(parse(header.as_bytes(), 100), wanted, "{header}");
        }
        assert_eq!(parse(b"bytes=0-", 0), RangeSelection::Unsatisfiable);
        assert_eq!(parse(b"\xff", 9), RangeSelection::Whole);
    }
}
