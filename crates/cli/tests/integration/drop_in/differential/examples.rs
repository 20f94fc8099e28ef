//! The command lines that the manuals of the programs show as examples, with files of the site for theirs.
//!
//! Each is given to both programs. A line that packfs refuses has the beginning of the reason, which is also that of
//! docs/guide/drop-in.md.

/// A command line, and why packfs refuses it; empty if it does the same. `~` is a blank within a word.
pub(crate) type ManualExample = (&'static str, &'static str);

const COMMANDS: &str = "a pack list never runs commands";
const EXTENDED: &str = "packfs has no extended patterns";

pub(crate) static MKSQUASHFS: &[ManualExample] = &[
    ("t IMAGE", ""),
    ("t IMAGE -b 1M -comp zstd", ""),
    ("t u single IMAGE", ""),
    ("u single t/etc/hostname t/etc/link IMAGE", ""),
    ("t u IMAGE -e usr/bin ./t/var new/two", ""),
    ("t IMAGE -e etc/motd usr/bin/x", ""),
    ("t IMAGE -wildcards -e *.log", ""),
    ("t IMAGE -wildcards -e ...~*.log", ""),
    ("t IMAGE -wildcards -e etc/*.pem", ""),
    ("t IMAGE -wildcards -e */[Ss]hare/d*", ""),
    ("t IMAGE -wildcards -e ...~[Ll]og/*.log", ""),
    ("t IMAGE -wildcards -e etc/!(*motd*)", EXTENDED),
    ("t IMAGE -wildcards -e ...~!(*motd*).o", EXTENDED),
    ("t/etc/hostname u/new/two IMAGE -no-strip", ""),
    ("t/etc/ssl IMAGE -tarstyle", ""),
    ("../SITE/t IMAGE -no-strip", ""),
    ("u IMAGE -keep-as-directory", ""),
    ("t IMAGE -all-time now", ""),
    ("t u IMAGE -mkfs-time 0 -root-time 0", ""),
    ("t IMAGE -force-uid daemon -force-gid daemon", ""),
    ("t IMAGE -force-file-mode 0666", ""),
    ("t IMAGE -force-file-mode ugo+r,go-w", ""),
    ("t IMAGE -force-file-mode go-w,u+rw", ""),
    ("t IMAGE -force-dir-mode 0700", ""),
    ("t IMAGE -no-xattrs", ""),
    ("t IMAGE -xattrs-exclude ^user.", ""),
    ("t IMAGE -xattrs-include ^user.", ""),
    ("t IMAGE -xattrs-exclude ^user. -xattrs-exclude ^trusted.", ""),
    ("t IMAGE -xattrs-add user.comment=hello~world", ""),
    ("t IMAGE -xattrs-add user.comment=0saGVsbG8Ad29ybGQ=", ""),
    ("t IMAGE -xattrs-add user.comment=0saGVsbG8gd29ybGQ=", ""),
    ("t IMAGE -xattrs-add user.comment=0thello~world\\012", ""),
    ("t IMAGE -xattrs-add user.comment=0thello\\000world", ""),
    ("t IMAGE -xattrs-add user.comment=0x68656c6c6f00776f726c64", ""),
    ("t IMAGE -p build_dir~d~0644~0~0", ""),
    ("t IMAGE -p date.txt~f~0644~0~0~date", COMMANDS),
    ("t IMAGE -p \"hello~world\"~f~0644~0~0~date", COMMANDS),
    ("- IMAGE -p input~f~0644~root~root~echo -p /~d~0644~0~0", COMMANDS),
    ("- IMAGE -pd d~0777~0~0 -p /dir1/dir2/file~f~0777~0~0~echo~hello~world", "the source is -"),
    ("- IMAGE -p /~d~0777~0~0 -p /dir1~d~0777~0~0", ""),
    ("t IMAGE -p etc/motd~x~user.comment=0tsalve~mundi\\012", ""),
    ("t IMAGE -p version.txt~l~single", ""),
    ("t IMAGE -p file~D~\"1~jan~1980\"~0777~daemon~daemon", ""),
    ("t IMAGE -p file~D~1\\~jan\\~1980~0777~daemon~daemon", ""),
    ("t IMAGE -p etc/motd~M~\"1~jan~1980\"~0600~daemon~daemon", ""),
    ("t IMAGE -p link~S~\"2001-09-09~01:46:40~UTC\"~0777~root~root~some~where", ""),
    ("t IMAGE -p null~C~@5~0666~root~root~1~3 -p pipe~I~now~0600~0~0~f", ""),
    ("t IMAGE -pd D~\"1~jan~1980\"~0711~3~4 -p /one/two~d~0700~0~0", ""),
    ("t IMAGE -action exclude~@~depth(3)", ""),
    ("t IMAGE -action uncompressed~@~(name(*.o)~||~name(text)~)~||~(name(*.img)~&&~filesize(>=1G))", ""),
    ("t IMAGE -action align(4K)@filesize(>=128K)", ""),
    ("t IMAGE -action align(512)@true", ""),
    ("t IMAGE -action uncompressed@name(\"a~b\")", ""),
    ("t IMAGE -action compressed()@name(\"a~b\")", ""),
    ("t IMAGE -action prune~@~type(l)~&&~!~exists", "packfs has no such test"),
    ("t IMAGE -action chmod(o+r)@!~perm(o+r)", "packfs has no such test"),
    ("t IMAGE -action align(4K)@user(root)~&&~type(f)~&&~perm(/ugo=x)", "packfs has no such test"),
    ("t IMAGE -action fragment(cfiles)~@~name(*.[ch])", "packfs has one sequence"),
    ("t IMAGE -action -xattrs-include(^user.)~@~type(f)", "packfs has no such action"),
    ("- IMAGE -cpiostyle", ""),
    ("- IMAGE -cpiostyle0", ""),
    ("t IMAGE -recover squashfs_recovery_image.sqsh_1234", "there is nothing to recover"),
];

pub(crate) static SQFSTAR: &[ManualExample] = &[
    ("IMAGE", ""),
    ("-b 1M -comp zstd IMAGE", ""),
    ("-comp xz -b 1M IMAGE", ""),
    ("-root-mode 0755 IMAGE", ""),
    ("-root-uid 0 -root-gid 0 IMAGE", ""),
    ("-force-uid daemon -force-gid daemon IMAGE", ""),
    ("-force-file-mode ugo+r,go-w IMAGE", ""),
    ("-force-file-mode 0666 IMAGE", ""),
    ("-force-dir-mode 0700 IMAGE", ""),
    ("-mkfs-time 0 -root-time 0 IMAGE", ""),
    ("IMAGE etc/motd usr/bin/x", ""),
    ("-xattrs-add user.comment=0saGVsbG8gd29ybGQ= IMAGE", ""),
    ("-xattrs-add user.comment=0thello\\000world IMAGE", ""),
    ("-xattrs-add user.comment=0x68656c6c6f20776f726c64 IMAGE", ""),
    ("-p build_dir~d~0644~0~0 IMAGE", ""),
    ("-p /dir1~d~0777~0~0 -p /dir1/dir2~d~0777~0~0 IMAGE", ""),
    ("-p file~D~\"1~jan~1980\"~0777~daemon~daemon IMAGE", ""),
    ("-p version.txt~l~single IMAGE", ""),
    ("-force -p date.txt~f~0644~0~0~date IMAGE", COMMANDS),
];

pub(crate) static TAR2SQFS: &[ManualExample] = &[("IMAGE", "")];

pub(crate) static UNSQUASHFS: &[ManualExample] = &[
    ("a.sqfs", ""),
    ("-d to a.sqfs", ""),
    ("-d to -f a.sqfs", ""),
    ("-lls a.sqfs", ""),
    ("-d  -lls a.sqfs", ""),
    ("-max 2 a.sqfs", ""),
    ("a.sqfs [Uu]sr/share*", ""),
    ("a.sqfs etc/!(*motd*)", EXTENDED),
    ("a.sqfs etc/motd usr/bin/x var/small", ""),
    ("-excludes a.sqfs etc usr/bin/x", ""),
    ("-exclude-list etc/motd usr/bin/x ; a.sqfs", ""),
    ("-exclude-list etc/ssl/a.pem usr/bin/x ; a.sqfs etc usr", ""),
    ("-xattrs-exclude ^user. -xattrs-exclude ^trusted. a.sqfs", ""),
];

pub(crate) static SQFSCAT: &[ManualExample] =
    &[("a.sqfs etc/motd", ""), ("a.sqfs etc/motd etc/hostname", ""), ("a.sqfs etc/h*", ""), ("a.sqfs etc usr", "")];

pub(crate) static SQFS2TAR: &[ManualExample] = &[("a.sqfs", ""), ("--compressor gzip a.sqfs", "")];
