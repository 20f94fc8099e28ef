//! The layer cache of containerd's EROFS snapshotter: images by the diffIDs of the layers that they replace.

use std::path::Path;
use std::sync::Arc;

use packfs_blocks::Progress;
use packfs_image::build::AnyOptions;

use crate::error::{Error, Result};
use crate::layer::{ConvertedLayer, LayerWarnings, build_layer, hash_file};
use crate::parallel::for_each_layer;
use crate::source::{ContainerSource, SourceLayer};

/// Layers that a cache now has, with their warnings.
#[derive(Debug)]
#[non_exhaustive]
pub struct CachedLayers {
    /// Layers, those of several images once.
    pub layers: Vec<ConvertedLayer>,
    /// Warnings about layers.
    pub warnings: Vec<LayerWarnings>,
}

/// Builds the EROFS image of each layer of `source` in the cache `dir`: `ALGORITHM/XX/HEX.erofs`, where XX are the
/// first two of the hexadecimal digits of the diffID. Layers that the cache has already are not built unless the
/// options [replace](packfs_image::build::SharedOptions::force) them.
pub fn fill_cache(
    source: &ContainerSource,
    dir: &Path,
    target: &packfs_image::erofs::ErofsOptions,
    progress: &Arc<Progress>,
) -> Result<CachedLayers> {
    let target = AnyOptions::Erofs(target.clone());
    // Before any layer is built: a target that cannot be a layer is known now.
    target.check_layer()?;
    // Several images may share a layer, which has one place in the cache.
    let layers = source.unique_layers();
    let sizes: Vec<u64> = layers.iter().map(|layer| layer.bytes.size).collect();
    let built = for_each_layer(&sizes, &target, |number, target| cache_layer(layers[number], dir, target, progress))?;
    let mut cached = CachedLayers { layers: Vec::new(), warnings: Vec::new() };
    for (layer, warnings) in built {
        cached.layers.push(layer);
        cached.warnings.extend(warnings);
    }
    Ok(cached)
}

fn cache_layer(
    layer: &SourceLayer,
    dir: &Path,
    target: &AnyOptions,
    progress: &Progress,
) -> Result<(ConvertedLayer, Option<LayerWarnings>)> {
    let hex = layer.diff_id.hex();
    // The folders are containerd's. A digest has at least 64 digits, so the range is never too long.
    let folder = dir.join(layer.diff_id.algorithm()).join(&hex[..2]);
    std::fs::create_dir_all(&folder).map_err(Error::io("cannot create", &folder))?;
    let path = folder.join(format!("{hex}.erofs"));
    let is_reused = path.is_file() && !target.common().force;
    // An image that is there is taken for complete, since images appear in one step.
    let warnings = if is_reused { None } else { Some(build_layer(layer, &path, target, progress)?) };
    // Also of an image that was there already: the caller lists its digest.
    let (digest, bytes) = hash_file(&path)?;
    let cached = ConvertedLayer {
        source_diff_id: layer.diff_id.clone(),
        source_bytes: layer.bytes.size,
        digest,
        bytes,
        is_reused,
    };
    Ok((cached, warnings.map(|warnings| LayerWarnings { layer: layer.name.clone(), warnings })))
}
