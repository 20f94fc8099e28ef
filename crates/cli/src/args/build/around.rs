//! Options of `packfs build` for what surrounds the sources: directories that none of them describes, mount points, the
//! bytes in front of the image, and the list of what is packed.

use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use packfs_image::name::display;
use packfs_image::source::ExcludeRules;
use packfs_image::tree::{InodeAttributes, Time, XattrId};

use crate::args::value;
use crate::output::failure::UsageError;

#[derive(Debug, Default, Args)]
pub(super) struct AroundArgs {
    /// Attributes of directories that no source describes [default: 0755,0:0]
    ///
    /// An octal mode, USER:GROUP and optionally a time, as in 0711,root:adm,now. Archives and pack lists often lack the
    /// parent directories of their files, and the root.
    #[arg(help_heading = "Contents", long, value_name = "MODE,OWNER[,T]", value_parser = implied)]
    implied_dirs: Option<(u16, u32, u32, Option<Time>)>,

    /// Take owners, modes and capabilities from FILE, Android's fs_config
    ///
    /// FILE must have a line for each entry: PATH UID GID MODE, optionally with capabilities=NUMBER. Options for all
    /// entries, such as --owner, and rules take precedence over FILE.
    #[arg(help_heading = "Contents", long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(super) fs_config: Option<PathBuf>,

    /// Mount point of the image, with which the paths of --fs-config begin
    #[arg(help_heading = "Contents", long, value_name = "DIR", requires = "fs_config")]
    pub(super) fs_config_below: Option<PathBuf>,

    /// Pack only what lies below DIR, which becomes the root
    ///
    /// DIR is a path in the sources, also in archives and images; symbolic links on the way are not followed. Patterns
    /// of --exclude and lines of --add mean paths in the image. An archive that can be read only once is copied to a
    /// temporary file.
    #[arg(help_heading = "Contents", long, value_name = "DIR")]
    pub(super) subdir: Option<PathBuf>,

    /// With --subdir, remove DIR from the absolute targets of symbolic links
    #[arg(help_heading = "Contents", long, requires = "subdir")]
    pub(super) retarget: bool,

    /// Keep entries that a pack list or --add would replace
    ///
    /// Without this option, a later description replaces an earlier one. With it, the descriptions of existing entries
    /// are reported as left out; with --on-error stop they are errors.
    #[arg(help_heading = "Contents", long)]
    pub(super) keep_existing: bool,

    /// Move times that the format cannot hold to the nearest one that it can
    ///
    /// SquashFS stores 1970 to 2106. Without this option such a time is an error.
    #[arg(help_heading = "Contents", long)]
    pub(super) clip_times: bool,

    /// With --one-file-system, leave out mount points, too
    #[arg(help_heading = "Contents", long, requires = "one_file_system")]
    pub(super) no_mount_points: bool,

    /// Put FILE in front of the image
    ///
    /// For programs that mount an image appended to them. The image begins where FILE ends, or at --offset; FILE is
    /// then truncated or padded. FILE may be the output.
    #[arg(help_heading = "Layout of the image", long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(super) prefix: Option<PathBuf>,

    /// Print the path of each packed entry, to standard output or FILE
    #[arg(
        long,
        value_name = "FILE",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "-",
        conflicts_with = "dry_run",
        value_hint = ValueHint::FilePath
    )]
    pub(super) list: Option<PathBuf>,
}

impl AroundArgs {
    /// Returns the attributes of directories that no source describes; `time` is that of entries without one.
    pub(super) fn implied(&self, time: i64) -> Option<InodeAttributes> {
        let (mode, uid, gid, own) = self.implied_dirs?;
        Some(InodeAttributes {
            mode,
            uid,
            gid,
            mtime: own.unwrap_or(Time { secs: time, nanos: 0 }),
            xattrs: XattrId::NONE,
        })
    }

    /// Leaves out what does not lie in the directory that becomes the root.
    pub(super) fn below(&self, exclude: ExcludeRules) -> ExcludeRules {
        match &self.subdir {
            Some(dir) => exclude.with_root(dir),
            None => exclude,
        }
    }

    /// Returns the offset of an image without one: the length of what is in front of it.
    pub(super) fn offset(&self) -> Result<Option<u64>, UsageError> {
        let length = |path: &Path| match path.metadata() {
            Ok(found) if found.is_file() => Ok(found.len()),
            Ok(_) => Err("not a regular file; --offset says how much of it to take".to_owned()),
            Err(error) => Err(format!("cannot read: {error}")),
        };
        let length = self.prefix.as_deref().map(length).transpose();
        length.map_err(|why| {
            UsageError(format!("--prefix {}: {why}", display(self.prefix.as_deref().unwrap_or(Path::new("")))))
        })
    }
}

fn implied(text: &str) -> Result<(u16, u32, u32, Option<Time>), String> {
    const ACCEPTED: &str = "expected MODE,USER:GROUP or MODE,USER:GROUP,TIME, as in 0711,root:adm,now";
    let mut parts = text.splitn(3, ',');
    let mode = parts.next().and_then(|mode| u16::from_str_radix(mode, 8).ok()).filter(|mode| *mode <= 0o7777);
    let owner = parts.next().ok_or(ACCEPTED).and_then(|owner| owner.split_once(':').ok_or(ACCEPTED))?;
    let time = parts.next().map(value::time).transpose()?;
    Ok((mode.ok_or(ACCEPTED)?, value::user(owner.0)?, value::group(owner.1)?, time))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_of_implied_directories_are_read() {
        let time = Time { secs: 7, nanos: 0 };
        assert_eq!(implied("0711,0:5"), Ok((0o711, 0, 5, None)));
        assert_eq!(implied("1777,root:6,7"), Ok((0o1777, 0, 6, Some(time))));
        for wrong in ["", "0755", "0755,0", "8,0:0", "10000,0:0", "0755,0:0,x", "0755,:"] {
            assert!(implied(wrong).is_err(), "{wrong}");
        }
    }
}
