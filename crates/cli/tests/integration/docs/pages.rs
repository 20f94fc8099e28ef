//! Pages as a reader finds them: long ones begin with their contents, and a line of the changelog is one short sentence.

use std::path::{Path, PathBuf};

use packfs_image::name::display;

/// Words of a page of about two screens, which needs no contents.
const WORDS_WITHOUT_CONTENTS: usize = 1500;
/// Words of a sentence that is understood on first reading.
const LINE_WORDS_MAX: usize = 25;
const HIGHLIGHTS: usize = 5;

#[test]
fn long_pages_begin_with_their_contents() {
    let mut problems = Vec::new();
    let mut long_pages = 0;
    for page in pages() {
        let text = std::fs::read_to_string(repository().join(&page)).unwrap();
        if text.split_whitespace().count() <= WORDS_WITHOUT_CONTENTS {
            continue;
        }
        long_pages += 1;
        let sections = sections(&text);
        if sections.len() < 2 {
            problems.push(format!("{}: no sections to choose from", display(&page)));
        }
        let introduction = text.split("\n## ").next().unwrap();
        for section in sections {
            let link = format!("](#{})", anchor(section));
            if !introduction.contains(&link) {
                problems.push(format!("{}: no link to [{section}{link} before the first section", display(&page)));
            }
        }
    }
    assert!(long_pages > 5, "{long_pages} long pages were found");
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn changelog_lines_are_short() {
    let changes = changes_since_0_2();
    let lines = list_items(&changes);
    assert!(!lines.is_empty());
    let too_long: Vec<String> = lines.into_iter().filter(|line| words(line) > LINE_WORDS_MAX).collect();
    assert!(
        too_long.is_empty(),
        "more than {LINE_WORDS_MAX} words; say the rest in a line below:\n{}",
        too_long.join("\n")
    );
}

#[test]
fn each_release_has_five_highlights() {
    let changes = changes_since_0_2();
    let mut releases = 0;
    for release in changes.split("\n## ").skip(1) {
        let (version, rest) = release.split_once("\n\n").unwrap();
        // What is unreleased gets its highlights when it is released.
        if version == "[Unreleased]" {
            continue;
        }
        releases += 1;
        let (_, rest) = rest.split_once("### Highlights\n").unwrap_or_else(|| panic!("{version} has no highlights"));
        let highlights = list_items(rest.split("\n### ").next().unwrap());
        assert_eq!(highlights.len(), HIGHLIGHTS, "{version}: {highlights:#?}");
    }
    assert!(releases > 0);
}

/// Anchors are those of code hosts and of mdBook, which drop punctuation.
#[test]
fn anchors_drop_punctuation() {
    let cases = [
        ("The map", "the-map"),
        ("Where is X decided?", "where-is-x-decided"),
        ("`mkfs.erofs`", "mkfserofs"),
        ("[0.2.0] - 2026-11-24", "020---2026-11-24"),
    ];
    for (heading, expected) in cases {
        assert_eq!(anchor(heading), expected);
    }
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the paths of all pages, from the root of the repository.
fn pages() -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> =
        ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"].map(Into::into).into();
    let mut folders = vec![PathBuf::from("docs")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(repository().join(&folder)).unwrap() {
            let entry = entry.unwrap();
            let path = folder.join(entry.file_name());
            if entry.file_type().unwrap().is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Returns the headings of the second level that are not in a fenced block.
fn sections(text: &str) -> Vec<&str> {
    let mut sections = Vec::new();
    let mut is_code = false;
    for line in text.lines() {
        if line.starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            sections.extend(line.strip_prefix("## "));
        }
    }
    sections
}

fn anchor(heading: &str) -> String {
    let lower = heading.to_lowercase();
    let kept = lower.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Returns the sections of the changelog that follow its rules, from the unreleased one on: older ones do not.
fn changes_since_0_2() -> String {
    let text = std::fs::read_to_string(repository().join("CHANGELOG.md")).unwrap();
    let begin = text.find("\n## [Unreleased]\n").expect("the changelog has a section for the next release");
    let end = text.find("\n## [0.2.0]").expect("0.2.0 is in the changelog");
    text[begin..end].to_owned()
}

/// Returns the items of all lists, each as one line without its mark.
fn list_items(text: &str) -> Vec<String> {
    let mut items: Vec<String> = Vec::new();
    let mut is_item = false;
    for line in text.lines() {
        let content = line.trim_start();
        if let Some(item) = content.strip_prefix("- ") {
            items.push(item.to_owned());
            is_item = true;
        } else if is_item && line.starts_with("  ") {
            let item = items.last_mut().expect("an item began");
            item.push(' ');
            item.push_str(content);
        } else {
            is_item = false;
        }
    }
    items
}

fn words(line: &str) -> usize {
    line.split_whitespace().count()
}
