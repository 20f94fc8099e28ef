//! Translated expressions match what bash matches with the originals: it gives them to regcomp as they are.

use std::process::Command;

use packfs_image::source::ExcludeRules;

use super::*;

/// Compares `text` with a translated expression; `None` if it is malformed.
fn ours(expression: &str, text: &str) -> Option<bool> {
    let translated = translate_regex(expression, MatchSubject::Path).ok()?;
    let compiled = ExcludeRules::default().with_regexes(&[&translated]);
    Some(compiled.unwrap_or_else(|error| panic!("{expression}: {error}")).matches(text.as_bytes(), false))
}

/// Compares texts with expressions as regcomp and regexec do; `None` for malformed expressions.
fn theirs(pairs: &[(String, String)]) -> Vec<Option<bool>> {
    let script = r#"while (($#)); do [[ $2 =~ $1 ]]; echo $?; shift 2; done"#;
    let mut bash = Command::new("bash");
    bash.env("LC_ALL", "C").args(["-c", script, "bash"]);
    let ran = bash.args(pairs.iter().flat_map(|(expression, text)| [expression, text])).output().unwrap();
    let verdict = |line: &str| match line {
        "0" => Some(true),
        "1" => Some(false),
        _ => None,
    };
    String::from_utf8(ran.stdout).unwrap().lines().map(verdict).collect()
}

fn compare(expressions: &[&str], texts: &[&str]) {
    let pairs = expressions.iter().flat_map(|one| texts.iter().map(|text| ((*one).to_owned(), (*text).to_owned())));
    let pairs: Vec<_> = pairs.collect();
    let verdicts = theirs(&pairs);
    assert_eq!(verdicts.len(), pairs.len());
    for ((expression, text), want) in pairs.iter().zip(verdicts) {
        assert_eq!(ours(expression, text), want, "{expression:?} on {text:?}");
    }
}

const TEXTS: [&str; 22] = [
    "a", "b", "A", "ab", "abc", "aab", "]", "^", "-", "\\", "[", "a]", "a b", "5", "d", "a.b", "a/b", ")", "{", "é",
    "x\ty", "_",
];

#[test]
fn brackets_are_those_of_posix() {
    compare(
        &[
            "[[:alpha:]]",
            "[^[:alpha:]]",
            "^[[:upper:][:digit:]]$",
            "[]abc]",
            "[^]a]",
            r"[a\]",
            r"^[a\]]$",
            r"[\d]",
            "[a-]",
            "[-a]",
            "[a-c]",
            "[^-a]",
            "[+--]",
            "[--/]",
            "[a-c-e]",
            "[c-a]",
            "[[.-.]]",
            "[[.a.]-c]",
            "[[=a=]b]",
            "[[=a=]-c]",
            "[[:nosuch:]]",
            "[[.hyphen.]]",
            "[[:alpha:]-z]",
            "[[:alpha:]-]",
            "[",
            "[]",
            "[^]",
            "[a",
            "[[:alpha:",
            "[[:alpha:]",
            "[a&&b]",
            "[a~~b]",
            "[a--b]",
            "[x[y]",
            "[[]",
            "[.]",
            "[^.]",
            "^[^a]$",
            "[[:blank:]]",
            "[[:punct:]]",
            "^[é]",
            "^[é]$",
            "[^é]",
            "[[.].]]",
            "[[.[.]]",
            "[a-[.c.]]",
            "[%--]",
            "[[:]",
            "[[:a]",
            "[:alpha:]",
            "[[a]]",
            "[a-[:digit:]]",
        ],
        &TEXTS,
    );
}

#[test]
fn signs_mean_what_they_mean_in_posix() {
    compare(
        &[
            "", "a", "a*", "^a*$", "a+?", "^a+?$", "^a**$", "^(a|b)*$", "a{2}", "^a{1,2}b", "^a{,1}b$", "^a{0}b", "a{",
            "a{x}", "a{2", "a{2,1}", "a{,}", "^a{2}{2}", "*a", "^*", "a|*b", "(*a)", "()", "(|a)", "a|", "^(a||b)$",
            "|", "a)", ")", "(a", "((a))", "(?:a)", "(?i)A", "a??", "{1}", "a{40000}", "$a", "a^", "^^a", "a$$", "a$*",
            "^+", "}", "a}", "a{1}}",
        ],
        &TEXTS,
    );
}

#[test]
fn backslashes_are_those_of_glibc() {
    compare(
        &[
            r"\d", r"\D", r"\w", r"\W", r"\s", r"\S", r"^\w+$", r"\bb", r"a\b", r"\Bb", r"\<b", r"a\>", r"\`a", r"b\'",
            r"\.", r"a\.b", r"\(", r"\)", r"\{", r"\[", r"\]", r"\^", r"\\", r"\", r"\n", r"\t", r"\x41", r"\0", r"\p",
            r"\pL", r"\A", r"\z", r"a\/b", r"\-", r"\<*", r"\b+", r"\é", r"^\w{2}$", r"\{1\}", r"\*", r"a\+", r"\|",
        ],
        &TEXTS,
    );
}

#[test]
fn back_references_are_refused_by_name() {
    assert!(translate_regex(r"(a)\1", MatchSubject::Path).unwrap_err().contains(r"\1: packfs has no back-references"));
    assert!(translate_regex(&"(".repeat(1 << 20), MatchSubject::Path).unwrap_err().contains("more than 200 deep"));
}

#[test]
fn names_have_no_slashes() {
    for (expression, want) in [
        ("a", "a"),
        ("[^a]", "[\\x00-\\x2E0-\\x60b-\\xFF]"),
        ("[+-9]", "[\\x2B-\\x2E0-9]"),
        ("[/]", "[^\\x00-\\xFF]"),
        (r"\w\W", "[0-9A-Z_a-z][\\x00-\\x2E\\x3A-\\x40\\x5B-\\x5E\\x60\\x7B-\\xFF]"),
        (r"a\.d", "a\\.d"),
    ] {
        assert_eq!(translate_regex(expression, MatchSubject::Name).unwrap(), want, "{expression}");
    }
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { cases: 24, ..Default::default() })]

    #[test]
    fn random_expressions_match_what_they_match_elsewhere(
        expressions in proptest::collection::vec("([ab]|\\[|\\]|\\^|-|\\.|\\||\\(|\\)|\\*|\\+|\\?|\\{|\\}|,|1|2|\\$|\\\\|w|\\[:digit:\\]|\\[a|\\(a){1,8}", 24),
    ) {
        // Back-references, and what glibc takes as one, are not ours.
        let expressions: Vec<_> = expressions.iter().filter(|one| !one.contains("\\1") && !one.contains("\\2")).collect();
        let expressions: Vec<&str> = expressions.iter().map(|one| one.as_str()).collect();
        compare(&expressions, &["a", "ab", "b", "aab", "w", "]", "^a", "a-b", "1", "12", "\\"]);
    }
}
