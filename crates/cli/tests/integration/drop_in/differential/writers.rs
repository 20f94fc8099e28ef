//! mksquashfs, sqfstar, tar2sqfs, gensquashfs and mkfs.erofs: both images are mounted and compared, and with them what
//! their superblocks say of the options.

use std::path::Path;
use std::process::Output;

use super::lines::{Grammar, Judged, Line, run, same, same_status};
use super::{lines, site, tree};
use crate::common::program::text;

pub(crate) static MKSQUASHFS: Grammar = Grammar {
    program: "mksquashfs",
    operands: &[
        "t IMAGE",
        "t IMAGE",
        "t IMAGE",
        "t/ IMAGE",
        "t u IMAGE",
        "t single IMAGE",
        "single IMAGE",
        "t/etc/link IMAGE",
        "t/usr/dangling t/var/fifo t/dev/null t/var/socket IMAGE",
        "t t/etc u/hard u/new IMAGE",
        "- IMAGE -cpiostyle",
        "./t/usr u/new t/etc IMAGE",
        "u/new/two t/usr/bin u/etc/hostname IMAGE",
    ],
    options: &[
        &[
            "-comp gzip",
            "-comp gzip -Xcompression-level 1",
            "-comp gzip -Xwindow-size 10 -Xstrategy default,huffman_only",
            "-comp xz",
            "-comp xz -Xbcj x86,arm -Xdict-size 50%",
            "-comp xz -Xdict-size 8K",
            "-comp zstd",
            "-comp zstd -Xcompression-level 3",
            "-comp lzo -Xalgorithm lzo1x_1",
            "-comp lzo -Xcompression-level 4",
            "-comp lz4",
            "-comp lz4 -Xhc",
            "-Xcompression-level 3",
            "-no-compression",
            "-noD -noF",
        ],
        &["-b 4K", "-b 16384", "-b 1M", "-b 256Kbytes", "-b 3000"],
        &["-noI", "-noId", "-noX", "-noInodeCompression -noIdTableCompression", "-noXattrCompression"],
        &["-no-exports", "-exports"],
        &["-no-sparse"],
        &["-tailends", "-always-use-fragments", "-no-tailends", "-no-fragments"],
        &["-no-duplicates"],
        &["-no-hardlinks"],
        &["-keep-as-directory", "-no-strip"],
        &["-mkfs-time 1234567890", "-fstime 7", "-mkfs-time inode", "-repro", "-repro", "-mkfs-time x"],
        &["-all-time 1000000000", "-inode-time 5"],
        &["-root-time 1000000001", "-root-time 2001-09-09"],
        &[
            "-all-root",
            "-root-owned",
            "-force-uid 5",
            "-force-gid 6",
            "-force-uid 4000000000 -force-gid root",
            "-force-uid nosuch",
        ],
        &["-root-mode 0711", "-root-mode 0700", "-root-mode 4755", "-root-mode u=rwx,go-w", "-default-mode a-x,u+rwx"],
        &["-root-uid 11", "-root-gid 12", "-root-uid root -root-gid 13"],
        &["-force-file-mode 0640", "-force-file-mode u+x,g-r", "-force-file-mode a=r", "-force-file-mode u=rwX,go=u-w"],
        &["-force-dir-mode 0700", "-force-dir-mode go-rx", "-force-dir-mode o=u"],
        &["-uid-gid-offset 1000"],
        &[
            "-p /added~d~755~3~4",
            "-p /added~d~0711~root~root -p added/null~c~666~0~0~1~3",
            "-p etc/motd~m~640~9~9",
            "-p etc/nosuch~m~640~9~9",
            "-p etc~d~711~5~6 -p /dev/null~c~600~1~1~5~1",
            "-p etc/motd~s~777~0~0~x -p usr~d~700~3~3",
            "-p new/link~s~777~0~0~x -p new~d~700~3~3",
            "-p usr~m~u=rwx,go=~1~2",
            "-p /lnk~s~777~0~0~some/where",
            "-p /pipe~i~600~1~1~f",
            "-p /sock~i~600~1~1~s",
            "-p /dated~D~1000000000~755~0~0",
            "-p /dated~D~\"1~jan~1980\"~755~0~0 -p /late~S~2001-09-09~777~0~0~x",
            "-p etc/motd~M~\"9~sep~2001\"~640~9~9",
            "-p /~m~700~9~9",
            "-p /~d~700~9~9",
            "-p /~x~user.root=1",
            "-p /etc/x~x~user.p=q",
            "-p /disk~b~660~0~6~8~300",
            "-p /hard~d~711~5~6",
            "-pf pseudo",
        ],
        &["-pseudo-override"],
        &["-pd d~711~3~4 -p /one/two/three~d~700~0~0"],
        &["-max-depth 1", "-max-depth 2", "-max-depth 3"],
        &["-one-file-system", "-one-file-system-x"],
        &[
            "-no-xattrs",
            "-xattrs",
            "-xattrs-exclude ^user.",
            "-xattrs-include ^user.",
            "-xattrs-exclude ^trusted\\.",
            "-xattrs-exclude ^user. -xattrs-exclude ^trusted.",
            "-xattrs-add user.z=1",
            "-xattrs-add trusted.z=0x0102",
        ],
        &["-sort order"],
        &["-quiet", "-info", "-no-progress", "-percentage", "-progress"],
        &["-processors 1", "-processors 2", "-mem 256M", "-mem-percent 20", "-single-reader", "-small-readers 2"],
        &["-reproducible", "-not-reproducible", "-exit-on-error", "-no-recovery", "-throttle 1", "-limit 99"],
        &["-noappend"],
        &["-nopad"],
        &["-offset 4096", "-o 8K", "-offset 100"],
        &[
            "-action exclude@name(*.o)",
            "-action chmod(u+x)@type(f)~&&~filesize(<100)",
            "-action uid(77)@subpathname(usr)",
            "-action guid(7,8)@depth(2)",
            "-action uncompressed@name(text)",
            "-action no-fragments@filesize(<1k)",
            "-action xattrs-add(user.act=1)@name(motd)",
            "-action exclude@!type(d)&&!type(f)",
            "-action prune@name(share)&&type(d)",
            "-action exclude@filesize(>=1k)&&!filesize_range(4K,1M)",
            "-action uid(79)@depth_range(2,3)&&user(root)&&depth(<=2)",
            "-action tailend@filesize(>4K)",
            "-action no-tailend@type(f) -action align(512)@type(f)",
            "-action fragments@name(text)",
            "-action gid(78)@name(x)||name(text)&&type(f)||name(etc)",
        ],
        &[
            "-e usr/share",
            "-e var/log usr/bin/x nosuch",
            "-e ./t/usr/bin",
            "-e usr//share/doc ./t/etc/../var",
            "-e etc/link nosuch",
            "-wildcards -e usr/*/x",
            "-wildcards -e ...~*.log",
            "-wildcards -e var/[az]* usr/b?n",
            "-regex -e ^usr$/sh.*",
            "-regex -e ...~.*[.]o$",
            "-ef left-out",
            "-ef left-out -e dev",
        ],
    ],
};

pub(crate) static SQFSTAR: Grammar = Grammar {
    program: "sqfstar",
    operands: &["IMAGE", "IMAGE", "IMAGE etc/ssl var/nothing", "IMAGE usr/share nosuch"],
    options: &[
        &[
            "-comp gzip",
            "-comp xz",
            "-comp zstd -Xcompression-level 2",
            "-comp lzo",
            "-comp lz4 -Xhc",
            "-no-compression",
        ],
        &["-b 4K", "-b 1M"],
        &["-noI", "-noX", "-noI -noD -noF -noX"],
        &["-exports"],
        &["-no-fragments", "-no-tailends"],
        &["-no-duplicates"],
        &["-mkfs-time 1234567890", "-fstime 7", "-repro"],
        &["-root-time 1000000001"],
        &["-all-root", "-force-uid 5", "-force-gid 6", "-force-uid 5 -force-gid root"],
        &["-root-mode 0711", "-root-uid 11", "-root-gid 12"],
        &["-force-file-mode 0640", "-force-dir-mode 0700", "-force-file-mode go-rwx"],
        &["-uid-gid-offset 1000"],
        &["-p /added~d~755~3~4", "-p /added~d~0711~root~root -p added/null~c~666~0~0~1~3", "-pf pseudo"],
        &["-default-mode 0700", "-default-mode g-w,o=", "-default-uid 5", "-default-gid 6"],
        &["-numeric-owner"],
        &["-no-xattrs", "-xattrs-exclude ^user.", "-xattrs-include ^user."],
        &["-quiet", "-info", "-no-progress", "-percentage"],
        &["-processors 1", "-mem 256M", "-reproducible", "-exit-on-error"],
        &["-nopad"],
        &["-offset 4096"],
    ],
};

pub(crate) static TAR2SQFS: Grammar = Grammar {
    program: "tar2sqfs",
    operands: &["IMAGE"],
    options: &[
        &[
            "-c gzip",
            "-c gzip -X level=4,window=12",
            "-c xz -X level=2",
            "--compressor=xz --comp-extra=dictsize=65536,x86",
            "-c zstd -X level=3",
            "-c lzo",
            "-c lz4 -X hc",
            "-clz4",
        ],
        &["-b 4096", "-b 65536", "--block-size=1M", "-b 128K"],
        &["-B 1024", "--dev-block-size 4096"],
        &["-d mode=0700", "-d uid=5,gid=6", "--defaults=mtime=7"],
        &["-x", "--no-xattr"],
        &["-k", "--no-keep-time"],
        &["-e", "--exportable"],
        &["-T", "--no-tail-packing"],
        &["-q", "--quiet"],
        &["-s", "--no-skip"],
        &["-j 1", "-j2", "--num-jobs=3 -Q 20"],
        &["-f", "--force"],
    ],
};

pub(crate) static GENSQUASHFS: Grammar = Grammar {
    program: "gensquashfs",
    operands: &["IMAGE"],
    options: &[
        &["-c gzip", "-c xz -X level=2", "-c zstd -X level=3", "-c lzo", "-c lz4 -X hc", "-clz4"],
        &["-b 4096", "-b 65536", "--block-size=1M"],
        // A loop device cannot serve the last blocks of an image padded to less than a page.
        &["-B 4096"],
        &["-D t", "--pack-dir=t", "-F list", "--pack-file list"],
        &["-d mode=0700", "-d uid=5,gid=6", "--defaults=mtime=7", "-d mode=0750,uid=1,gid=2,mtime=3"],
        &["-u 5", "-g 6", "--all-root", "--set-uid=7 --set-gid=8"],
        &["-k", "--keep-time"],
        &["-x", "--keep-xattr"],
        &["-o", "--one-file-system"],
        &["-e", "--exportable"],
        &["-T", "--no-tail-packing"],
        &["-q", "--quiet"],
        &["-j 1", "--num-jobs=3 -Q 20"],
        &["-S sorted", "--sort-file=sorted"],
        &["-A attributes"],
        &["-s labels"],
        &["-f", "--force"],
    ],
};

pub(crate) static MKFS_EROFS: Grammar = Grammar {
    program: "mkfs.erofs",
    operands: &[
        "IMAGE t",
        "IMAGE t",
        "IMAGE t/",
        "--tar=f IMAGE t.tar",
        "--tar=f --ungzip IMAGE t.tar.gz",
        "--tar IMAGE names.tar",
    ],
    options: &[
        &[
            "-zlz4",
            "-zlz4hc,12",
            "-z lz4hc,level=3",
            "-zlzma",
            "-zlzma,level=1,dictsize=65536",
            "-zdeflate,4",
            "-zlibdeflate,9",
            "-zzstd,level=3",
            "-zlz4:zstd",
            "-z lzma,109",
        ],
        &["-C65536", "-C 16384", "-C1048576"],
        &["-b1024", "-b4096", "-b 512"],
        &["-x-1", "-x 1", "-x0", "-x 100"],
        &[
            "-Efragments",
            "-Eall-fragments",
            "-Efragments,dedupe",
            "-E ztailpacking",
            "-Ededupe",
            "-Eall-fragments,fragdedupe=inode",
            "-Efragments=65536",
            "-Elegacy-compress",
        ],
        &[
            "-Enoinline_data",
            "-E^inline_data",
            "-Eforce-inode-extended",
            "-Eforce-inode-compact",
            "-Enosbcrc",
            "-E48bit",
            "-Edot-omitted,48bit",
            "-E48bit,legacy-compress",
            "-Eforce-inode-extended,force-inode-compact",
            "-Efragments,^all-fragments",
            "-Efragdedupe,^fragdedupe",
            "-Exattr-name-filter",
            "-Eforce-chunk-indexes --chunksize=4096",
        ],
        &["-Llabel", "-L root-fs"],
        &[
            "-T0",
            "-T 1600000000",
            "-T 5 --mkfs-time",
            "-T5 --all-time",
            "--ignore-mtime -T7",
            "--mkfs-time -T 9 --preserve-mtime",
        ],
        &["-U 00000000-0000-0000-0000-000000000001", "-Uclear", "-U 12345678-1234-1234-1234-123456789abc"],
        &["--all-root", "--force-uid=5", "--force-gid=6", "--force-uid=4000000000 --force-gid=7"],
        &["--uid-offset=1000", "--gid-offset=2000", "--uid-offset=1 --gid-offset=1"],
        &["--exclude-path=usr/share", "--exclude-path=var/log --exclude-path=nosuch"],
        &["--exclude-regex=^usr/share", "--exclude-regex=.*\\.o$", "--exclude-regex=log"],
        &["--file-contexts=contexts"],
        &["--hard-dereference"],
        &["--chunksize=4096", "--chunksize=65536"],
        &["--quiet", "-d0", "-d 9"],
        &["--workers=1", "--workers=2", "--async-queue-limit=16"],
        &["--sort=none", "--sort=path"],
        &["--xattr-prefix=user.lo"],
        &["--aufs"],
        &["--compress-hints=hints"],
        &["-m4096", "--zD", "--MZ", "--MZ=0"],
        &["--max-extent-bytes=65536", "--max-extent-bytes=12288", "--max-extent-bytes=5000"],
        &["--ovlfs-strip=0", "--ovlfs-strip=1"],
        &["--clean=data", "--clean", "--clean=0", "--clean=rvsp"],
        &["--zfeature-bits=6", "--zfeature-bits=0x50", "--zfeature-bits=1"],
        &["--mount-point=/system", "--mount-point /"],
    ],
};

/// Files that the lines above name, besides those of the site.
const LISTS: &str = "
    printf 'dir /dev 0755 0 0\\nnod /dev/null 0666 0 0 c 1 3\\nnod /dev/sd 0660 0 6 b 8 17\\nslink /link 0777 0 0 dev/null\\n' > t/list
    printf 'file /etc/motd 0600 7 8 usr/bin/x\\nfile /a/b/c 04755 1 1 etc/motd\\npipe /p 0600 1 2\\nsock /s 0644 3 4\\n' >> t/list
    printf 'file /etc/hostname 0644 0 0\\ndir \"/with space\" 0711 9 9\\n' >> t/list; cp t/list list; rm t/list
    mkdir -p usr/bin etc; cp -a t/usr/bin/x usr/bin/x; cp -a t/etc/motd t/etc/hostname etc
    printf -- '-50 [glob] usr/bin/*\\n-10 [glob_no_path,dont_compress] usr/*.o\\n7 [dont_fragment] etc/motd\\n' > sorted
    printf '# file: etc/\\nuser.x=\"y\"\\n\\n# file: etc/motd\\nuser.z=0x4142\\n' > attributes
    printf '/.*\\tu:r:t:s0\\n/etc/.* -- u:r:e:s0\\n/etc/motd\\tu:r:m:s0\\n/usr -d u:r:d:s0\\n' > contexts
    find u ./t/etc ../$(basename $PWD)/t/var/small single > names; find ./u single t/dev -print0 > names0
    sed 's,^/,/,' contexts > labels; printf '4096 \\.o$\\n65536 ^usr/share\\n' > hints
";

/// Makes the site of a writer.
pub(crate) fn make(dir: &Path, program: &str) {
    site::make(dir, &[program]);
    crate::common::program::sh(dir, LISTS);
}

/// Returns true for lines for which the programs are known to differ.
fn left_out(program: &str, line: &Line) -> bool {
    let pseudo = ["-p ", "-pd ", "-pf "].iter().any(|option| line.has(option));
    match program {
        // Of a list, version 1.2 reads no attributes from a file.
        "gensquashfs" => line.has("-A") && (line.has("-F") || line.has("--pack-file")),
        // It leaves nothing out of archives, neither files nor attributes, and does not shift owners of directories that
        // they lack.
        "mkfs.erofs" => {
            let of_sources =
                ["--exclude", "--uid-offset", "--gid-offset", "-x-1"].iter().any(|option| line.has(option));
            // 1.9.4 ends by a signal.
            let crashes = line.has("--compress-hints") && line.has("-C1048576");
            // It refuses clusters of the packed inode that are larger than others.
            let large = line.has("-Efragments=65536") && !line.has("-C65536") && !line.has("-C1048576");
            of_sources && line.operands.starts_with("--tar") || crashes || large && line.has("-z")
        }
        // Neither actions nor depths reach the entries of pseudo definitions, which have the time of the run.
        "mksquashfs" | "sqfstar" => {
            let others = ["-action", "-max-depth", "-mkfs-time", "-fstime", "-repro"];
            // Sorted files that are not there end it if errors do, and are a warning here.
            line.has("-sort") && line.has("-exit-on-error")
                // Directories of its own lead to entries that are not there.
                || line.has("-pd") && (line.has("-pf") || line.has("-p /etc/x"))
                || line.has("-pd") && line.has("-pseudo-override")
                // Directories of definitions that no source has are made here.
                || (line.has("-p etc/motd~s") || line.has("-p etc~d")) && !line.operands.starts_with("t IMAGE")
                || pseudo && others.iter().any(|option| line.has(option))
                // There, names to leave out are those of sources, and the source is standard input.
                || line.operands.contains("-cpiostyle") && ["-e ", "-ef "].iter().any(|option| line.has(option))
        }
        _ => false,
    }
}

/// Compares what both programs make of a line.
pub(crate) fn judge(dir: &Path, program: &str, line: &Line) -> Judged {
    if left_out(program, line) {
        return Ok(());
    }
    site::clear(dir, &["theirs", "ours"]);
    let theirs = run_line(dir, Path::new(program), program, line, "theirs");
    let ours = ours(dir, program, line);
    same_status(&theirs, &ours)?;
    if !theirs.status.success() {
        return Ok(());
    }
    if line.has("-percentage") && program == "mksquashfs" {
        // A summary follows there.
        let last = |printed: &[u8]| text(printed).lines().rfind(|line| line.parse::<u32>().is_ok()).map(str::to_owned);
        same("percentage", &last(&theirs.stdout).unwrap_or_default(), &last(&ours.stdout).unwrap_or_default())?;
    }
    // It tells the attributes of a file even so.
    if (line.has("-quiet") || line.has("--quiet") || line.has("-q")) && !line.has("-A") {
        same("standard output", &lines::without_bar(&theirs.stdout), &lines::without_bar(&ours.stdout))?;
    }
    compare_images(dir, program, line)
}

/// Compares packfs's image of a line for which mkfs.erofs has a defect with mkfs.erofs's image of another line.
pub(crate) fn judge_instead(dir: &Path, line: &Line, other: &str) -> Judged {
    site::clear(dir, &["theirs", "ours"]);
    let theirs = run(dir, "mkfs.erofs", &other.replace("IMAGE", "theirs"), None);
    let ours = run(dir, dir.join("mkfs.erofs"), &line.options_first().replace("IMAGE", "ours"), None);
    same_status(&theirs, &ours)?;
    compare_images(dir, "mkfs.erofs", line)
}

/// Runs packfs under the name of a program.
pub(crate) fn ours(dir: &Path, program: &str, line: &Line) -> Output {
    run_line(dir, &dir.join(program), program, line, "ours")
}

fn run_line(dir: &Path, started: &Path, program: &str, line: &Line, image: &str) -> Output {
    let words = match program {
        "mksquashfs" => line.operands_first(),
        _ => line.options_first(),
    };
    let site = dir.file_name().unwrap().to_str().unwrap();
    let words = words.replace("IMAGE", image).replace("SITE", site);
    let stdin = match program {
        "sqfstar" | "tar2sqfs" => Some("t.tar"),
        "mksquashfs" if words.contains("-cpiostyle0") => Some("names0"),
        "mksquashfs" if words.contains("-cpiostyle") => Some("names"),
        _ => None,
    };
    run(dir, started, &words, stdin)
}

fn compare_images(dir: &Path, program: &str, line: &Line) -> Judged {
    let offset = match () {
        () if line.has("-offset 4096") || line.has("--offset=4096") => 4096,
        () if line.has("-o 8K") => 8192,
        () => 0,
    };
    if line.has("-offset 100") {
        return Ok(());
    }
    let option = if offset > 0 { format!(",offset={offset}") } else { String::new() };
    let [theirs, ours] = ["theirs", "ours"].map(|image| tree::mounted(&dir.join(image), &option));
    let (theirs, ours) = match (theirs, ours) {
        (Ok(theirs), Ok(ours)) => (theirs, ours),
        (Err(_), Err(_)) => return Ok(()),
        (theirs, ours) => {
            let whole = |tree: Result<String, String>| tree.map_or_else(|why| why, |_| "mounted\n".into());
            return same("mounting", &whole(theirs), &whole(ours));
        }
    };
    // gensquashfs before 1.3 does not know hard links, and gives the root of a directory the default attributes.
    let unlinked = |tree: String| {
        let lines = tree.lines().filter(|entry| line.has("-d ") || line.has("--defaults") || !entry.starts_with("/ "));
        match program {
            "gensquashfs" => {
                lines.map(|line| line.split(" 2 links").next().unwrap_or(line).to_owned() + "\n").collect()
            }
            _ => tree,
        }
    };
    // The root of a run in which the image is to be the same each time has no time of its own here.
    let rootless = |tree: String| match line.has("-repro") || line.has("-mkfs-time inode") {
        true => tree.lines().filter(|entry| !entry.starts_with("/ ")).flat_map(|entry| [entry, "\n"]).collect(),
        false => tree,
    };
    same("trees", &rootless(unlinked(theirs)), &rootless(unlinked(ours)))
}
