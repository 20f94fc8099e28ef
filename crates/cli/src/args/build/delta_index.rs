//! The option of `packfs build` for an index beside the image.

use clap::Args;

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Updates")]
pub(crate) struct DeltaIndexArgs {
    /// Write IMAGE.zsync, by which devices fetch only what changed
    ///
    /// It lists sums of blocks of the image, for `packfs update` and zsync. URL is the address of the image, from that of
    /// the index on or absolute; the default is the name of IMAGE.
    #[arg(
        long,
        value_name = "zsync[=URL]",
        value_parser = DeltaIndex::parse,
        conflicts_with_all = ["dry_run", "composefs"]
    )]
    delta_index: Option<DeltaIndex>,
}

/// An index to write beside the image, in the format of zsync.
#[derive(Debug, Clone)]
pub(crate) struct DeltaIndex {
    /// Address of the image; `None` for its name, beside the index.
    pub(crate) url: Option<String>,
}

impl DeltaIndex {
    fn parse(text: &str) -> Result<Self, String> {
        let (kind, url) = text.split_once('=').map_or((text, None), |(kind, url)| (kind, Some(url)));
        if kind != "zsync" {
            return Err("expected zsync, or zsync=URL with the address of the image".into());
        }
        match url {
            Some(url) if url.is_empty() || url.contains(char::is_control) || url.len() > URL_MAX => {
                Err(format!("expected an address of 1 to {URL_MAX} characters"))
            }
            url => Ok(DeltaIndex { url: url.map(str::to_owned) }),
        }
    }
}

/// Longest address: zsync reads lines of 1 KiB.
const URL_MAX: usize = 900;

impl DeltaIndexArgs {
    /// Returns true if an index is to be written.
    pub(super) fn is_given(&self) -> bool {
        self.delta_index.is_some()
    }

    /// Returns the index to write.
    pub(super) fn resolve(self) -> Option<DeltaIndex> {
        self.delta_index
    }
}
