//! Any bytes as a SIF file, or as changes of one that is signed. A test of `packfs-seal` runs this over the corpus, too.
//!
//! Fuzzers find no signature, so most inputs change header, table and signature of a file that has one.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use packfs_blocks::ReadAt;
use packfs_seal::HashEffort;
use packfs_seal::consumer::{ConsumerProgram, KernelEnforcement, SealedImage, examine};
use packfs_seal::signature::SignerKey;

use crate::take::Take;

/// A file with a small image, made by `packfs seal --for sif` with a key that was thrown away.
const SIGNED: &[u8] = include_bytes!("sif_file/signed.sif");
/// The public key of whoever signed it.
const PUBLIC_KEY: &[u8] = include_bytes!("sif_file/public.pem");
/// Where the image is in [`SIGNED`], in bytes.
const IMAGE_START: usize = 32 << 10;
const IMAGE_END: usize = IMAGE_START + 4096;
/// Where the header, the table and the signature are: changes elsewhere only change the image.
const PARTS: [(usize, usize); 3] = [(0, 128), (4096, 2 * 585), (IMAGE_END, SIGNED.len() - IMAGE_END)];

/// Examines a file. The first byte chooses between a whole one and changes: part, position, value.
pub fn look(bytes: &[u8]) {
    let mut take = Take(bytes);
    if take.byte() & 1 == 0 {
        examined(take.0.to_vec());
        return;
    }
    let mut changed = SIGNED.to_vec();
    while !take.is_empty() {
        let (start, len) = take.one_of(&PARTS);
        let at = usize::from(take.short()) % len;
        changed[start + at] = take.byte();
    }
    let image = changed[IMAGE_START..IMAGE_END].to_vec();
    if examined(changed) == KernelEnforcement::Signed {
        assert!(image == SIGNED[IMAGE_START..IMAGE_END], "another image passes for the signed one");
    }
}

fn examined(bytes: Vec<u8>) -> KernelEnforcement {
    static KEY: OnceLock<SignerKey> = OnceLock::new();
    let key = KEY.get_or_init(|| SignerKey::parse(PUBLIC_KEY).expect("a public key"));
    let data: Arc<dyn ReadAt> = Arc::new(bytes);
    let image = SealedImage {
        path: Path::new("app.sif"),
        data: &data,
        certificates: &[],
        minisign_key: None,
        signer_key: Some(key),
    };
    let examination = examine(ConsumerProgram::Apptainer, image, &HashEffort::default());
    examination.expect("bytes in memory can be read").enforcement
}
