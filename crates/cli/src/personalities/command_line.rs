//! Command lines of packfs that command lines of other programs become. Options are kept by name until the line is
//! complete, so that a program's rules can ask for them, change them and take them back.

use std::ffi::{OsStr, OsString};

/// A command line of packfs that is being made, without the program's name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct CommandLine(Vec<CommandWord>);

/// An option with its value, if it has one, or a word that is no option.
#[derive(Debug, Clone, PartialEq, Eq)]
enum CommandWord {
    Option(&'static str, Option<OsString>),
    Operand(OsString),
}

impl CommandLine {
    /// Begins a line for a command of packfs.
    pub(super) fn new(command: &'static str) -> Self {
        let mut line = CommandLine::default();
        line.operand(command);
        line
    }

    /// Adds an option with a value.
    pub(super) fn set(&mut self, option: &'static str, value: impl Into<OsString>) {
        self.0.push(CommandWord::Option(option, Some(value.into())));
    }

    /// Adds an option without a value.
    pub(super) fn switch(&mut self, option: &'static str) {
        self.0.push(CommandWord::Option(option, None));
    }

    /// Adds an option without a value if `is_on`.
    pub(super) fn switch_if(&mut self, is_on: bool, option: &'static str) {
        if is_on {
            self.switch(option);
        }
    }

    /// Adds the option for the owner and group of all entries, if any is asked for.
    pub(super) fn set_owner(&mut self, (user, group): (Option<u32>, Option<u32>)) {
        let text = |id: Option<u32>| id.map(|id| id.to_string()).unwrap_or_default();
        if user.is_some() || group.is_some() {
            self.set("--owner", format!("{}:{}", text(user), text(group)));
        }
    }

    /// Adds a word that is no option: a command, a path, or the `--` before paths that may look like options.
    pub(super) fn operand(&mut self, word: impl Into<OsString>) {
        self.0.push(CommandWord::Operand(word.into()));
    }

    /// Adds the words of another line.
    pub(super) fn append(&mut self, other: CommandLine) {
        self.0.extend(other.0);
    }

    /// Returns true if nothing was added.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if an option was added.
    pub(super) fn has(&self, option: &str) -> bool {
        self.0.iter().any(|word| matches!(word, CommandWord::Option(name, _) if *name == option))
    }

    /// Returns the values that an option was given, in order.
    pub(super) fn values(&self, option: &str) -> impl DoubleEndedIterator<Item = &OsStr> {
        self.0.iter().filter_map(move |word| match word {
            CommandWord::Option(name, Some(value)) if *name == option => Some(value.as_os_str()),
            _ => None,
        })
    }

    /// Keeps the options, given by name and value, for which `keep` returns true. A switch has an empty value.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(&str, &OsStr) -> bool) {
        self.0.retain(|word| match word {
            CommandWord::Option(name, value) => keep(name, value.as_deref().unwrap_or_default()),
            CommandWord::Operand(_) => true,
        });
    }

    /// Takes back all that was given for an option.
    pub(super) fn remove(&mut self, option: &str) {
        self.retain(|name, _| name != option);
    }

    /// Returns the line as packfs reads it. Values are attached to their options: they may begin with `-`.
    pub(super) fn into_words(self) -> Vec<OsString> {
        let word = |word| match word {
            CommandWord::Option(name, None) => name.into(),
            CommandWord::Option(name, Some(value)) => {
                let mut text = OsString::from(name);
                text.push("=");
                text.push(value);
                text
            }
            CommandWord::Operand(word) => word,
        };
        self.0.into_iter().map(word).collect()
    }
}

#[cfg(test)]
impl CommandLine {
    /// Returns the words joined by spaces.
    pub(super) fn into_text(self) -> String {
        self.into_words().join(OsStr::new(" ")).into_string().unwrap()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_found_and_taken_back_by_name_alone() {
        let mut line = CommandLine::new("build");
        line.set("--jobs", "-1");
        line.switch("--no-xattrs");
        line.set("--add", "--jobs=7");
        line.switch_if(false, "--force");
        line.operand("--quiet");
        let mut more = CommandLine::default();
        assert!(more.is_empty());
        more.set("--jobs", "2");
        line.append(more);
        assert_eq!(line.values("--jobs").collect::<Vec<_>>(), ["-1", "2"]);
        assert!(line.has("--no-xattrs") && !line.has("--quiet") && !line.has("--no"));
        let words = ["build", "--jobs=-1", "--no-xattrs", "--add=--jobs=7", "--quiet", "--jobs=2"];
        assert_eq!(line.clone().into_words(), words);
        line.remove("--jobs");
        line.retain(|name, value| name != "--add" || value == "another");
        assert_eq!(line.into_words(), ["build", "--no-xattrs", "--quiet"]);
    }
}
