//! Splits a line of a pack list or a sort file into words.

/// The rest of a line.
#[derive(Debug, Clone, Copy)]
pub(super) struct LineLexer<'l>(&'l [u8]);

/// Quoting rules of words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum QuotingRules {
    /// A word in double quotes may contain `\"`, `\\` and `\` with three octal digits; outside of
    /// quotes nothing is special.
    Keyword,
    /// A backslash makes the next byte literal, double quotes protect spaces; both anywhere in a word.
    Pseudo,
}

impl<'l> LineLexer<'l> {
    pub(super) fn new(line: &'l [u8]) -> Self {
        LineLexer(line.trim_ascii_start())
    }

    /// Returns true if only spaces are left.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the next byte without consuming it.
    pub(super) fn peek(&self) -> Option<u8> {
        self.0.first().copied()
    }

    /// Returns the rest, unparsed.
    pub(super) fn rest(self) -> &'l [u8] {
        self.0
    }

    /// Returns the next word, unparsed.
    pub(super) fn bare(&mut self) -> Option<&'l [u8]> {
        let end = self.0.iter().position(u8::is_ascii_whitespace).unwrap_or(self.0.len());
        let (word, rest) = self.0.split_at(end);
        self.0 = rest.trim_ascii_start();
        (!word.is_empty()).then_some(word)
    }

    /// Returns the next word, which may be quoted.
    pub(super) fn word(&mut self, quoting: QuotingRules) -> Result<Vec<u8>, String> {
        let word = match quoting {
            QuotingRules::Keyword if self.peek() == Some(b'"') => self.quoted()?,
            QuotingRules::Keyword => self.bare().unwrap_or_default().to_vec(),
            QuotingRules::Pseudo => self.escaped()?,
        };
        self.0 = self.0.trim_ascii_start();
        Ok(word)
    }

    fn next(&mut self) -> Option<u8> {
        let (byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*byte)
    }

    fn quoted(&mut self) -> Result<Vec<u8>, String> {
        self.next();
        let mut word = Vec::new();
        loop {
            // Each line ends its words: no quote reaches over it.
            match self.next().ok_or("a quote is not closed")? {
                b'"' => break,
                b'\\' => match self.0 {
                    [byte @ (b'"' | b'\\'), rest @ ..] => {
                        word.push(*byte);
                        self.0 = rest;
                    }
                    [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', rest @ ..] => {
                        word.push(((a - b'0') << 6) | ((b - b'0') << 3) | (c - b'0'));
                        self.0 = rest;
                    }
                    // Any other backslash stands for itself, as in gensquashfs.
                    _ => word.push(b'\\'),
                },
                byte => word.push(byte),
            }
        }
        if self.peek().is_some_and(|byte| !byte.is_ascii_whitespace()) {
            return Err("a space must follow the closing quote".into());
        }
        Ok(word)
    }

    fn escaped(&mut self) -> Result<Vec<u8>, String> {
        let mut word = Vec::new();
        let mut quoted = false;
        while let Some(byte) = self.next() {
            match byte {
                b'\\' => word.push(self.next().ok_or("nothing follows the backslash")?),
                b'"' => quoted = !quoted,
                byte if byte.is_ascii_whitespace() && !quoted => break,
                byte => word.push(byte),
            }
        }
        if quoted { Err("a quote is not closed".into()) } else { Ok(word) }
    }

    /// Parses the next word as a number in the given base.
    pub(super) fn number<T: TryFrom<u64>>(&mut self, what: &str, base: u32) -> Result<T, String> {
        let word = self.bare().ok_or_else(|| format!("{what} is missing"))?;
        parse_number(word, what, base)
    }

    /// Fails if anything is left.
    pub(super) fn end(&self) -> Result<(), String> {
        match self.is_empty() {
            true => Ok(()),
            false => Err(format!("unexpected `{}` at the end", self.0.escape_ascii())),
        }
    }
}

/// Parses a number without sign or prefix.
pub(super) fn parse_number<T: TryFrom<u64>>(word: &[u8], what: &str, base: u32) -> Result<T, String> {
    // Rust's parser would take a sign, and letters in base 16.
    let digits = std::str::from_utf8(word).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let number = digits.and_then(|digits| u64::from_str_radix(digits, base).ok());
    number.and_then(|number| T::try_from(number).ok()).ok_or_else(|| {
        let kind = if base == 8 { "an octal number" } else { "a number" };
        format!("{what} must be {kind} in its range, not `{}`", word.escape_ascii())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_can_be_quoted_in_two_ways() {
        use QuotingRules::{Keyword, Pseudo};
        type Expected = Result<&'static [u8], &'static str>;
        let table: [(&str, QuotingRules, Expected); 14] = [
            ("a b", Keyword, Ok(b"a")),
            (r"a\x2db c", Keyword, Ok(br"a\x2db")),
            (r#""a b" c"#, Keyword, Ok(b"a b")),
            (r#""a\"\\\q\012" c"#, Keyword, Ok(b"a\"\\\\q\n")),
            (r#"a"b c"d"#, Keyword, Ok(br#"a"b"#)),
            (r#""a"b"#, Keyword, Err("a space must follow")),
            (r#""ab"#, Keyword, Err("not closed")),
            ("", Keyword, Ok(b"")),
            (r"a\ b c", Pseudo, Ok(b"a b")),
            (r#"a" b"c d"#, Pseudo, Ok(b"a bc")),
            (r#"a\"\\ c"#, Pseudo, Ok(b"a\"\\")),
            (r#""a\" b" c"#, Pseudo, Ok(b"a\" b")),
            (r#""ab"#, Pseudo, Err("not closed")),
            (r"ab\", Pseudo, Err("nothing follows")),
        ];
        for (line, quoting, expected) in table {
            match (LineLexer::new(line.as_bytes()).word(quoting), expected) {
                (Ok(word), Ok(expected)) => assert_eq!(word, expected, "{line}"),
                (Err(error), Err(expected)) => assert!(error.contains(expected), "{line}: {error}"),
                (got, _) => panic!("{line}: {got:?}"),
            }
        }
    }

    #[test]
    fn numbers_have_a_range_and_no_decoration() {
        assert_eq!(parse_number::<u32>(b"0755", "it", 8), Ok(0o755));
        assert_eq!(parse_number::<u32>(b"4294967295", "it", 10), Ok(u32::MAX));
        for word in ["", "-1", "+1", "0x1", "8", "4294967296", "99999999999999999999"] {
            let base = if word == "8" { 8 } else { 10 };
            let error = parse_number::<u32>(word.as_bytes(), "the mode", base).unwrap_err();
            assert!(error.starts_with("the mode must be "), "{error}");
        }
    }
}
