//! Any bytes as the end of a bundle of RAUC, as its signature, as the manifest in that, or as the image of which a bundle
//! is made. A test of `packfs-seal` runs this over the corpus, too.
//!
//! Lengths around manifest and signature, root hash and tree are added here, because a fuzzer finds none of them.

use std::io::Cursor;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};

use packfs_blocks::{Output, ReadAt};
use packfs_image::Fs;
use packfs_image::image::FileType;
use packfs_seal::HashEffort;
use packfs_seal::consumer::{ConsumerProgram, SealExamination, SealedImage, examine};
use packfs_seal::rauc::{UnsignedBundle, usual_options};
use packfs_seal::signature::SignerCertificate;

use crate::take::Take;

/// An image with a manifest. It is a file, so that the corpus fits it even if builds change.
const IMAGE: &[u8] = include_bytes!("rauc_bundle/image.sqfs");
/// The certificate of whoever signed the manifest of [`IMAGE`] in the corpus.
const CERTIFICATE: &[u8] = include_bytes!("rauc_bundle/certificate.der");
/// Longest file in an image of which a bundle is made: hashing takes as long as it is.
const LEN_MAX: u64 = 256 << 10;

/// An image with its tree.
struct SealedPayload {
    bytes: Vec<u8>,
    /// The manifest to sign.
    manifest: String,
}

/// Examines the bundle of an input. What the first byte chooses is said in the code.
pub fn look(bytes: &[u8]) {
    let mut take = Take(bytes);
    let choice = take.byte();
    let is_alone = choice & 4 != 0;
    let rest = take.0;
    match choice & 3 {
        // The end of a file: with the trailer, and without.
        0 if is_alone => drop(examined(rest.to_vec())),
        0 => drop(examined([&known_payload().bytes, rest].concat())),
        1 => drop(examined(with_trailer(known_payload(), rest))),
        // A manifest without the parameters of the tree, and with them.
        2 if is_alone => drop(examined(with_trailer(known_payload(), &signed_message(rest)))),
        2 => {
            let whole = [rest, b"\n", tree_section(&known_payload().manifest).as_bytes()].concat();
            drop(examined(with_trailer(known_payload(), &signed_message(&whole))));
        }
        _ => {
            let Some(payload) = seal_image(rest) else { return };
            let examination = examined(with_trailer(&payload, &signed_message(payload.manifest.as_bytes())));
            // Nobody signed it, but nothing else may be wrong.
            let mut others = examination.mistakes.iter().map(|mistake| mistake.name());
            let wrong = others.find(|name| !["no-signer-certificate", "other-signer"].contains(name));
            assert_eq!(wrong, None, "{:?}", payload.manifest);
        }
    }
}

fn examined(bytes: Vec<u8>) -> SealExamination {
    static CERTIFICATES: OnceLock<Vec<SignerCertificate>> = OnceLock::new();
    let certificates = CERTIFICATES.get_or_init(|| SignerCertificate::parse_all(CERTIFICATE).expect("a certificate"));
    let data: Arc<dyn ReadAt> = Arc::new(bytes);
    let image = SealedImage {
        path: Path::new("bundle.raucb"),
        data: &data,
        certificates,
        minisign_key: None,
        signer_key: None,
    };
    examine(ConsumerProgram::Rauc, image, &effort()).expect("bytes in memory can be read")
}

fn effort() -> HashEffort {
    HashEffort { threads: 0, ..HashEffort::default() }
}

fn known_payload() -> &'static SealedPayload {
    static PAYLOAD: OnceLock<SealedPayload> = OnceLock::new();
    PAYLOAD.get_or_init(|| seal_image(IMAGE).expect("a bundle can be made of the image"))
}

/// Makes a bundle of an image as far as nobody has to sign; `None` if that is not possible.
fn seal_image(bytes: &[u8]) -> Option<SealedPayload> {
    let contents = Fs::from_reader(bytes.to_vec()).ok()?;
    let walked = contents.walk(|entry| match entry.stat.kind {
        FileType::File { size } if size > LEN_MAX => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    if walked.ok()?.is_break() {
        return None;
    }
    let output = Output::over(Mutex::new(Cursor::new(Vec::new())), "bundle.raucb");
    output.write_all_at(bytes, 0).expect("memory can be written");
    let image: Arc<dyn ReadAt> = Arc::new(bytes.to_vec());
    let manifest = UnsignedBundle::seal(&image, &usual_options(), Some(&output), &effort()).ok()?.manifest;
    let mut sealed = Vec::new();
    output.copy_to(&mut sealed).expect("memory can be read");
    Some(SealedPayload { bytes: sealed, manifest })
}

/// Returns the section of a manifest that names the tree.
fn tree_section(manifest: &str) -> &str {
    &manifest[manifest.find("[bundle]").expect("the section was added")..]
}

fn with_trailer(payload: &SealedPayload, cms: &[u8]) -> Vec<u8> {
    [&payload.bytes, cms, &(cms.len() as u64).to_be_bytes()].concat()
}

/// Returns a message of CMS with `content` and one signer, who has neither certificate nor signature.
fn signed_message(content: &[u8]) -> Vec<u8> {
    const SEQUENCE: u8 = 0x30;
    const SET: u8 = 0x31;
    const OCTETS: u8 = 0x04;
    const EXPLICIT: u8 = 0xa0;
    let oid = |bytes: &[u8]| encode(0x06, &[bytes]);
    let version = |number: u8| encode(0x02, &[&[number]]);
    let data = oid(&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 7, 1]);
    let signed_data = oid(&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 7, 2]);
    let sha256 = encode(SEQUENCE, &[&oid(&[0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, 1])]);
    let rsa = encode(SEQUENCE, &[&oid(&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 1])]);
    let key_identifier = encode(0x80, &[b"nobody"]);
    let signature = encode(OCTETS, &[b"none"]);
    let signer = encode(SEQUENCE, &[&version(3), &key_identifier, &sha256, &rsa, &signature]);
    let embedded = encode(EXPLICIT, &[&encode(OCTETS, &[content])]);
    let signed = encode(
        SEQUENCE,
        &[&version(3), &encode(SET, &[&sha256]), &encode(SEQUENCE, &[&data, &embedded]), &encode(SET, &[&signer])],
    );
    encode(SEQUENCE, &[&signed_data, &encode(EXPLICIT, &[&signed])])
}

/// Returns a value in DER: tag, length and contents.
fn encode(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let contents = parts.concat();
    let mut value = vec![tag];
    match u8::try_from(contents.len()) {
        Ok(len) if len < 0x80 => value.push(len),
        _ => {
            let len = (contents.len() as u64).to_be_bytes();
            let digits = &len[len.iter().take_while(|byte| **byte == 0).count()..];
            // At most eight, which the tag of the length has room for.
            value.push(0x80 | u8::try_from(digits.len()).expect("eight digits at most"));
            value.extend(digits);
        }
    }
    value.extend(contents);
    value
}
