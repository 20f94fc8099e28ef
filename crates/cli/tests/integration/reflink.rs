//! `build --reflink`: images that share the blocks of their sources, in their own mount namespace.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::common::program::sh;
use crate::common::{fail, have, run_in, succeed};
use packfs_blocks::testing::noise;

const MIB: usize = 1 << 20;

/// Makes a tree with files of which some bytes do not fill a block, with holes, and too small to stay unread.
fn tree(root: &Path) {
    std::fs::create_dir(root).unwrap();
    for (name, len, seed) in
        [("large", 9 * MIB + 4097, 1), ("again", 9 * MIB + 4097, 1), ("even", 3 * MIB, 2), ("small", 5000, 3)]
    {
        std::fs::write(root.join(name), noise(len, seed)).unwrap();
    }
    let sparse = File::create(root.join("sparse")).unwrap();
    sparse.set_len(64 << 20).unwrap();
    sparse.write_all_at(&noise(300_000, 4), 8 << 20).unwrap();
    sparse.write_all_at(b"end", (64 << 20) - 3).unwrap();
}

#[test]
fn blocks_are_shared_and_the_bytes_are_the_same_everywhere() {
    if !have("blocks_are_shared_and_the_bytes_are_the_same_everywhere", "mkfs.btrfs") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    tree(&dir.join("root"));
    succeed(dir, &["build", "root", "-o", "copied.erofs", "-q", "--reflink"]);
    // File times differ between the copies, so that of the image does not come from them.
    let script = format!(
        r#"set -e
        truncate -s 512M disk; mkfs.btrfs -q disk > /dev/null; mkdir btrfs m; mount -o loop disk btrfs
        cp -a --reflink=never --sparse=always root btrfs; sync -f btrfs
        before=$(df --output=used -k btrfs | tail -1)
        for threads in 0 1 2 7; do
            {packfs} build btrfs/root -o btrfs/image.erofs -qf --reflink -j $threads
            cmp copied.erofs btrfs/image.erofs
        done
        sync -f btrfs
        echo $(($(df --output=used -k btrfs | tail -1) - before))
        {packfs} check -q btrfs/image.erofs > /dev/null
        mount -t erofs -o loop btrfs/image.erofs m; diff -r root m
        umount m
        # What is written to a source afterwards does not reach the image.
        dd if=/dev/zero of=btrfs/root/large bs=1M count=4 conv=notrunc status=none
        cmp copied.erofs btrfs/image.erofs"#,
        packfs = env!("CARGO_BIN_EXE_packfs")
    );
    std::fs::write(dir.join("script"), script).unwrap();
    let grown = sh(dir, "unshare --mount bash script");
    let grown: i64 = grown.trim().parse().unwrap();
    assert!(grown < 2048, "an image of 21 MiB takes {grown} KiB");
}

#[test]
fn sources_that_cannot_be_shared_are_refused_or_copied() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    tree(&dir.join("root"));
    sh(dir, "tar -C root -cf root.tar . && zstd -q1 root.tar");
    for (status, args, why) in [
        (2, &["root.tar.zst"][..], "can only be read: unpack it first"),
        (2, &["root", "--codec", "lz4"], "--reflink: it is for uncompressed data"),
        (2, &["root", "--format", "squashfs"], "--reflink"),
        (2, &["root", "--index"], "--index"),
        (2, &["root", "--shards", "3"], "shards are packed from files that are read"),
    ] {
        let line = [&["build", "-o", "image.erofs", "--reflink"], args].concat();
        let told = fail(dir, status, &line);
        assert!(told.contains(why), "{args:?}: {told}");
        assert!(!dir.join("image.erofs").exists(), "{args:?}");
    }
    // Files of images and of archives have no blocks of their own; they are copied through memory.
    succeed(dir, &["build", "root", "-o", "root.sqfs", "-q"]);
    for (image, source) in [("a.erofs", "root"), ("b.erofs", "root.sqfs"), ("c.erofs", "root.tar")] {
        succeed(dir, &["build", source, "-o", image, "-q", "--reflink"]);
        let compared = run_in(dir, &["diff", "root.sqfs", image]);
        assert!(compared.status.success(), "{compared:?}");
    }
}
