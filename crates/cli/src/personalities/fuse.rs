//! squashfuse, squashfuse_ll and erofsfuse: programs that mount one image, called by apptainer, enroot and others.

use std::ffi::{OsStr, OsString};
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use packfs_image::name::display;

use crate::args::{MountArgs, MountOptionList, RemoteArgs};
use crate::commands::mount;
use crate::output::failure::{self, CommandOutcome};
use crate::output::{say, try_to_say};

/// Exit status of wrong usage, which callers know.
const USAGE: u8 = 254;

/// Options of libfuse that mean nothing here or are what happens anyway; those that end with `=` have values.
const IGNORED: [&str; 22] = [
    "async_read",
    "attr_timeout=",
    "auto_cache",
    "auto_unmount",
    "big_writes",
    "clone_fd",
    "debug",
    "entry_timeout=",
    "fsname=",
    "kernel_cache",
    "max_background=",
    "max_idle_threads=",
    "max_read=",
    "max_readahead=",
    "max_threads=",
    "negative_timeout=",
    "noatime",
    "nonempty",
    "relatime",
    "rw",
    "subtype=",
    "use_ino",
];

/// A command line of one of these programs.
#[derive(Debug, Default, PartialEq, Eq)]
struct FuseOptions {
    options: MountOptionList,
    foreground: bool,
    single_thread: bool,
    devices: Vec<PathBuf>,
    notify: Option<PathBuf>,
    paths: Vec<PathBuf>,
    help: bool,
    version: bool,
}

pub(super) fn run(name: &str, args: Vec<OsString>) -> ExitCode {
    let options = match parse(args) {
        Ok(options) => options,
        Err(why) => {
            say(format_args!("{name}: {why}"));
            return usage(name);
        }
    };
    if options.help {
        return usage(name);
    }
    if options.version {
        // Callers look for the program's own name, where these programs print it.
        let told = try_to_say(format_args!("{name}, by packfs {}", env!("CARGO_PKG_VERSION")));
        return failure::report_outcome(
            told.map(|()| CommandOutcome::Done).map_err(Into::into),
            &failure::ExitPolicy::default(),
        );
    }
    let [image, dir] = options.paths.as_slice() else { return usage(name) };
    let args = MountArgs {
        images: vec![image.clone()],
        dir: dir.clone(),
        options: vec![options.options],
        device: options.devices,
        foreground: options.foreground,
        ready_fd: None,
        cache: None,
        threads: options.single_thread.then_some(1),
        trace: None,
        log: None,
        remote: RemoteArgs::default(),
    };
    // Only after the mount: a caller waits on the pipe before it starts what uses the directory.
    let ready = options.notify.clone();
    let result = mount::run_then(&args, move || ready.as_deref().map_or(Ok(()), |pipe| notify(pipe, b's')));
    if result.is_err()
        && let Some(pipe) = &options.notify
    // A caller that waits would wait for ever.
    {
        // The error of the mount is the one to report.
        let _ = notify(pipe, b'f');
    }
    failure::report_outcome(result, &failure::ExitPolicy::default())
}

/// Tells success or failure through a named pipe.
fn notify(pipe: &Path, what: u8) -> anyhow::Result<()> {
    // A regular file of this name would be overwritten.
    if !pipe.metadata()?.file_type().is_fifo() {
        anyhow::bail!("{}: not a named pipe", display(pipe));
    }
    Ok(OpenOptions::new().write(true).open(pipe)?.write_all(&[what])?)
}

fn usage(name: &str) -> ExitCode {
    let squashfuse = "  -o notify_pipe=PATH  write `s` to this named pipe when it is mounted, `f` when that failed\n";
    let erofsfuse =
        "  --offset=N           the image begins N bytes into the file\n  --device=FILE        an additional device\n";
    say(format_args!(
        "usage: {name} [OPTIONS] IMAGE DIR

Mounts an image by FUSE; this is packfs {} under another name, see packfs mount --help.

  -f                   stay in the foreground
  -s                   serve with one thread
  -o uid=N             all files belong to this user
  -o gid=N             all files belong to this group
  -o offset=N          the image begins N bytes into the file
  -o subdir=PATH       show this directory of the image
  -o timeout=N         unmount after N seconds without use
  -o allow_other       all users may look in
{}  -V, --version        print the version
  -h, --help           print this",
        env!("CARGO_PKG_VERSION"),
        if name == "erofsfuse" { erofsfuse } else { squashfuse },
    ));
    ExitCode::from(USAGE)
}

fn parse(args: Vec<OsString>) -> Result<FuseOptions, String> {
    let mut options = FuseOptions::default();
    let mut args = args.into_iter();
    while let Some(arg) = args.next() {
        let text = arg.to_str().unwrap_or_default();
        match text {
            // As in libfuse, `-d` implies `-f`.
            "-f" | "-d" => options.foreground = true,
            "-s" => options.single_thread = true,
            "-h" | "--help" => options.help = true,
            "-V" | "--version" => options.version = true,
            "-o" => {
                let list = args.next().ok_or("-o needs options")?;
                options.take_list(&list)?;
            }
            "--" => options.paths.extend(args.by_ref().map(PathBuf::from)),
            _ if text.starts_with("-o") => options.take_list(OsStr::new(&text[2..]))?,
            // As `-o offset=N`, which squashfuse has.
            _ if text.starts_with("--offset=") => options.take_list(OsStr::new(&text[2..]))?,
            _ if text.starts_with("--device=") => options.devices.push(text["--device=".len()..].into()),
            _ if text.starts_with("--dbglevel=") => {}
            _ if text.starts_with('-') && text.len() > 1 => return Err(format!("unknown option {text}")),
            _ => options.paths.push(arg.into()),
        }
    }
    Ok(options)
}

impl FuseOptions {
    fn take_list(&mut self, list: &OsStr) -> Result<(), String> {
        let list = list.to_str().ok_or("options that are not UTF-8")?;
        for word in list.split(',').filter(|word| !word.is_empty()) {
            // With its `=`, as the list has it for those that take a value.
            let name = word.find('=').map_or(word, |equals| &word[..=equals]);
            match (name, word.split_once('=')) {
                // 0 is what the image says.
                ("uid=" | "gid=" | "timeout=", Some((_, "0"))) => {}
                ("notify_pipe=", Some((_, pipe))) => self.notify = Some(pipe.into()),
                _ if IGNORED.contains(&name) => self.foreground |= name == "debug",
                _ if self.options.take(word)? => {}
                _ => return Err(format!("unknown option -o {word}")),
            }
        }
        // As these programs do: permissions are checked when that is asked for.
        self.options.default_permissions.get_or_insert(false);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::MountOffset;

    fn parsed(line: &str) -> Result<FuseOptions, String> {
        parse(line.split(' ').map(OsString::from).collect())
    }

    #[test]
    fn the_command_lines_of_callers_are_understood() {
        let apptainer =
            parsed("-f -o allow_other,ro,uid=1000,gid=1001,offset=40960 /proc/self/fd/3 /dev/fd/7").unwrap();
        assert_eq!(apptainer.paths, [Path::new("/proc/self/fd/3"), Path::new("/dev/fd/7")]);
        assert!(apptainer.foreground && apptainer.options.allow_other);
        let MountOptionList { uid, gid, offset, default_permissions, .. } = apptainer.options;
        assert_eq!((uid, gid, offset), (Some(1000), Some(1001), Some(MountOffset::At(40960))));
        assert_eq!(default_permissions, Some(false));
        let enroot = parsed("-f -o uid=0,gid=0 image.sqsh /tmp/root").unwrap();
        assert_eq!((enroot.options.uid, enroot.options.gid), (None, None));
        let erofs = parsed("--offset=4096 --device=blob --dbglevel=3 -oro,nonempty -s a.erofs m").unwrap();
        assert_eq!((erofs.options.offset, erofs.single_thread), (Some(MountOffset::At(4096)), true));
        assert_eq!(erofs.devices, [Path::new("blob")]);
        let own = parsed("-o default_permissions,notify_pipe=/p,fsname=a -d a m").unwrap();
        assert_eq!((own.notify, own.options.default_permissions), (Some("/p".into()), Some(true)));
        assert!(own.foreground);
    }

    #[test]
    fn what_is_not_known_is_refused() {
        for line in ["-x a b", "-o nonsense a b", "a b -o", "-o uid=x a b"] {
            assert!(parsed(line).is_err(), "{line}");
        }
        assert!(IGNORED.is_sorted());
    }
}
