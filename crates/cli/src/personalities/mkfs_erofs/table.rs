//! The options of mkfs.erofs 1.9.4.

use crate::personalities::options::OptionEffect::{Becomes, Ignored, Refused, Same};
use crate::personalities::options::{ForeignOption, OptionValues, at_least, flag, number, value};

/// Largest number that mkfs.erofs keeps in a signed 32-bit integer.
const INT_MAX: u64 = 0x7fff_ffff;
/// Largest offset of owners.
const ID_MAX: u64 = 0xffff_ffff;

const ORDER: &str = "packfs chooses the order; --sort of packfs build names one";

pub(in crate::personalities) static TABLE: &[ForeignOption] = &[
    flag(&["-V", "--version"], Same("prints the version")),
    flag(&["-h", "--help"], Same("prints this table")),
    value(&["-b"], Same("--fs-block")),
    number(&["-d"], 0..=9, Ignored("messages are the same at every level")),
    value(&["-x"], Same("--no-xattrs below 0, else --xattr-share")),
    value(&["-z"], Same("--codec; other compressors than the first are for --compress-hints")),
    at_least(&["-C"], 1, Same("--block-size; 4K without it")),
    value(&["-E"], Same("--features, a name each")),
    value(&["-L"], Becomes(&["--label={}"])),
    value(&["-m"], Same("--metabox; nothing without a compressor")),
    value(&["-T"], Same("--time; with --mkfs-time --image-time")),
    flag(&["--all-time"], Same("all files get the time of -T, or of the run; the default with -T")),
    flag(&["--mkfs-time"], Same("-T is the time of the image only")),
    value(&["-U"], Same("--uuid; `clear` is all zeros")),
    optional(&["--zD"], Same("--features compressed-dirs; 1 without a value, 0 is off")),
    optional(&["--MZ"], Same("nothing: inodes and directories lie together without it")),
    flag(&["--all-root"], Same("--owner 0:0")),
    number(&["--async-queue-limit"], 0..=INT_MAX, Same("nothing: memory is bounded without it")),
    value(&["--blobdev"], Same("--blob, with --chunksize; not with -z")),
    number(&["--chunksize"], 1..=u64::MAX, Same("--chunk-size, up to 16M; no effect with -z")),
    optional(
        &["--clean"],
        Same("`data`, the default, copies data of images, which is referred to without; others are refused"),
    ),
    optional(
        &["--incremental"],
        Refused("packfs does not change images; packfs build --reuse takes blocks of an older one"),
    ),
    value(&["--compress-hints"], Same("--rule `-> store`, `-> cluster=SIZE` and `codec=CODEC`")),
    number(&["--dsunit"], 0..=INT_MAX, Same("--data-align, in blocks; not with -z")),
    value(&["--exclude-path"], Same("--exclude /PATH")),
    value(&["--exclude-regex"], Same("--exclude-regex")),
    value(&["--file-contexts"], Same("--rule 'regex=PATTERN -> xattr=security.selinux=LABEL'")),
    value(&["--force-uid"], Same("--owner UID:")),
    value(&["--force-gid"], Same("--owner :GID")),
    value(&["--fsalignblks"], Refused("an image of packfs ends with its last block; truncate pads it")),
    number(&["--uid-offset"], 0..=ID_MAX, Becomes(&["--uid-offset={}"])),
    number(&["--gid-offset"], 0..=ID_MAX, Becomes(&["--gid-offset={}"])),
    flag(&["--hard-dereference"], Becomes(&["--no-hard-links"])),
    flag(&["--ignore-mtime"], Same("--rule with time=SECONDS, of -T or the run, where the inode is then shorter")),
    flag(&["--preserve-mtime"], Same("no --time, unless -T or --all-time asks for it")),
    at_least(&["--max-extent-bytes"], 0, Same("--max-extent; no effect without -z; 0 is no limit")),
    value(&["--mount-point"], Same("--fs-config-below, and the beginning of paths in --file-contexts")),
    value(&["--product-out"], Same("nothing with --fs-config-file; refused without")),
    value(&["--fs-config-file"], Same("--fs-config")),
    value(&["--block-list-file"], Refused("packfs info --inode shows where the blocks of a file are")),
    number(&["--offset"], 0..=u64::MAX, Becomes(&["--offset={}"])),
    value(&["--root-xattr-isize"], Refused("packfs does not change images, so it reserves no space in them")),
    flag(&["--aufs"], Same("--whiteouts overlay; no effect without --tar")),
    value(&["--sort"], Ignored(ORDER)),
    optional(&["--tar"], Same("`f`, the default: the archive is the source; `i`: --refer; `headerball` is refused")),
    optional(&["--ovlfs-strip"], Same("--whiteouts strip-overlay; `0`, the default, is off")),
    flag(&["--quiet"], Becomes(&["--quiet"])),
    optional(&["--ungzip", "--gzip"], Same("compression is recognised; without a file to write")),
    optional(&["--unxz", "--unlzma"], Same("compression is recognised; without a file to write")),
    optional(&["--gzinfo"], Refused("packfs build --refer reads only archives that are not compressed")),
    value(&["--vmdk-desc"], Refused("packfs describes no disks; append the devices to the image instead")),
    number(&["--workers"], 0..=u64::MAX, Becomes(&["--jobs={}"])),
    optional(&["--xattr-inode-digest"], Same("--inode-digest")),
    value(&["--xattr-prefix"], Becomes(&["--xattr-prefix={}"])),
    value(&["--zfeature-bits"], Same("--features, a bit each: legacy-compress, ztailpacking and so on")),
    value(&["--oci"], Refused("skopeo fetches layers; packfs build takes their archives")),
    value(&["--s3"], Refused("packfs build takes s3:// addresses of archives and images")),
];

/// Makes an option whose value may be left out, and follows `=`.
const fn optional(names: &'static [&'static str], does: crate::personalities::options::OptionEffect) -> ForeignOption {
    ForeignOption { names, takes: OptionValues::Optional, does }
}
