//! Shortens clusters of which files use the beginning only, because `dedupe` found it in a file that is gone: what the
//! cluster decodes to after that beginning belongs to no file.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use packfs_blocks::encode::BlockProver;
use packfs_codec::{Decoder, Encoder};

use super::ClearTarget;
use crate::erofs::writer::encode::lanes::PackingOptions;
use crate::erofs::writer::stored::cluster::{StoredCluster, StoredLen};
use crate::erofs::writer::stored::data::StoredData;
use crate::{Error, Result};

/// Encodes such beginnings anew, at the ends of their clusters, and points all files there.
pub(crate) fn shorten(data: &mut StoredData, used: &[bool], place: &ClearTarget<'_>) -> Result<()> {
    let begun = begun(data, used);
    if begun.is_empty() {
        return Ok(());
    }
    let mut coders = BTreeMap::new();
    let mut moved = BTreeMap::new();
    for cluster in begun.into_values() {
        let end = cluster.start + u64::from(cluster.physical);
        if cluster.raw {
            place.zeros(cluster.start + u64::from(cluster.logical)..end)?;
            continue;
        }
        let packing = place.lanes.with_algorithm(cluster.algorithm);
        let coder = match coders.entry(cluster.algorithm) {
            Entry::Occupied(coder) => coder.into_mut(),
            Entry::Vacant(none) => none.insert(ClusterCoder::new(packing)?),
        };
        let ClusterCoder { decoder, encoder, prover } = coder;
        let mut bytes = vec![0; cluster.logical as usize];
        place.read(&cluster, &mut **decoder, &mut bytes)?;
        let mut stored = vec![0; cluster.physical.bytes()];
        let len = if packing.choice.fills() {
            // An encoder that fills clusters may stop before the end of its input.
            let prefix = encoder.encode_prefix(&bytes, &mut stored)?;
            prefix.filter(|prefix| prefix.taken == bytes.len()).map(|prefix| prefix.len)
        } else {
            encoder.encode(&bytes, &mut stored)?
        };
        // Where only a few bytes are to go, another end of the stream may take more room than they do. They stay then.
        let Some(len) = len else { continue };
        prover.prove(&bytes, &stored[..len])?;
        let physical = packing.physical(len);
        // Streams end with their clusters, and zeros come before them, as in every cluster.
        let padding = stored.len() - len;
        stored.copy_within(..len, padding);
        stored[..padding].fill(0);
        let failed = Error::io("cannot write", place.output.target());
        place.output.write_all_at(&stored, place.base + cluster.start).map_err(failed)?;
        let physical = StoredLen::of_cut(physical);
        moved.insert(cluster.start, StoredCluster { start: end - u64::from(physical), physical, ..cluster });
    }
    // Each file that uses the cluster has an entry of its own for it.
    for cluster in &mut data.clusters {
        if let Some(new) = moved.get(&cluster.start).filter(|_| cluster.device == 0) {
            let start = new.start;
            let physical = new.physical;
            let partial = cluster.logical < new.logical;
            *cluster = StoredCluster { start, physical, partial, ..*cluster };
        }
    }
    Ok(())
}

/// Decoder and encoder of an algorithm.
struct ClusterCoder {
    decoder: Box<dyn Decoder>,
    encoder: Box<dyn Encoder>,
    prover: BlockProver,
}

impl ClusterCoder {
    fn new(packing: &PackingOptions) -> Result<Self> {
        let codec = packing.choice.codec();
        Ok(ClusterCoder {
            decoder: codec.cluster_decoder()?,
            encoder: packing.choice.cluster_encoder(packing.window)?,
            prover: BlockProver::of_clusters(codec, packing.verify),
        })
    }
}

/// Returns the clusters that files use in part, by position, with the length of the longest part.
fn begun(data: &StoredData, used: &[bool]) -> BTreeMap<u64, StoredCluster> {
    let files = data.files.iter().zip(used).filter(|(_, used)| **used).map(|(file, _)| file);
    let clusters = || files.clone().chain(&data.packed).filter_map(|stored| Some(stored.index(data)?.used_clusters()));
    let mut begun: BTreeMap<u64, StoredCluster> = BTreeMap::new();
    for cluster in clusters().flatten().filter(|cluster| cluster.partial && cluster.device == 0) {
        let most = begun.entry(cluster.start).or_insert(*cluster);
        most.logical = most.logical.max(cluster.logical);
    }
    // A cluster that some file uses to its end has to stay as it is.
    clusters().flatten().filter(|cluster| !cluster.partial && cluster.device == 0).for_each(|cluster| {
        begun.remove(&cluster.start);
    });
    begun
}
