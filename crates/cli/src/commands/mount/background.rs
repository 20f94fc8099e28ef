//! Going to the background: the program starts itself once more and ends when that says that the mount is there. A
//! process with threads must not fork, and before there are any it is not known whether the mount succeeds.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use packfs_blocks::threads::start_program;

use super::log::MessageLog;
use crate::arguments::{self, PassedArguments};
use crate::output::failure::{CommandOutcome, UsageError};

/// Environment variable that tells the second process what it is.
const MARK: &str = "PACKFS_MOUNT_IN_BACKGROUND";

/// Returns true in the process that is to serve in the background.
pub(super) fn is_background() -> bool {
    std::env::var_os(MARK).is_some()
}

/// Starts the process that serves, and waits until it is ready or has failed; it has then said why.
pub(super) fn start_server(tell: impl FnOnce() -> Result<()>) -> Result<CommandOutcome> {
    let PassedArguments { public, secret } = arguments::pass_on();
    let mut args = public.into_iter();
    // By this name it is the same program even if its file was replaced. Its first word must stay, as it may be another
    // program's name.
    let mut command = Command::new("/proc/self/exe");
    command.arg0(args.next().unwrap_or_default()).args(args).env(MARK, "1");
    command.stdin(if secret.is_some() { Stdio::piped() } else { Stdio::null() });
    command.envs(secret.iter().map(|(variable, _)| (variable, "1")));
    command.stdout(Stdio::piped());
    let mut child = start_program(&mut command).context("cannot start the process that serves the mount")?;
    if let (Some(mut pipe), Some((_, whole))) = (child.stdin.take(), secret) {
        // If the process has ended already, its status says more than this error.
        let _ = pipe.write_all(&whole);
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
    Ok(CommandOutcome::Done)
}

/// Tells the first process that the mount is there, and lets go of all that belongs to who started it.
pub(super) fn report_ready(log: &MessageLog) -> Result<()> {
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
pub(super) fn tell_descriptor(number: i32) -> Result<()> {
    if number < 0 {
        bail!(UsageError(format!("{number} is not a descriptor")));
    }
    let told = packfs_mount::inherited(number).and_then(|fd| File::from(fd).write_all(b"r"));
    told.with_context(|| format!("cannot write to descriptor {number}"))
}
