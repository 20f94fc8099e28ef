//! What was put down and is not wanted after all: members of a stream that a later one replaced, files that
//! could not be read to their end. Their blocks become zeros and their fragments lose their entry, so that
//! everything in an image belongs to a file.

use packfs_blocks::Output;

use super::data::DataDone;
use crate::tree::{Data, Kind, Tree};
use crate::{Error, Result};

/// Clears what no file of the tree refers to. The image begins at byte `base` of the output.
pub(crate) fn clear(tree: &Tree, data: &mut DataDone, output: &Output, base: u64) -> Result<()> {
    let (mut places, mut fragments) = (vec![false; data.places.len()], vec![false; data.fragments.len()]);
    tree.walk(|ino, _| {
        if let Kind::File { data: Data::Stored(file), .. } = tree.inode(ino).kind {
            let stored = &data.files[file as usize];
            places[stored.run()].fill(true);
            if let Some(tail) = stored.tail {
                fragments[tail.fragment as usize] = true;
                places[data.fragments[tail.fragment as usize] as usize] = true;
            }
        }
        Ok(())
    })?;
    for (place, _) in data.places.iter().zip(&places).filter(|(_, used)| !**used) {
        let zeros = vec![0; usize::try_from(place.len()).expect("at most a block")];
        output.write_all_at(&zeros, base + place.start).map_err(Error::io("cannot write", output.target()))?;
    }
    if fragments.contains(&false) {
        drop_fragments(data, &fragments);
    }
    Ok(())
}

/// Takes out the fragments not used, and gives those that follow their new numbers.
fn drop_fragments(data: &mut DataDone, used: &[bool]) {
    let mut kept = 0;
    let numbers: Vec<u32> = used
        .iter()
        .map(|used| {
            kept += u32::from(*used);
            kept.saturating_sub(1)
        })
        .collect();
    let mut used_again = used.iter();
    data.fragments.retain(|_| used_again.next().copied().unwrap_or(false));
    for tail in data.files.iter_mut().filter_map(|file| file.tail.as_mut()) {
        tail.fragment = numbers[tail.fragment as usize];
    }
}
