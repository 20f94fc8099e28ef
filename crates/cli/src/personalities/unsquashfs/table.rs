//! The options of unsquashfs and sqfscat 4.7.5.

use crate::personalities::options::Does::{Becomes, Ignored, Refused, Same};
use crate::personalities::options::{Opt, Takes, flag, value};

const NO_REGEX: &str = "packfs prints files by paths and globs";
const NO_FOLLOWING: &str = "packfs selects a link and not what it leads to; name both";
const NO_PAGER: &str = "help is printed as it is";
const SHARE: &str = "packfs takes what it needs, and no more than a quarter";

pub(in crate::personalities) static TABLE: &[Opt] = &[
    value(&["-d", "-dest"], Same("--directory; in listings the beginning of each path")),
    value(&["-max", "-max-depth"], Becomes(&["--max-depth", "{}"])),
    flag(&["-excludes"], Same("--exclude, for each path")),
    Opt { names: &["-ex", "-exclude-list"], takes: Takes::List, does: Same("--exclude") },
    value(&["-extract-file", "-e", "-ef"], Same("a path for each line")),
    value(&["-exclude-file", "-exc", "-excf"], Same("--exclude, for each line")),
    flag(&["-match"], Same("no --ignore-missing, and paths are no globs")),
    flag(&["-follow", "-follow-symlinks", "-L"], Refused(NO_FOLLOWING)),
    flag(&["-missing", "-missing-symlinks"], Ignored("it is about -follow-symlinks")),
    flag(&["-no-wild", "-no-wildcards"], Same("paths are no globs")),
    flag(&["-r", "-regex"], Same("--regex, --exclude-regex")),
    value(&["-all", "-all-time"], Same("--time")),
    flag(&["-cat"], Same("packfs cat")),
    flag(&["-f", "-force"], Same("--force")),
    value(&["-pf", "-pseudo-file"], Same("packfs tar --format pseudo")),
    flag(&["-s", "-stat"], Same("packfs info")),
    flag(&["-i", "-info"], Same("prints each path")),
    flag(&["-li", "-linfo"], Same("prints each path with its attributes")),
    flag(&["-l", "-ls"], Same("packfs list")),
    flag(&["-ll", "-lls"], Same("packfs list --long --names")),
    flag(&["-lln", "-llnumeric"], Same("packfs list --long")),
    flag(&["-lc"], Same("packfs list, without directories that hold something")),
    flag(&["-llc"], Same("packfs list --long --names, without directories that hold something")),
    flag(&["-full", "-full-precision"], Same("times with seconds")),
    flag(&["-UTC"], Same("times in UTC")),
    flag(&["-mkfs-time", "-fstime"], Same("prints the time of the image")),
    flag(&["-no", "-no-xattrs"], Same("--no-xattrs")),
    flag(&["-x", "-xattrs"], Ignored("it is the default")),
    flag(&["-u", "-user-xattrs"], Same("--exclude-xattr of all other namespaces")),
    value(&["-xattrs-exclude"], Same("--exclude-xattr, if the expression is `^` and a prefix")),
    value(&["-xattrs-include"], Same("--exclude-xattr of the others, if the expression is `^` and a namespace")),
    flag(&["-v", "-version"], Same("prints the version")),
    value(&["-p", "-processors"], Same("--jobs")),
    value(&["-mem"], Becomes(&["--memory", "{}"])),
    value(&["-mem-percent"], Ignored(SHARE)),
    value(&["-da", "-data-queue"], Ignored(SHARE)),
    value(&["-fr", "-frag-queue"], Ignored(SHARE)),
    flag(&["-q", "-quiet"], Same("--quiet")),
    flag(&["-n", "-no-progress"], Ignored("progress is shown on terminals only, and once a minute elsewhere")),
    flag(&["-percentage"], Same("--percentage")),
    flag(&["-ig", "-ignore-errors"], Same("entries that cannot be written give status 2")),
    flag(&["-st", "-strict-errors"], Same("--on-error stop")),
    flag(&["-no-exit", "-no-exit-code"], Same("status 0 where it would be 2")),
    flag(&["-h", "-help", "-help-all", "-ha"], Same("prints this table")),
    value(&["-help-option", "-ho"], Same("prints this table")),
    value(&["-help-section", "-hs"], Same("prints this table")),
    flag(&["-no-pager"], Ignored(NO_PAGER)),
    value(&["-cols"], Ignored(NO_PAGER)),
    value(&["-o", "-offset"], Becomes(&["--offset", "{}"])),
];

pub(in crate::personalities) static CAT_TABLE: &[Opt] = &[
    flag(&["-v", "-version"], Same("prints the version")),
    value(&["-p", "-processors"], Ignored("packfs decides by the data")),
    value(&["-mem"], Ignored(SHARE)),
    value(&["-mem-percent"], Ignored(SHARE)),
    value(&["-o", "-offset"], Becomes(&["--offset", "{}"])),
    flag(&["-ig", "-ignore-errors"], Same("status 2 if standard output cannot be written")),
    flag(&["-st", "-strict-errors"], Same("it goes on after a missing file; not together with the two around it")),
    flag(&["-no-exit", "-no-exit-code"], Same("status 0 where it would be 2")),
    flag(&["-no-wild", "-no-wildcards"], Same("paths are no globs")),
    flag(&["-r", "-regex"], Refused(NO_REGEX)),
    flag(&["-h", "-help", "-help-all", "-ha"], Same("prints this table")),
    value(&["-help-option", "-ho"], Same("prints this table")),
    value(&["-help-section", "-hs"], Same("prints this table")),
    flag(&["-no-pager"], Ignored(NO_PAGER)),
    value(&["-cols"], Ignored(NO_PAGER)),
];
