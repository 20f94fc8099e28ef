//! Compares docs/architecture.md with the code: every file and every item that it names exists, and it stays short.
//!
//! In the page, a name with a slash in backticks is a file or a folder, from `crates/` or from the root on. Identifiers in
//! backticks that follow a file, in the same row, item or paragraph, are items of that file.

use std::path::{Path, PathBuf};

const PAGE: &str = "docs/architecture.md";
/// A page that is read in ten minutes. What does not fit is a decision, which has a page of its own.
const WORDS_MAX: usize = 2500;
/// Keywords before the name of an item that is defined.
const KEYWORDS: [&str; 9] = ["fn", "struct", "enum", "trait", "const", "static", "type", "mod", "macro_rules"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{path:?}: {error}"))
}

#[test]
fn names_on_the_page_exist() {
    let page = read(&root().join(PAGE));
    let wrong = wrong_names(&page);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(page.matches(".rs`").count() > 100, "the page names hardly any files: is its form another one?");
}

#[test]
fn the_page_stays_short() {
    let words = read(&root().join(PAGE)).split_whitespace().count();
    assert!(words <= WORDS_MAX, "{PAGE} has {words} words, and may have {WORDS_MAX}: move decisions to docs/decisions");
}

/// Folders of packfs-image that a folder must not use, and its files that do nevertheless. What Cargo's dependencies forbid
/// between crates, this forbids within the one that is too large for the compiler to watch over its folders.
const FORBIDDEN: [(&str, &[&str], &[&str]); 6] = [
    (
        "build",
        &["squashfs", "erofs", "sink", "diff", "stats", "request"],
        // They name each format, because an image of any of them is built, reported on, and cut into shards.
        &["any.rs", "summary.rs", "shard/options.rs"],
    ),
    ("squashfs", &["erofs", "sink", "diff", "stats", "request", "open"], &[]),
    // It looks for files of version 0.2 with a walk.
    ("erofs", &["squashfs", "sink", "diff", "stats", "request", "open"], &["reader/long_raw.rs"]),
    ("sink", &["build", "squashfs", "erofs", "diff", "stats", "request", "open"], &[]),
    ("source", &["build", "squashfs", "diff", "stats", "request"], &[]),
    ("stats", &["build", "squashfs", "erofs", "request"], &[]),
];

#[test]
fn folders_use_only_what_is_below_them() {
    let image = root().join("crates/image/src");
    let mut wrong = Vec::new();
    for (folder, forbidden, exceptions) in FORBIDDEN {
        let folder = image.join(folder);
        for path in rust_files(&folder) {
            let name = path.strip_prefix(&folder).unwrap().to_string_lossy().into_owned();
            if name.contains("test") {
                continue;
            }
            let used = used_folders(&read(&path));
            let is_wrong = forbidden.iter().any(|other| used.iter().any(|name| name == other));
            if is_wrong != exceptions.contains(&name.as_str()) {
                let verb = if is_wrong { "must not use" } else { "is an exception, but does not use" };
                wrong.push(format!("{path:?} {verb} any of {forbidden:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Returns all Rust files below a folder.
fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}

/// Returns the names that follow `crate::` in the code of a file, without its comments and tests.
fn used_folders(text: &str) -> Vec<String> {
    let code = text.split("#[cfg(test)]\nmod ").next().unwrap();
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    let code: String = lines.flat_map(|line| [line, "\n"]).collect();
    let first_name = |text: &str| -> String {
        text.trim_start().chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect()
    };
    let mut names = Vec::new();
    for (at, found) in code.match_indices("crate::") {
        let rest = &code[at + found.len()..];
        match rest.strip_prefix('{') {
            Some(list) => names.extend(list.split('}').next().unwrap_or_default().split(',').map(first_name)),
            None => names.push(first_name(rest)),
        }
    }
    names
}

#[test]
fn uses_of_folders_are_found_in_all_their_forms() {
    let text = "use crate::{Error, erofs::Kernel,\n    tree};\n// crate::comment\nlet x = crate::sink::walk();\n";
    assert_eq!(used_folders(text), ["Error", "erofs", "tree", "sink"]);
    assert_eq!(used_folders("#[cfg(test)]\nmod tests {\n    use crate::build;\n}\n"), Vec::<String>::new());
}

#[test]
fn every_decision_is_in_the_index_and_every_link_leads_somewhere() {
    let decisions = root().join("docs/decisions");
    let index = read(&decisions.join("README.md"));
    let mut pages = vec![root().join(PAGE)];
    for entry in std::fs::read_dir(&decisions).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(name == "README.md" || index.contains(&format!("({name})")), "docs/decisions/README.md lacks {name}");
        pages.push(decisions.join(name));
    }
    for page in pages {
        for (number, line) in (1..).zip(read(&page).lines()) {
            for (_, rest) in line.match_indices("](").map(|(at, _)| line.split_at(at + 2)) {
                let link = rest.split([')', '#']).next().unwrap_or_default();
                let is_there = link.contains("://") || page.with_file_name(link).exists() || link.is_empty();
                assert!(is_there, "{page:?}:{number}: {link} does not exist");
            }
        }
    }
}

#[test]
fn wrong_names_are_found_with_their_line() {
    let here = "cli/tests/integration/architecture.rs";
    assert!(wrong_names(&format!("1. `{here}` `root`, `KEYWORDS`: `cli/tests/`")).is_empty());
    assert!(wrong_names(&format!("`{here}`\n`read`, over two lines")).is_empty());
    assert!(wrong_names("`Image` alone, `--memory`, `lz4hc:9` and `any.rs` are no names of items").is_empty());
    assert!(wrong_names("    `image/src/gone.rs` in a figure").is_empty());
    for (text, why) in [
        ("\n`image/src/gone.rs`", ":2: image/src/gone.rs does not exist"),
        (&format!("`{here}` `gone`"), ":1: crates/cli/tests/integration/architecture.rs has no `gone`"),
        (&format!("`{here}` `Gone::root`"), ":1: crates/cli/tests/integration/architecture.rs has no `Gone::root`"),
        ("`Output::commit`", ":1: no file is named before `Output::commit`"),
        (&format!("| `{here}` |\n| `Output::commit` |"), ":2: no file is named before"),
    ] {
        let found = wrong_names(text);
        assert!(found.len() == 1 && found[0].contains(why), "{text}: {found:?}");
    }
}

/// Returns a message for each name on the page that does not exist, with its line.
fn wrong_names(page: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut file: Option<(String, String)> = None;
    for (number, line) in (1..).zip(page.lines()) {
        if line.starts_with("    ") {
            continue;
        }
        if begins_anew(line) {
            file = None;
        }
        for name in line.split('`').skip(1).step_by(2) {
            if name.contains('/') && !name.contains(' ') {
                file = None;
                match [format!("crates/{name}"), name.to_owned()].into_iter().find(|path| root().join(path).exists()) {
                    Some(path) if root().join(&path).is_file() => file = Some((read(&root().join(&path)), path)),
                    Some(_) => {}
                    None => wrong.push(format!("{PAGE}:{number}: {name} does not exist")),
                }
            } else if is_item(name) {
                match &file {
                    Some((text, path)) if !has(text, name) => {
                        wrong.push(format!("{PAGE}:{number}: {path} has no `{name}`"));
                    }
                    None if name.contains("::") => {
                        wrong.push(format!("{PAGE}:{number}: no file is named before `{name}`"));
                    }
                    _ => {}
                }
            }
        }
    }
    wrong
}

/// Returns true if a line begins a paragraph, an item of a list or a row of a table.
fn begins_anew(line: &str) -> bool {
    let is_numbered = line.split_once(". ").is_some_and(|(number, _)| number.parse::<u32>().is_ok());
    line.is_empty() || line.starts_with(['|', '#']) || line.starts_with("- ") || is_numbered
}

fn is_item(name: &str) -> bool {
    name.split("::").all(|part| part.starts_with(|c: char| c.is_ascii_alphabetic()) && part.chars().all(is_of_a_word))
}

fn is_of_a_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Returns true if a file defines an item, a variant or a field with the last part of the name, and the types before it
/// or their implementations.
fn has(text: &str, name: &str) -> bool {
    let (types, item) = name.rsplit_once("::").map_or((None, name), |(types, item)| (Some(types), item));
    let mentions = |part: &str| {
        let is_of_type = |line: &&str| line.trim_start().starts_with("impl") || defines(line, part);
        text.lines().filter(is_of_type).any(|line| line.split(|c| !is_of_a_word(c)).any(|word| word == part))
    };
    text.lines().any(|line| defines(line, item)) && types.is_none_or(|types| types.split("::").all(mentions))
}

fn defines(line: &str, name: &str) -> bool {
    let words: Vec<&str> = line.split(|c| !is_of_a_word(c)).filter(|word| !word.is_empty()).collect();
    let is_item = words.windows(2).any(|pair| KEYWORDS.contains(&pair[0]) && pair[1] == name);
    let rest = line.trim_start().strip_prefix(name);
    is_item || rest.is_some_and(|rest| rest.starts_with([',', '(', ':']) || rest.starts_with(" {"))
}
