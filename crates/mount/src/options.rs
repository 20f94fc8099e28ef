//! Options of a mount.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use packfs_blocks::trouble::LineReceiver;

use crate::trace::ReadTrace;

/// Options of a mount.
#[derive(Clone)]
#[non_exhaustive]
pub struct MountOptions {
    /// Name of the mount in the system's tables, such as the path of the image.
    pub name: String,
    /// Length of the image in bytes, for `statfs`.
    pub bytes: u64,
    /// Number of threads that serve requests.
    pub threads: usize,
    /// All users may look in, not only the one who mounts.
    pub allow_other: bool,
    /// The kernel checks permissions by the modes in the image. Without it, whoever may look in may read everything.
    pub check_permissions: bool,
    /// Set-user-ID programs work.
    pub suid: bool,
    /// Device nodes work.
    pub dev: bool,
    /// Programs may be executed.
    pub exec: bool,
    /// Owner of everything, instead of those in the image.
    pub uid: Option<u32>,
    /// Group of everything, instead of those in the image.
    pub gid: Option<u32>,
    /// Directory of the image to show instead of its root.
    pub subdir: PathBuf,
    /// Time without requests after which it is unmounted, if nobody uses it.
    pub timeout: Option<Duration>,
    /// Record of the files in the order of their first use.
    pub trace: Option<ReadTrace>,
    /// Takes a line about each error that a program got from the mount.
    pub report: Option<LineReceiver>,
}

impl Default for MountOptions {
    fn default() -> Self {
        MountOptions {
            name: "packfs".into(),
            bytes: 0,
            threads: 4,
            allow_other: false,
            check_permissions: false,
            suid: false,
            dev: false,
            exec: true,
            uid: None,
            gid: None,
            subdir: PathBuf::new(),
            timeout: None,
            trace: None,
            report: None,
        }
    }
}

impl fmt::Debug for MountOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MountOptions").field("name", &self.name).field("threads", &self.threads).finish_non_exhaustive()
    }
}
