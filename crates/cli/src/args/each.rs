//! Lists of builds for `plan --each`: a line each, in the syntax of a shell's command line.

use std::collections::HashMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{self, Path};

use clap::error::ErrorKind;
use clap::{Args, Command, FromArgMatches};
use packfs_image::name::display;

use super::BuildArgs;
use crate::output::failure::UsageError;

/// Parses the lines of the list `name`. Empty lines and comments are left out; each build comes with the number of its
/// line. Two lines cannot have one output.
pub(super) fn builds(name: &Path, text: &[u8]) -> Result<Vec<(usize, BuildArgs)>, UsageError> {
    let command = Command::new("packfs build").no_binary_name(true).disable_help_flag(true);
    let mut command = BuildArgs::augment_args(command);
    let mut builds = Vec::new();
    let mut lines_of_outputs = HashMap::new();
    for (number, line) in (1..).zip(text.split(|byte| *byte == b'\n')) {
        let wrong = |why: &str| UsageError(format!("{}:{number}: {why}", display(name)));
        let words =
            shlex::bytes::split(line).ok_or_else(|| wrong("a quote is not closed, or nothing follows a `\\`"))?;
        if words.is_empty() {
            continue;
        }
        let words = words.into_iter().map(OsString::from_vec);
        let matches = command.try_get_matches_from_mut(words).and_then(|found| BuildArgs::from_arg_matches(&found));
        let build = matches.map_err(|error| wrong(&reason(&error)))?;
        let output = path::absolute(&build.output).unwrap_or_else(|_| build.output.clone());
        if let Some(earlier) = lines_of_outputs.insert(output, number) {
            let output = display(&build.output);
            let why = format!("{output} is also the output of line {earlier}: give each image a file of its own");
            return Err(wrong(&why));
        }
        builds.push((number, build));
    }
    Ok(builds)
}

/// Returns what is wrong, without the usage of a command that was not typed.
fn reason(error: &clap::Error) -> String {
    if error.kind() == ErrorKind::DisplayHelp {
        return "expected SOURCE... -o IMAGE and options of `packfs build`".into();
    }
    if let Some(told) = super::refused::value(error) {
        return told;
    }
    let text = error.to_string();
    let first = text.split("\n\n").next().unwrap_or_default();
    first.strip_prefix("error: ").unwrap_or(first).split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_builds_and_errors_name_their_line() {
        let list = b"# nightly\n\na -o a.sqfs\n'b c' d\\ e -o \"x y\" --codec xz # comment\n";
        let builds = builds(Path::new("list"), list).unwrap();
        let sources: Vec<_> = builds.iter().map(|(number, build)| (*number, build.sources().len())).collect();
        assert_eq!(sources, [(3, 1), (4, 2)]);
        assert_eq!(builds[1].1.sources()[0], Path::new("b c"));
        for (line, why) in [
            ("a -o 'x", "list:2: a quote is not closed"),
            ("a", "list:2: the following required arguments were not provided: --output <IMAGE>"),
            ("a -o x --colour", "list:2: unexpected argument '--colour' found"),
            ("a -o x --shards 0", "list:2: --shards 0: expected a whole number from 1 to 1048576"),
            ("a -o x.sqfs\n#\nb -o ./x.sqfs", "list:4: ./x.sqfs is also the output of line 2: give each"),
        ] {
            let error = super::builds(Path::new("list"), format!("\n{line}\n").as_bytes()).unwrap_err().to_string();
            assert!(error.starts_with(why) && !error.contains('\n'), "{error}");
        }
    }
}
