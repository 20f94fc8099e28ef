//! Going to the background: the program starts itself once more and ends when that says that the mount is there. A
//! process with threads must not fork, and before there are any it is not known whether the mount succeeds.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use packfs_blocks::threads::start_program;

use super::log::Log;
use crate::args::Mount;
use crate::commands::remote;
use crate::output::failure::{Outcome, Usage};

/// Environment variable that tells the second process what it is.
const MARK: &str = "PACKFS_MOUNT_IN_BACKGROUND";
/// Values of the variable: the command line is complete, or addresses come from standard input.
const MARK_PLAIN: &str = "1";
const MARK_SECRETS: &str = "addresses";
/// Maximum length of all addresses in bytes: the limit of the kernel for arguments.
const ADDRESSES_MAX: u64 = 6 << 20;

/// Returns true in the process that is to serve in the background.
pub(super) fn is_background() -> bool {
    std::env::var_os(MARK).is_some()
}

/// Starts the process that serves, and waits until it is ready or has failed; it has then said why.
///
/// All users of the machine can see the arguments of a process. Passwords and signatures in addresses are therefore not
/// among those of the second process, which may run for months: it reads the addresses from a pipe.
pub(super) fn start(mount: &Mount, tell: impl FnOnce() -> Result<()>) -> Result<Outcome> {
    let secrets: Vec<&PathBuf> = addresses(mount).filter(|path| remote::shown(path) != **path).collect();
    let mut args = std::env::args_os();
    let name = args.next().unwrap_or_default();
    let mut command = Command::new("/proc/self/exe");
    command
        .arg0(name)
        .args(args.map(|arg| without_secrets(arg, &secrets)))
        .env(MARK, if secrets.is_empty() { MARK_PLAIN } else { MARK_SECRETS })
        .stdin(if secrets.is_empty() { Stdio::null() } else { Stdio::piped() })
        .stdout(Stdio::piped());
    let mut child = start_program(&mut command).context("cannot start the process that serves the mount")?;
    if let Some(mut pipe) = child.stdin.take() {
        // If the process has ended already, its status says more than this error.
        let _ = pipe.write_all(&addresses(mount).flat_map(|path| terminated(path)).collect::<Vec<u8>>());
    }
    let mut said = Vec::new();
    if let Some(output) = &mut child.stdout {
        output.take(1).read_to_end(&mut said).context("cannot read from the process that serves the mount")?;
    }
    if said.is_empty() {
        let status = child.wait().context("cannot wait for the process that serves the mount")?;
        // It has printed the error.
        std::process::exit(status.code().unwrap_or(1));
    }
    tell()?;
    Ok(Outcome::Done)
}

/// Returns the arguments of the second process with the addresses that its command line lacks.
pub(super) fn with_secrets(mount: &Mount) -> Result<Mount> {
    let mut whole = mount.clone();
    if std::env::var_os(MARK).is_none_or(|mark| mark != MARK_SECRETS) {
        return Ok(whole);
    }
    let mut list = Vec::new();
    let read = std::io::stdin().lock().take(ADDRESSES_MAX).read_to_end(&mut list);
    read.context("cannot read the addresses from the process that was started first")?;
    let mut passed = list.split(|byte| *byte == 0).map(|path| PathBuf::from(OsStr::from_bytes(path)));
    for path in whole.images.iter_mut().chain(&mut whole.device) {
        *path = passed.next().unwrap_or_default();
    }
    Ok(whole)
}

/// Returns everything on the command line that may be an address, in order.
fn addresses(mount: &Mount) -> impl Iterator<Item = &PathBuf> {
    mount.images.iter().chain(&mount.device)
}

fn terminated(path: &Path) -> impl Iterator<Item = u8> {
    path.as_os_str().as_bytes().iter().copied().chain([0])
}

/// Returns an argument with the addresses in it as they may be shown, as in `--device=ADDRESS`.
fn without_secrets(arg: OsString, secrets: &[&PathBuf]) -> OsString {
    for secret in secrets {
        let address = secret.as_os_str().as_bytes();
        if let Some(option) = arg.as_bytes().strip_suffix(address) {
            let shown = remote::shown(secret);
            return OsString::from_vec([option, shown.as_os_str().as_bytes()].concat());
        }
    }
    arg
}

/// Tells the first process that the mount is there, and lets go of all that belongs to who started it.
pub(super) fn ready(log: &Log) -> Result<()> {
    let null = File::options().read(true).write(true).open("/dev/null").context("/dev/null: cannot open")?;
    // A session of its own is refused to the leader of a group, which this is not unless it was started by hand.
    let _ = rustix::process::setsid();
    std::env::set_current_dir("/").context("cannot leave the directory")?;
    log.leave_terminal();
    #[allow(clippy::disallowed_methods, reason = "in this process it is the pipe to the first one")]
    let mut out = std::io::stdout().lock();
    out.write_all(b"r").and_then(|()| out.flush()).context("cannot report that the mount is ready")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    Ok(())
}

/// Writes a byte to a descriptor of the caller's.
pub(super) fn tell(number: i32) -> Result<()> {
    if number < 0 {
        bail!(Usage(format!("{number} is not a descriptor")));
    }
    let told = packfs_mount::inherited(number).and_then(|fd| File::from(fd).write_all(b"r"));
    told.with_context(|| format!("cannot write to descriptor {number}"))
}

#[cfg(all(test, feature = "remote"))]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_stripped_of_passwords_and_signatures() {
        let secrets = ["https://me:secret@host/a?sig=secret".into(), "s3://me:secret@bucket/key".into()];
        let secrets: Vec<&PathBuf> = secrets.iter().collect();
        for (arg, shown) in [
            ("https://me:secret@host/a?sig=secret", "https://host/a"),
            ("--device=s3://me:secret@bucket/key", "--device=s3://bucket/key"),
            ("--foreground", "--foreground"),
            ("/mnt", "/mnt"),
        ] {
            assert_eq!(without_secrets(arg.into(), &secrets), shown);
        }
    }
}
