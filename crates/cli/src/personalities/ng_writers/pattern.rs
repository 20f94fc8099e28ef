//! Globs as fnmatch reads them without flags, as regular expressions: `*`, `?` and brackets also match slashes.

use std::collections::BTreeSet;

use crate::personalities::refusals::PATTERN_CLASSES;

/// Parsed glob.
#[derive(Debug)]
pub(super) struct GlobPattern(Vec<GlobToken>);

#[derive(Debug, PartialEq, Eq)]
enum GlobToken {
    /// `*`: any letters.
    Star,
    /// `?`: any letter.
    Any,
    /// One of the ranges, or with `not` none of them.
    Class {
        not: bool,
        ranges: Vec<(char, char)>,
    },
    Letter(char),
}

impl GlobToken {
    /// Returns true if one letter is matched; a star matches all letters one by one.
    fn matches(&self, letter: char) -> bool {
        match self {
            GlobToken::Star | GlobToken::Any => true,
            GlobToken::Class { not, ranges } => {
                ranges.iter().any(|(first, last)| (*first..=*last).contains(&letter)) != *not
            }
            GlobToken::Letter(own) => *own == letter,
        }
    }

    fn regex(&self) -> String {
        match self {
            GlobToken::Star => ".*".into(),
            GlobToken::Any => ".".into(),
            GlobToken::Letter(letter) => escaped(*letter),
            GlobToken::Class { not, ranges } => {
                let range = |(first, last): &(char, char)| format!("{}-{}", escaped(*first), escaped(*last));
                let ranges: String = ranges.iter().map(range).collect();
                format!("[{}{ranges}]", if *not { "^" } else { "" })
            }
        }
    }
}

impl GlobPattern {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut tokens = Vec::new();
        let letters: Vec<char> = text.chars().collect();
        let mut rest = &letters[..];
        while let [letter, after @ ..] = rest {
            rest = after;
            tokens.push(match letter {
                '*' => GlobToken::Star,
                '?' => GlobToken::Any,
                '[' => match class(rest)? {
                    Some((token, after)) => {
                        rest = after;
                        token
                    }
                    // An unclosed bracket stands for itself.
                    None => GlobToken::Letter('['),
                },
                '\\' => {
                    let (own, after) = rest.split_first().ok_or("a backslash at the end")?;
                    rest = after;
                    GlobToken::Letter(*own)
                }
                letter => GlobToken::Letter(*letter),
            });
        }
        Ok(GlobPattern(tokens))
    }

    /// Returns true if the pattern matches only one text: itself.
    pub(super) fn is_plain(&self) -> bool {
        self.0.iter().all(|token| matches!(token, GlobToken::Letter(_)))
    }

    /// Returns true if the pattern matches the whole text.
    pub(super) fn matches(&self, text: &str) -> bool {
        self.after(text).contains(&self.0.len())
    }

    /// Returns the regular expression for the rest of all texts that begin with `begin` and match; `None` if there are
    /// none.
    pub(super) fn regex_after(&self, begin: &str) -> Option<String> {
        let places = self.after(begin);
        // The tokens after a star also match from the star on.
        let is_first = |place: &usize| {
            let before = place.checked_sub(1);
            // Each place would be an alternative, though a star before it covers it.
            before.is_none_or(|before| !places.contains(&before) || self.0[before] != GlobToken::Star)
        };
        let rest = |place: &usize| self.0[*place..].iter().map(GlobToken::regex).collect::<String>();
        let all: Vec<String> = places.iter().filter(|place| is_first(place)).map(rest).collect();
        match &all[..] {
            [] => None,
            [one] => Some(format!("^{one}$")),
            all => Some(format!("^(?:{})$", all.join("|"))),
        }
    }

    /// Returns the tokens, by number, that may come next once a text is matched.
    fn after(&self, text: &str) -> BTreeSet<usize> {
        let mut places = BTreeSet::new();
        self.enter(0, &mut places);
        for letter in text.chars() {
            let mut next = BTreeSet::new();
            // All places at once: a pattern of many stars would otherwise be tried in exponentially many
            // ways.
            for place in places {
                match self.0.get(place) {
                    // It takes the letter and stays.
                    Some(GlobToken::Star) => self.enter(place, &mut next),
                    Some(token) if token.matches(letter) => self.enter(place + 1, &mut next),
                    _ => {}
                }
            }
            places = next;
        }
        places
    }

    /// Adds a place, and those after it that stars lead to without any letter.
    fn enter(&self, place: usize, places: &mut BTreeSet<usize>) {
        places.insert(place);
        if self.0.get(place) == Some(&GlobToken::Star) {
            self.enter(place + 1, places);
        }
    }
}

/// Reads what follows an opening bracket; `None` if it is not closed.
fn class(letters: &[char]) -> Result<Option<(GlobToken, &[char])>, String> {
    let (not, mut rest) = match letters {
        ['!' | '^', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let mut ranges = Vec::new();
    loop {
        match rest {
            [] => return Ok(None),
            // A bracket that comes first is a letter of the class.
            [']', after @ ..] if !ranges.is_empty() => return Ok(Some((GlobToken::Class { not, ranges }, after))),
            ['[', ':' | '.' | '=', ..] => return Err(PATTERN_CLASSES.why.into()),
            [first, '-', last, after @ ..] if *last != ']' => {
                ranges.push((*first, *last));
                rest = after;
            }
            [letter, after @ ..] => {
                ranges.push((*letter, *letter));
                rest = after;
            }
        }
    }
}

fn escaped(letter: char) -> String {
    // Also what has a meaning only within classes of the other syntax, such as `&&` and `--`.
    if "\\.+*?()|[]{}^$#&-~".contains(letter) { format!("\\{letter}") } else { letter.to_string() }
}

#[cfg(test)]
mod tests {
    use packfs_image::source::ExcludeRules;

    use super::*;

    #[test]
    fn globs_match_as_fnmatch_does_without_flags() {
        for (pattern, matching, others) in [
            ("a", &["a"][..], &["", "b", "aa"][..]),
            ("dir/*", &["dir/", "dir/a", "dir/a/b"], &["dir", "x/dir/a"]),
            ("*.o", &["a.o", "a/b.o", ".o"], &["a.ob"]),
            ("a?c", &["abc", "a/c"], &["ac"]),
            ("[!a-c]x", &["dx", "/x"], &["ax", "x"]),
            ("[]a]", &["]", "a"], &["b"]),
            ("[a", &["[a"], &["a"]),
            ("\\*", &["*"], &["a"]),
            ("a+(b)", &["a+(b)"], &["ab"]),
        ] {
            let parsed = GlobPattern::parse(pattern).unwrap();
            let regex = parsed.regex_after("").unwrap();
            let exclude = ExcludeRules::default().with_regexes(&[&regex]).unwrap();
            for (text, expected) in
                matching.iter().map(|text| (text, true)).chain(others.iter().map(|text| (text, false)))
            {
                assert_eq!(parsed.matches(text), expected, "{pattern} {text}");
                // Nothing ever leaves out the root, which has no name.
                assert_eq!(exclude.matches(text.as_bytes(), false), expected && !text.is_empty(), "{regex} {text}");
            }
        }
        assert!(GlobPattern::parse("[[:alpha:]]").is_err());
        assert!(GlobPattern::parse("a\\").is_err());
    }

    #[test]
    fn the_rest_of_a_path_is_matched_after_its_beginning() {
        for (pattern, begin, regex) in [
            ("usr/share/*", "usr/", Some("^share/.*$")),
            ("usr/*", "usr/", Some("^.*$")),
            ("*/doc", "usr/", Some("^(?:.*/doc|doc)$")),
            ("etc/*", "usr/", None),
            ("usr", "usr/", None),
            ("u?[a-r]/x", "usr/", Some("^x$")),
        ] {
            assert_eq!(GlobPattern::parse(pattern).unwrap().regex_after(begin).as_deref(), regex, "{pattern}");
        }
    }
}
