//! `-action`: what to do with entries that pass an expression of tests, as rules. An expression becomes one rule for each
//! alternative, as a rule has tests that all have to hold.

use std::ffi::OsStr;

use super::attributes::OwnerShift;
use super::exclude::xattr_glob;
use crate::args::value;
use crate::personalities::refusals;
use crate::personalities::rules::rule_word;

/// Largest number of rules for one action.
const RULES_MAX: usize = 256;
/// Deepest nesting of an expression.
const DEPTH_MAX: usize = 32;

/// Effect of `compressed`.
pub(super) const COMPRESS: &str = "compress";

/// Alternatives, each of them tests that all have to hold; without tests an alternative always holds.
type TestAlternatives = Vec<Vec<String>>;

/// Packing of the ends of files that the options ask for: actions change it only in part.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum TailPacking {
    None,
    #[default]
    Small,
    Tails,
}

impl TailPacking {
    /// Returns what a value of `--fragments` asks for.
    pub(super) fn of(fragments: &OsStr) -> Self {
        match fragments.to_str() {
            Some("none") => TailPacking::None,
            Some("tails") => TailPacking::Tails,
            _ => TailPacking::Small,
        }
    }
}

/// Options that change the effect of all actions, wherever they stand on the command line.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ActionContext {
    pub(super) packing: TailPacking,
    pub(super) shift: OwnerShift,
}

/// Returns the rules of an action, `NAME(ARGUMENTS)@EXPRESSION`.
pub(super) fn translate_action(text: &str, surroundings: ActionContext) -> Result<Vec<String>, String> {
    let mut rest = ExpressionParser(text.trim());
    let (name, arguments) = rest.parse_call()?;
    if !rest.consume("@") {
        return Err(format!("expected @ after {name}"));
    }
    // `@` stands between action and tests, and the tests may be anything.
    let tests = rest.parse_connected(false, 0)?;
    if !rest.0.is_empty() {
        return Err(format!("unexpected `{}` at the end", rest.0));
    }
    let (restriction, effects) = action_effects(&name, &arguments, surroundings)?;
    // The expression was read nevertheless, so that errors in it are told.
    if effects.is_empty() {
        return Ok(Vec::new());
    }
    let rule = |tests: Vec<String>| {
        let tests: Vec<&str> = restriction.into_iter().chain(tests.iter().map(String::as_str)).collect();
        format!("{} -> {effects}", if tests.is_empty() { "all".to_owned() } else { tests.join(" ") })
    };
    Ok(tests.into_iter().map(rule).collect())
}

/// Returns a test that an action brings with it, and its effects; none if files are stored so anyway.
fn action_effects(
    name: &str,
    arguments: &[String],
    surroundings: ActionContext,
) -> Result<(Option<&'static str>, String), String> {
    let ActionContext { packing, shift } = surroundings;
    let one = || match arguments {
        [one] => Ok(one.as_str()),
        _ => Err(format!("{name}: expected one argument")),
    };
    let none = |effect: &str| match arguments {
        [] => Ok((None, effect.to_owned())),
        // Empty parentheses, as the manual of mksquashfs has them.
        [empty] if empty.is_empty() => Ok((None, effect.to_owned())),
        _ => Err(format!("{name} takes no argument")),
    };
    match name {
        // The other one comes after actions that change attributes, which rules never see.
        "exclude" | "prune" => none("exclude"),
        "uncompressed" => none("store"),
        "no-fragments" => none("no-fragment"),
        "uid" => Ok((None, format!("owner={}", shift.apply(value::user(one()?)?)?))),
        "gid" => Ok((None, format!("group={}", shift.apply(value::group(one()?)?)?))),
        "guid" => match arguments {
            [user, group] => {
                let user = shift.apply(value::user(user)?)?;
                let group = shift.apply(value::group(group)?)?;
                Ok((None, format!("owner={user} group={group}")))
            }
            _ => Err("guid: expected a user and a group".into()),
        },
        // Its arguments are separated by commas, as are the parts of a mode.
        "chmod" if !arguments.is_empty() => Ok((None, rule_word("mode", &arguments.join(","))?)),
        "xattrs-add" => {
            let attribute = one()?;
            // Others have no attributes of users.
            let restriction = attribute.starts_with("user.").then_some("type=file,dir");
            Ok((restriction, rule_word("xattr", attribute)?))
        }
        "xattrs-exclude" => Ok((None, rule_word("drop-xattr", &xattr_glob(one()?)?)?)),
        "fragments" if packing == TailPacking::Tails => none("fragments=tails"),
        // Not `tails`: only files that are shorter than a block.
        "fragments" => none("fragments=small"),
        // Where there are no fragments, these do not make any.
        "tailend" | "no-tailend" if packing == TailPacking::None => none(""),
        "tailend" => none("fragments=tails"),
        "no-tailend" => none("fragments=small"),
        "align" => Ok((None, alignment_effect(one()?)?.to_owned())),
        "compressed" => none(COMPRESS),
        "fragment" => Err(refusals::NAMED_FRAGMENTS.error(name)),
        "empty" => match arguments {
            [] => Ok((None, "exclude-empty".into())),
            [reason] if reason == "all" => Ok((None, "exclude-empty".into())),
            [reason] if reason == "source" || reason == "excluded" => Ok((None, format!("exclude-empty={reason}"))),
            _ => Err("empty: expected no argument, or all, source or excluded".into()),
        },
        "move" | "dereference" => Err(refusals::MOVED_ENTRIES.error(name)),
        _ => Err(refusals::OTHER_ACTIONS.error(name)),
    }
}

/// Returns the effect for an alignment.
fn alignment_effect(text: &str) -> Result<&'static str, String> {
    let bytes = value::size(text).ok().filter(|bytes| bytes.is_power_of_two());
    match bytes.ok_or_else(|| format!("align({text}): expected a power of two, perhaps with K or M"))? {
        1 => Ok(""),
        2..=4096 => Ok("align"),
        _ => Err(refusals::LARGE_ALIGNMENT.error(format_args!("align({text})"))),
    }
}

/// Returns the alternatives of a test.
fn translate_test(name: &str, arguments: &[String], not: bool) -> Result<TestAlternatives, String> {
    let one = || match arguments {
        [one] => Ok(one.as_str()),
        _ => Err(format!("{name}(): expected one argument")),
    };
    // All of a list if it is reversed, any of it otherwise.
    let any = |tests: Vec<String>| -> TestAlternatives {
        match not {
            true => vec![tests.into_iter().map(|test| format!("!{test}")).collect()],
            false => tests.into_iter().map(|test| vec![test]).collect(),
        }
    };
    // A test with a known result: one alternative without tests, or no alternative at all.
    let always = |holds: bool| if holds != not { vec![Vec::new()] } else { Vec::new() };
    let number = |text: &str| {
        let wrong = || format!("{name}({text}): expected a number, perhaps with K, M or G and after <, <=, > or >=");
        value::size(text.trim()).map_err(|_| wrong())
    };
    let of = |test: &str, range: Option<String>| {
        range.map_or_else(|| always(false), |range| any(vec![format!("{test}={range}")]))
    };
    let range = |test: &str| Ok(of(test, parse_comparison(one()?, number)?));
    let between = |test: &str| match arguments {
        [first, last] => {
            let first = number(first)?;
            let last = number(last)?;
            // A range with its ends reversed has nothing in it.
            Ok(of(test, (first <= last).then(|| format!("{first}..{last}"))))
        }
        _ => Err(format!("{name}(): expected a minimum and a maximum")),
    };
    let glob = |place: &str| {
        // Braces have no meaning in patterns of the shell's fnmatch, as these are.
        let pattern = one()?.trim_start_matches('/').replace('{', "\\{").replace('}', "\\}");
        if ["!(", "@(", "+(", "*(", "?("].iter().any(|extended| pattern.contains(extended)) {
            return Err(refusals::EXTENDED_PATTERNS.error(format_args!("{name}({pattern})")));
        }
        rule_word("glob", &place.replace("{}", &pattern))
    };
    match name {
        "true" => Ok(always(true)),
        "false" => Ok(always(false)),
        // A star matches the root, too, which no glob does.
        "name" | "subpathname" if one()? == "*" => Ok(always(true)),
        "pathname" if one()? == "*" => Ok(any(vec!["depth=0..1".into()])),
        // A name never has a slash.
        "name" if one()?.contains('/') => Ok(always(false)),
        "name" => Ok(any(vec![glob("{}")?])),
        "pathname" => Ok(any(vec![glob("/{}")?])),
        "subpathname" => Ok(any(vec![glob("/{}")?, glob("/{}/**")?])),
        "type" => match one()? {
            kind @ ("f" | "d" | "l" | "c" | "b" | "p" | "s") => Ok(any(vec![format!("type={kind}")])),
            kind => Err(format!("type({kind}): expected one of f d l c b p s")),
        },
        "filesize" => range("size"),
        "depth" => range("depth"),
        "uid" => range("owner"),
        "gid" => range("group"),
        "filesize_range" => between("size"),
        "depth_range" => between("depth"),
        "uid_range" => between("owner"),
        "gid_range" => between("group"),
        "user" => Ok(any(vec![format!("owner={}", value::user(one()?)?)])),
        "group" => Ok(any(vec![format!("group={}", value::group(one()?)?)])),
        _ => Err(refusals::OTHER_TESTS.error(format_args!("{name}()"))),
    }
}

/// Returns the range of a number that may follow `<`, `<=`, `>` or `>=`, or `-` and `+` as with find; `None` if there is
/// nothing in it.
fn parse_comparison(text: &str, number: impl Fn(&str) -> Result<u64, String>) -> Result<Option<String>, String> {
    let text = text.trim();
    if let Some(last) = text.strip_prefix("<=") {
        return Ok(Some(format!("..{}", number(last)?)));
    }
    if let Some(first) = text.strip_prefix(">=") {
        return Ok(Some(format!("{}..", number(first)?)));
    }
    match text.split_at_checked(1) {
        // Nothing is less than 0.
        Some(("<" | "-", below)) => Ok(number(below)?.checked_sub(1).map(|last| format!("..{last}"))),
        Some((">" | "+", above)) => Ok(number(above)?.checked_add(1).map(|first| format!("{first}.."))),
        _ => Ok(Some(number(text)?.to_string())),
    }
}

/// The rest of an action.
struct ExpressionParser<'t>(&'t str);

impl ExpressionParser<'_> {
    /// Consumes a symbol if it comes next.
    fn consume(&mut self, symbol: &str) -> bool {
        let rest = self.0.trim_start().strip_prefix(symbol);
        self.0 = rest.map_or(self.0, str::trim_start);
        rest.is_some()
    }

    /// Reads tests that `&&` and `||` connect, from left to right: neither binds more closely. Reversed if `not`.
    fn parse_connected(&mut self, not: bool, depth: usize) -> Result<TestAlternatives, String> {
        let mut all = self.parse_single(not, depth)?;
        loop {
            let both = self.consume("&&");
            if !both && !self.consume("||") {
                return Ok(all);
            }
            let next = self.parse_single(not, depth)?;
            // Reversed, "and" becomes "or": not both is either one not.
            all = connect(all, next, both != not)?;
        }
    }

    fn parse_single(&mut self, not: bool, depth: usize) -> Result<TestAlternatives, String> {
        // Each level is a call, and the text may come from anybody's script.
        if depth > DEPTH_MAX {
            return Err("the expression is nested too deeply".into());
        }
        // Pushed down to the tests, as rules have `!` only before a single test.
        if self.consume("!") {
            return self.parse_single(!not, depth + 1);
        }
        if self.consume("(") {
            let inside = self.parse_connected(not, depth + 1)?;
            return if self.consume(")") { Ok(inside) } else { Err("a parenthesis is not closed".into()) };
        }
        let (name, arguments) = self.parse_call()?;
        translate_test(&name, &arguments, not)
    }

    /// Reads a name and its arguments, if it has any.
    fn parse_call(&mut self) -> Result<(String, Vec<String>), String> {
        let end = self.0.find(|letter: char| !letter.is_ascii_alphanumeric() && !"_-".contains(letter));
        let (name, rest) = self.0.split_at(end.unwrap_or(self.0.len()));
        if name.is_empty() {
            return Err(format!("expected a name before `{rest}`"));
        }
        self.0 = rest;
        if !self.consume("(") {
            return Ok((name.to_owned(), Vec::new()));
        }
        let mut arguments = Vec::new();
        let mut argument = String::new();
        let mut quoted = false;
        for (at, letter) in self.0.char_indices() {
            match letter {
                // Quotes need not enclose an argument: they only take the meaning of what is within.
                '"' => quoted = !quoted,
                ',' if !quoted => arguments.push(std::mem::take(&mut argument).trim().to_owned()),
                ')' if !quoted => {
                    arguments.push(argument.trim().to_owned());
                    self.0 = self.0[at + 1..].trim_start();
                    return Ok((name.to_owned(), arguments));
                }
                letter => argument.push(letter),
            }
        }
        Err(format!("the parenthesis after {name} is not closed"))
    }
}

/// Connects alternatives: any of both, or with `all` one of each.
fn connect(one: TestAlternatives, other: TestAlternatives, all: bool) -> Result<TestAlternatives, String> {
    let count = if all { one.len() * other.len() } else { one.len() + other.len() };
    // Each connection can multiply them.
    if count > RULES_MAX {
        return Err(format!("the expression has more than {RULES_MAX} alternatives"));
    }
    Ok(match all {
        true => one.iter().flat_map(|a| other.iter().map(move |b| [&a[..], &b[..]].concat())).collect(),
        false => [one, other].concat(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_become_rules() {
        for (action, made) in [
            ("exclude@name(*.o)", &["glob=*.o -> exclude"][..]),
            ("uid(5)@true", &["all -> owner=5"]),
            ("guid(root,7)@type(d) && !name(e*)", &["type=d !glob=e* -> owner=0 group=7"]),
            ("chmod(u+x,g-r)@pathname(/a/*)", &["glob=/a/* -> mode=u+x,g-r"]),
            ("exclude@(name(x) || name(y)) && type(f)", &["glob=x type=f -> exclude", "glob=y type=f -> exclude"]),
            ("exclude@!(name(x)||name(y)&&type(f))", &["!glob=x !glob=y -> exclude", "!type=f -> exclude"]),
            ("exclude@name(x)||name(y)&&type(f)", &["glob=x type=f -> exclude", "glob=y type=f -> exclude"]),
            ("exclude@name(x)||(name(y)&&type(f))", &["glob=x -> exclude", "glob=y type=f -> exclude"]),
            ("uncompressed@filesize(>1k)||filesize(<10)", &["size=1025.. -> store", "size=..9 -> store"]),
            ("no-fragments@subpathname(d/e)", &["glob=/d/e -> no-fragment", "glob=/d/e/** -> no-fragment"]),
            ("exclude@!subpathname(d)", &["!glob=/d !glob=/d/** -> exclude"]),
            ("xattrs-add(user.a=\"b c\")@depth(2)", &["type=file,dir depth=2 -> xattr=user.a=b\" \"c"]),
            ("xattrs-exclude(^user.)@uid(-1)", &["owner=..0 -> drop-xattr=user.*"]),
            ("align(512)@name(a)", &["glob=a -> align"]),
            ("align(1)@name(a)", &[]),
            ("exclude@false||!true||filesize(<0)", &[]),
            ("gid(0)@name(*)", &["all -> group=0"]),
            ("compressed@name(a)", &["glob=a -> compress"]),
            ("empty@true", &["all -> exclude-empty"]),
            ("empty(all)@name(a)", &["glob=a -> exclude-empty"]),
            ("empty( source )@true", &["all -> exclude-empty=source"]),
            ("empty(excluded)@true", &["all -> exclude-empty=excluded"]),
            ("prune@depth(<=2)&&uid(>=1k)", &["depth=..2 owner=1024.. -> exclude"]),
            ("exclude@filesize_range(1K, 2M)||gid_range(5,4)", &["size=1024..2097152 -> exclude"]),
            ("exclude@!depth_range(2,3)&&user(root)&&group(7)", &["!depth=2..3 owner=0 group=7 -> exclude"]),
        ] {
            let got = translate_action(action, ActionContext::default()).unwrap();
            assert_eq!(got, made, "{action}");
            let text = got.join("\n");
            assert!(packfs_image::rules::Rules::parse([("r".as_ref(), text.as_bytes())]).is_ok(), "{text}");
        }
    }

    #[test]
    fn what_rules_cannot_say_is_refused_by_name() {
        for (action, why) in [
            ("exclude", "expected @ after exclude"),
            ("exclude@", "expected a name"),
            ("exclude@name(a", "the parenthesis after name is not closed"),
            ("exclude@(name(a)", "a parenthesis is not closed"),
            ("exclude@name(a) x", "unexpected `x`"),
            ("exclude(1)@true", "exclude takes no argument"),
            ("uid@true", "uid: expected one argument"),
            ("fragment(x)@true", "fragment: packfs has one"),
            ("align(3)@true", "align(3): expected a power of two"),
            ("align(8K)@true", "align(8K): packfs aligns to 4K"),
            ("compressed(1)@true", "compressed takes no argument"),
            ("empty(nosuch)@true", "empty: expected no argument"),
            ("exclude@depth_range(1)", "a minimum and a maximum"),
            ("exclude@uid(<=)", "uid(): expected a number"),
            ("frob@true", "frob: packfs has no such action"),
            ("exclude@dircount(2)", "dircount(): packfs has no such test"),
            ("exclude@type(x)", "expected one of f d"),
            ("exclude@depth(x)", "depth(x): expected a number"),
            ("exclude@user(nosuch)", "no user `nosuch`"),
            ("exclude@name(!(a))", "extended patterns"),
        ] {
            let told = translate_action(action, ActionContext::default()).unwrap_err();
            assert!(told.contains(why), "{action}: {told}");
        }
        for (packing, of_fragments, of_tailend, of_no_tailend) in [
            (TailPacking::None, &["all -> fragments=small"][..], &[][..], &[][..]),
            (TailPacking::Small, &["all -> fragments=small"], &["all -> fragments=tails"], &["all -> fragments=small"]),
            (TailPacking::Tails, &["all -> fragments=tails"], &["all -> fragments=tails"], &["all -> fragments=small"]),
        ] {
            let surroundings = ActionContext { packing, ..ActionContext::default() };
            assert_eq!(translate_action("fragments@true", surroundings).unwrap(), of_fragments);
            assert_eq!(translate_action("tailend@true", surroundings).unwrap(), of_tailend);
            assert_eq!(translate_action("no-tailend@true", surroundings).unwrap(), of_no_tailend);
        }
        let shift = OwnerShift::parse("-uid-gid-offset", "1000").unwrap();
        let surroundings = ActionContext { shift, ..ActionContext::default() };
        assert_eq!(translate_action("guid(1,2)@uid(3)", surroundings).unwrap(), ["owner=3 -> owner=1001 group=1002"]);
        assert!(translate_action("uid(4294967000)@true", surroundings).unwrap_err().contains("larger than"));
        let deep = format!("exclude@{}true", "!(".repeat(1000));
        assert!(translate_action(&deep, ActionContext::default()).unwrap_err().contains("too deeply"));
        let wide = format!("exclude@{}", ["(name(a)||name(b))"; 20].join("&&"));
        assert!(translate_action(&wide, ActionContext::default()).unwrap_err().contains("more than 256"));
    }
}
