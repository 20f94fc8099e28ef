//! Options of `mount` and `umount`.

use std::path::{Component, PathBuf};
use std::time::Duration;

use clap::{Args, ValueHint};

use super::{RemoteArgs, value};

/// The number that stands for no user or group in system calls.
const NO_ID: u32 = u32::MAX;

/// Mount an image with FUSE, without root or kernel support.
///
/// The parts of a dump are shown as one file, `dump`. The command returns when the mount is ready. A background process
/// serves it until `packfs umount`, a signal or `-o timeout` ends it. Later errors, such as a damaged image, go to the
/// system's log.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  packfs mount root.sqfs /mnt
  packfs mount app.AppImage /mnt -o offset=auto,timeout=60
  packfs mount root.erofs /mnt -o allow_other,subdir=usr --foreground
  packfs mount root.sqfs /mnt --trace used.list
  packfs mount /mnt/a/core /mnt/b/core /mnt/dump")]
pub(crate) struct MountArgs {
    /// Image (a file, block device or address), or the parts of a dump
    ///
    /// Parts may be given in any order.
    #[arg(value_name = "IMAGE", required = true, value_hint = ValueHint::FilePath)]
    pub(crate) images: Vec<PathBuf>,

    /// Mount point, or /dev/fd/N for an open FUSE device
    ///
    /// The caller must already have mounted that device.
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) dir: PathBuf,

    /// Mount options, separated by commas, as in allow_other,offset=auto
    ///
    /// Accepted: allow_other, default_permissions, uid=N, gid=N, offset=SIZE or offset=auto, subdir=PATH,
    /// timeout=SECONDS, suid, dev, noexec, ro.
    #[arg(short, long, value_name = "LIST", value_parser = parse)]
    pub(crate) options: Vec<MountOptionList>,

    /// Additional device of an EROFS image (repeat in their order)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) device: Vec<PathBuf>,

    /// Stay in the foreground until it is unmounted
    #[arg(long)]
    pub(crate) foreground: bool,

    /// Write a byte to the open descriptor N when the mount is ready
    #[arg(long, value_name = "N", value_parser = value::number_in::<i32>(0..=i32::MAX.into()))]
    pub(crate) ready_fd: Option<i32>,

    /// Keep at most about SIZE of decoded data in memory [default: 64M]
    ///
    /// The default is less if a quarter of the memory is less.
    #[arg(long, value_name = "SIZE", value_parser = value::size)]
    pub(crate) cache: Option<u64>,

    /// Number of threads [default: twice the cores, from 4 to 16]
    #[arg(long, value_name = "N", value_parser = threads)]
    pub(crate) threads: Option<usize>,

    /// List the files in order of first use in a new FILE, for build --hot
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) trace: Option<PathBuf>,

    /// Append error messages to FILE
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) log: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}

/// Unmount FUSE mounts, even if their program has ended.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  packfs umount /mnt
  packfs umount --lazy /mnt")]
pub(crate) struct UmountArgs {
    /// Mount points
    #[arg(value_name = "DIR", required = true, value_hint = ValueHint::DirPath)]
    pub(crate) dirs: Vec<PathBuf>,

    /// Unmount at once, even if in use
    ///
    /// Programs that use the mount can still use it until they close their files.
    #[arg(long)]
    pub(crate) lazy: bool,
}

/// Beginning of an image in its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MountOffset {
    At(u64),
    /// To be found in a known container.
    Auto,
}

/// The values of `-o`; what is not named is `None` or false.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct MountOptionList {
    pub(crate) allow_other: bool,
    pub(crate) default_permissions: Option<bool>,
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
    pub(crate) offset: Option<MountOffset>,
    pub(crate) subdir: Option<PathBuf>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) suid: Option<bool>,
    pub(crate) dev: Option<bool>,
    pub(crate) exec: Option<bool>,
}

impl MountOptionList {
    /// Takes one option; returns false if there is none of that name.
    pub(crate) fn take(&mut self, word: &str) -> Result<bool, String> {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (word, None),
        };
        match (name, value) {
            ("allow_other", None) => self.allow_other = true,
            ("default_permissions", None) => self.default_permissions = Some(true),
            ("ro", None) => {}
            ("rw", None) => return Err("rw: images are never written to".into()),
            ("suid" | "nosuid", None) => self.suid = Some(name == "suid"),
            ("dev" | "nodev", None) => self.dev = Some(name == "dev"),
            ("exec" | "noexec", None) => self.exec = Some(name == "exec"),
            ("uid", Some(value)) => self.uid = Some(id(word, value)?),
            ("gid", Some(value)) => self.gid = Some(id(word, value)?),
            ("offset", Some("auto")) => self.offset = Some(MountOffset::Auto),
            ("offset", Some(value)) => {
                self.offset =
                    Some(MountOffset::At(value::size(value).map_err(|why| format!("{word}: {why}, or auto"))?));
            }
            ("subdir", Some(value)) => self.subdir = Some(subdir(word, value)?),
            ("timeout", Some(value)) => {
                let secs = value.parse::<u32>().ok().filter(|secs| *secs > 0);
                let secs = secs.ok_or_else(|| format!("{word}: expected a number of seconds"))?;
                self.timeout = Some(Duration::from_secs(secs.into()));
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Adds the options of another `-o`, which count where both name one.
    fn add(self, later: MountOptionList) -> MountOptionList {
        MountOptionList {
            // No word takes this one back.
            allow_other: self.allow_other || later.allow_other,
            default_permissions: later.default_permissions.or(self.default_permissions),
            uid: later.uid.or(self.uid),
            gid: later.gid.or(self.gid),
            offset: later.offset.or(self.offset),
            subdir: later.subdir.or(self.subdir),
            timeout: later.timeout.or(self.timeout),
            suid: later.suid.or(self.suid),
            dev: later.dev.or(self.dev),
            exec: later.exec.or(self.exec),
        }
    }
}

impl MountArgs {
    /// Returns all options together.
    pub(crate) fn all_options(&self) -> MountOptionList {
        self.options.iter().cloned().fold(MountOptionList::default(), MountOptionList::add)
    }
}

fn parse(list: &str) -> Result<MountOptionList, String> {
    let mut options = MountOptionList::default();
    for word in list.split(',').filter(|word| !word.is_empty()) {
        if !options.take(word)? {
            return Err(format!("`{word}` is not an option of a mount; see packfs mount --help"));
        }
    }
    Ok(options)
}

/// Reads a path below the root of an image.
fn subdir(word: &str, value: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(value);
    if path.components().any(|component| component == Component::ParentDir) {
        return Err(format!("{word}: the path of a directory in the image has no `..`"));
    }
    Ok(path)
}

fn id(word: &str, value: &str) -> Result<u32, String> {
    match value.parse() {
        Ok(NO_ID) => Err(format!("{word}: for Linux, {NO_ID} means no user or group")),
        Ok(id) => Ok(id),
        Err(_) => Err(format!("{word}: expected a number of a user or group")),
    }
}

fn threads(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(n) if (1..=256).contains(&n) => Ok(n),
        _ => Err("expected a number of threads from 1 to 256".into()),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn options_are_read_and_the_last_of_a_name_counts() {
        let all = parse("allow_other,ro,uid=7,offset=4K").unwrap().add(parse("uid=8,gid=9,nosuid,dev").unwrap());
        let mut expected = MountOptionList { allow_other: true, uid: Some(8), gid: Some(9), ..Default::default() };
        expected.offset = Some(MountOffset::At(4096));
        expected.suid = Some(false);
        expected.dev = Some(true);
        assert_eq!(all, expected);
        let auto = parse("offset=auto,subdir=a b,timeout=60,default_permissions,noexec").unwrap();
        assert_eq!((auto.offset, auto.timeout), (Some(MountOffset::Auto), Some(Duration::from_secs(60))));
        for wrong in [
            "rw",
            "uid=root",
            "uid",
            "offset=x",
            "timeout=0",
            "nonsense",
            "ro=1",
            "subdir",
            "uid=4294967295",
            "gid=4294967295",
            "subdir=../..",
            "subdir=a/../../b",
        ] {
            assert!(parse(wrong).unwrap_err().contains(wrong.split('=').next().unwrap()), "{wrong}");
        }
    }

    /// Returns the string literals of the Rust files in a directory of this workspace, comments left out.
    fn literals(dir: &str) -> Vec<String> {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join(dir);
        let mut found = Vec::new();
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(path).unwrap();
                let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
                found.extend(code.flat_map(|line| line.split('"').skip(1).step_by(2)).map(str::to_owned));
            }
        }
        found
    }

    #[test]
    fn hints_name_options_that_exist() {
        let command = MountArgs::augment_args(clap::Command::new("mount"));
        let umount = UmountArgs::augment_args(clap::Command::new("umount"));
        let longs: Vec<&str> =
            command.get_arguments().chain(umount.get_arguments()).filter_map(clap::Arg::get_long).collect();
        let mut hints = 0;
        for text in ["../mount/src", "src/commands/mount"].into_iter().flat_map(literals) {
            for (at, _) in text.match_indices("--") {
                let name: String = text[at + 2..].chars().take_while(|c| c.is_ascii_lowercase() || *c == '-').collect();
                if !name.is_empty() {
                    hints += 1;
                    assert!(longs.contains(&name.as_str()), "--{name} in {text:?}");
                }
            }
            for (at, _) in text.match_indices("-o ") {
                let name: String = text[at + 3..].chars().take_while(|c| c.is_ascii_lowercase() || *c == '_').collect();
                hints += 1;
                let known = [name.clone(), format!("{name}=1")]
                    .iter()
                    .any(|word| MountOptionList::default().take(word) == Ok(true));
                assert!(known, "-o {name} in {text:?}");
            }
            // Not the lines of /proc/self/mountinfo in tests.
            for (at, _) in text.match_indices("packfs ").filter(|(at, _)| !text[..*at].ends_with("fuse.")) {
                let name: String = text[at + 7..].chars().take_while(char::is_ascii_lowercase).collect();
                assert!(name.is_empty() || ["mount", "umount"].contains(&name.as_str()), "packfs {name} in {text:?}");
            }
        }
        assert!(hints >= 2, "the hints are elsewhere now");
    }
}
