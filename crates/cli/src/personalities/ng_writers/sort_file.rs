//! `--sort-file`: lines of a priority, flags and a path, as rules. The first line that matches a file counts.

use super::pattern::GlobPattern;
use crate::personalities::rules::{for_each_line, rule_word};

/// Returns the rules of a sort file.
pub(super) fn rules_of_file(option: &str, file: &str) -> Result<Vec<String>, String> {
    let mut rules = Vec::new();
    for_each_line(option, file, |line| {
        rules.push(rule_of_line(line)?);
        Ok(())
    })?;
    Ok(rules)
}

fn rule_of_line(line: &str) -> Result<String, String> {
    let (priority, rest) = line.split_once(|letter: char| letter.is_ascii_whitespace()).ok_or("the path is missing")?;
    let priority: i64 = priority.parse().map_err(|_| "the line must begin with a priority")?;
    // Turned around: the smallest number comes first here, for packfs the largest.
    let priority = priority.checked_neg().and_then(|priority| i32::try_from(priority).ok());
    // packfs's range is symmetric.
    let priority = priority.filter(|priority| *priority > i32::MIN);
    let priority = priority.ok_or("packfs has priorities from -2147483647 to 2147483647")?;
    let rest = rest.trim_start();
    let (flags, path) = match rest.strip_prefix('[') {
        Some(flagged) => flagged.split_once(']').ok_or("the list of flags is not closed")?,
        None => ("", rest),
    };
    let path = unquoted(path.trim())?;
    let mut effects = String::new();
    let mut test = None;
    for flag in flags.split(',').map(str::trim).filter(|flag| !flag.is_empty()) {
        match flag {
            "glob" => test = Some(rule_word("glob", &format!("/{}", escape_braces(&path)))?),
            "glob_no_path" => {
                // fnmatch without FNM_PATHNAME: no glob of packfs lets a star match slashes.
                let expression = GlobPattern::parse(&path)?.regex_after("").unwrap_or_default();
                test = Some(rule_word("regex", &expression)?);
            }
            "dont_compress" => effects.push_str(" store"),
            "dont_fragment" => effects.push_str(" no-fragment"),
            "dont_deduplicate" => effects.push_str(" no-dedup"),
            "nosparse" => effects.push_str(" no-sparse"),
            "align" => effects.push_str(" align"),
            _ => return Err(format!("unknown flag `{flag}`")),
        }
    }
    let test = test.map_or_else(|| rule_word("path", &path), Ok)?;
    // The first line that matches counts, while of rules the last one would.
    Ok(format!("{test} type=file -> priority={priority}{effects} stop"))
}

/// Reads a path that may be in double quotes.
fn unquoted(text: &str) -> Result<String, String> {
    let Some(quoted) = text.strip_prefix('"') else { return Ok(text.trim_matches('/').to_owned()) };
    let inside = quoted.strip_suffix('"').ok_or("the quote is not closed")?;
    Ok(inside.replace("\\\"", "\"").replace("\\\\", "\\").trim_matches('/').to_owned())
}

/// Returns a glob in which braces mean nothing.
fn escape_braces(pattern: &str) -> String {
    pattern.replace('{', "\\{").replace('}', "\\}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_rules() {
        for (line, made) in [
            ("-8000  [glob]  bin/*", "glob=/bin/* type=file -> priority=8000 stop"),
            ("-1 [glob_no_path] share/*.d[!x]", "regex=^share/.*\\.d[^x-x]$ type=file -> priority=1 stop"),
            (
                "5 [dont_compress, dont_fragment,dont_deduplicate] /boot/vmlinuz",
                "path=boot/vmlinuz type=file -> priority=-5 store no-fragment no-dedup stop",
            ),
            ("5 [align,nosparse] a", "path=a type=file -> priority=-5 align no-sparse stop"),
            ("0 \"my \\\"own\\\"\"", "path=my\" \"\"\\\"\"own\"\\\"\" type=file -> priority=0 stop"),
        ] {
            assert_eq!(rule_of_line(line).as_deref(), Ok(made), "{line}");
            assert!(packfs_image::rules::Rules::parse([("r".as_ref(), made.as_bytes())]).is_ok(), "{made}");
        }
        for (line, why) in [
            ("x a", "must begin with a priority"),
            ("5", "the path is missing"),
            ("5 [glob a", "not closed"),
            ("5 [foo] a", "unknown flag `foo`"),
            ("9999999999 a", "priorities from"),
            ("-9223372036854775808 a", "priorities from"),
            ("9223372036854775808 a", "must begin with a priority"),
            ("2147483648 a", "priorities from"),
        ] {
            assert!(rule_of_line(line).unwrap_err().contains(why), "{line}");
        }
    }
}
