//! Resources of the machine that this process may use: cores and memory, within the limits of its control group.

use std::fs;
use std::path::Path;

use packfs_blocks::descriptors;
pub(crate) use packfs_blocks::pipeline::cores;
use packfs_blocks::threads::{self, ThreadShortage};
use packfs_blocks::units::Size;

/// Returns the budget for file data if `--memory` is not given: enough to keep every thread busy
/// with blocks in flight, but at most a quarter of the available memory.
pub(crate) fn default_budget(threads: usize) -> u64 {
    const BASE: u64 = 16 << 20;
    const PER_THREAD: u64 = 16 << 20;
    let wanted = BASE + PER_THREAD * threads as u64;
    wanted.min(memory_limit() / 4)
}

/// Returns the number of worker threads, of `wanted`, for which the process has memory and descriptors, if each takes
/// `memory` bytes besides its stack. Half of the memory is left for everything else.
pub(crate) fn threads_within_limits(wanted: usize, memory: u64) -> usize {
    /// Descriptors of a worker that opens a file in a directory and reads or writes another one.
    const PER_THREAD: usize = 3;
    /// Descriptors for everything else: image, output, temporary files, and the directories on the way to an entry.
    const SHARED: usize = 8;
    let bytes_each = threads::STACK as u64 + memory;
    let by_memory = usize::try_from(memory_limit() / 2 / bytes_each).unwrap_or(usize::MAX);
    let by_descriptors = descriptors::free().saturating_sub(SHARED) / PER_THREAD;
    let started = wanted.min(by_memory).min(by_descriptors);
    if started < wanted {
        let why = match started == by_memory {
            true => format!("each takes up to {}, and the process may use {}", Size(bytes_each), Size(memory_limit())),
            false => "the limit of open files is too low (ulimit -n)".to_owned(),
        };
        threads::tell_shortage(ThreadShortage { wanted, started, why });
    }
    started
}

/// Returns the number of bytes of memory the process may use: the smallest of physical memory, the limits of its
/// control groups, and what is left of its addresses and data (`RLIMIT_AS`, `RLIMIT_DATA`). If all are unknown, assumes
/// a small machine.
pub(crate) fn memory_limit() -> u64 {
    let physical = fs::read_to_string("/proc/meminfo").ok().and_then(|text| field_kib(&text, "MemTotal:"));
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let group = cgroup_limit(&groups, Path::new("/sys/fs/cgroup"));
    [physical, threads::address_room(), group].into_iter().flatten().min().unwrap_or(1 << 30)
}

/// Returns current and peak memory use in bytes; zeros if the system does not report it.
pub(crate) fn resident() -> (u64, u64) {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    (field_kib(&text, "VmRSS:").unwrap_or(0), field_kib(&text, "VmHWM:").unwrap_or(0))
}

fn field_kib(text: &str, name: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(name))?;
    value.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Returns the smallest memory limit on the way from the process's groups (the text of
/// `/proc/self/cgroup`) to the root of the hierarchy mounted at `mount`; for both versions of
/// control groups.
fn cgroup_limit(groups: &str, mount: &Path) -> Option<u64> {
    let mut smallest: Option<u64> = None;
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(group)) = (fields.next(), fields.next(), fields.next()) else { continue };
        let (root, file) = match controllers {
            "" => (mount.to_owned(), "memory.max"),
            list if list.split(',').any(|c| c == "memory") => (mount.join("memory"), "memory.limit_in_bytes"),
            _ => continue,
        };
        // In a container the group's path may not exist below the mount; the mount's root is then the group.
        for dir in Path::new(group.trim_start_matches('/')).ancestors() {
            let limit = fs::read_to_string(root.join(dir).join(file)).ok().and_then(|text| text.trim().parse().ok());
            smallest = [smallest, limit].into_iter().flatten().min();
        }
    }
    smallest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_limit_on_the_way_to_the_root_counts() {
        let mount = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| {
            let path = mount.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("a/b/memory.max", "max\n");
        write("a/memory.max", "3000\n");
        write("memory/x/memory.limit_in_bytes", "2000\n");
        write("memory/memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(cgroup_limit("0::/a/b\n", mount.path()), Some(3000));
        assert_eq!(cgroup_limit("4:memory:/x/y\n3:cpu:/\n0::/a\n", mount.path()), Some(2000));
        assert_eq!(cgroup_limit("0::/elsewhere\n", mount.path()), None);
        assert_eq!(cgroup_limit("garbage\n", mount.path()), None);
    }

    #[test]
    fn the_default_budget_fits_the_machine() {
        assert!(memory_limit() > 0);
        assert!(default_budget(0) <= default_budget(2));
        assert!(default_budget(1024) <= memory_limit() / 4);
        let (now, peak) = resident();
        assert!(now > 0 && now <= peak);
    }
}
