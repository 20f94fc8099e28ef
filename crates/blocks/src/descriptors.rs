//! File descriptors, of which a process has a limited number (`RLIMIT_NOFILE`).

use rustix::process::{Resource, getrlimit};

/// Assumed number of open descriptors if the system does not tell.
const OPEN: usize = 16;

/// Returns the number of descriptors that the process can still open; a very large one if there is no limit.
pub fn free() -> usize {
    let Some(limit) = getrlimit(Resource::Nofile).current else { return usize::MAX };
    // The listing has a descriptor of its own, which is closed again.
    let open = std::fs::read_dir("/proc/self/fd").map_or(OPEN, |listed| listed.count().saturating_sub(1));
    usize::try_from(limit).unwrap_or(usize::MAX).saturating_sub(open)
}

#[cfg(test)]
mod tests {
    #[test]
    fn an_open_file_takes_one() {
        let before = super::free();
        let files: Vec<_> = (0..50).map(|_| std::fs::File::open("/dev/null").unwrap()).collect();
        let after = super::free();
        drop(files);
        // Other tests open and close files meanwhile.
        assert!(after < before && before < usize::MAX, "{before} and {after}");
    }
}
