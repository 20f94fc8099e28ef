//! Programs that split: packfs, or a peer with its own command line.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Profile, Source};
use crate::program;

/// A program that splits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// packfs.
    Packfs,
    /// nsplit: one thread and one range of the input for each output.
    Nsplit,
    /// makedumpfile, which splits ELF cores of Linux into files.
    Makedumpfile,
}

/// An installed program that splits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tool {
    /// Which program it is.
    pub program: Program,
    /// Path of its executable.
    pub path: PathBuf,
}

impl Tool {
    /// Name in keys and tables.
    pub fn name(&self) -> &'static str {
        match self.program {
            Program::Packfs => "packfs",
            Program::Nsplit => "nsplit",
            Program::Makedumpfile => "makedumpfile",
        }
    }

    /// Returns the version, as the program reports it.
    pub fn version(&self) -> String {
        match self.program {
            Program::Packfs => program::version(&self.path, "--version"),
            Program::Nsplit => program::NO_VERSION.into(),
            Program::Makedumpfile => program::version(&self.path, "-v"),
        }
    }

    /// Returns true if it supports a cell.
    pub(super) fn can(&self, codec: &str, source: &Source, profile: &Profile, outputs: usize) -> bool {
        match self.program {
            Program::Packfs => true,
            Program::Nsplit => self.codec_option(codec).is_some(),
            // It seeks in its outputs, and does not split for a single one.
            Program::Makedumpfile => {
                let files = *profile == Profile::Directories && outputs > 1;
                files && source.is_core && self.codec_option(codec).is_some()
            }
        }
    }

    /// Returns the peer's option for a codec; empty if it needs none, `None` if it lacks the codec.
    fn codec_option(&self, codec: &str) -> Option<&'static str> {
        let name = codec.split(':').next()?;
        match (self.program, name) {
            (Program::Packfs, _) => None,
            (_, "raw" | "none") => Some(""),
            (Program::Nsplit, "lzo") => Some("-c"),
            (Program::Nsplit, "snappy") => Some("-s"),
            (Program::Makedumpfile, "gzip") => Some("-c"),
            (Program::Makedumpfile, "lzo") => Some("-l"),
            (Program::Makedumpfile, "snappy") => Some("-p"),
            (Program::Makedumpfile, "zstd") => Some("-z"),
            _ => None,
        }
    }

    /// Returns the command that splits `source` over `parts`.
    pub(super) fn split<P: AsRef<Path>>(&self, codec: &str, source: &Path, parts: &[P]) -> Command {
        let mut command = Command::new(&self.path);
        let option = self.codec_option(codec).filter(|option| !option.is_empty());
        match self.program {
            Program::Packfs => {
                command.args(["split", "--as-is", "--force", "--quiet", "--json", "--codec", codec]).arg(source);
                parts.iter().for_each(|part| {
                    command.arg("-o").arg(part.as_ref());
                });
                return command;
            }
            Program::Nsplit => command.args(option),
            Program::Makedumpfile => command.arg("--split").args(option),
        };
        command.arg(source).args(parts.iter().map(AsRef::as_ref));
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(program: Program, codec: &str) -> String {
        let tool = Tool { program, path: "tool".into() };
        let command = tool.split(codec, Path::new("core"), &["a", "b"]);
        let words: Vec<_> = command.get_args().map(|word| word.to_str().unwrap()).collect();
        words.join(" ")
    }

    #[test]
    fn every_program_is_run_as_it_wants_to_be_run() {
        let packfs = "split --as-is --force --quiet --json --codec zstd:1 core -o a -o b";
        for (program, codec, words) in [
            (Program::Packfs, "zstd:1", packfs),
            (Program::Nsplit, "raw", "core a b"),
            (Program::Nsplit, "lzo", "-c core a b"),
            (Program::Makedumpfile, "zstd:1", "--split -z core a b"),
            (Program::Makedumpfile, "none", "--split core a b"),
        ] {
            assert_eq!(line(program, codec), words);
        }
    }

    #[test]
    fn peers_do_what_they_can() {
        let core = Source { name: "core".into(), path: "core".into(), bytes: 1, digest: "00".into(), is_core: true };
        let noise = Source { is_core: false, ..core.clone() };
        let disks = "50".parse().unwrap();
        let files = Profile::Directories;
        for (program, codec, source, profile, outputs, can) in [
            (Program::Nsplit, "snappy", &noise, &disks, 1, true),
            (Program::Nsplit, "zstd:1", &noise, &disks, 1, false),
            (Program::Makedumpfile, "lzo", &core, &files, 2, true),
            (Program::Makedumpfile, "lz4", &core, &files, 2, false),
            (Program::Makedumpfile, "lzo", &core, &files, 1, false),
            (Program::Makedumpfile, "lzo", &core, &disks, 2, false),
            (Program::Makedumpfile, "lzo", &noise, &files, 2, false),
            (Program::Packfs, "zstd:1", &noise, &disks, 1, true),
        ] {
            let tool = Tool { program, path: "tool".into() };
            assert_eq!(tool.can(codec, source, profile, outputs), can, "{program:?} {codec} {outputs}");
        }
    }
}
