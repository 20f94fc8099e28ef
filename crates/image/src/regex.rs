//! Regular expressions over paths and labels: what other programs take as POSIX extended expressions.

use regex_automata::meta::{BuildError, Builder, Config, Regex as Automaton};
use regex_automata::util::syntax;
use regex_automata::{Input, MatchKind, PatternSet};

use crate::{Error, Result};

/// Largest compiled expression, in bytes: some short expressions repeat themselves without end.
const SIZE_MAX: usize = 4 << 20;
/// Largest set of expressions, in bytes: contexts of SELinux are some thousands.
const SET_MAX: usize = 256 << 20;

/// A set of regular expressions over bytes. Each matches if any part of a text does, unless it is anchored with `^` and
/// `$`. With `(?m)`, both also match at slashes, and with `(?-s)` a dot matches anything but a slash.
#[derive(Debug, Clone)]
pub(crate) struct Regexes(Automaton);

impl Regexes {
    /// Compiles expressions; a malformed one fails with [`Error::BadPattern`].
    pub(crate) fn new<P: AsRef<str>>(expressions: &[P]) -> Result<Self> {
        // One by one for the message, as the error of all names none.
        for one in expressions.iter().map(AsRef::as_ref) {
            compile(&[one], SIZE_MAX).map_err(|error| Error::pattern(one, wrong(&error)))?;
        }
        Self::of_checked(expressions)
    }

    /// Compiles expressions each of which compiles.
    pub(crate) fn of_checked<P: AsRef<str>>(expressions: &[P]) -> Result<Self> {
        let all: Vec<&str> = expressions.iter().map(AsRef::as_ref).collect();
        compile(&all, SET_MAX).map(Regexes).map_err(|error| Error::pattern("", wrong(&error)))
    }

    /// Returns the numbers of the expressions that match, in their order.
    pub(crate) fn matching(&self, text: &[u8]) -> Vec<usize> {
        let mut found = PatternSet::new(self.0.pattern_len());
        self.0.which_overlapping_matches(&Input::new(text), &mut found);
        found.iter().map(|id| id.as_usize()).collect()
    }

    /// Returns true if any expression matches.
    pub(crate) fn is_match(&self, text: &[u8]) -> bool {
        self.0.is_match(text)
    }
}

fn compile(expressions: &[&str], size_max: usize) -> std::result::Result<Automaton, Box<BuildError>> {
    let syntax = syntax::Config::new().unicode(false).utf8(false).line_terminator(b'/').dot_matches_new_line(true);
    let config = Config::new().nfa_size_limit(Some(size_max)).utf8_empty(false).line_terminator(b'/');
    let config = config.match_kind(MatchKind::All);
    Builder::new().configure(config).syntax(syntax).build_many(expressions).map_err(Box::new)
}

fn wrong(error: &BuildError) -> String {
    match error.syntax_error() {
        Some(error) => format!("is no regular expression: {}", last_line(&error.to_string())),
        None => "is too large a regular expression".to_owned(),
    }
}

/// Returns the reason of a syntax error, which stands last, after a picture of the expression.
fn last_line(text: &str) -> &str {
    let line = text.lines().last().unwrap_or_default();
    line.strip_prefix("error: ").unwrap_or(line)
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
            let regexes = Regexes::new(&["^never$", expression]).unwrap();
            assert_eq!(regexes.is_match(text.as_bytes()), expected, "{expression} on {text}");
        }
        assert!(Regexes::new(&["^caf.$"]).unwrap().is_match(b"caf\xe9"));
    }

    #[test]
    fn malformed_and_immense_expressions_are_named() {
        for (expression, why) in [("a(", "unclosed group"), ("(((a{99}){99}){99})", "too large")] {
            let told = Regexes::new(&["good", expression]).unwrap_err().to_string();
            assert!(told.contains(&format!("`{expression}`")) && told.contains(why), "{told}");
        }
    }
}
