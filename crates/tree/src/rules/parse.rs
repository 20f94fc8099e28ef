//! Reads a line of rules: tests, `->`, effects.

use std::ops::RangeInclusive;

use packfs_codec::{Choice, Codec};

use super::test::{EntryTest, FileMagic, PathRegex, TestCondition};
use super::{EmptyReason, IdChange, RuleEffects, XattrChange};
use crate::RecipeTable;
use crate::tree::{DataHandling, ExcludeXattrs, normal_path};
use crate::{ExcludeRules, xattr_value};

type ParseResult<T> = std::result::Result<T, String>;

/// A line, read.
#[derive(Debug)]
pub(super) struct ParsedLine {
    pub(super) tests: Vec<EntryTest>,
    pub(super) effects: RuleEffects,
}

/// Takes a path that has to be that of the entry out of the tests: rules are found by it.
pub(super) fn split_path(mut tests: Vec<EntryTest>) -> (Vec<EntryTest>, Option<Box<[u8]>>) {
    // A negated path does not say where the rule applies.
    let at = tests.iter().position(|test| !test.not && matches!(test.what, TestCondition::Path(_)));
    let path = at.and_then(|at| match tests.remove(at).what {
        TestCondition::Path(path) => Some(path),
        _ => None,
    });
    (tests, path)
}

/// Returns a line as messages show it.
pub(super) fn show_line(line: &[u8]) -> String {
    String::from_utf8_lossy(line.trim_ascii()).into_owned()
}

/// Parses a line, and adds its codecs and cluster sizes to `recipes`; returns `None` if it is empty or a comment.
pub(super) fn parse_line(line: &[u8], recipes: &mut RecipeTable) -> ParseResult<Option<ParsedLine>> {
    let text = line.trim_ascii();
    if text.is_empty() || text[0] == b'#' {
        return Ok(None);
    }
    let text = std::str::from_utf8(text).map_err(|_| "the line is not UTF-8".to_owned())?;
    let words = split_words(text)?;
    let arrow = words.iter().position(|word| word == "->");
    let arrow = arrow.ok_or("the arrow is missing; expected: TEST... -> EFFECT..., as in `glob=*.o -> exclude`")?;
    let tests = &words[..arrow];
    let effects = &words[arrow + 1..];
    if tests.is_empty() {
        return Err("there is no test before the arrow; `all` matches every entry".into());
    }
    if effects.is_empty() {
        return Err("no effect follows the arrow".into());
    }
    // `all` holds for anything, like no test.
    let tests = tests.iter().filter(|word| *word != "all").map(|word| parse_test(word)).collect::<ParseResult<_>>()?;
    let mut made = RuleEffects::default();
    effects.iter().try_for_each(|word| parse_effect(word, &mut made, recipes))?;
    Ok(Some(ParsedLine { tests, effects: made }))
}

/// Splits a line at spaces. Double quotes, anywhere in a word, protect spaces; `\"` in them is a quote.
fn split_words(text: &str) -> ParseResult<Vec<String>> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut quoted = false;
    let mut begun = false;
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => (quoted, begun) = (!quoted, true),
            // Any other backslash stands for itself: expressions have many.
            '\\' if quoted && letters.peek() == Some(&'"') => word.extend(letters.next()),
            letter if letter.is_ascii_whitespace() && !quoted => {
                if std::mem::take(&mut begun) {
                    words.push(std::mem::take(&mut word));
                }
            }
            letter => {
                begun = true;
                word.push(letter);
            }
        }
    }
    if quoted {
        return Err("a quote is not closed".into());
    }
    words.extend(begun.then_some(word));
    Ok(words)
}

fn parse_test(word: &str) -> ParseResult<EntryTest> {
    const KNOWN: &str = "path, glob, regex, type, size, owner, group, depth, magic, all";
    // Before the name, as `!` may be part of a value.
    let (not, word) = word.strip_prefix('!').map_or((false, word), |word| (true, word));
    let (name, value) = word.split_once('=').ok_or_else(|| format!("unknown test `{word}`; tests: {KNOWN}"))?;
    // The path as it is where the image is mounted.
    if let Some(mount_point) = name.strip_prefix("regex:") {
        let expression = PathRegex::new(value, mount_point).map_err(|error| error.to_string())?;
        return Ok(EntryTest { not, what: TestCondition::Regex(expression) });
    }
    let what = match name {
        // As `lookup` compares it: one slash between components, none around.
        "path" => TestCondition::Path(normal_path(value.as_bytes()).into()),
        "glob" => TestCondition::Glob(ExcludeRules::new([value]).map_err(|error| error.to_string())?),
        "regex" => TestCondition::Regex(PathRegex::new(value, "").map_err(|error| error.to_string())?),
        "type" => TestCondition::Type(value.split(',').map(parse_kind).collect::<ParseResult<_>>()?),
        "size" => TestCondition::Size(parse_range(name, value, parse_size)?),
        "owner" => TestCondition::Owner(parse_range(name, value, number)?),
        "group" => TestCondition::Group(parse_range(name, value, number)?),
        "depth" => TestCondition::Depth(parse_range(name, value, number)?),
        "magic" => TestCondition::Magic(value.split(',').map(FileMagic::named).collect::<ParseResult<_>>()?),
        _ => return Err(format!("unknown test `{name}`; tests: {KNOWN}")),
    };
    Ok(EntryTest { not, what })
}

fn parse_kind(name: &str) -> ParseResult<u8> {
    Ok(match name {
        "f" | "file" => b'f',
        "d" | "dir" => b'd',
        "l" | "symlink" => b'l',
        "c" | "char" => b'c',
        "b" | "block" => b'b',
        "p" | "fifo" => b'p',
        "s" | "socket" => b's',
        _ => return Err(format!("unknown type `{name}`; types: file, dir, symlink, char, block, fifo, socket")),
    })
}

/// Parses `N`, `N..`, `..N` or `N..M`; both ends belong to the range.
fn parse_range(name: &str, text: &str, parse: fn(&str) -> Option<u64>) -> ParseResult<RangeInclusive<u64>> {
    let wrong = || format!("{name}={text}: expected a number, or a range as 10.., ..10 or 1..10");
    let end = |text: &str, open: u64| if text.is_empty() { Some(open) } else { parse(text) };
    let (first, last) = match text.split_once("..") {
        // A range without ends would match everything, which `all` says better.
        Some(("", "")) => return Err(wrong()),
        Some((first, last)) => (end(first, 0), end(last, u64::MAX)),
        None => (parse(text), parse(text)),
    };
    match (first, last) {
        (Some(first), Some(last)) if first <= last => Ok(first..=last),
        _ => Err(wrong()),
    }
}

fn number(text: &str) -> Option<u64> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}

/// Parses bytes: a number, or one with K, M, G or T, which are powers of 1024.
fn parse_size(text: &str) -> Option<u64> {
    let (digits, shift) = match text.as_bytes().last()?.to_ascii_uppercase() {
        b'K' => (&text[..text.len() - 1], 10),
        b'M' => (&text[..text.len() - 1], 20),
        b'G' => (&text[..text.len() - 1], 30),
        b'T' => (&text[..text.len() - 1], 40),
        _ => (text, 0),
    };
    number(digits)?.checked_mul(1 << shift)
}

/// Parses a codec with its level and options.
fn parse_codec(text: &str) -> ParseResult<Choice> {
    let choice: Choice = text.parse().map_err(|error: packfs_codec::Error| error.to_string())?;
    // Left to `store`, which also keeps the file apart from compressed ones.
    if choice.codec() == Codec::None {
        return Err("codec=none: the effect `store` leaves files uncompressed".into());
    }
    Ok(choice)
}

/// Parses an owner or group, or after a sign what is added to it.
fn id(name: &str, text: &str) -> ParseResult<IdChange> {
    let wrong = || format!("{name}={text}: expected a number from 0 to 4294967294, optionally after + or -");
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    // The largest number means "no owner" to the kernel.
    let id = number(digits).and_then(|id| u32::try_from(id).ok()).filter(|id| *id < u32::MAX).ok_or_else(wrong)?;
    Ok(match text.as_bytes()[0] {
        b'+' => IdChange::Shift(id.into()),
        b'-' => IdChange::Shift(-i64::from(id)),
        _ => IdChange::Set(id),
    })
}

fn parse_effect(word: &str, made: &mut RuleEffects, recipes: &mut RecipeTable) -> ParseResult<()> {
    const KNOWN: &str = "exclude, stop, store, codec, cluster, fragments, no-fragment, no-dedup, no-sparse, align, \
                         compress, exclude-empty, priority, owner, group, mode, time, xattr, drop-xattr";
    let (name, value) = word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)));
    let given = || value.ok_or_else(|| format!("{name}: its value is missing, as in {name}=..."));
    let id = || id(name, given()?);
    match name {
        "exclude" | "stop" | "store" | "compress" | "no-fragment" | "no-dedup" | "no-sparse" | "align"
            if value.is_some() =>
        {
            return Err(format!("{name} takes no value"));
        }
        "exclude" => made.exclude = true,
        "exclude-empty" => {
            made.exclude_empty = Some(match value {
                None => EmptyReason::Any,
                Some("source") => EmptyReason::Source,
                Some("excluded") => EmptyReason::Excluded,
                Some(other) => return Err(format!("exclude-empty={other}: expected source or excluded, or no value")),
            });
        }
        "stop" => made.stop = true,
        // The last of two contradicting effects in one rule counts.
        "store" => made.handling = (made.handling - DataHandling::COMPRESS) | DataHandling::STORE,
        "compress" => made.handling = (made.handling - DataHandling::STORE) | DataHandling::COMPRESS,
        "no-fragment" => made.handling = made.handling.then(DataHandling::NO_FRAGMENT),
        "fragments" => {
            let packing = match given()? {
                "none" => DataHandling::NO_FRAGMENT,
                "small" => DataHandling::SMALL,
                "tails" => DataHandling::TAILS,
                other => return Err(format!("fragments={other}: expected none, small or tails")),
            };
            made.handling = made.handling.then(packing);
        }
        "no-sparse" => made.handling |= DataHandling::NO_SPARSE,
        "align" => made.handling |= DataHandling::ALIGN,
        "no-dedup" => made.handling |= DataHandling::NO_DEDUP,
        "priority" => {
            // Turned around later, so the smallest number has no counterpart.
            let number = given()?.parse().ok().filter(|number| *number > i32::MIN);
            made.priority = Some(number.ok_or("priority: expected a number from -2147483647 to 2147483647")?);
        }
        "owner" => made.uid = id()?,
        "group" => made.gid = id()?,
        "mode" => made.mode = Some(given()?.parse().map_err(|error: crate::Error| error.to_string())?),
        "time" => made.mtime = Some(given()?.parse().map_err(|_| "time: expected seconds since 1970")?),
        "xattr" => {
            let (name, value) = given()?.split_once('=').ok_or("xattr: expected xattr=NAME=VALUE")?;
            if name.is_empty() {
                return Err("xattr: the name is missing; expected xattr=NAME=VALUE".into());
            }
            made.xattrs.push(XattrChange::Set(name.as_bytes().into(), xattr_value(value.as_bytes())?.into()));
        }
        "drop-xattr" => {
            let names = ExcludeXattrs::new([given()?]).map_err(|error| error.to_string())?;
            made.xattrs.push(XattrChange::Drop(names));
        }
        "codec" => made.recipe.codec = recipes.codec(parse_codec(given()?)?).map_err(|error| error.to_string())?,
        "cluster" => {
            let text = given()?;
            let bytes = parse_size(text).and_then(|bytes| u32::try_from(bytes).ok()).filter(|bytes| *bytes > 0);
            let bytes = bytes.ok_or_else(|| format!("cluster={text}: expected a size such as 64K"))?;
            made.recipe.cluster = recipes.cluster(bytes).map_err(|error| error.to_string())?;
        }
        "level" => return Err("level: it follows the codec, as in codec=zstd:15".into()),
        _ => return Err(format!("unknown effect `{name}`; effects: {KNOWN}")),
    }
    Ok(())
}
