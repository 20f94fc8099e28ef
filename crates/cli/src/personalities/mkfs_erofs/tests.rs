//! Tests of command lines of mkfs.erofs.

use super::*;
use crate::personalities::options::tests::check;

/// Returns the line of packfs, in words joined by spaces.
fn line(args: &str) -> Result<String, String> {
    match mkfs_erofs(args.split(' ').map(OsString::from).collect())? {
        TranslatedLine::Run(line, _) => Ok(line.into_text()),
        other => panic!("{other:?}"),
    }
}

const OFF: &str = "^all-fragments,^dedupe,^ztailpacking,^chunks";

#[test]
fn the_table_is_sound() {
    check(TABLE);
}

#[test]
fn command_lines_of_callers_are_translated() {
    let begin = "build --output=IMG --format=erofs --force";
    let plain = format!("--features=^fragments,{OFF}");
    let none = "--features=^dedupe,^chunks";
    for (args, made) in [
        ("IMG root", format!("--codec=none --image-time=now {none} --whiteouts=mark-overlay root")),
        (
            "-zlz4hc,12 -C65536 -Efragments IMG root",
            format!("--codec=lz4hc:12 --block-size=65536 --image-time=now --features=fragments,{OFF} --whiteouts=mark-overlay root"),
        ),
        // dracut
        (
            "--exclude-path=a/[b] -C 65536 -E fragments -x -1 -U 00000000-0000-0000-0000-000000000000 -T 0 IMG root",
            format!(
                "--codec=none --time=0 {none} --whiteouts=mark-overlay --exclude=/a/\\[b\\] --no-xattrs \
                  --uuid=00000000-0000-0000-0000-000000000000 root"
            ),
        ),
        // osbuild and kiwi
        (
            "-zlzma,6 -Eall-fragments,fragdedupe=inode -C1048576 --quiet IMG root",
            "--codec=lzma:6 --block-size=1048576 --image-time=now \
          --features=all-fragments,^dedupe,^ztailpacking,^chunks --whiteouts=mark-overlay --quiet root"
                .into(),
        ),
        // containerd, from standard input
        ("--tar=f --aufs=no IMG", String::new()),
        (
            "--tar=f --mkfs-time -T0 --sort=none -zzstd,level=3 IMG",
            format!(
                "--codec=zstd:3 --block-size=4K --target-kernel=6.10 --image-time=0 {plain} --implied-dirs=0777,0:0 -"
            ),
        ),
        (
            "-m4096:zstd,level=9 --zD -zlz4 -x 5 IMG root",
            format!(
                "--codec=lz4 --block-size=4K --target-kernel=6.17 --image-time=now \
                 --features=compressed-dirs,^fragments,{OFF} --metabox=4096,zstd:9 --whiteouts=mark-overlay --xattr-share=5 root"
            ),
        ),
        (
            "--chunksize=16384 -Enosbcrc,force-inode-compact -T7 --mkfs-time IMG root",
            "--codec=none --time=7 --chunk-size=16384 --features=^checksum,compact-inodes,chunks,^dedupe --whiteouts=mark-overlay root".into(),
        ),
        (
            "-Ededupe --chunksize=65536 IMG root",
            "--codec=none --image-time=now --chunk-size=4K --features=^dedupe,chunks --whiteouts=mark-overlay root".into(),
        ),
        (
            "-b1024 -Efragments,dedupe IMG root",
            "--codec=none --target-kernel=6.4 --image-time=now --chunk-size=1024 --features=^dedupe,chunks \
             --whiteouts=mark-overlay --fs-block=1024 root"
                .into(),
        ),
        (
            "-zlz4 -Efragments=65536,dot-omitted --zD=0 IMG root",
            format!(
                "--codec=lz4 --block-size=4K --target-kernel=6.15 --image-time=now --fragment-cluster=65536 \
                 --features=fragments,dot-omitted,^compressed-dirs,{OFF} --whiteouts=mark-overlay root"
            ),
        ),
        ("-b1024 IMG root", format!("--codec=none --target-kernel=6.4 --image-time=now {none} --whiteouts=mark-overlay --fs-block=1024 root")),
        (
            "-zlz4 -Eall-fragments --xattr-prefix=user.lo IMG root",
            "--codec=lz4 --block-size=4K --target-kernel=6.17 --image-time=now \
             --features=all-fragments,^dedupe,^ztailpacking,^chunks --whiteouts=mark-overlay --xattr-prefix=user.lo root"
                .into(),
        ),
        // containerd, for an index over an archive
        (
            "--tar=i --aufs --quiet -U 11111111-1111-1111-1111-111111111111 -b4096 -zlz4 IMG",
            format!(
                "--codec=none --target-kernel=6.4 --image-time=now {none} --implied-dirs=0777,0:0 --whiteouts=overlay \
                 --quiet --uuid=11111111-1111-1111-1111-111111111111 --refer --fs-block=512 -"
            ),
        ),
        (
            "--dsunit=16 --max-extent-bytes=8192 IMG root",
            format!("--codec=none --image-time=now {none} --data-align=65536 --whiteouts=mark-overlay root"),
        ),
        (
            "--dsunit=1 --max-extent-bytes=8192 -zlz4 IMG root",
            format!("--codec=lz4 --block-size=4K --image-time=now {plain} --max-extent=8192 --whiteouts=mark-overlay root"),
        ),
        (
            "--blobdev=data --chunksize=65536 --ovlfs-strip=1 IMG root",
            "--codec=none --image-time=now --chunk-size=65536 --features=chunks,^dedupe \
             --whiteouts=strip-overlay --blob=data root"
                .into(),
        ),
        (
            "-T7 --mkfs-time -E48bit,legacy-compress -zlz4 --aufs IMG root",
            format!(
                "--codec=lz4 --block-size=4K --target-kernel=6.15 --image-time=7 --features=48bit,^fragments,{OFF} \
                 --whiteouts=mark-overlay root"
            ),
        ),
        (
            "-m4096 -Eztailpacking --clean IMG root",
            format!("--codec=none --image-time=now {none} --whiteouts=mark-overlay root"),
        ),
        (
            "--zfeature-bits=6 -zlz4 --mount-point /system/ --fs-config-file=f --product-out out IMG root",
            "--codec=lz4 --block-size=4K --image-time=now --features=^legacy-compress,ztailpacking,fragments,^all-fragments,^dedupe,^chunks \
             --whiteouts=mark-overlay --fs-config=f --fs-config-below=/system/ root"
                .into(),
        ),
        (
            "-T0x10 --mkfs-time --ignore-mtime IMG root",
            format!(
                "--codec=none --image-time=16 {none} --whiteouts=mark-overlay \
                 --rule=!size=4294967296.. owner=..65535 group=..65535 -> time=16 root"
            ),
        ),
        (
            "-T7 --mkfs-time --ignore-mtime --force-gid=5 --uid-offset=5535 IMG root",
            format!(
                "--codec=none --image-time=7 {none} --whiteouts=mark-overlay --uid-offset=5535 --owner=:5 \
                 --rule=!size=4294967296.. owner=..60000 -> time=7 root"
            ),
        ),
        (
            "-T7 --mkfs-time --ignore-mtime --force-uid=100000 IMG root",
            format!("--codec=none --image-time=7 {none} --whiteouts=mark-overlay --owner=100000: root"),
        ),
        ("-T7 --ignore-mtime IMG root", format!("--codec=none --time=7 {none} --whiteouts=mark-overlay root")),
        (
            "-T7 --mkfs-time --ignore-mtime -E48bit IMG root",
            "--codec=none --target-kernel=6.15 --image-time=7 --features=48bit,^dedupe,^chunks --whiteouts=mark-overlay root"
                .into(),
        ),
        (
            "--mkfs-time -T 010 --ignore-mtime --preserve-mtime IMG root",
            format!("--codec=none --image-time=8 {none} --whiteouts=mark-overlay root"),
        ),
        (
            "-zlz4 -C0x10000 -x0x5 --max-extent-bytes=0 --MZ=id --async-queue-limit=0x10 --workers=0x2 IMG root",
            format!(
                "--codec=lz4 --block-size=65536 --image-time=now {plain} --whiteouts=mark-overlay --xattr-share=5 \
                 --jobs=2 root"
            ),
        ),
        (
            "-T-5 --force-uid=0x10 --force-gid=010 --offset=0x1000 --uid-offset=0x10 IMG root",
            format!(
                "--codec=none --time=-5 {none} --whiteouts=mark-overlay --offset=4096 --uid-offset=16 --owner=16:8 root"
            ),
        ),
        ("--all-time IMG root", format!("--codec=none --time=now {none} --whiteouts=mark-overlay root")),
        ("--all-root --force-gid=5 IMG root", format!("--codec=none --image-time=now {none} --whiteouts=mark-overlay --owner=0:5 root")),
    ] {
        if made.is_empty() {
            assert!(line(args).is_err(), "{args}");
            continue;
        }
        assert_eq!(line(args), Ok(format!("{begin} {made}")), "{args}");
    }
    for (wrong, why) in [
        ("IMG", "the source is missing"),
        ("IMG a b", "several sources have to be EROFS images"),
        ("-x y IMG a", "expected a number"),
        ("-T now IMG a", "expected seconds"),
        ("--tar=x IMG a", "expected f or i"),
        ("--blobdev=x IMG a", "together with --chunksize"),
        ("--blobdev=x --chunksize=4096 -zlz4 IMG a", "leave out -z"),
        ("--ovlfs-strip=2 IMG a", "expected 0 or 1"),
        ("--dsunit=x IMG a", "expected a number"),
        ("--dsunit=16 -zlz4 IMG a", "leave out -z"),
        ("--nosuch IMG a", "there is no such option"),
        ("-E", "its value is missing"),
        // Values that have no effect without a compressor, or with one, or at all.
        ("-C6144 IMG a", "-C 6144: expected a multiple of the block size, 4096"),
        ("-C0 IMG a", "-C 0: expected at least 1"),
        ("-C512 -b1024 IMG a", "expected a multiple of the block size, 1024"),
        ("-m3 IMG a", "-m 3: expected a multiple of the block size, 4096"),
        ("-mabc IMG a", "-m abc: expected the size of a cluster"),
        ("--max-extent-bytes=abc IMG a", "--max-extent-bytes abc: expected a number of bytes"),
        ("--chunksize=3 -zlz4 IMG a", "--chunksize 3: expected a power of two"),
        ("--chunksize=0 IMG a", "expected a number, 1 or more"),
        ("--async-queue-limit=3 IMG a", "--async-queue-limit 3: expected a power of two"),
        ("--async-queue-limit=abc IMG a", "--async-queue-limit abc: expected a number"),
        ("--MZ=d IMG a", "--MZ d: expected 0, i or id"),
        ("-d10 IMG a", "-d 10: expected a number from 0 to 9"),
        ("--workers=abc IMG a", "--workers abc: expected a number"),
        ("-T18446744073709551616 IMG a", "expected seconds"),
    ] {
        let told = line(wrong).unwrap_err();
        assert!(told.contains(why), "{wrong}: {told}");
    }
}
