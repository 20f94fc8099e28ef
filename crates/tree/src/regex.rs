//! Regular expressions over paths and labels, in the syntax of the crate `regex`, on bytes.

use regex_automata::meta::{BuildError, Builder, Config, Regex as Automaton};
use regex_automata::nfa::thompson::WhichCaptures;
use regex_automata::util::syntax;

use crate::{Error, Result};

/// Largest compiled expression, in bytes: some short expressions repeat themselves without end.
const SIZE_MAX: usize = 4 << 20;
/// A set of regular expressions over bytes. Each matches if any part of a text does, unless it is anchored with `^` and
/// `$`. With `(?m)`, both also match at slashes, and with `(?-s)` a dot matches anything but a slash.
#[derive(Debug, Clone)]
pub struct RegexSet(Automaton);

impl RegexSet {
    /// Compiles expressions; a malformed one fails with [`Error::BadPattern`].
    pub fn new<P: AsRef<str>>(expressions: &[P]) -> Result<Self> {
        // One by one for the message, as the error of all names none.
        for one in expressions.iter().map(AsRef::as_ref) {
            compile(&[one], SIZE_MAX).map_err(|error| Error::pattern(one, wrong(&error)))?;
        }
        let all: Vec<&str> = expressions.iter().map(AsRef::as_ref).collect();
        compile(&all, SIZE_MAX).map(RegexSet).map_err(|error| Error::pattern("", wrong(&error)))
    }

    /// Returns true if any expression matches.
    pub fn is_match(&self, text: &[u8]) -> bool {
        self.0.is_match(text)
    }
}

fn compile(expressions: &[&str], size_max: usize) -> std::result::Result<Automaton, Box<BuildError>> {
    let syntax = syntax::Config::new().unicode(false).utf8(false).line_terminator(b'/').dot_matches_new_line(true);
    let config = Config::new().nfa_size_limit(Some(size_max)).utf8_empty(false).line_terminator(b'/');
    let config = config.which_captures(WhichCaptures::None);
    Builder::new().configure(config).syntax(syntax).build_many(expressions).map_err(Box::new)
}

fn wrong(error: &BuildError) -> String {
    match error.syntax_error() {
        Some(error) => format!("is not a regular expression: {}", last_line(&error.to_string())),
        None => "is too large a regular expression".to_owned(),
    }
}

/// Returns the reason of a syntax error, which stands last, after a picture of the expression.
fn last_line(text: &str) -> &str {
    let line = text.lines().last().unwrap_or_default();
    line.strip_prefix("error: ").unwrap_or(line)
}

/// Returns the bytes with which every text begins that an expression anchored with `^` matches.
pub fn prefix(expression: &str) -> Vec<u8> {
    let Some(anchored) = expression.strip_prefix('^') else { return Vec::new() };
    let group = anchored.strip_prefix("(?:").and_then(|rest| rest.strip_suffix(")$"));
    let inside = group.filter(|inside| is_balanced(inside)).unwrap_or(anchored);
    // An alternative, wherever it is, may begin otherwise.
    if expression.contains('|') {
        return Vec::new();
    }
    let mut prefix = Vec::<char>::new();
    let mut letters = inside.chars();
    while let Some(letter) = letters.next() {
        let literal = match letter {
            '\\' => letters.next().filter(|letter| letter.is_ascii_punctuation() && !"<>".contains(*letter)),
            '?' | '*' | '+' | '{' => {
                // The letter before may be missing.
                prefix.pop();
                None
            }
            '.' | '^' | '$' | '[' | ']' | '(' | ')' | '}' => None,
            letter => Some(letter),
        };
        let Some(literal) = literal else { break };
        prefix.push(literal);
    }
    String::from_iter(prefix).into_bytes()
}

/// Returns true if no parenthesis closes what this part of an expression did not open.
fn is_balanced(part: &str) -> bool {
    let mut depth = 0_u32;
    let mut letters = part.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => drop(letters.next()),
            // A bracket right after the opening one is part of the class.
            '[' => drop(letters.by_ref().skip(1).find(|letter| *letter == ']')),
            '(' => depth += 1,
            ')' if depth == 0 => return false,
            ')' => depth -= 1,
            _ => {}
        }
    }
    depth == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_match_as_posix_has_them() {
        for (expression, text, expected) in [
            ("^usr/.*\\.so$", "usr/lib/a.so", true),
            ("^lib", "usr/lib", false),
            ("lib", "usr/lib", true),
            ("(?m)^lib$", "usr/lib/x", true),
            ("(?m-s)^a.b$", "a/b", false),
            ("a.b", "a/b", true),
            ("[[:digit:]]{2}", "x12", true),
            ("a|b", "b", true),
            ("^caf.$", "caf\u{e9}", false),
        ] {
            let regexes = RegexSet::new(&["^never$", expression]).unwrap();
            assert_eq!(regexes.is_match(text.as_bytes()), expected, "{expression} on {text}");
        }
        assert!(RegexSet::new(&["^caf.$"]).unwrap().is_match(b"caf\xe9"));
    }

    #[test]
    fn texts_begin_with_the_prefix_of_expressions_that_match_them() {
        for (expression, expected) in [
            ("^usr/lib", "usr/lib"),
            ("usr", ""),
            ("^(?:usr/lib/.*)$", "usr/lib/"),
            ("^(?:usr/lib(64)?/x)$", "usr/lib"),
            ("^ab?c", "a"),
            ("^ab{2}", "a"),
            ("^a\\.b\\d", "a.b"),
            ("^a|b", ""),
            ("^(?:ab)?c", ""),
            ("^(?i)a", ""),
            ("^(?:a)?(b)$", ""),
            ("^(?:a[)])$", "a"),
            ("^(?:.*)$", ""),
        ] {
            assert_eq!(prefix(expression), expected.as_bytes(), "{expression}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_without_the_prefix_matches(expression in "\\^?(\\(\\?:)?[ab/.?*|()$\\\\]{0,8}(\\)\\$)?", text in "[ab/.]{0,6}") {
            if let Ok(regexes) = RegexSet::new(&[&expression]) {
                proptest::prop_assert!(!regexes.is_match(text.as_bytes()) || text.as_bytes().starts_with(&prefix(&expression)));
            }
        }
    }

    #[test]
    fn malformed_and_immense_expressions_are_named() {
        for (expression, why) in [("a(", "unclosed group"), ("(((a{99}){99}){99})", "too large")] {
            let told = RegexSet::new(&["good", expression]).unwrap_err().to_string();
            assert!(told.contains(&format!("`{expression}`")) && told.contains(why), "{told}");
        }
    }
}
