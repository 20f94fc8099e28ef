//! Programs that are measured along with packfs, on request.

use std::path::PathBuf;

use anyhow::{Context, Result};
use packfs_bench::build::{BuildProgram, BuildTool};
use packfs_image::name::display;

use crate::output::say;

/// Returns the path of this program.
pub(super) fn own_path() -> Result<PathBuf> {
    std::env::current_exe().context("cannot find the path of this program")
}

/// Returns the tools that build images: packfs and, on request, its peers, in a folder or on `PATH`.
pub(super) fn find_tools(peers: Option<&Option<PathBuf>>) -> Result<Vec<BuildTool>> {
    let mut tools =
        vec![BuildTool { program: BuildProgram::Packfs, path: own_path()?, version: env!("CARGO_PKG_VERSION").into() }];
    if let Some(folder) = peers {
        let (found, missing) = BuildTool::peers(folder.as_deref());
        say_missing(folder.as_ref(), &missing);
        tools.extend(found);
    }
    Ok(tools)
}

/// Names programs that are missing.
pub(super) fn say_missing(folder: Option<&PathBuf>, missing: &[&str]) {
    let at = folder.map_or(String::new(), |folder| format!("in {} or ", display(folder)));
    for name in missing {
        say(format_args!("packfs: left out: {name} is not {at}on PATH"));
    }
}
