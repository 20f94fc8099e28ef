//! Programs that read whole images, with their command lines; packfs is one of them.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::format::ImageFormat;
use crate::program;

/// A program that reads images.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadProgram {
    kind: ReaderKind,
    path: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReaderKind {
    Packfs,
    Unsquashfs,
    Sqfs2tar,
    FsckErofs,
}

impl ReaderKind {
    const PEERS: [ReaderKind; 3] = [ReaderKind::Unsquashfs, ReaderKind::Sqfs2tar, ReaderKind::FsckErofs];

    fn name(self) -> &'static str {
        match self {
            ReaderKind::Packfs => "packfs",
            ReaderKind::Unsquashfs => "unsquashfs",
            ReaderKind::Sqfs2tar => "sqfs2tar",
            ReaderKind::FsckErofs => "fsck.erofs",
        }
    }

    /// Returns the option that prints the version.
    fn version_option(self) -> &'static str {
        match self {
            ReaderKind::Packfs | ReaderKind::Sqfs2tar => "--version",
            ReaderKind::Unsquashfs => "-version",
            ReaderKind::FsckErofs => "-V",
        }
    }
}

impl ReadProgram {
    /// packfs itself.
    pub fn packfs(path: PathBuf) -> Self {
        ReadProgram { kind: ReaderKind::Packfs, path }
    }

    /// Finds other programs in a folder or on `PATH`. Returns them and the names of those that are missing.
    pub fn peers(folder: Option<&Path>) -> (Vec<Self>, Vec<&'static str>) {
        let (found, missing) = program::find_all(ReaderKind::PEERS, ReaderKind::name, folder);
        (found.into_iter().map(|(kind, path)| ReadProgram { kind, path }).collect(), missing)
    }

    /// Name of the program.
    pub fn name(&self) -> &'static str {
        self.kind.name()
    }

    /// Returns the version, as the program reports it.
    pub fn version(&self) -> String {
        program::version(&self.path, self.kind.version_option())
    }

    /// Returns true if it reads images of `format`.
    pub fn reads(&self, format: ImageFormat) -> bool {
        match self.kind {
            ReaderKind::Packfs => true,
            ReaderKind::Unsquashfs | ReaderKind::Sqfs2tar => format == ImageFormat::Squashfs,
            ReaderKind::FsckErofs => format == ImageFormat::Erofs,
        }
    }

    /// Returns true if it writes archives.
    pub fn archives(&self) -> bool {
        matches!(self.kind, ReaderKind::Packfs | ReaderKind::Sqfs2tar)
    }

    /// Returns true if it extracts.
    pub fn extracts(&self) -> bool {
        self.kind != ReaderKind::Sqfs2tar
    }

    /// Returns the command that writes an archive of everything to standard output.
    pub(super) fn archive(&self, image: &Path) -> Command {
        let mut command = Command::new(&self.path);
        if self.kind == ReaderKind::Packfs {
            command.args(["tar", "-q"]);
        }
        command.arg(image);
        command
    }

    /// Returns the command that extracts everything into a new directory.
    pub(super) fn extract(&self, image: &Path, dir: &Path) -> Command {
        let mut command = Command::new(&self.path);
        match self.kind {
            ReaderKind::Packfs => command.args(["extract", "-q", "-C"]).arg(dir),
            ReaderKind::FsckErofs => {
                let mut option = std::ffi::OsString::from("--extract=");
                option.push(dir);
                command.arg(option)
            }
            ReaderKind::Unsquashfs | ReaderKind::Sqfs2tar => command.args(["-no-progress", "-d"]).arg(dir),
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
            (ReaderKind::Packfs, Some("packfs tar -q a.img"), Some("packfs extract -q -C /x/out a.img")),
            (ReaderKind::Unsquashfs, None, Some("unsquashfs -no-progress -d /x/out a.img")),
            (ReaderKind::Sqfs2tar, Some("sqfs2tar a.img"), None),
            (ReaderKind::FsckErofs, None, Some("fsck.erofs --extract=/x/out a.img")),
        ];
        for (kind, archive, extract) in cases {
            let program = ReadProgram { kind, path: kind.name().into() };
            assert_eq!(program.archives().then(|| shown(program.archive(image))).as_deref(), archive);
            assert_eq!(program.extracts().then(|| shown(program.extract(image, dir))).as_deref(), extract);
        }
    }

    #[test]
    fn programs_in_a_folder_are_found() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["unsquashfs", "sqfs2tar", "fsck.erofs"] {
            std::os::unix::fs::symlink("/bin/sh", dir.path().join(name)).unwrap();
        }
        let (found, missing) = ReadProgram::peers(Some(dir.path()));
        assert_eq!((found.len(), missing.len()), (3, 0));
        assert!(found.iter().all(|program| program.path.starts_with(dir.path())));
        let formats = |program: &ReadProgram| ImageFormat::ALL.map(|format| program.reads(format));
        assert_eq!(found.iter().map(formats).collect::<Vec<_>>(), [[true, false], [true, false], [false, true]]);
    }
}
