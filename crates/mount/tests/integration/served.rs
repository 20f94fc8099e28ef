//! A mount that ends with its test, however that ends.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use packfs_blocks::ReadAt;
use packfs_image::testing::{Spec, is_root, skipped};
use packfs_image::{AnyImage, Image, OpenOptions, Plan};
use packfs_mount::{MountOptions, UnmountMode, mount, unmount};

/// Time after which a mount that does not end is left alone.
const PATIENCE: Duration = Duration::from_secs(60);

/// Returns true if images can be mounted here; otherwise reports `test` as skipped. Owners, devices and privileged
/// attributes are compared, which takes root.
pub(crate) fn can_mount(test: &str) -> bool {
    let can = is_root() && File::options().read(true).write(true).open("/dev/fuse").is_ok();
    if !can {
        skipped(test, "/dev/fuse (as root)");
    }
    can
}

/// A mounted image, unmounted when dropped.
pub(crate) struct Served {
    dir: tempfile::TempDir,
    thread: Option<JoinHandle<packfs_mount::Result<()>>>,
}

impl Served {
    pub(crate) fn new(image: Arc<dyn Image>, options: MountOptions) -> Served {
        let dir = tempfile::tempdir().unwrap();
        let mounted = mount(image, dir.path(), options).unwrap();
        Served { dir, thread: Some(std::thread::spawn(move || mounted.serve())) }
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Returns true if serving has ended, or ends soon.
    pub(crate) fn has_ended(&self) -> bool {
        let begun = Instant::now();
        let thread = self.thread.as_ref().unwrap();
        while !thread.is_finished() && begun.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(5));
        }
        thread.is_finished()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // A test that fails may have files open.
        let _ = unmount(self.dir.path(), UnmountMode::Detach);
        if self.has_ended() || !std::thread::panicking() {
            assert!(self.has_ended(), "serving does not end");
            self.thread.take().unwrap().join().unwrap().unwrap();
        }
    }
}

/// Builds an image of a tree in memory.
pub(crate) fn build(spec: &Spec, options: &packfs_image::build::AnyOptions) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    let plan = |_: &mut dyn packfs_image::source::Store| Ok(Plan { tree: spec.tree()?, order: Vec::new() });
    options.build(&path, &packfs_blocks::Progress::default(), plan).unwrap();
    std::fs::read(path).unwrap()
}

/// Opens an image in memory, with a cache of a size.
pub(crate) fn open(bytes: Vec<u8>, cache: u64) -> packfs_image::Result<Arc<dyn Image>> {
    let source: Arc<dyn ReadAt> = Arc::new(bytes);
    let options = OpenOptions::default().set(|all| all.cache_bytes = cache);
    Ok(AnyImage::open(source, options)?.into_image())
}
