//! Attributes that a command line gives: of the root, of directories that nothing describes, of all entries.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use super::sources::{RootAttributes, dir_like_line};
use super::{Asked, pseudo};
use crate::args::value;

/// Mode of a root that is no directory of this system.
const BARE_MODE: u16 = 0o777;

/// Attributes of directories that an archive lacks, where they are not the usual ones.
#[derive(Debug, Default)]
pub(super) struct Implied {
    pub(super) mode: Option<u16>,
    pub(super) uid: Option<u32>,
    pub(super) gid: Option<u32>,
}

impl Asked {
    /// Drops definitions of the root: it is there already, and they have no effect on it.
    pub(super) fn drop_root_definitions(&mut self) {
        let is_root = |word: &OsString| pseudo::is_root(word.as_bytes());
        while let Some(at) = self.out.windows(2).position(|pair| pair[0] == "--add" && is_root(&pair[1])) {
            self.out.drain(at..at + 2);
        }
    }

    /// Returns lines that give the root its attributes.
    pub(super) fn root_lines(&self, root: &RootAttributes) -> Vec<OsString> {
        match root {
            RootAttributes::Found | RootAttributes::Listed => Vec::new(),
            RootAttributes::Like(dir) => vec!["--add".into(), dir_like_line(b"", dir.as_os_str())],
            RootAttributes::Bare => {
                let (uid, gid) = user_and_group();
                // The time of the run would make each image different.
                let time = now().filter(|_| !self.newest).map(|now| format!("time / {now}"));
                let lines = [Some(format!("dir / {BARE_MODE:04o} {uid} {gid}")), time];
                lines.into_iter().flatten().flat_map(|line| ["--add".into(), line.into()]).collect()
            }
        }
    }

    /// Returns the option for directories that nothing describes: those that an archive lacks, and the root of a list.
    pub(super) fn implied_dirs(&self, root: &RootAttributes) -> Option<OsString> {
        if let Some(pseudo) = &self.pseudo_dir {
            return Some(format!("--implied-dirs={pseudo}").into());
        }
        let (uid, gid) = user_and_group();
        let Implied { mode, uid: user, gid: group } = self.implied;
        let mode = match (self.tar, root) {
            (true, _) => mode.unwrap_or(0o755),
            (false, RootAttributes::Listed) => BARE_MODE,
            _ => return None,
        };
        let uid = user.unwrap_or(uid);
        let gid = group.unwrap_or(gid);
        let time = now().filter(|_| self.tar || !self.newest).map_or(String::new(), |now| format!(",{now}"));
        Some(format!("--implied-dirs={mode:04o},{uid}:{gid}{time}").into())
    }

    /// Returns the options for owners and modes of all entries.
    pub(super) fn for_all(&self) -> Vec<OsString> {
        let id = |id: Option<u32>| id.map(|id| id.to_string()).unwrap_or_default();
        let owner = (self.owner != (None, None)).then(|| format!("--owner={}:{}", id(self.owner.0), id(self.owner.1)));
        let mode = (!self.modes.is_empty()).then(|| format!("--mode={}", self.modes.join(",")));
        owner.into_iter().chain(mode).map(Into::into).collect()
    }

    /// Returns the options that shift all owners, also those of an image that is appended to.
    pub(super) fn offsets(&self) -> Vec<OsString> {
        let offsets = self.shift.offset().map(|by| [format!("--uid-offset={by}"), format!("--gid-offset={by}")]);
        offsets.into_iter().flatten().map(Into::into).collect()
    }

    /// Returns the rules that do the same after all actions.
    pub(super) fn last_actions(&self, no_xattrs: bool, owners: Vec<String>) -> Result<Vec<String>, String> {
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
        if !self.pseudo_override || self.owner == (None, None) && self.modes.is_empty() {
            return Ok(Vec::new());
        }
        let lines = self.out.windows(2).filter(|pair| pair[0] == "--add").map(|pair| pair[1].as_bytes());
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
