//! Programs that read whole images, with their command lines. packfs is one of them.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::format::ImageFormat;
use crate::program;

/// An installed program that reads images.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadTool {
    program: ReadProgram,
    path: PathBuf,
}

/// A program that reads images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReadProgram {
    Packfs,
    Unsquashfs,
    Sqfs2tar,
    FsckErofs,
}

impl ReadProgram {
    const PEERS: [ReadProgram; 3] = [ReadProgram::Unsquashfs, ReadProgram::Sqfs2tar, ReadProgram::FsckErofs];

    fn name(self) -> &'static str {
        match self {
            ReadProgram::Packfs => "packfs",
            ReadProgram::Unsquashfs => "unsquashfs",
            ReadProgram::Sqfs2tar => "sqfs2tar",
            ReadProgram::FsckErofs => "fsck.erofs",
        }
    }

    /// Returns the option that prints the version.
    fn version_option(self) -> &'static str {
        match self {
            ReadProgram::Packfs | ReadProgram::Sqfs2tar => "--version",
            ReadProgram::Unsquashfs => "-version",
            ReadProgram::FsckErofs => "-V",
        }
    }
}

impl ReadTool {
    /// Creates the tool of packfs itself.
    pub fn packfs(path: PathBuf) -> Self {
        ReadTool { program: ReadProgram::Packfs, path }
    }

    /// Finds other programs in a folder or on `PATH`. Returns them and the names of those that are missing.
    pub fn peers(folder: Option<&Path>) -> (Vec<Self>, Vec<&'static str>) {
        let (found, missing) = program::find_all(ReadProgram::PEERS, ReadProgram::name, folder);
        (found.into_iter().map(|(program, path)| ReadTool { program, path }).collect(), missing)
    }

    /// Returns the name of the program.
    pub fn name(&self) -> &'static str {
        self.program.name()
    }

    /// Returns the version, as the program reports it.
    pub fn version(&self) -> String {
        program::version(&self.path, self.program.version_option())
    }

    /// Returns true if it reads images of `format`.
    pub fn reads(&self, format: ImageFormat) -> bool {
        match self.program {
            ReadProgram::Packfs => true,
            ReadProgram::Unsquashfs | ReadProgram::Sqfs2tar => format == ImageFormat::Squashfs,
            ReadProgram::FsckErofs => format == ImageFormat::Erofs,
        }
    }

    /// Returns true if it writes archives.
    pub fn archives(&self) -> bool {
        matches!(self.program, ReadProgram::Packfs | ReadProgram::Sqfs2tar)
    }

    /// Returns true if it extracts.
    pub fn extracts(&self) -> bool {
        self.program != ReadProgram::Sqfs2tar
    }

    /// Returns the command that writes an archive of everything to standard output.
    pub(super) fn archive(&self, image: &Path) -> Command {
        let mut command = Command::new(&self.path);
        if self.program == ReadProgram::Packfs {
            command.args(["tar", "-q"]);
        }
        command.arg(image);
        command
    }

    /// Returns the command that extracts everything into a new directory.
    pub(super) fn extract(&self, image: &Path, dir: &Path) -> Command {
        let mut command = Command::new(&self.path);
        match self.program {
            ReadProgram::Packfs => command.args(["extract", "-q", "-C"]).arg(dir),
            ReadProgram::FsckErofs => {
                let mut option = std::ffi::OsString::from("--extract=");
                option.push(dir);
                command.arg(option)
            }
            ReadProgram::Unsquashfs | ReadProgram::Sqfs2tar => command.args(["-no-progress", "-d"]).arg(dir),
        };
        command.arg(image);
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_is_asked_in_its_own_way() {
        let shown = |command: Command| format!("{command:?}").replace('"', "");
        let image = Path::new("a.img");
        let dir = Path::new("/x/out");
        let cases = [
            (ReadProgram::Packfs, Some("packfs tar -q a.img"), Some("packfs extract -q -C /x/out a.img")),
            (ReadProgram::Unsquashfs, None, Some("unsquashfs -no-progress -d /x/out a.img")),
            (ReadProgram::Sqfs2tar, Some("sqfs2tar a.img"), None),
            (ReadProgram::FsckErofs, None, Some("fsck.erofs --extract=/x/out a.img")),
        ];
        for (program, archive, extract) in cases {
            let tool = ReadTool { program, path: program.name().into() };
            assert_eq!(tool.archives().then(|| shown(tool.archive(image))).as_deref(), archive);
            assert_eq!(tool.extracts().then(|| shown(tool.extract(image, dir))).as_deref(), extract);
        }
    }

    #[test]
    fn programs_in_a_folder_are_found() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["unsquashfs", "sqfs2tar", "fsck.erofs"] {
            std::os::unix::fs::symlink("/bin/sh", dir.path().join(name)).unwrap();
        }
        let (found, missing) = ReadTool::peers(Some(dir.path()));
        assert_eq!((found.len(), missing.len()), (3, 0));
        assert!(found.iter().all(|program| program.path.starts_with(dir.path())));
        let formats = |program: &ReadTool| ImageFormat::ALL.map(|format| program.reads(format));
        assert_eq!(found.iter().map(formats).collect::<Vec<_>>(), [[true, false], [true, false], [false, true]]);
    }
}
