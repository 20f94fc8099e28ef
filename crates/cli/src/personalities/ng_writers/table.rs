//! The options of tar2sqfs and gensquashfs 1.3.

use crate::personalities::options::OptionEffect::{Becomes, Ignored, Same};
use crate::personalities::options::{ForeignOption, flag, number, value};

pub(in crate::personalities) static TAR_TABLE: &[ForeignOption] = &[
    value(&["-r", "--root-becomes"], Same("--subdir DIR --retarget")),
    flag(&["-S", "--no-symlink-retarget"], Same("no --retarget")),
    value(&["-E", "--exclude-dir"], Same("--exclude /PATH, or --exclude-regex for a pattern")),
    value(&["-c", "--compressor"], Same("--codec; xz without it")),
    value(&["-X", "--comp-extra"], Same("level and options of --codec")),
    number(&["-j", "--num-jobs"], 0..=u64::MAX, Becomes(&["--jobs={}"])),
    value(&["-Q", "--queue-backlog"], Ignored("packfs bounds its memory by bytes: --memory")),
    value(&["-b", "--block-size"], Becomes(&["--block-size={}"])),
    value(&["-B", "--dev-block-size"], Same("up to 4096, to which images are padded; more is refused")),
    value(&["-d", "--defaults"], Same("--implied-dirs")),
    flag(&["-s", "--no-skip"], Same("--on-error stop")),
    flag(&["-x", "--no-xattr"], Becomes(&["--no-xattrs"])),
    flag(&["-k", "--no-keep-time"], Same("--time, of --defaults or 0")),
    flag(&["-e", "--exportable"], Same("no --no-export")),
    flag(&["-T", "--no-tail-packing"], Same("--fragments small")),
    flag(&["-f", "--force"], Becomes(&["--force"])),
    flag(&["-q", "--quiet"], Becomes(&["--quiet"])),
    flag(&["-h", "--help"], Same("prints this table")),
    flag(&["-V", "--version"], Same("prints the version")),
];

pub(in crate::personalities) static GEN_TABLE: &[ForeignOption] = &[
    value(&["-F", "--pack-file"], Same("the source @FILE")),
    value(&["-D", "--pack-dir"], Same("the source; with --pack-file the directory of that file")),
    value(&["-c", "--compressor"], Same("--codec; xz without it")),
    value(&["-X", "--comp-extra"], Same("level and options of --codec")),
    number(&["-j", "--num-jobs"], 0..=u64::MAX, Becomes(&["--jobs={}"])),
    value(&["-Q", "--queue-backlog"], Ignored("packfs bounds its memory by bytes: --memory")),
    value(&["-b", "--block-size"], Becomes(&["--block-size={}"])),
    value(&["-B", "--dev-block-size"], Same("up to 4096, to which images are padded; more is refused")),
    value(&["-d", "--defaults"], Same("--implied-dirs")),
    value(&["-u", "--set-uid"], Same("--owner UID:")),
    value(&["-g", "--set-gid"], Same("--owner :GID")),
    flag(&["--all-root"], Same("--owner 0:0")),
    value(&["--sort-file", "-S"], Same("--rule, for each line")),
    value(&["--selinux", "-s"], Same("--rule 'regex=PATTERN -> xattr=security.selinux=LABEL'")),
    value(&["--xattr-file", "-A"], Same("--rule 'path=PATH -> xattr=NAME=VALUE'")),
    flag(&["-H", "--no-hard-links"], Becomes(&["--no-hard-links"])),
    flag(&["-k", "--keep-time"], Same("no --time 0")),
    flag(&["-x", "--keep-xattr"], Same("no --no-xattrs")),
    flag(&["-o", "--one-file-system"], Becomes(&["--one-file-system"])),
    flag(&["-e", "--exportable"], Same("no --no-export")),
    flag(&["-T", "--no-tail-packing"], Same("--fragments small")),
    flag(&["-f", "--force"], Becomes(&["--force"])),
    flag(&["-q", "--quiet"], Becomes(&["--quiet"])),
    flag(&["-h", "--help"], Same("prints this table")),
    flag(&["-V", "--version"], Same("prints the version")),
];
