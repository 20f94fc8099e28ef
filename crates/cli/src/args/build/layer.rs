//! Options of images that are layers of a container image: those of `packfs build`, except for what a layer cannot have.

use clap::Args;
use packfs_image::build::{AnyOptions, OptionDraft};
use packfs_image::{erofs, squashfs};

use super::table::{self, CompressionTable, ErofsTable, LayoutTable, OfLayers, SquashfsTable, TableArgs};
use super::{EffortArgs, FormatChoice};
use crate::output::failure::UsageError;

/// Options of EROFS layers.
#[derive(Debug, Args)]
pub(in crate::args) struct ErofsLayer {
    #[command(flatten)]
    compression: TableArgs<OfLayers<CompressionTable>>,

    #[command(flatten)]
    layout: TableArgs<OfLayers<LayoutTable>>,

    #[command(flatten)]
    erofs: TableArgs<OfLayers<ErofsTable>>,
}

/// Options of layers of any format.
#[derive(Debug, Args)]
pub(in crate::args) struct AnyLayer {
    /// Format of the layers [default: erofs]
    #[arg(long, value_enum)]
    format: Option<FormatChoice>,

    #[command(flatten)]
    shared: ErofsLayer,

    #[command(flatten)]
    squashfs: TableArgs<OfLayers<SquashfsTable>>,
}

impl ErofsLayer {
    /// Returns the options of an EROFS image.
    pub(in crate::args) fn resolve(&self, effort: &EffortArgs) -> Result<AnyOptions, UsageError> {
        self.resolve_from(erofs::ErofsOptions::default().into(), effort, |_| Ok(()))
    }

    /// Changes the options of a format by those that were given. `apply_own` applies further ones.
    fn resolve_from(
        &self,
        defaults: AnyOptions,
        effort: &EffortArgs,
        apply_own: impl FnOnce(&mut OptionDraft) -> Result<(), UsageError>,
    ) -> Result<AnyOptions, UsageError> {
        let mut defaults = defaults;
        defaults.common_mut().threads = effort.threads();
        defaults.common_mut().memory = effort.memory();
        let mut draft = OptionDraft::new(defaults, 0);
        self.compression.apply(&mut draft)?;
        self.layout.apply(&mut draft)?;
        self.erofs.apply(&mut draft)?;
        apply_own(&mut draft)?;
        table::resolve(draft)
    }
}

impl AnyLayer {
    /// Returns the options of an image of the format that was chosen.
    pub(in crate::args) fn resolve(&self, effort: &EffortArgs) -> Result<AnyOptions, UsageError> {
        let format = self.format.unwrap_or(FormatChoice::Erofs);
        table::refuse_other_format(format, "a layer", &self.squashfs, &self.shared.erofs)?;
        let defaults = match format {
            FormatChoice::Squashfs => squashfs::SquashfsOptions::default().into(),
            FormatChoice::Erofs => erofs::ErofsOptions::default().into(),
        };
        self.shared.resolve_from(defaults, effort, |draft| self.squashfs.apply(draft))
    }
}
