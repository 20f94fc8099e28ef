//! The seal of an image that is being built.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use packfs_blocks::{Progress, ReadAt};
use packfs_image::name::display;
use packfs_seal::verity::VerityOptions;
use packfs_seal::{HashEffort, ImageContents, RootHash};

use super::SealOutputs;
use super::layout::SealLayout;
use super::signing::{RootSignature, SignatureFiles};
use crate::args::BuildSeal;
use crate::commands::open;
use crate::output::failure::UsageError;

/// A seal whose files were created, and whose key was read, before the image is built.
pub(in crate::commands) struct PendingSeal {
    outputs: SealOutputs,
    signature: Option<RootSignature>,
}

impl PendingSeal {
    /// Prepares the seal of an image.
    pub(in crate::commands) fn prepare(image: &Path, seal: &BuildSeal, force: bool) -> Result<Self> {
        if image.exists() && !image.is_file() {
            let name = display(image);
            return Err(UsageError(format!("--seal: {name} is not a regular file: seal it with `packfs seal`")).into());
        }
        let files = SignatureFiles { key: seal.key.as_deref(), certificate: seal.certificate.as_deref(), made: None };
        let signature = RootSignature::read(files)?;
        let layout = SealLayout::beside(image, signature.is_some());
        Ok(PendingSeal { outputs: SealOutputs::create(layout, force)?, signature })
    }

    /// Seals the image, which is complete.
    pub(in crate::commands) fn complete(
        self,
        image: &Path,
        threads: usize,
        progress: &Arc<Progress>,
    ) -> Result<RootHash> {
        let sealed = self.make(image, &HashEffort { threads, progress: Arc::clone(progress) });
        sealed.with_context(|| format!("{}: the image is complete, but not sealed", display(image)))
    }

    fn make(self, path: &Path, effort: &HashEffort) -> Result<RootHash> {
        let image = Arc::new(open::file(path, 0)?);
        let bytes = Arc::clone(&image) as Arc<dyn ReadAt>;
        // Linux mounts no file system whose blocks are smaller than those of the tree.
        let block_max = ImageContents::of(&bytes).map_or(u32::MAX, |contents| contents.device_block_max);
        let options = VerityOptions::default().set(|all| {
            all.data_block_size = all.data_block_size.min(block_max);
            all.hash_block_size = all.data_block_size;
        });
        let sealed = self.outputs.fill(&image, path, None, &options, effort)?;
        let signature = self.signature.map(|signature| signature.make(&sealed.root_hash)).transpose()?;
        self.outputs.commit(&sealed, signature.as_ref())?;
        Ok(sealed.root_hash)
    }
}
