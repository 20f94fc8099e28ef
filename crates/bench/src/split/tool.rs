//! Programs that split: packfs, or a peer with its own command line.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{DiskProfile, SplitSource};
use crate::program;

/// A program that splits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SplitProgram {
    /// packfs.
    Packfs,
    /// nsplit: one thread and one range of the input for each output.
    Nsplit,
    /// makedumpfile, which splits ELF cores of Linux into files.
    Makedumpfile,
}

/// An installed program that splits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SplitTool {
    /// Which program it is.
    pub program: SplitProgram,
    /// Path of its executable.
    pub path: PathBuf,
}

impl SplitTool {
    /// Returns the name in keys and tables.
    pub fn name(&self) -> &'static str {
        match self.program {
            SplitProgram::Packfs => "packfs",
            SplitProgram::Nsplit => "nsplit",
            SplitProgram::Makedumpfile => "makedumpfile",
        }
    }

    /// Returns the version, as the program reports it.
    pub fn version(&self) -> String {
        match self.program {
            SplitProgram::Packfs => program::version(&self.path, "--version"),
            SplitProgram::Nsplit => program::NO_VERSION.into(),
            SplitProgram::Makedumpfile => program::version(&self.path, "-v"),
        }
    }

    /// Returns true if it supports a cell.
    pub(super) fn supports(&self, codec: &str, source: &SplitSource, profile: &DiskProfile, outputs: usize) -> bool {
        match self.program {
            SplitProgram::Packfs => true,
            SplitProgram::Nsplit => self.codec_option(codec).is_some(),
            // It seeks in its outputs, and does not split for a single one.
            SplitProgram::Makedumpfile => {
                let files = *profile == DiskProfile::Directories && outputs > 1;
                files && source.is_core && self.codec_option(codec).is_some()
            }
        }
    }

    /// Returns the peer's option for a codec; empty if it needs none, `None` if it lacks the codec.
    fn codec_option(&self, codec: &str) -> Option<&'static str> {
        let name = codec.split(':').next()?;
        match (self.program, name) {
            (SplitProgram::Packfs, _) => None,
            (_, "raw" | "none") => Some(""),
            (SplitProgram::Nsplit, "lzo") => Some("-c"),
            (SplitProgram::Nsplit, "snappy") => Some("-s"),
            (SplitProgram::Makedumpfile, "gzip") => Some("-c"),
            (SplitProgram::Makedumpfile, "lzo") => Some("-l"),
            (SplitProgram::Makedumpfile, "snappy") => Some("-p"),
            (SplitProgram::Makedumpfile, "zstd") => Some("-z"),
            _ => None,
        }
    }

    /// Returns the command that splits `source` over `parts`.
    pub(super) fn split<P: AsRef<Path>>(&self, codec: &str, source: &Path, parts: &[P]) -> Command {
        let mut command = Command::new(&self.path);
        let option = self.codec_option(codec).filter(|option| !option.is_empty());
        match self.program {
            SplitProgram::Packfs => {
                // `--as-is`, because packfs otherwise decodes a kdump file, and joining would not give the bytes of the
                // source.
                command.args(["split", "--as-is", "--force", "--quiet", "--json", "--codec", codec]).arg(source);
                parts.iter().for_each(|part| {
                    command.arg("-o").arg(part.as_ref());
                });
                return command;
            }
            SplitProgram::Nsplit => command.args(option),
            SplitProgram::Makedumpfile => command.arg("--split").args(option),
        };
        command.arg(source).args(parts.iter().map(AsRef::as_ref));
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(program: SplitProgram, codec: &str) -> String {
        let tool = SplitTool { program, path: "tool".into() };
        let command = tool.split(codec, Path::new("core"), &["a", "b"]);
        let words: Vec<_> = command.get_args().map(|word| word.to_str().unwrap()).collect();
        words.join(" ")
    }

    #[test]
    fn every_program_is_run_as_it_wants_to_be_run() {
        let packfs = "split --as-is --force --quiet --json --codec zstd:1 core -o a -o b";
        for (program, codec, words) in [
            (SplitProgram::Packfs, "zstd:1", packfs),
            (SplitProgram::Nsplit, "raw", "core a b"),
            (SplitProgram::Nsplit, "lzo", "-c core a b"),
            (SplitProgram::Makedumpfile, "zstd:1", "--split -z core a b"),
            (SplitProgram::Makedumpfile, "none", "--split core a b"),
        ] {
            assert_eq!(line(program, codec), words);
        }
    }

    #[test]
    fn peers_do_what_they_can() {
        let core =
            SplitSource { name: "core".into(), path: "core".into(), bytes: 1, digest: "00".into(), is_core: true };
        let noise = SplitSource { is_core: false, ..core.clone() };
        let disks = "50".parse().unwrap();
        let files = DiskProfile::Directories;
        for (program, codec, source, profile, outputs, can) in [
            (SplitProgram::Nsplit, "snappy", &noise, &disks, 1, true),
            (SplitProgram::Nsplit, "zstd:1", &noise, &disks, 1, false),
            (SplitProgram::Makedumpfile, "lzo", &core, &files, 2, true),
            (SplitProgram::Makedumpfile, "lz4", &core, &files, 2, false),
            (SplitProgram::Makedumpfile, "lzo", &core, &files, 1, false),
            (SplitProgram::Makedumpfile, "lzo", &core, &disks, 2, false),
            (SplitProgram::Makedumpfile, "lzo", &noise, &files, 2, false),
            (SplitProgram::Packfs, "zstd:1", &noise, &disks, 1, true),
        ] {
            let tool = SplitTool { program, path: "tool".into() };
            assert_eq!(tool.supports(codec, source, profile, outputs), can, "{program:?} {codec} {outputs}");
        }
    }
}
