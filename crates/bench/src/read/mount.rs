//! A mount of an image that nobody else sees and that nothing survives.
//!
//! A child with a mount namespace of its own makes it and then waits for the end of its standard input; its mounts are
//! reached through `/proc`. When this process lets go, or ends in whatever way, the child unmounts and ends, and the
//! loop device goes with the mount.

use packfs_image::name::display;
use std::io::{BufRead, BufReader, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use rustix::fs::{CWD, Mode, OFlags, openat};

use crate::format::Format;
use crate::{Error, Result};

/// The script of the child; its arguments are the file system, the image and where to mount it. Programs that lie there are
/// hidden then, so waiting is the shell's own work; without umount(8) the mount ends with the child.
const SCRIPT: &str = r#"
mount -t "$1" -o ro,nodev,nosuid,noexec,loop -- "$2" "$3" || exit 1
echo mounted
read -r _
umount "$3"
"#;

/// An image as the kernel shows it, until this is dropped.
#[derive(Debug)]
pub struct Mount {
    child: Child,
    root: Option<OwnedFd>,
    path: PathBuf,
    options: String,
}

impl Mount {
    /// Mounts an image, with a loop device whatever its format, so that formats are compared alike.
    pub fn new(image: &Path, format: Format) -> Result<Self> {
        let failed =
            |why: String| Error::Program { program: "mount".into(), why: format!("{}: {why}", display(image)) };
        // Any directory will do: only the child sees what is mounted there.
        let place = std::env::temp_dir();
        let mut child = Command::new("unshare")
            .args(["--mount", "--propagation", "private", "sh", "-c", SCRIPT, "sh", format.name()])
            .args([image, &place])
            .env("LC_ALL", "C")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Ctrl-C is for this process, which then lets go.
            .process_group(0)
            .spawn()
            .map_err(|error| failed(format!("cannot run unshare: {error}")))?;
        let ready = child.stdout.take().map(said).unwrap_or_default();
        let path = PathBuf::from(format!("/proc/{}/root", child.id())).join(place.strip_prefix("/").unwrap_or(&place));
        // From here on it ends with this.
        let mut mount = Mount { child, root: None, path, options: String::new() };
        if ready != "mounted\n" {
            return Err(failed(mount.last_words()));
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        mount.root = Some(openat(CWD, &mount.path, flags, Mode::empty()).map_err(|error| failed(error.to_string()))?);
        mount.options = mount.super_options(&place).unwrap_or_default();
        Ok(mount)
    }

    /// Its root directory.
    pub fn root(&self) -> Result<BorrowedFd<'_>> {
        let gone = || Error::Program { program: "mount".into(), why: format!("{}: gone", display(&self.path)) };
        self.root.as_ref().map(AsFd::as_fd).ok_or_else(gone)
    }

    /// A path to its root directory, good for this and other processes.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The options that the file system says it was mounted with, joined by commas.
    pub fn options(&self) -> &str {
        &self.options
    }

    /// The child's table of mounts has the file system's own options at the ends of its lines.
    fn super_options(&self, place: &Path) -> Option<String> {
        let table = std::fs::read_to_string(format!("/proc/{}/mountinfo", self.child.id())).ok()?;
        let place = place.to_str()?.trim_end_matches('/');
        let mut lines = table.lines().filter(|line| line.split(' ').nth(4) == Some(place));
        lines.next_back()?.rsplit(' ').next().map(str::to_owned)
    }

    /// Returns the message of a child that failed.
    fn last_words(&mut self) -> String {
        let mut text = String::new();
        if let Some(mut errors) = self.child.stderr.take() {
            let _ = errors.read_to_string(&mut text);
        }
        // The first line says it; more is advice.
        text.lines().next().map_or_else(|| "it failed without a word".into(), str::to_owned)
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // In this order: a file system with open files stays mounted. Then the child sees the end of its input.
        self.root = None;
        self.child.stdin = None;
        let _ = self.child.wait();
    }
}

fn said(output: ChildStdout) -> String {
    let mut line = String::new();
    let _ = BufReader::new(output).read_line(&mut line);
    line
}
