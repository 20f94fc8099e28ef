//! Attributes that a command line gives: of the root, of directories that nothing describes, of all entries.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use super::sources::{RootAttributes, dir_like_line};
use super::{MksquashfsOptions, pseudo};
use crate::args::value;
use crate::personalities::command_line::CommandLine;

/// Mode of a root that is no directory of this system.
const BARE_MODE: u16 = 0o777;

/// Attributes of directories that an archive lacks, where they are not the usual ones.
#[derive(Debug, Default)]
pub(super) struct ImpliedAttributes {
    pub(super) mode: Option<u16>,
    pub(super) uid: Option<u32>,
    pub(super) gid: Option<u32>,
}

impl MksquashfsOptions {
    /// Drops definitions of the root: it is there already, and they have no effect on it.
    pub(super) fn drop_root_definitions(&mut self) {
        // In both: one list is passed on, from the other owners are given back.
        self.out.retain(|option, value| option != "--add" || !pseudo::is_root(value.as_bytes()));
        self.definitions.retain(|definition| !pseudo::is_root(definition.as_bytes()));
    }

    /// Returns lines of a pack list that give the root its attributes.
    pub(super) fn root_lines(&self, root: &RootAttributes) -> Vec<OsString> {
        match root {
            RootAttributes::Found | RootAttributes::Listed => Vec::new(),
            RootAttributes::Like(dir) => vec![dir_like_line(b"", dir.as_os_str())],
            RootAttributes::Bare => {
                let (uid, gid) = user_and_group();
                // The time of the run would make each image different.
                let time = now().filter(|_| !self.newest).map(|now| format!("time / {now}"));
                let lines = [Some(format!("dir / {BARE_MODE:04o} {uid} {gid}")), time];
                lines.into_iter().flatten().map(OsString::from).collect()
            }
        }
    }

    /// Returns the value of `--implied-dirs`, for directories that nothing describes: those that an archive lacks, and the root of a list.
    pub(super) fn implied_dirs(&self, root: &RootAttributes) -> Option<String> {
        if let Some(pseudo) = &self.pseudo_dir {
            return Some(pseudo.clone());
        }
        let (uid, gid) = user_and_group();
        let ImpliedAttributes { mode, uid: user, gid: group } = self.implied;
        let mode = match (self.tar, root) {
            (true, _) => mode.unwrap_or(0o755),
            (false, RootAttributes::Listed) => BARE_MODE,
            // Directories of this system describe themselves.
            _ => return None,
        };
        let uid = user.unwrap_or(uid);
        let gid = group.unwrap_or(gid);
        let time = now().filter(|_| self.tar || !self.newest).map_or(String::new(), |now| format!(",{now}"));
        Some(format!("{mode:04o},{uid}:{gid}{time}"))
    }

    /// Adds the options that shift all owners, also those of an image that is appended to.
    pub(super) fn add_offsets(&self, line: &mut CommandLine) {
        if let Some(by) = self.shift.offset() {
            line.set("--uid-offset", by.to_string());
            line.set("--gid-offset", by.to_string());
        }
    }

    /// Returns the rules that do the same after all actions.
    pub(super) fn last_actions(&self, no_xattrs: bool, owners: Vec<String>) -> Result<Vec<String>, String> {
        // Rules see owners after the offset, which they have to contain.
        let shifted = |id: Option<u32>| id.map(|id| self.shift.apply(id)).transpose();
        let effects = [
            shifted(self.owner.0)?.map(|id| format!("owner={id}")),
            shifted(self.owner.1)?.map(|id| format!("group={id}")),
            (!self.modes.is_empty()).then(|| format!("mode={}", self.modes.join(","))),
            no_xattrs.then(|| "drop-xattr=*".to_owned()),
        ];
        let effects: Vec<String> = effects.into_iter().flatten().collect();
        let all = (!effects.is_empty()).then(|| format!("all -> {}", effects.join(" ")));
        Ok(all.into_iter().chain(owners).collect())
    }

    /// Returns rules that give the entries of definitions back their owners and modes.
    pub(super) fn definitions_owners(&self) -> Result<Vec<String>, String> {
        // Nothing was changed for all entries, so there is nothing to give back.
        if !self.pseudo_override || self.owner == (None, None) && self.modes.is_empty() {
            return Ok(Vec::new());
        }
        let lines = self.definitions.iter().map(|line| line.as_bytes());
        lines.filter_map(|line| pseudo::own_rule(line, !self.modes.is_empty(), self.shift).transpose()).collect()
    }
}

/// `-uid-gid-offset`, which is added to every owner after everything else. Rules see the owners after it is added, so
/// that those that they give have to contain it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct OwnerShift(u32);

impl OwnerShift {
    /// Reads the value of the option.
    pub(super) fn parse(option: &str, text: &str) -> Result<Self, String> {
        text.parse().map(OwnerShift).map_err(|_| format!("{option} {text}: expected a number"))
    }

    fn offset(self) -> Option<u32> {
        (self.0 > 0).then_some(self.0)
    }

    /// Adds the offset to an owner or group.
    pub(super) fn apply(self, id: u32) -> Result<u32, String> {
        let outside = || format!("-uid-gid-offset {}: owner or group {id} becomes larger than 4294967294", self.0);
        // The largest number means "no owner" to the kernel. Without an offset it is left to packfs to refuse
        // it.
        id.checked_add(self.0).filter(|id| *id < u32::MAX || self.0 == 0).ok_or_else(outside)
    }
}

fn user_and_group() -> (u32, u32) {
    (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw())
}

/// Returns the time of the run; SOURCE_DATE_EPOCH limits it as all times.
fn now() -> Option<i64> {
    value::time("now").ok().map(|time| time.secs)
}
