//! All values and combinations of other programs' options that are refused, each with its reason. Options that are
//! refused whatever their values stand in the tables of their programs, with their reasons. `packfs as --list` prints
//! both, and a test compares the table of docs/guide/drop-in.md with that.

use std::fmt::Display;

/// An option, a value or a combination that packfs refuses.
#[derive(Debug)]
pub(super) struct RefusedOption {
    /// The option with the refused value or combination.
    pub(super) what: &'static str,
    pub(super) why: &'static str,
}

impl RefusedOption {
    /// Returns the error for a command line that has `given`.
    pub(super) fn error(&self, given: impl Display) -> String {
        format!("{given}: {}", self.why)
    }
}

pub(super) static ARCHIVE_WITHOUT_DATA: RefusedOption =
    RefusedOption { what: "--tar=headerball", why: "such an archive does not say where the data is; expected f or i" };
pub(super) static RESERVED_DATA: RefusedOption = RefusedOption {
    what: "--clean=rvsp with archives and images, --clean=0 with images",
    why: "packfs cannot reserve room for data that other programs write",
};
pub(super) static COMPRESSED_BLOB: RefusedOption = RefusedOption {
    what: "--blobdev with -z",
    why: "packfs cannot both compress files and write data to a blob device; leave out -z",
};
pub(super) static COMPRESSED_ALIGNMENT: RefusedOption =
    RefusedOption { what: "--dsunit with -z", why: "packfs aligns only uncompressed data; leave out -z" };
pub(super) static WRITTEN_ARCHIVE: RefusedOption = RefusedOption {
    what: "--ungzip=FILE, --unxz=FILE",
    why: "packfs does not also write the archive; gzip -dc ARCHIVE | tee FILE does",
};
pub(super) static LARGE_BLOCKS: RefusedOption =
    RefusedOption { what: "-b above 4096", why: "packfs writes blocks of at most 4096 bytes" };
pub(super) static LABEL_PATTERNS: RefusedOption = RefusedOption {
    what: "file contexts with patterns that do not begin with a slash",
    why: "packfs takes patterns that begin with a slash",
};
pub(super) static ANDROIDS_OWNERS: RefusedOption = RefusedOption {
    what: "--product-out without --fs-config-file",
    why: "owners come from a table in Android's programs, which packfs does not have; give --fs-config-file",
};

pub(super) static PART_OF_AN_IMAGE: RefusedOption =
    RefusedOption { what: "--path, --nid without --extract=DIR", why: "packfs checks whole images" };

pub(super) static BACK_REFERENCES: RefusedOption = RefusedOption {
    what: "regular expressions with back-references such as \\1",
    why: "packfs has no back-references",
};
pub(super) static EXTENDED_PATTERNS: RefusedOption =
    RefusedOption { what: "patterns such as !(...)", why: "packfs has no extended patterns" };
pub(super) static NEWEST_TIME: RefusedOption = RefusedOption {
    what: "-inode-time inode, -root-time inode",
    why: "packfs does not look for the newest time before it packs",
};
pub(super) static NAMED_FRAGMENTS: RefusedOption =
    RefusedOption { what: "-action fragment", why: "packfs has one sequence of fragment blocks for all files" };
pub(super) static MOVED_ENTRIES: RefusedOption = RefusedOption {
    what: "-action move, -action dereference",
    why: "packfs keeps the path of each entry; a pack list can give another",
};
pub(super) static OTHER_ACTIONS: RefusedOption =
    RefusedOption { what: "-action with other actions", why: "packfs has no such action" };
pub(super) static OTHER_TESTS: RefusedOption =
    RefusedOption { what: "-action with other tests", why: "packfs has no such test" };
pub(super) static LARGE_ALIGNMENT: RefusedOption =
    RefusedOption { what: "-action align above 4K", why: "packfs aligns to 4K, and so to all smaller powers of two" };
pub(super) static COMPRESSED_IN_PLAIN: RefusedOption = RefusedOption {
    what: "-action compressed with -noD or -noF",
    why: "packfs then compresses all files or none; use uncompressed",
};
pub(super) static XATTR_NAMESPACES: RefusedOption = RefusedOption {
    what: "-xattrs-include with other expressions",
    why: "packfs takes only ^user. ^trusted. and ^security.",
};
pub(super) static XATTR_PREFIXES: RefusedOption = RefusedOption {
    what: "-xattrs-exclude with other expressions",
    why: "packfs takes only `^` and the beginning of a name",
};

pub(super) static LARGE_PADDING: RefusedOption = RefusedOption {
    what: "-B above 4096, and other sizes that do not divide it",
    why: "images are padded to 4096 bytes",
};
pub(super) static PATTERN_CLASSES: RefusedOption =
    RefusedOption { what: "patterns with classes such as [:alpha:]", why: "packfs has no such classes" };
pub(super) static LIST_ELSEWHERE: RefusedOption = RefusedOption {
    what: "-D with -F in another directory",
    why: "paths in a list are relative to its directory; move the list there",
};

pub(super) static OF_MKFS_EROFS: &[&RefusedOption] = &[
    &ARCHIVE_WITHOUT_DATA,
    &RESERVED_DATA,
    &COMPRESSED_BLOB,
    &COMPRESSED_ALIGNMENT,
    &WRITTEN_ARCHIVE,
    &LARGE_BLOCKS,
    &LABEL_PATTERNS,
    &ANDROIDS_OWNERS,
];
pub(super) static OF_FSCK_EROFS: &[&RefusedOption] = &[&PART_OF_AN_IMAGE];
pub(super) static OF_MKSQUASHFS: &[&RefusedOption] = &[
    &BACK_REFERENCES,
    &EXTENDED_PATTERNS,
    &NEWEST_TIME,
    &NAMED_FRAGMENTS,
    &MOVED_ENTRIES,
    &OTHER_ACTIONS,
    &OTHER_TESTS,
    &LARGE_ALIGNMENT,
    &COMPRESSED_IN_PLAIN,
    &XATTR_NAMESPACES,
    &XATTR_PREFIXES,
];
pub(super) static OF_UNSQUASHFS: &[&RefusedOption] =
    &[&BACK_REFERENCES, &EXTENDED_PATTERNS, &XATTR_NAMESPACES, &XATTR_PREFIXES];
pub(super) static OF_SQFSCAT: &[&RefusedOption] = &[&BACK_REFERENCES, &EXTENDED_PATTERNS];
pub(super) static OF_TAR2SQFS: &[&RefusedOption] = &[&LARGE_PADDING, &PATTERN_CLASSES];
pub(super) static OF_GENSQUASHFS: &[&RefusedOption] =
    &[&LARGE_PADDING, &PATTERN_CLASSES, &LIST_ELSEWHERE, &LABEL_PATTERNS];

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::super::{CommandHandler, PERSONALITIES};
    use super::*;
    use crate::personalities::options::{OptionEffect, OptionValues};

    /// Command lines that are refused, with the reason; blanks separate words.
    const EXAMPLES: [(&str, &str, &RefusedOption); 29] = [
        ("mkfs.erofs", "--tar=headerball IMAGE x", &ARCHIVE_WITHOUT_DATA),
        ("mkfs.erofs", "--tar=f --clean=rvsp IMAGE x", &RESERVED_DATA),
        ("mkfs.erofs", "--blobdev=x --chunksize=4096 -zlz4 IMAGE x", &COMPRESSED_BLOB),
        ("mkfs.erofs", "--dsunit=16 -zlz4 IMAGE x", &COMPRESSED_ALIGNMENT),
        ("mkfs.erofs", "--tar=f --ungzip=x IMAGE x", &WRITTEN_ARCHIVE),
        ("mkfs.erofs", "-b8192 IMAGE x", &LARGE_BLOCKS),
        ("mkfs.erofs", "--file-contexts=FILE IMAGE x", &LABEL_PATTERNS),
        ("mkfs.erofs", "--product-out=x IMAGE x", &ANDROIDS_OWNERS),
        ("fsck.erofs", "--path=/ EROFS --path=etc", &PART_OF_AN_IMAGE),
        ("fsck.erofs", "--path=no/such/entry EROFS", &PART_OF_AN_IMAGE),
        ("mksquashfs", "/ IMAGE -regex -e (a)\\1", &BACK_REFERENCES),
        ("mksquashfs", "/ IMAGE -wildcards -e !(a)", &EXTENDED_PATTERNS),
        ("mksquashfs", "/ IMAGE -inode-time inode", &NEWEST_TIME),
        ("mksquashfs", "/ IMAGE -action fragment(a)@true", &NAMED_FRAGMENTS),
        ("mksquashfs", "/ IMAGE -action move(a)@true", &MOVED_ENTRIES),
        ("mksquashfs", "/ IMAGE -action frob@true", &OTHER_ACTIONS),
        ("mksquashfs", "/ IMAGE -action exclude@dircount(2)", &OTHER_TESTS),
        ("mksquashfs", "/ IMAGE -action align(8K)@true", &LARGE_ALIGNMENT),
        ("mksquashfs", "/ IMAGE -noD -action compressed@true", &COMPRESSED_IN_PLAIN),
        ("tar2sqfs", "-E [[:alpha:]] IMAGE", &PATTERN_CLASSES),
        ("mksquashfs", "/ IMAGE -xattrs-include x", &XATTR_NAMESPACES),
        ("mksquashfs", "/ IMAGE -xattrs-exclude x", &XATTR_PREFIXES),
        ("unsquashfs", "-regex x (a)\\1", &BACK_REFERENCES),
        ("unsquashfs", "x !(a)", &EXTENDED_PATTERNS),
        ("unsquashfs", "-xattrs-include x x", &XATTR_NAMESPACES),
        ("unsquashfs", "-xattrs-exclude x x", &XATTR_PREFIXES),
        ("tar2sqfs", "-B 8192 IMAGE", &LARGE_PADDING),
        ("gensquashfs", "-D / -F /etc/list IMAGE", &LIST_ELSEWHERE),
        ("gensquashfs", "--selinux FILE -D / IMAGE", &LABEL_PATTERNS),
    ];

    /// Returns the error for a command line of a program.
    fn told(program: &str, words: Vec<OsString>) -> String {
        let personality = PERSONALITIES.iter().find(|known| known.name == program).unwrap();
        #[allow(clippy::infallible_destructuring_match, reason = "without the feature `mount` there is one variant")]
        let translate = match &personality.run {
            CommandHandler::Translate(translate, _) => translate,
            #[cfg(feature = "mount")]
            CommandHandler::Own(_) => panic!("{program} has no table"),
        };
        match translate(words) {
            Err(why) => why,
            Ok(crate::personalities::TranslatedLine::Problem(why, _)) => why,
            Ok(made) => panic!("{program} takes it: {made:?}"),
        }
    }

    #[test]
    fn every_refusal_is_told_with_its_reason() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).into_os_string().into_string().unwrap();
        std::fs::write(path("contexts"), "(/.*)? u:r:t:s0\n").unwrap();
        for (program, line, refusal) in EXAMPLES {
            if program == "fsck.erofs" {
                // It needs an image first.
                continue;
            }
            let line = line.replace("IMAGE", &path("image")).replace("FILE", &path("contexts"));
            let told = told(program, line.split(' ').map(OsString::from).collect());
            assert!(told.contains(refusal.why), "{program} {line}: {told}");
        }
        for personality in PERSONALITIES {
            for refusal in personality.refusals {
                // sqfstar shares the code of mksquashfs, and sqfscat that of unsquashfs.
                let is_tried = |(_, _, tried): &(&str, &str, &RefusedOption)| std::ptr::eq(*tried, *refusal);
                assert!(EXAMPLES.iter().any(is_tried), "{} {}: no example", personality.name, refusal.what);
            }
        }
    }

    #[test]
    fn every_refused_option_is_told_with_its_reason() {
        for personality in PERSONALITIES {
            #[allow(irrefutable_let_patterns, reason = "without the feature `mount` there is one variant")]
            let CommandHandler::Translate(_, table) = &personality.run else { continue };
            for option in *table {
                let OptionEffect::Refused(why) = option.does else { continue };
                let words = match option.takes {
                    OptionValues::Nothing | OptionValues::Optional => vec![option.names[0].into()],
                    _ => vec![option.names[0].into(), "x".into()],
                };
                let told = told(personality.name, words);
                assert_eq!(told, format!("{}: {why}", option.names[0]), "{}", personality.name);
            }
        }
    }
}
