//! A private mount of an image, which never outlives this process.
//!
//! A child process makes it in a mount namespace of its own and then waits for the end of its standard input. The mount
//! is reached through `/proc`. When the handle is dropped, or this process ends for any reason, the child unmounts and
//! ends, and the kernel frees the loop device.

use packfs_image::name::display;
use std::io::{BufRead, BufReader, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use packfs_blocks::threads::start_program;
use rustix::fs::{CWD, Mode, OFlags, openat};

use crate::format::ImageFormat;
use crate::{Error, Result};

/// Script of the child; its arguments are the file system, the image and the mount point. The mount may hide programs,
/// so the shell itself waits; without umount(8) the mount ends with the child.
const SCRIPT: &str = r#"
mount -t "$1" -o ro,nodev,nosuid,noexec,loop -- "$2" "$3" || exit 1
echo mounted
read -r _
umount "$3"
"#;

/// A mounted image, until dropped.
#[derive(Debug)]
pub struct MountedImage {
    child: Child,
    root: Option<OwnedFd>,
    path: PathBuf,
    options: String,
}

impl MountedImage {
    /// Mounts an image through a loop device, for both formats alike.
    pub fn new(image: &Path, format: ImageFormat) -> Result<Self> {
        let failed =
            |why: String| Error::Program { program: "mount".into(), why: format!("{}: {why}", display(image)) };
        // Any directory will do, because only the child sees the mount.
        let mount_point = std::env::temp_dir();
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "--propagation", "private", "sh", "-c", SCRIPT, "sh", format.name()])
            .args([image, &mount_point])
            .env("LC_ALL", "C")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Ctrl-C goes to this process only, which then ends the child.
            .process_group(0);
        let mut child = start_program(&mut command).map_err(|error| failed(format!("cannot run unshare: {error}")))?;
        let answer = child.stdout.take().map(read_first_line).unwrap_or_default();
        let path = PathBuf::from(format!("/proc/{}/root", child.id()))
            .join(mount_point.strip_prefix("/").unwrap_or(&mount_point));
        // From here on, dropping `mount` ends the child.
        let mut mount = MountedImage { child, root: None, path, options: String::new() };
        // Any other line, or none, means that it failed.
        if answer != "mounted\n" {
            return Err(failed(mount.error_message()));
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        mount.root = Some(openat(CWD, &mount.path, flags, Mode::empty()).map_err(|error| failed(error.to_string()))?);
        mount.options = mount.super_options(&mount_point).unwrap_or_default();
        Ok(mount)
    }

    /// Opens the root directory.
    pub fn root(&self) -> Result<BorrowedFd<'_>> {
        let gone = || Error::Program { program: "mount".into(), why: format!("{}: gone", display(&self.path)) };
        self.root.as_ref().map(AsFd::as_fd).ok_or_else(gone)
    }

    /// Returns the path of the root directory for this and other processes.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the mount options as the file system reports them, joined by commas.
    pub fn options(&self) -> &str {
        &self.options
    }

    /// Returns the options of the file system itself: the last field of its line in the child's mount table.
    fn super_options(&self, mount_point: &Path) -> Option<String> {
        let table = std::fs::read_to_string(format!("/proc/{}/mountinfo", self.child.id())).ok()?;
        let mount_point = mount_point.to_str()?.trim_end_matches('/');
        let mut lines = table.lines().filter(|line| line.split(' ').nth(4) == Some(mount_point));
        lines.next_back()?.rsplit(' ').next().map(str::to_owned)
    }

    /// Returns the message of a child that failed.
    fn error_message(&mut self) -> String {
        let mut text = String::new();
        if let Some(mut errors) = self.child.stderr.take() {
            let _ = errors.read_to_string(&mut text);
        }
        // mount(8) says in the first line what is wrong; the rest is advice.
        text.lines().next().map_or_else(|| "it failed without a word".into(), str::to_owned)
    }
}

impl Drop for MountedImage {
    fn drop(&mut self) {
        // Closed first: a file system with open files stays mounted. Then the child's input ends.
        self.root = None;
        self.child.stdin = None;
        let _ = self.child.wait();
    }
}

fn read_first_line(output: ChildStdout) -> String {
    let mut line = String::new();
    let _ = BufReader::new(output).read_line(&mut line);
    line
}
