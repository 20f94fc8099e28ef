//! Resolution of the options of `build`, and refused combinations.

use clap::Parser;
use packfs_image::build::AnyOptions;
use packfs_image::erofs::{self, Features, Kernel};
use packfs_image::squashfs;
use packfs_image::tree::TimeChange;

use super::plan::{image_time, time_change};
use super::*;
use crate::args::{PackfsCli, PackfsCommand};
use crate::output::failure::UsageError;

fn plan(args: &[&str]) -> Result<BuildPlan, UsageError> {
    let typed = ["packfs", "build", "dir", "-o"];
    let cli = PackfsCli::try_parse_from(typed.iter().chain(args)).expect("parses");
    let PackfsCommand::Build(build) = cli.command else { panic!("not a build") };
    build.resolve(None)
}

fn squashfs(args: &[&str]) -> squashfs::SquashfsOptions {
    match plan(args).unwrap().request.target {
        AnyOptions::Squashfs(options) => options,
        AnyOptions::Erofs(_) => panic!("{args:?} make an EROFS image"),
    }
}

fn erofs(args: &[&str]) -> erofs::ErofsOptions {
    match plan(args).unwrap().request.target {
        AnyOptions::Erofs(options) => options,
        AnyOptions::Squashfs(_) => panic!("{args:?} make a SquashFS image"),
    }
}

#[test]
fn defaults_are_the_documented_ones() {
    let defaults = plan(&["x.sqfs"]).unwrap();
    assert_eq!((defaults.request.transform.time, defaults.request.transform.drop_xattrs), (TimeChange::Keep, false));
    let options = squashfs(&["x.sqfs"]);
    assert_eq!((options.build.codec.to_string().as_str(), options.block_size), ("zstd:15", 128 << 10));
    assert_eq!(options.fragments, squashfs::Fragments::Tails);
    assert!(
        options.build.verify && options.build.dedup && options.build.sparse && options.export && !options.build.force
    );
    let options = erofs(&["x.erofs"]);
    assert_eq!((options.build.codec.to_string().as_str(), options.cluster_size), ("lz4hc:9", 64 << 10));
    assert_eq!((options.features, options.block_size), (Features::FRAGMENTS | Features::DEDUPE, 4096));
    assert_eq!((options.target_kernel, options.uuid), (Kernel::DEFAULT, None));
    assert!(options.build.verify && options.build.dedup && options.build.sparse && !options.build.force);
}

#[test]
fn the_format_follows_the_extension_unless_it_is_given() {
    let format = |args: &[&str]| plan(args).unwrap().request.target.format();
    for image in ["x", "x.sqfs", "x.snap", "erofs", "x.erofs.sfs"] {
        assert_eq!(format(&[image]), "squashfs", "{image}");
    }
    assert_eq!(format(&["x.erofs", "--format", "squashfs"]), "squashfs");
    for image in [&["x.erofs"][..], &["x.EROFS"], &["x.sqfs", "--format", "erofs"]] {
        assert_eq!(format(image), "erofs", "{image:?}");
    }
}

#[test]
fn options_of_one_format_are_refused_for_the_other() {
    let table: [(&[&str], &str); 13] = [
        (&["x.erofs", "--no-export"], "--no-export is for squashfs images, and x.erofs becomes erofs"),
        (&["x.erofs", "--plain-metadata"], "--plain-metadata is for squashfs"),
        (&["x.erofs", "--plain-data"], "--plain-data is for squashfs"),
        (&["x.erofs", "--plain-fragments"], "--plain-fragments is for squashfs"),
        (&["x.sqfs", "--features", "dedupe"], "--features is for erofs images, and x.sqfs becomes squashfs"),
        (&["x", "--target-kernel", "6.12"], "give --format erofs"),
        (&["x", "--fs-block", "4K"], "--fs-block"),
        (&["x", "--uuid", "random"], "--uuid"),
        (&["x", "--label", "a"], "--label"),
        (&["x", "--xattr-prefix", "user.a."], "--xattr-prefix"),
        (&["x.sqfs", "--codec", "deflate"], "accepted: zstd, gzip, xz, lzma, lzo, lz4, lz4hc, none"),
        (&["x.sqfs", "--codec", "snappy"], "SquashFS images have no snappy"),
        (&["x.erofs", "--codec", "snappy"], "EROFS images have no snappy"),
    ];
    for (args, expected) in table {
        let message = plan(args).unwrap_err().0;
        assert!(message.contains(expected), "{args:?}: {message}");
    }
}

#[test]
fn standard_input_comes_once() {
    assert!(plan(&["x", "-"]).is_ok());
    for twice in ["-", "--files-from=-", "--sort=-", "--hot=-", "--rules=-", "--fs-config=-"] {
        assert!(plan(&["x", "-", twice]).unwrap_err().0.contains("only once"), "{twice}");
    }
}

#[test]
fn nothing_else_goes_where_the_image_goes() {
    assert!(plan(&["-", "--stream"]).is_ok());
    for other in ["--json", "--percentage", "--list", "--shards=2", "--index"] {
        let told = plan(&["-", other]).unwrap_err().0;
        assert!(told.contains("standard output is for the image alone"), "{other}: {told}");
    }
}

#[test]
fn block_sizes_are_powers_of_two_in_range() {
    for (text, size) in [("4K", 4096), ("131072", 131_072), ("1M", 1 << 20)] {
        assert_eq!(squashfs(&["x", "-b", text]).block_size, size);
    }
    for bad in ["0", "2K", "5000", "2M", "1T"] {
        assert!(plan(&["x", "-b", bad]).unwrap_err().0.contains("from 4K to 1M"), "{bad}");
    }
}

#[test]
fn the_last_word_on_verification_counts() {
    assert!(!squashfs(&["x", "--no-verify"]).build.verify);
    assert!(squashfs(&["x", "--no-verify", "--verify"]).build.verify);
    assert!(!squashfs(&["x", "--verify", "--no-verify"]).build.verify);
}

#[test]
fn a_time_option_beats_the_environment() {
    let at = |secs| Time { secs, nanos: 0 };
    assert_eq!(time_change(Some(at(5)), Some("7")).unwrap(), TimeChange::Set(at(5)));
    assert_eq!(time_change(None, Some("7")).unwrap(), TimeChange::Clamp(at(7)));
    assert_eq!(time_change(None, Some("")).unwrap(), TimeChange::Keep);
    for format in [FormatChoice::Squashfs, FormatChoice::Erofs] {
        assert_eq!(image_time(TimeChange::Set(at(5)), format).unwrap(), Some(5));
    }
    for secs in [i64::MIN, -1, 1 << 32, i64::MAX] {
        let error = image_time(TimeChange::Set(at(secs)), FormatChoice::Squashfs).unwrap_err().0;
        assert!(error.contains("SquashFS holds 1970 to 2106"), "{error}");
        assert_eq!(image_time(TimeChange::Set(at(secs)), FormatChoice::Erofs).unwrap(), Some(secs));
    }
    assert!(time_change(None, Some("soon")).unwrap_err().0.contains("SOURCE_DATE_EPOCH"));
}

#[test]
fn the_defaults_of_erofs_follow_the_kernel() {
    let table: [(&[&str], Features, u32); 11] = [
        (&["--target-kernel", "6.1"], Features::FRAGMENTS | Features::DEDUPE, 64 << 10),
        (&["--features", "^dedupe"], Features::FRAGMENTS, 64 << 10),
        (&["--no-dedup"], Features::FRAGMENTS, 64 << 10),
        (&["--codec", "lz4"], Features::FRAGMENTS, 64 << 10),
        (&["--target-kernel", "5.19"], Features::empty(), 64 << 10),
        (&["--target-kernel", "5.12"], Features::empty(), 4096),
        (&["--target-kernel", "5.12", "-b", "4K"], Features::empty(), 4096),
        (&["--codec", "none"], Features::empty(), 64 << 10),
        (&["--features", "dedupe"], Features::FRAGMENTS | Features::DEDUPE, 64 << 10),
        (&["--features", "ztailpacking"], Features::ZTAILPACKING, 64 << 10),
        (&["--fragments", "none", "-b", "12K"], Features::empty(), 12 << 10),
    ];
    for (args, features, cluster_size) in table {
        let options = erofs(&[&["x.erofs"], args].concat());
        assert_eq!((options.features, options.cluster_size), (features, cluster_size), "{args:?}");
    }
}

#[test]
fn what_erofs_cannot_do_is_refused_with_a_way_out() {
    let table: [(&[&str], &str); 29] = [
        (&["-c", "zstd"], "--target-kernel 6.1 (the default): this kernel cannot read zstd (since Linux 6.10)"),
        (&["-c", "zstd"], "; choose 6.10, or do without"),
        (&["-c", "zstd", "--target-kernel", "6.6"], "--target-kernel 6.6: this kernel cannot read"),
        (&["-c", "deflate", "--features", "48bit"], "choose 6.15"),
        (&["--target-kernel", "5.10", "-b", "64K"], "clusters larger than a block (since Linux 5.13)"),
        (&["--target-kernel", "6.0", "--features", "fragments"], "fragments (since Linux 6.1)"),
        (&["--target-kernel", "4.19"], "5.4 is the first"),
        (&["--fs-block", "1K"], "compression in blocks smaller than 4K (since Linux 6.8)"),
        (&["--xattr-prefix", "user.mime."], "prefixes of xattr names (since Linux 6.4)"),
        (&["-c", "gzip"], "accepted: zstd, deflate, lzma, lz4, lz4hc, none"),
        (&["-b", "6K"], "--block-size 6K: a cluster of an EROFS image is a multiple of the block (4 KiB)"),
        (&["-b", "2M"], "--block-size 2M: a cluster of an EROFS image is a multiple of the block (4 KiB) up to 1 MiB"),
        (&["--fs-block", "8K"], "--fs-block 8K: an EROFS block is a power of two from 512 to 4K"),
        (
            &["--fragments", "small"],
            "--fragments small: EROFS packs small files and the ends of larger ones alike; give none or tails",
        ),
        (&["--fragments", "tails", "--features", "^fragments"], "leave one out"),
        (&["-c", "none", "--features", "dedupe"], "--features dedupe: it is for compressed files"),
        (&["--features", "chunks"], "needs the codec none"),
        (&["--chunk-size", "4K"], "needs the codec none"),
        (
            &["-c", "none", "--chunk-size", "12K"],
            "--chunk-size 12K: a chunk is a power of two from the block (4 KiB) to 16 MiB",
        ),
        (
            &["--fragment-cluster", "6K"],
            "--fragment-cluster 6K: a cluster of an EROFS image is a multiple of the block",
        ),
        (&["--metabox", "4K"], "48bit (since Linux 6.15), metabox (since Linux 6.17); choose 6.17"),
        (
            &["--metabox", "2M"],
            "--metabox 2M: a cluster of an EROFS image is a multiple of the block (4 KiB) up to 1 MiB",
        ),
        (
            &["--metabox", "1T"],
            "--metabox 1T: a cluster of an EROFS image is a multiple of the block (4 KiB) up to 1 MiB",
        ),
        (&["--rsyncable=1K"], "--rsyncable 1K: cuts are at least 16 KiB apart"),
        (
            &["--rsyncable", "-c", "none"],
            "--rsyncable 1M: only what is packed together is cut: it needs the feature fragments",
        ),
        (&["-c", "none", "--features", "compressed-dirs"], "is for compressed files"),
        (&["--features", "compact-inodes,extended-inodes"], "opposites"),
        (&["--features", "48bit,full-index", "--target-kernel", "6.18"], "leave one out"),
        (&["--features", "48bit,ztailpacking", "--target-kernel", "6.18"], "cannot express ztailpacking"),
    ];
    for (args, expected) in table {
        let message = plan(&[&["x.erofs"], args].concat()).unwrap_err().0;
        assert!(message.contains(expected), "{args:?}: {message}");
    }
}

#[test]
fn options_in_full_come_to_the_same_build() {
    let builds: [&[&str]; 16] = [
        &["x.sqfs"],
        &["x.sqfs", "--preset", "smallest"],
        &["x.erofs", "--preset", "smallest"],
        &["x.sqfs", "-c", "xz:9:bcj=auto", "-b", "1M", "--fragments", "small", "-j", "3"],
        &["x.sqfs", "--fragments", "none", "--no-dedup", "--no-sparse", "--no-verify", "--memory", "99M"],
        &["x.erofs"],
        &["x.erofs", "-c", "lz4"],
        &["x.erofs", "-c", "none"],
        &["x.erofs", "-c", "none", "--features", "chunks,^inline-data"],
        &["x.erofs", "--target-kernel", "5.12"],
        &["x.erofs", "--features", "ztailpacking,extended-inodes,full-index", "--fragments", "none"],
        &["x.erofs", "--features", "unaligned,all-fragments", "--target-kernel", "6.18"],
        &["x.erofs", "--features", "^dedupe", "-b", "12K", "--fs-block", "4K"],
        &["x.erofs", "--metabox", "8K,zstd:19", "--features", "dot-omitted,^checksum", "--target-kernel", "6.18"],
        &[
            "x.erofs",
            "-c",
            "none",
            "--chunk-size",
            "8K",
            "--xattr-share",
            "9",
            "--features",
            "compact-inodes,chunk-indexes",
        ],
        &["x.erofs", "--no-dedup", "--fragment-cluster", "16K"],
    ];
    for args in builds {
        let made = plan(args).unwrap();
        let full = made.in_full();
        let again = plan(&[&["x"], &full.iter().map(String::as_str).collect::<Vec<_>>()[..]].concat()).unwrap();
        assert_eq!(format!("{:?}", again.request.target), format!("{:?}", made.request.target), "{args:?}: {full:?}");
    }
}

/// Returns a command line for each option of a build, by its identifier; none for those that are no part of it.
fn samples() -> Vec<(&'static str, Vec<&'static str>)> {
    let rows = [
        ("append", "x.sqfs --append=old.sqfs"),
        ("append_below", "x.sqfs --append=old.sqfs --append-below=old"),
        ("add", "x.sqfs --add=dir_/a_0755_0_0 --add=mode_/_0711"),
        ("blob", "x.erofs --blob=data"),
        ("block_size", "x.sqfs -b 64K"),
        ("chunk_size", "x.erofs -c none --chunk-size=8K"),
        ("clip_times", "x.sqfs --clip-times"),
        ("codec", "x.sqfs -c xz:9:bcj=auto"),
        ("composefs", ""),
        ("data_align", "x.erofs -c none --data-align=64K"),
        ("delta_index", ""),
        ("dry_run", ""),
        ("exclude", "x.sqfs --exclude=*.o --exclude=-a"),
        ("exclude_from", "x.sqfs --exclude-from=/dev/null"),
        ("exclude_regex", "x.sqfs --exclude-regex=^a/(b|c)$"),
        ("exclude_xattr", "x.sqfs --exclude-xattr=user.*"),
        ("features", "x.erofs --features=dedupe --features=^fragments"),
        ("files_from", "x.sqfs --files-from=list"),
        ("force", "x.sqfs --force"),
        ("format", "x --format=erofs"),
        ("fragment_cluster", "x.erofs --fragment-cluster=16K"),
        ("fragments", "x.sqfs --fragments=small"),
        ("fs_config", "x.sqfs --fs-config=/dev/null"),
        ("fs_config_below", "x.sqfs --fs-config=/dev/null --fs-config-below=/system"),
        ("fs_block", "x.erofs --fs-block=1K --target-kernel=6.8"),
        ("gid_offset", "x.sqfs --gid-offset=-5"),
        ("hot", "x.sqfs --hot=list"),
        ("image_time", "x.sqfs --image-time=2001-09-09"),
        ("implied_dirs", "x.sqfs --implied-dirs=0711,7:8,5"),
        ("index", "x.sqfs --index"),
        ("inode_digest", "x.erofs --inode-digest --target-kernel=6.17"),
        ("jobs", "x.sqfs -j 3"),
        ("json", ""),
        ("keep_existing", "x.sqfs --keep-existing"),
        ("label", "x.erofs --label=a_label"),
        ("layers", "x.sqfs --layers"),
        ("list", ""),
        ("max_depth", "x.sqfs --max-depth=3"),
        ("max_file_size", "x.sqfs --max-file-size=1M"),
        ("max_extent", "x.erofs --max-extent=64K"),
        ("memory", "x.sqfs --memory=99M"),
        ("metabox", "x.erofs --metabox=8K,zstd:19 --target-kernel=6.18"),
        ("mode", "x.sqfs --mode=go-w,D0755"),
        ("no_dedup", "x.sqfs --no-dedup"),
        ("no_export", "x.sqfs --no-export"),
        ("no_hard_links", "x.sqfs --no-hard-links"),
        ("no_mount_points", "x.sqfs -x --no-mount-points"),
        ("no_pad", "x.sqfs --no-pad"),
        ("no_sparse", "x.sqfs --no-sparse"),
        ("no_verify", "x.sqfs --no-verify"),
        ("no_xattrs", "x.sqfs --no-xattrs"),
        ("null", "x.sqfs --files-from=list --null"),
        ("offset", "x.sqfs --offset=8K"),
        ("objects", ""),
        ("on_error", "x.sqfs --on-error=skip"),
        ("one_file_system", "x.sqfs --one-file-system"),
        ("order", "x.sqfs --order=similar"),
        ("output", ""),
        ("owner", "x.sqfs --owner=7:8"),
        ("percentage", ""),
        ("plain_data", "x.sqfs --plain-data"),
        ("plain_fragments", "x.sqfs --plain-fragments"),
        ("plain_metadata", "x.sqfs --plain-metadata"),
        ("prefix", "x.sqfs --prefix=/dev/null --offset=4K"),
        ("preset", "x.sqfs --preset=smallest"),
        ("quiet", ""),
        ("refer", "x.erofs --refer"),
        ("reflink", "x.erofs --reflink"),
        ("remote_cache", "x.sqfs --remote-cache=2G"),
        ("remote_unversioned", "x.sqfs --remote-unversioned"),
        ("retarget", "x.sqfs --subdir=usr --retarget"),
        ("reuse", "x.sqfs --reuse=old.sqfs"),
        ("reuse_index", "x.sqfs --reuse=old.sqfs --reuse-index=old"),
        ("rsyncable", "x.erofs --rsyncable=64K"),
        ("rule", "x.sqfs --rule=glob=*.o_->_exclude --rule=size=1M.._->_store"),
        ("rules", "x.sqfs --rules=some --rules=more"),
        ("seal", ""),
        ("seal_certificate", ""),
        ("seal_key", ""),
        ("shard_size", "x.sqfs --shard-size=1G"),
        ("shards", "x.sqfs --shards=3"),
        ("sort", "x.sqfs --sort=list"),
        ("sources", ""),
        ("spool", "x.sqfs --spool"),
        ("stream", "x.sqfs --stream"),
        ("strict", "x.sqfs --strict"),
        ("subdir", "x.sqfs --subdir=usr"),
        ("target_kernel", "x.erofs --target-kernel=6.12"),
        ("time", "x.sqfs --time=1000000000.5"),
        ("uid_offset", "x.sqfs --uid-offset=100000"),
        ("uuid", "x.erofs --uuid=random"),
        ("verify", "x.sqfs --no-verify --verify"),
        ("whiteouts", "x.sqfs --whiteouts=overlay"),
        ("xattr_prefix", "x.erofs --xattr-prefix=user.mime. --target-kernel=6.17"),
        ("xattr_share", "x.erofs --xattr-share=9"),
    ];
    rows.into_iter().map(|(id, line)| (id, line.split(' ').filter(|word| !word.is_empty()).collect())).collect()
}

#[test]
fn every_option_is_in_the_complete_command_line() {
    let without_given = |plan: BuildPlan| format!("{:?}", BuildPlan { given: GivenOptions::default(), ..plan });
    let samples = samples();
    let command = BuildArgs::augment_args(clap::Command::new("build"));
    for arg in command.get_arguments() {
        let id = arg.get_id().as_str();
        let (_, line) = samples.iter().find(|(known, _)| *known == id).unwrap_or_else(|| panic!("{id} has no sample"));
        if line.is_empty() {
            continue;
        }
        let line: Vec<String> = line.iter().map(|word| word.replace('_', " ")).collect();
        let made = plan(&line.iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
        let full = made.in_full();
        let name = format!("--{}", arg.get_long().unwrap_or_default());
        let is_named = full.iter().any(|word| word == &name || word.starts_with(&format!("{name}=")));
        let is_other = ["preset", "verify"].contains(&id);
        assert!(is_named || is_other, "{id}: {full:?}");
        let words: Vec<&str> = [line[0].as_str()].into_iter().chain(full.iter().map(String::as_str)).collect();
        let again = plan(&words).unwrap();
        assert_eq!(without_given(again), without_given(made), "{id}: {full:?}");
    }
    assert!(plan(&["x.erofs", "--time=-0.25"]).unwrap().in_full().iter().any(|word| word == "-0.250000000"));
}

#[test]
fn an_erofs_image_has_the_name_it_is_given() {
    let options = erofs(&["x.erofs", "--label", "fifteen-bytes..", "--uuid", "01234567-89ab-cdef-0123-456789abcdef"]);
    assert_eq!((options.label.as_str(), options.uuid.unwrap()[..3].to_vec()), ("fifteen-bytes..", vec![1, 0x23, 0x45]));
    assert_eq!(erofs(&["x.erofs", "--uuid", &"Aa".repeat(16)]).uuid, Some([0xaa; 16]));
    let random = || erofs(&["x.erofs", "--uuid", "random"]).uuid.unwrap();
    let one = random();
    let other = random();
    assert!(one != other && one[6] >> 4 == 4 && one[8] >> 6 == 2);
    let prefixed = erofs(&["x.erofs", "--target-kernel", "6.4", "--xattr-prefix", "user.mime."]);
    assert_eq!(prefixed.xattr_prefixes, [b"user.mime."[..].into()]);
    for wrong in [
        ["--uuid", "0123"],
        ["--uuid", "01234567-89abcdef-0123-4567-89abcdef0123"],
        ["--uuid", "+1234567-89ab-cdef-0123-456789abcdef"],
        ["--label", "more-than-15-bytes"],
        ["--xattr-prefix", "user."],
        ["--xattr-prefix", "system.posix_acl"],
        ["--features", "compact"],
        ["--target-kernel", "new"],
    ] {
        assert!(
            PackfsCli::try_parse_from(["packfs", "build", "x", "-o", "x.erofs"].iter().chain(&wrong)).is_err(),
            "{wrong:?}"
        );
    }
}

#[test]
fn presets_are_the_documented_points() {
    let table = [
        ("fast", "zstd:1 128K None", "lz4 64K None"),
        ("balanced", "zstd:12 128K None", "lz4hc:9 64K None"),
        ("small", "zstd:19 1M None", "lzma:6 256K None"),
        ("smallest", "xz:9:bcj=auto 1M Some(Similar)", "lzma:9 1M Some(Similar)"),
    ];
    for (preset, of_squashfs, of_erofs) in table {
        for (image, wanted) in [("x.sqfs", of_squashfs), ("x.erofs", of_erofs)] {
            let target = plan(&[image, "--preset", preset]).unwrap().request.target;
            let block = value::as_size(target.block_size());
            let common = target.common();
            assert_eq!(format!("{} {block} {:?}", common.codec, common.order), wanted, "{image} {preset}");
        }
    }
    let features = |preset| erofs(&["x.erofs", "--preset", preset]).features;
    let packed = Features::FRAGMENTS | Features::ALL_FRAGMENTS | Features::DEDUPE | Features::COMPRESSED_DIRS;
    assert_eq!(features("smallest"), packed);
    let newer = erofs(&["x.erofs", "--preset", "smallest", "--target-kernel", "6.17"]);
    assert_eq!(newer.features, packed | Features::METABOX | Features::BITS_48);
    assert_eq!(newer.metabox.cluster_size, 64 << 10);
    assert_eq!(features("balanced"), erofs(&["x.erofs"]).features);
}

#[test]
fn options_of_their_own_win_over_a_preset() {
    let smallest = |options: &[&str]| plan(&[options, &["--preset", "smallest"]].concat()).unwrap().request.target;
    let target = smallest(&["x.sqfs", "-c", "zstd:3", "--order", "path"]);
    assert_eq!((target.common().codec.to_string().as_str(), target.block_size()), ("zstd:3", 1 << 20));
    assert_eq!(target.common().order, Some(build::Order::Path));
    assert_eq!(smallest(&["x.erofs", "-b", "64K"]).block_size(), 64 << 10);
    let features = |options: &[&str]| erofs(&[&["x.erofs", "--preset", "smallest"], options].concat()).features;
    assert!(!features(&["--features", "^dedupe"]).intersects(Features::ALL_FRAGMENTS | Features::DEDUPE));
    assert!(!features(&["--fragments", "none"]).contains(Features::FRAGMENTS));
    // Its features are of compressed files.
    assert!(!features(&["-c", "none"]).intersects(Features::ALL_FRAGMENTS | Features::FRAGMENTS));
}
