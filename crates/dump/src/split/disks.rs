//! Finds parts on the same disk, which neither gain speed nor protect each other.

use packfs_blocks::name::display;
use std::collections::BTreeMap;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{major, minor};

/// Returns notes for the user about parts that share a disk, or will once they are created.
pub fn shared_disks(parts: &[PathBuf]) -> Vec<String> {
    let mut by_disk: BTreeMap<String, Vec<&Path>> = BTreeMap::new();
    for path in parts {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // A file that does not exist yet will be on the disk of its directory.
        let Ok(found) = std::fs::metadata(path).or_else(|_| std::fs::metadata(parent)) else { continue };
        let device = match found.file_type() {
            kind if kind.is_block_device() => found.rdev(),
            kind if kind.is_file() || kind.is_dir() => found.dev(),
            _ => continue,
        };
        for disk in disks(Path::new("/sys/dev/block"), device) {
            by_disk.entry(disk).or_default().push(path);
        }
    }
    let shared = by_disk.into_iter().filter(|(_, parts)| parts.len() > 1);
    let say = |(disk, parts): (String, Vec<&Path>)| {
        let names: Vec<_> = parts.iter().map(|path| display(path).to_string()).collect();
        format!("{} are on one disk ({disk}), which is neither faster nor safer than one part", names.join(", "))
    };
    shared.map(say).collect()
}

/// Returns the disks of a device number, through partitions and device mappers; `sys` is `/sys/dev/block`.
fn disks(sys: &Path, device: u64) -> Vec<String> {
    let number = format!("{}:{}", major(device), minor(device));
    let mut found = Vec::new();
    match sys.join(&number).canonicalize() {
        Ok(dir) => whole_disks(&dir, &mut found, 0),
        // A file system without a block device of its own, such as tmpfs or btrfs.
        Err(_) => found.push(format!("file system {number}")),
    }
    found.sort();
    found.dedup();
    found
}

fn whole_disks(dir: &Path, found: &mut Vec<String>, depth: usize) {
    // More than any stack of partitions, RAID, encryption and volumes has; without it, a loop of links would recurse
    // for ever.
    const DEEPEST: usize = 8;
    let dir = match dir.parent() {
        Some(disk) if dir.join("partition").exists() => disk,
        _ => dir,
    };
    let below: Vec<_> = std::fs::read_dir(dir.join("slaves")).into_iter().flatten().flatten().collect();
    if below.is_empty() || depth == DEEPEST {
        found.extend(dir.file_name().map(|name| name.to_string_lossy().into_owned()));
    }
    for entry in below.iter().filter(|_| depth < DEEPEST) {
        if let Ok(dir) = entry.path().canonicalize() {
            whole_disks(&dir, found, depth + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{create_dir_all, write};
    use std::os::unix::fs::symlink;

    #[test]
    fn partitions_and_mappers_lead_to_their_disks() {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| dir.path().join(path);
        for path in ["block/sda/sda1", "block/sdb", "block/dm-0/slaves", "numbers"] {
            create_dir_all(at(path)).unwrap();
        }
        write(at("block/sda/sda1/partition"), "1").unwrap();
        symlink("../../sda/sda1", at("block/dm-0/slaves/sda1")).unwrap();
        symlink("../../sdb", at("block/dm-0/slaves/sdb")).unwrap();
        for (number, target) in [("8:1", "sda/sda1"), ("8:16", "sdb"), ("253:0", "dm-0")] {
            symlink(format!("../block/{target}"), at("numbers").join(number)).unwrap();
        }
        let disks = |major, minor| disks(&at("numbers"), rustix::fs::makedev(major, minor));
        assert_eq!(disks(8, 1), ["sda"]);
        assert_eq!(disks(8, 16), ["sdb"]);
        assert_eq!(disks(253, 0), ["sda", "sdb"]);
        assert_eq!(disks(0, 42), ["file system 0:42"]);
    }

    #[test]
    fn parts_of_one_directory_share_a_disk() {
        let dir = tempfile::tempdir().unwrap();
        let paths = [dir.path().join("a"), dir.path().join("b")];
        let before = shared_disks(&paths);
        paths.iter().for_each(|path| write(path, "x").unwrap());
        let told = shared_disks(&paths);
        assert_eq!(before, told);
        assert!(told.len() == 1 && told[0].contains("/a, ") && told[0].contains("one disk"), "{told:?}");
        assert_eq!(shared_disks(&paths[..1]), Vec::<String>::new());
    }
}
