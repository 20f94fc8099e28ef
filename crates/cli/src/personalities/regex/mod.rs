//! POSIX extended regular expressions as regcomp(3) of glibc reads them in the C locale, which the other programs never
//! leave, in the syntax that packfs takes. An expression that regcomp refuses is refused here, too; back-references are
//! the only thing that is missing.

use super::refusals;

/// Deepest nesting of groups; the expressions of packfs have a limit, too.
const DEPTH_MAX: usize = 200;
/// Largest number of repetitions that POSIX requires and regcomp accepts.
const REPEAT_MAX: u32 = 32_767;
/// Bytes that have a meaning in the syntax of packfs.
const SPECIAL: &[u8] = b"\\.+*?()|[]{}^$#&-~";

/// Text that an expression is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MatchSubject {
    /// A whole path.
    Path,
    /// One name of a path: nothing in the expression matches a slash.
    Name,
}

/// Translates an expression.
pub(super) fn translate_regex(expression: &str, subject: MatchSubject) -> Result<String, String> {
    // The bytes of an expression need not be UTF-8: regcomp in the C locale takes bytes.
    let mut parser = RegexParser { rest: expression.as_bytes(), subject };
    parser.alternatives(0)
}

/// Translates a regular expression for each component of a path: from the root, or after `... ` from any directory.
pub(super) fn translate_path(text: &str) -> Result<String, String> {
    let (start, path) = match text.strip_prefix("... ") {
        Some(anywhere) => ("(?:\\A|/)", anywhere),
        None => ("\\A", text),
    };
    // A dot is an expression as any other.
    let components = path.split('/').filter(|name| !name.is_empty());
    let components = components.map(|name| Ok(format!("[^/]*(?:{})[^/]*", translate_regex(name, MatchSubject::Name)?)));
    let components = components.collect::<Result<Vec<String>, String>>()?;
    // `^` and `$` match at the ends of components, and nothing matches a slash.
    Ok(format!("(?m-s){start}{}\\z", components.join("/")))
}

/// The rest of an expression.
struct RegexParser<'e> {
    rest: &'e [u8],
    subject: MatchSubject,
}

impl RegexParser<'_> {
    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    fn takes(&mut self, symbol: &[u8]) -> bool {
        let rest = self.rest.strip_prefix(symbol);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// Translates alternatives up to the end, or to the parenthesis that closes their group.
    fn alternatives(&mut self, depth: usize) -> Result<String, String> {
        // Each group is a call.
        if depth > DEPTH_MAX {
            return Err(format!("groups are nested more than {DEPTH_MAX} deep"));
        }
        let mut out = String::new();
        // Outside of groups a closing parenthesis is a letter.
        while !self.rest.is_empty() && (depth == 0 || self.rest[0] != b')') {
            if self.takes(b"|") {
                out.push('|');
            } else {
                out.push_str(&self.piece(depth)?);
            }
        }
        Ok(out)
    }

    /// Translates what one may repeat, and its repetitions.
    fn piece(&mut self, depth: usize) -> Result<String, String> {
        let mut piece = match self.next().unwrap_or_default() {
            // Anchors return at once, so that a sign that repeats one has nothing
            // before it.
            b'^' => return Ok("^".into()),
            b'$' => return Ok("$".into()),
            b'\\' => match self.escaped()? {
                EscapedByte::Anchor(anchor) => return Ok(anchor.into()),
                EscapedByte::Letter(letter) => letter,
            },
            letter @ (b'*' | b'+' | b'?' | b'{') => {
                return Err(format!("there is nothing before `{}` to repeat", char::from(letter)));
            }
            b'(' => {
                let inside = self.alternatives(depth + 1)?;
                if !self.takes(b")") {
                    return Err("a parenthesis is not closed".into());
                }
                // Not captured: without back-references nobody asks for groups.
                format!("(?:{inside})")
            }
            b'[' => self.bracket()?,
            b'.' => ".".into(),
            byte => literal(byte),
        };
        let mut is_repeated = false;
        while let Some(times) = self.repetition()? {
            // A second sign after the first would make it lazy.
            piece = if is_repeated { format!("(?:{piece}){times}") } else { piece + &times };
            is_repeated = true;
        }
        Ok(piece)
    }

    /// Translates a sign that repeats what stands before it, if one follows.
    fn repetition(&mut self) -> Result<Option<String>, String> {
        if let Some(sign @ (b'*' | b'+' | b'?')) = self.rest.first() {
            let sign = char::from(*sign).to_string();
            self.next();
            return Ok(Some(sign));
        }
        if !self.takes(b"{") {
            return Ok(None);
        }
        let wrong = || "expected {N}, {N,}, {,N} or {N,M}".to_owned();
        let least = self.number();
        // `{,M}` is an extension of glibc.
        let most = if self.takes(b",") { self.number() } else { Some(least.ok_or_else(wrong)?) };
        if !self.takes(b"}") || most.is_some_and(|most| most < least.unwrap_or(0)) {
            return Err(wrong());
        }
        let least = least.unwrap_or(0);
        if least.max(most.unwrap_or(0)) > REPEAT_MAX {
            return Err(format!("more than {REPEAT_MAX} repetitions"));
        }
        let most = most.map_or_else(String::new, |most| most.to_string());
        Ok(Some(format!("{{{least},{most}}}")))
    }

    fn number(&mut self) -> Option<u32> {
        let len = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (digits, rest) = self.rest.split_at(len);
        self.rest = rest;
        let number = |digits: &[u8]| std::str::from_utf8(digits).ok()?.parse().ok();
        // A number that is too long is larger than any limit.
        (len > 0).then(|| number(digits).unwrap_or(u32::MAX))
    }

    /// Translates what follows a backslash: besides letters without their meaning, extensions of glibc.
    fn escaped(&mut self) -> Result<EscapedByte, String> {
        let byte = self.next().ok_or("nothing follows the backslash at the end")?;
        Ok(match byte {
            // The subject has no line breaks with a meaning, so these are the plain anchors.
            b'`' => EscapedByte::Anchor("^"),
            b'\'' => EscapedByte::Anchor("$"),
            b'<' => EscapedByte::Anchor("\\<"),
            b'>' => EscapedByte::Anchor("\\>"),
            b'b' => EscapedByte::Anchor("\\b"),
            b'B' => EscapedByte::Anchor("\\B"),
            b'w' | b'W' => EscapedByte::Letter(self.class(is_word, byte == b'W')),
            b's' | b'S' => EscapedByte::Letter(self.class(is_space, byte == b'S')),
            b'1'..=b'9' => return Err(refusals::BACK_REFERENCES.error(format_args!("\\{}", char::from(byte)))),
            byte => EscapedByte::Letter(literal(byte)),
        })
    }

    /// Translates a bracket expression, of which the opening bracket is taken. A backslash is a member like any other.
    fn bracket(&mut self) -> Result<String, String> {
        const OPEN: &str = "a bracket is not closed";
        let negated = self.takes(b"^");
        let mut members = [false; 256];
        let mut is_first = true;
        loop {
            if self.rest.is_empty() {
                return Err(OPEN.into());
            }
            if !is_first && self.takes(b"]") {
                break;
            }
            if self.takes(b"[:") {
                let is_in = class_named(self.symbol(b':')?)?;
                (0..=255).filter(|byte| is_in(*byte)).for_each(|byte| members[usize::from(byte)] = true);
                is_first = false;
                continue;
            }
            let has_range = !self.rest.starts_with(b"[=");
            // `-` is a member at the beginning and at the end only.
            if !is_first && self.rest[0] == b'-' && self.rest.get(1) != Some(&b']') {
                return Err("a range begins with `-`, with a class, or with the end of another range".into());
            }
            let first = self.member()?;
            is_first = false;
            let is_range = has_range && self.rest.first() == Some(&b'-') && self.rest.get(1) != Some(&b']');
            let last = if is_range {
                self.next();
                if self.rest.starts_with(b"[:") || self.rest.starts_with(b"[=") {
                    return Err("a range ends with a class".into());
                }
                self.member()?
            } else {
                first
            };
            if last < first {
                return Err(format!("the range {}-{} is empty", char::from(first), char::from(last)));
            }
            members[usize::from(first)..=usize::from(last)].fill(true);
        }
        Ok(self.class(|byte| members[usize::from(byte)], negated))
    }

    /// Reads a member of a bracket expression: a byte, or one in `[.` and `.]` or `[=` and `=]`.
    fn member(&mut self) -> Result<u8, String> {
        for kind in [b'.', b'='] {
            if self.takes(&[b'[', kind]) {
                return match self.symbol(kind)? {
                    [byte] => Ok(*byte),
                    name => Err(format!("there is no character named `{}`", String::from_utf8_lossy(name))),
                };
            }
        }
        self.next().ok_or_else(|| "a bracket is not closed".into())
    }

    /// Reads up to `kind` and a bracket.
    fn symbol(&mut self, kind: u8) -> Result<&[u8], String> {
        // The letter may be the one that closes, as in `[=]=]`.
        let end = (0..self.rest.len()).find(|at| self.rest[*at..].starts_with(&[kind, b']']));
        let end = end.ok_or_else(|| format!("`[{}` is not closed", char::from(kind)))?;
        let (name, rest) = self.rest.split_at(end);
        self.rest = &rest[2..];
        Ok(name)
    }

    /// Writes a class of bytes, in ranges, so that none of its members can be taken for a sign.
    fn class(&self, is_in: impl Fn(u8) -> bool, negated: bool) -> String {
        // A class never matches a slash in a name, not even a negated one.
        let is_in = |byte: u8| is_in(byte) != negated && (byte != b'/' || self.subject == MatchSubject::Path);
        let mut out = String::from("[");
        let mut byte = 0_u16;
        while let Ok(first) = u8::try_from(byte) {
            let last = (first..=255).take_while(|byte| is_in(*byte)).last();
            byte = u16::from(last.unwrap_or(first)) + 1;
            match last {
                None => {}
                Some(last) if last == first => out.push_str(&member(first)),
                Some(last) => out.push_str(&format!("{}-{}", member(first), member(last))),
            }
        }
        // An empty class is not possible in packfs's syntax: this one matches nothing.
        if out == "[" { "[^\\x00-\\xFF]".into() } else { out + "]" }
    }
}

/// Meaning of a byte after a backslash.
enum EscapedByte {
    /// A place between bytes, which nothing repeats.
    Anchor(&'static str),
    /// A byte, or one of several.
    Letter(String),
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn is_space(byte: u8) -> bool {
    byte == b' ' || (b'\t'..=b'\r').contains(&byte)
}

/// Returns the class of a name such as `alpha`.
fn class_named(name: &[u8]) -> Result<fn(u8) -> bool, String> {
    Ok(match name {
        b"alnum" => |byte| byte.is_ascii_alphanumeric(),
        b"alpha" => |byte| byte.is_ascii_alphabetic(),
        b"blank" => |byte| byte == b' ' || byte == b'\t',
        b"cntrl" => |byte| byte.is_ascii_control(),
        b"digit" => |byte| byte.is_ascii_digit(),
        b"graph" => |byte| byte.is_ascii_graphic(),
        b"lower" => |byte| byte.is_ascii_lowercase(),
        b"print" => |byte| byte.is_ascii_graphic() || byte == b' ',
        b"punct" => |byte| byte.is_ascii_punctuation(),
        b"space" => is_space,
        b"upper" => |byte| byte.is_ascii_uppercase(),
        b"xdigit" => |byte| byte.is_ascii_hexdigit(),
        name => return Err(format!("there is no character class named `{}`", String::from_utf8_lossy(name))),
    })
}

/// Writes a byte outside of classes.
fn literal(byte: u8) -> String {
    match byte {
        // A backslash before any of these is always allowed.
        byte if SPECIAL.contains(&byte) => format!("\\{}", char::from(byte)),
        b' '..=b'~' => char::from(byte).to_string(),
        byte => format!("\\x{byte:02X}"),
    }
}

/// Writes a byte inside of a class.
fn member(byte: u8) -> String {
    if is_word(byte) { char::from(byte).to_string() } else { format!("\\x{byte:02X}") }
}

#[cfg(test)]
mod tests;
