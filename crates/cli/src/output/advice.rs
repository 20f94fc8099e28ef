//! Advice that names options of packfs, in the words of the program whose command line was given.

use crate::arguments;
use crate::personalities::{self, OptionRow};

/// Returns advice with its options as the user's program calls them; `None` if that program lacks one. Only words with two
/// dashes are options: `ulimit -v` is none of packfs.
pub(crate) fn for_user(advice: &str) -> Option<String> {
    match arguments::emulated_program() {
        Some(program) => translate(advice, &personalities::option_rows(&program).ok()?),
        None => Some(advice.to_owned()),
    }
}

fn translate(advice: &str, rows: &[OptionRow]) -> Option<String> {
    let words = advice.split(' ').map(|word| {
        let option = word.trim_matches(|letter| matches!(letter, '(' | ')' | ',' | ';' | ':'));
        match option.starts_with("--") {
            true => Some(word.replace(option, name_of(option, rows)?)),
            false => Some(word.to_owned()),
        }
    });
    Some(words.collect::<Option<Vec<_>>>()?.join(" "))
}

/// Returns another program's name of an option, without a value.
fn name_of<'r>(option: &str, rows: &'r [OptionRow]) -> Option<&'r str> {
    // A fixed value would make it another option: `--on-error stop` is not `--on-error skip`.
    let is_same = |row: &&OptionRow| {
        let rest = row.explanation.strip_prefix(option).filter(|_| row.handling == "same");
        rest.is_some_and(|rest| rest.is_empty() || rest == "=VALUE" || rest.starts_with(';'))
    };
    let row = rows.iter().find(is_same)?;
    // The last name is the longest one.
    row.option.rsplit(", ").next()?.split(['=', ' ']).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_have_the_names_of_the_program() {
        let cases = [
            ("unsquashfs", "--force replaces it", Some("-force replaces it")),
            ("unsquashfs", " (use --offset if one begins further on)", Some(" (use -offset if one begins further on)")),
            ("fsck.erofs", "; the same command with --force", Some("; the same command with --overwrite")),
            (
                "mksquashfs",
                "use fewer threads (--jobs), less --memory",
                Some("use fewer threads (-processors), less -mem"),
            ),
            ("mksquashfs", "--owner sets one for all", None),
            ("mksquashfs", "leave it out with --on-error skip", None),
            ("rdsquashfs", "--force replaces it", None),
            ("rdsquashfs", "files are limited (ulimit -f)", Some("files are limited (ulimit -f)")),
        ];
        for (program, advice, told) in cases {
            let rows = personalities::option_rows(program).unwrap();
            assert_eq!(translate(advice, &rows).as_deref(), told, "{program}: {advice}");
        }
    }
}
