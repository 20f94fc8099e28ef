//! `packfs status`: which shards are packed, which are on their way, and how long the rest takes.

use std::fmt;
use std::io::Write;
use std::thread;
use std::time::Duration;

use anyhow::Result;
use packfs_image::build::{FailedShard, Jobs, RunningShard, Status};

use crate::args;
use crate::output::failure::CommandOutcome;
use crate::output::json::JsonDocument;
use crate::output::{self, json, units};

/// Number of lines for each kind of shard.
const SHOWN: usize = 20;
/// Time after which a task that says nothing may have been killed; a living one speaks every five seconds.
const SILENT: Duration = Duration::from_secs(60);
/// Clears a terminal and goes to its first line.
const CLEAR: &str = "\x1b[H\x1b[2J\x1b[3J";

impl JsonDocument for Status {
    const KIND: &'static str = "status";
}

pub(in crate::commands) fn status(args: &args::StatusArgs) -> Result<CommandOutcome> {
    let jobs = Jobs::open(&args.plan)?;
    loop {
        let status = jobs.status(&args.dir)?;
        let complete = status.is_complete();
        if args.json {
            json::print(&status)?;
        } else {
            print(&StatusText(&status), args.watch.is_some())?;
        }
        match args.watch {
            Some(every) if !complete => thread::sleep(Duration::from_secs(every.into())),
            _ => return Ok(if complete { CommandOutcome::Done } else { CommandOutcome::Findings }),
        }
    }
}

/// Prints the state; one that is watched takes the place of the one before on a terminal, and follows it elsewhere.
fn print(state: &StatusText<'_>, watched: bool) -> Result<()> {
    output::write_result(|out| {
        match watched {
            true if output::is_terminal() => write!(out, "{CLEAR}{state}")?,
            true => writeln!(out, "{state}")?,
            false => write!(out, "{state}")?,
        }
        Ok(())
    })
}

/// The state of a job as text.
struct StatusText<'a>(&'a Status);

impl fmt::Display for StatusText<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Status { shards, done, file_bytes, done_bytes, packed_bytes, failed, missing, damaged, .. } = self.0;
        let all = units::bytes(*file_bytes);
        let part = units::bytes(*done_bytes);
        writeln!(out, "done        {done} of {}: {part} of {all}", units::of((*shards).into(), "shard"))?;
        if let Some(images) = self.0.images {
            writeln!(out, "written     {} of {}", images.done, units::of(images.all.into(), "image"))?;
        }
        let ratio = units::smaller(units::ratio(*done_bytes, *packed_bytes));
        let ratio = if *packed_bytes > 0 { format!(", {ratio}") } else { String::new() };
        writeln!(out, "packed      {}{ratio}", units::bytes(*packed_bytes))?;
        self.write_running(out)?;
        write_rows(out, failed, |FailedShard { shard, host, error, .. }| {
            format!("failed      {shard} on {host}: {error}")
        })?;
        write_rows(out, damaged, |(shard, why)| format!("damaged     {shard}: {why}"))?;
        if !missing.is_empty() {
            let shown: Vec<_> = missing.iter().take(SHOWN).map(u32::to_string).collect();
            let more = if missing.len() > SHOWN { ", ..." } else { "" };
            writeln!(out, "missing     {}{more}", shown.join(", "))?;
        }
        Ok(())
    }
}

impl StatusText<'_> {
    /// Writes what the running tasks do, the slowest first, and how long the rest takes if they go on like that.
    fn write_running(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut alive, silent): (Vec<_>, Vec<_>) =
            self.0.running.iter().partition(|task| task.silent_seconds < SILENT.as_secs_f64());
        if !alive.is_empty() {
            let all: u64 = alive.iter().copied().map(speed).sum();
            let done = self.0.done_bytes + alive.iter().map(|task| task.done_bytes).sum::<u64>();
            let left = self.0.file_bytes.saturating_sub(done).checked_div(all).map(Duration::from_secs);
            let left = left.map_or_else(String::new, |left| format!(", {} left at this speed", units::span(left)));
            writeln!(out, "running     {}: {}/s{left}", alive.len(), units::bytes(all))?;
        }
        alive.sort_by_key(|task| speed(task));
        let median = alive.get(alive.len() / 2).map_or(0, |task| speed(task));
        write_rows(out, &alive, |task| {
            let slow = if speed(task) < median / 2 { ", slow" } else { "" };
            let percent = task.done_bytes * 100 / task.file_bytes.max(1);
            let speed = units::bytes(speed(task));
            format!("            {} on {}: {percent} %, {speed}/s{slow}", task.shard, task.host)
        })?;
        let silence = |task: &RunningShard| units::span(Duration::from_secs_f64(task.silent_seconds));
        write_rows(out, &silent, |task| {
            format!("silent      {} on {} for {}: killed?", task.shard, task.host, silence(task))
        })
    }
}

/// Returns the bytes of files that a task packs in a second.
fn speed(task: &RunningShard) -> u64 {
    units::per_second(task.done_bytes, Duration::from_secs_f64(task.seconds))
}

/// Writes a line for each, unless there are too many.
fn write_rows<T>(out: &mut fmt::Formatter<'_>, all: &[T], line: impl Fn(&T) -> String) -> fmt::Result {
    all.iter().take(SHOWN).try_for_each(|one| writeln!(out, "{}", line(one)))?;
    match all.len().saturating_sub(SHOWN) {
        0 => Ok(()),
        more => writeln!(out, "            and {more} more"),
    }
}
