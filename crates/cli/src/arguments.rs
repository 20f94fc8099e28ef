//! The command line of this process, without what other users must not see.
//!
//! All users of the machine can see the arguments of every process. Passwords and signatures in addresses are therefore
//! taken out as soon as the process runs: it keeps the whole arguments, and overwrites those that the kernel shows.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::OnceLock;

use crate::commands::remote;
use crate::personalities;

/// Environment variable that tells a process to read its arguments from standard input, each with a zero at its end.
const FROM_STDIN: &str = "PACKFS_ARGUMENTS_FROM_STDIN";
/// Bytes of all arguments at most, as many as the kernel allows.
const ALL_MAX: u64 = 6 << 20;
/// Fields of `/proc/self/stat` between the name of the program and the address of its first argument; the address of the
/// end of all arguments follows. See proc_pid_stat(5).
const FIELDS_BEFORE_ARGUMENTS: usize = 45;

static ALL: OnceLock<Vec<OsString>> = OnceLock::new();

/// Returns the whole command line, the name of the program first.
pub(crate) fn command_line() -> Vec<OsString> {
    ALL.get().cloned().unwrap_or_else(|| std::env::args_os().collect())
}

/// Returns the other program whose command line this is: packfs was started by its name or by `packfs as`.
pub(crate) fn emulated_program() -> Option<String> {
    let line = command_line();
    let started = Path::new(line.first()?).file_name()?;
    let named = line.get(2).filter(|_| line[1] == "as");
    let mut programs = [Some(started), named.map(OsString::as_os_str)].into_iter().flatten().filter_map(OsStr::to_str);
    programs.find(|program| personalities::is_emulated(program)).map(str::to_owned)
}

/// Takes the command line, and overwrites what others must not see of it. Where the kernel does not allow that, for
/// example without `/proc`, it stays visible.
pub(crate) fn hide_secrets() {
    let visible: Vec<OsString> = std::env::args_os().collect();
    let passed = if std::env::var_os(FROM_STDIN).is_some() { read_passed().ok() } else { None };
    let whole = passed.filter(|all| !all.is_empty()).unwrap_or_else(|| visible.clone());
    let public: Vec<OsString> = whole.iter().map(|arg| without_secrets(arg)).collect();
    if public != visible {
        let _ = overwrite(&visible, &public);
    }
    let _ = ALL.set(whole);
}

/// A command line for another process of this program.
#[cfg(feature = "mount")]
#[derive(Debug)]
pub(crate) struct PassedArguments {
    /// Arguments that others may see.
    pub(crate) public: Vec<OsString>,
    /// Environment variable to set, and bytes for standard input, if these arguments are not the whole.
    pub(crate) secret: Option<(&'static str, Vec<u8>)>,
}

/// Returns the command line of this process for another one, which never shows what others must not see.
#[cfg(feature = "mount")]
pub(crate) fn pass_on() -> PassedArguments {
    let whole = command_line();
    let public: Vec<OsString> = whole.iter().map(|arg| without_secrets(arg)).collect();
    let secret = (public != whole).then(|| (FROM_STDIN, join_with_zeros(&whole)));
    PassedArguments { public, secret }
}

fn read_passed() -> io::Result<Vec<OsString>> {
    let mut list = Vec::new();
    io::stdin().lock().take(ALL_MAX).read_to_end(&mut list)?;
    // The zero at the end separates nothing.
    list.pop();
    Ok(list.split(|byte| *byte == 0).map(|arg| OsString::from_vec(arg.to_vec())).collect())
}

/// Returns an argument as it may be shown: an address, or one after `=`, without user, password and query.
fn without_secrets(arg: &OsStr) -> OsString {
    let bytes = arg.as_bytes();
    let value = bytes.iter().position(|byte| *byte == b'=').map_or(0, |at| at + 1);
    for at in [0, value] {
        let address = Path::new(OsStr::from_bytes(&bytes[at..]));
        if remote::is_address(address) {
            let shown = remote::without_secrets(address);
            return OsString::from_vec([&bytes[..at], shown.as_os_str().as_bytes()].concat());
        }
    }
    arg.to_owned()
}

/// Returns arguments as they are in memory.
fn join_with_zeros(args: &[OsString]) -> Vec<u8> {
    args.iter().flat_map(|arg| arg.as_bytes().iter().copied().chain([0])).collect()
}

/// Overwrites the arguments in the memory of this process. Nothing is written unless they are where the kernel says.
fn overwrite(visible: &[OsString], public: &[OsString]) -> io::Result<()> {
    let unknown = || io::Error::other("the kernel does not say where the arguments are");
    let stat = std::fs::read("/proc/self/stat")?;
    let range = argument_addresses(&String::from_utf8_lossy(&stat)).ok_or_else(unknown)?;
    let old = join_with_zeros(visible);
    // An address may be longer when blanks in it are encoded.
    let fitting = public.iter().zip(visible).map(|(new, old)| &new.as_bytes()[..new.len().min(old.len())]);
    let mut new: Vec<u8> = fitting.flat_map(|arg| arg.iter().copied().chain([0])).collect();
    let memory = File::options().read(true).write(true).open("/proc/self/mem")?;
    let mut there = vec![0; old.len()];
    memory.read_exact_at(&mut there, range.start)?;
    if there != old || range.end - range.start != old.len() as u64 {
        return Err(unknown());
    }
    // Zeros at the end look like empty arguments.
    new.resize(old.len(), 0);
    memory.write_all_at(&new, range.start)
}

/// Returns the addresses of the arguments.
fn argument_addresses(stat: &str) -> Option<std::ops::Range<u64>> {
    // The name of the program is in parentheses and may contain anything.
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_ascii_whitespace().skip(FIELDS_BEFORE_ARGUMENTS);
    let mut next = || fields.next()?.parse::<u64>().ok();
    let range = next()?..next()?;
    (range.start < range.end).then_some(range)
}

#[cfg(all(test, feature = "remote"))]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_stripped_of_passwords_and_signatures() {
        for (arg, shown) in [
            ("https://me:secret@host/a?sig=secret", "https://host/a"),
            ("https://host/a?next=https://me:secret@host", "https://host/a"),
            ("--device=s3://me:secret@bucket/key", "--device=s3://bucket/key"),
            ("--against=https://host/a?sig=secret", "--against=https://host/a"),
            ("--foreground", "--foreground"),
            ("--rule=name=a -> store", "--rule=name=a -> store"),
            ("/mnt", "/mnt"),
            ("", ""),
        ] {
            assert_eq!(without_secrets(OsStr::new(arg)), shown);
        }
    }

    #[test]
    fn the_place_of_the_arguments_is_found_after_any_name() {
        let before = ["0"; FIELDS_BEFORE_ARGUMENTS].join(" ");
        for (line, expected) in [
            (format!("7 (packfs) {before} 4096 5000 0 0 0"), Some(4096..5000)),
            (format!("7 (a) S 1 (b) {before} 4096 5000 0 0 0"), Some(4096..5000)),
            (format!("7 (packfs) {before} 0 0 0 0 0"), None),
            ("7 (packfs) S 1".to_owned(), None),
            (String::new(), None),
        ] {
            assert_eq!(argument_addresses(&line), expected, "{line}");
        }
    }
}
