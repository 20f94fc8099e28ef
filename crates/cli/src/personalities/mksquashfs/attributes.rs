//! Attributes that a command line gives: of the root, of directories that nothing describes, of all entries.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use super::exclude::Source;
use super::{Asked, pseudo};
use crate::args::value;

/// Attributes of directories that an archive lacks, where they are not the usual ones.
#[derive(Debug, Default)]
pub(super) struct Implied {
    pub(super) mode: Option<u16>,
    pub(super) uid: Option<u32>,
    pub(super) gid: Option<u32>,
}

impl Asked {
    pub(super) fn drop_root_definitions(&mut self) {
        let is_root = |word: &OsString| pseudo::is_root(word.as_bytes());
        while let Some(at) = self.out.windows(2).position(|pair| pair[0] == "--add" && is_root(&pair[1])) {
            self.out.drain(at..at + 2);
        }
    }

    /// Returns lines that give the root attributes of the run, unless it is a directory that is packed.
    pub(super) fn bare_root(&self, dirs: &[Source]) -> Option<Vec<OsString>> {
        let packed = dirs.iter().any(|source| source.place.as_os_str().is_empty());
        if packed || self.zip || self.listed.is_some() {
            return None;
        }
        let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
        let mode = if self.no_strip { 0o755 } else { 0o777 };
        // With the time of the run no two images are the same.
        let time = now().filter(|_| !self.newest).map(|now| format!("time / {now}"));
        let lines = [Some(format!("dir / {mode:04o} {uid} {gid}")), time];
        Some(lines.into_iter().flatten().flat_map(|line| ["--add".into(), line.into()]).collect())
    }

    /// Returns the option for directories that an archive lacks.
    pub(super) fn implied_dirs(&self) -> Option<OsString> {
        if let Some(pseudo) = &self.pseudo_dir {
            return Some(format!("--implied-dirs={pseudo}").into());
        }
        if !self.tar {
            return None;
        }
        let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
        let Implied { mode, uid: user, gid: group } = self.implied;
        let (mode, uid, gid) = (mode.unwrap_or(0o755), user.unwrap_or(uid), group.unwrap_or(gid));
        let time = now().map_or(String::new(), |now| format!(",{now}"));
        Some(format!("--implied-dirs={mode:04o},{uid}:{gid}{time}").into())
    }

    /// Returns the options for owners and modes of all entries.
    pub(super) fn for_all(&self) -> Vec<OsString> {
        let id = |id: Option<u32>| id.map(|id| id.to_string()).unwrap_or_default();
        let owner = (self.owner != (None, None)).then(|| format!("--owner={}:{}", id(self.owner.0), id(self.owner.1)));
        let mode = (!self.modes.is_empty()).then(|| format!("--mode={}", self.modes.join(",")));
        let offsets = self.offset.map(|by| [format!("--uid-offset={by}"), format!("--gid-offset={by}")]);
        owner.into_iter().chain(mode).chain(offsets.into_iter().flatten()).map(Into::into).collect()
    }

    /// Returns the rules that do the same after all actions.
    pub(super) fn last_actions(&self, no_xattrs: bool, owners: Vec<String>) -> Vec<String> {
        let effects = [
            self.owner.0.map(|id| format!("owner={id}")),
            self.owner.1.map(|id| format!("group={id}")),
            (!self.modes.is_empty()).then(|| format!("mode={}", self.modes.join(","))),
            no_xattrs.then(|| "drop-xattr=*".to_owned()),
        ];
        let effects: Vec<String> = effects.into_iter().flatten().collect();
        let all = (!effects.is_empty()).then(|| format!("all -> {}", effects.join(" ")));
        let shifted = self.offset.map(|by| format!("all -> owner=+{by} group=+{by}"));
        all.into_iter().chain(owners).chain(shifted).collect()
    }

    /// Returns rules that give the entries of definitions back their owners and modes.
    pub(super) fn definitions_owners(&self) -> Result<Vec<String>, String> {
        if !self.pseudo_override || self.owner == (None, None) && self.modes.is_empty() {
            return Ok(Vec::new());
        }
        let lines = self.out.windows(2).filter(|pair| pair[0] == "--add").map(|pair| pair[1].as_bytes());
        lines.filter_map(|line| pseudo::own_rule(line, !self.modes.is_empty()).transpose()).collect()
    }
}

/// Returns the time of the run; SOURCE_DATE_EPOCH limits it as all times.
fn now() -> Option<i64> {
    value::time("now").ok().map(|time| time.secs)
}
