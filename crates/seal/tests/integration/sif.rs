//! SIF files: as the library of Apptainer makes and verifies them, and every mistake by its name.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use packfs_blocks::io::FileAt;
use packfs_blocks::{Output, ReadAt};
use packfs_image::{Builder, Codec};
use packfs_seal::Error;
use packfs_seal::consumer::{ConsumerProgram, KernelEnforcement, SealExamination, SealedImage, examine};
use packfs_seal::sif::{IMAGE_START, SifArchitecture, SifError, UnsignedSif};
use packfs_seal::signature::{MessageSignature, SignatureError, SignerCertificate, SignerKey, SigningKey};

use crate::common::{effort, have, noise, run};

const ORACLE: &str = "sif-oracle";
const FILE: &str = "app.sif";

/// Where the first two descriptors are, and fields in them, in bytes.
const FIRST_AT: usize = 4096;
const SECOND_AT: usize = FIRST_AT + 585;
const USED_AT: usize = 4;
const GROUP_AT: usize = 9;
const SIZE_AT: usize = 25;
const NAME_AT: usize = 73;
const FS_TYPE_AT: usize = 201;
const PART_TYPE_AT: usize = 205;
/// Where the header has the number of descriptors.
const TOTAL_AT: usize = 88;

/// A directory with a SquashFS image, `image`, and the keys `key` and `other` with their certificates and public keys.
struct SifDir {
    dir: tempfile::TempDir,
}

impl SifDir {
    /// Makes keys of a kind that openssl knows. `None` if a program is missing.
    fn new(test: &str, kind: &[&str]) -> Option<Self> {
        if !have(test, "openssl") || !have(test, ORACLE) {
            return None;
        }
        let made = SifDir { dir: tempfile::tempdir().unwrap() };
        for name in ["key", "other"] {
            let [key, certificate, public] = ["pem", "crt", "pub"].map(|suffix| format!("{name}.{suffix}"));
            let begin = ["req", "-x509", "-nodes", "-subj", "/CN=test"];
            made.run("openssl", &[&begin[..], kind, &["-keyout", &key, "-out", &certificate]].concat());
            made.run("openssl", &["x509", "-in", &certificate, "-pubkey", "-noout", "-out", &public]);
        }
        fs::create_dir(made.path("root")).unwrap();
        fs::write(made.path("root/noise"), noise(1_500_000)).unwrap();
        Builder::squashfs().codec(Codec::Lz4).dir(made.path("root")).build(made.path("image")).unwrap();
        Some(made)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }

    fn run(&self, program: &str, args: &[&str]) -> String {
        run(self.dir.path(), program, args)
    }

    fn describe(&self) -> UnsignedSif {
        let image: Arc<dyn ReadAt> = Arc::new(self.read("image"));
        UnsignedSif::describe(&image, "arm64".parse().unwrap(), &effort(1)).unwrap()
    }

    /// Puts the image into a file, signed or not.
    fn seal(&self, file: &str, key: Option<&str>) {
        let unsigned = self.describe();
        let signature = key.map(|key| {
            let key = SigningKey::parse(&self.read(key)).unwrap();
            MessageSignature::sign(&unsigned.message(), &key, None).unwrap()
        });
        self.write(file, &unsigned, signature.as_ref());
    }

    /// Does the same with a signature by openssl, and leaves the files `message` and `signature`.
    fn sign_elsewhere(&self, file: &str) {
        let unsigned = self.describe();
        fs::write(self.path("message"), unsigned.message()).unwrap();
        self.run("openssl", &["dgst", "-sha256", "-sign", "key.pem", "-out", "signature", "message"]);
        let key = SignerKey::parse(&self.read("key.pub")).unwrap();
        let made = MessageSignature::made_elsewhere(self.read("signature"), &unsigned.message(), &key).unwrap();
        self.write(file, &unsigned, Some(&made));
    }

    fn write(&self, file: &str, unsigned: &UnsignedSif, signature: Option<&MessageSignature>) {
        let output = Output::create(&self.path(file), 0o777, true).unwrap();
        output.write_all_at(&self.read("image"), IMAGE_START).unwrap();
        unsigned.write(signature, &output).unwrap();
        output.commit().unwrap();
    }

    /// Has the library verify a file; returns why it refuses it.
    fn refusal(&self, file: &str) -> Option<String> {
        let args = ["verify", file, "key.pub"];
        let ran = Command::new(ORACLE).args(args).current_dir(self.dir.path()).output().unwrap();
        (!ran.status.success()).then(|| String::from_utf8_lossy(&ran.stderr).into_owned())
    }

    fn examine(&self, file: &str, key: &str) -> SealExamination {
        let path = self.path(file);
        let data: Arc<dyn ReadAt> = Arc::new(FileAt::open(&path, 0).unwrap());
        let key = SignerKey::parse(&self.read(key)).unwrap();
        let image =
            SealedImage { path: &path, data: &data, certificates: &[], minisign_key: None, signer_key: Some(&key) };
        examine(ConsumerProgram::Apptainer, image, &effort(1)).unwrap()
    }

    /// Returns the names of all mistakes, and compares the verdict with that of the library.
    fn mistakes(&self, file: &str) -> Vec<&'static str> {
        let examined = self.examine(file, "key.pub");
        let names: Vec<_> = examined.mistakes.iter().map(|mistake| mistake.name()).collect();
        let is_signed = examined.enforcement == KernelEnforcement::Signed;
        assert_eq!(is_signed, names.is_empty(), "{names:?}");
        if !is_signed {
            assert_eq!(examined.enforcement, KernelEnforcement::Refused, "{names:?}");
        }
        // Verifying asks neither whether a partition can be run nor what is in it.
        let is_refused = names.iter().any(|name| !["no-primary-partition", "not-squashfs"].contains(name));
        let refusal = self.refusal(file);
        assert_eq!(refusal.is_some(), is_refused, "{names:?}: {refusal:?}");
        names
    }

    /// Changes a file that is sound.
    fn mistakes_after(&self, change: impl FnOnce(&mut Vec<u8>)) -> Vec<&'static str> {
        let mut bytes = self.read(FILE);
        change(&mut bytes);
        fs::write(self.path("changed"), bytes).unwrap();
        self.mistakes("changed")
    }
}

const RSA: [&str; 2] = ["-newkey", "rsa:2048"];
const P256: [&str; 4] = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"];
const P384: [&str; 4] = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-384"];

#[test]
fn the_library_of_apptainer_makes_the_same_bytes() {
    let Some(dir) = SifDir::new("sif bytes", &RSA) else { return };
    dir.run(ORACLE, &["make", "image", "theirs", "arm64"]);
    dir.seal(FILE, None);
    assert!(dir.read(FILE) == dir.read("theirs"), "without a signature");
    dir.run(ORACLE, &["sign", "theirs", "key.pem"]);
    dir.seal(FILE, Some("key.pem"));
    assert!(dir.read(FILE) == dir.read("theirs"), "with a signature, which RSA makes the same each time");
}

#[test]
fn each_verifies_what_the_other_signed() {
    for kind in [&RSA[..], &P256, &P384] {
        let Some(dir) = SifDir::new("sif signatures", kind) else { return };
        if kind == P384 {
            let key = SigningKey::parse(&dir.read("key.pem")).unwrap();
            // The library verifies with SHA-256 only.
            assert!(matches!(MessageSignature::sign(b"", &key, None), Err(SignatureError::BadKey(_))));
            dir.sign_elsewhere(FILE);
        } else {
            dir.seal(FILE, Some("key.pem"));
        }
        assert_eq!(dir.mistakes(FILE), [""; 0], "{kind:?}");
        assert_eq!(dir.examine(FILE, "key.crt").enforcement, KernelEnforcement::Signed, "by the certificate");
        dir.run(ORACLE, &["make", "image", "theirs", "amd64", "definition=key.pub", "labels=key.crt"]);
        dir.run(ORACLE, &["sign", "theirs", "key.pem"]);
        assert_eq!(dir.mistakes("theirs"), [""; 0], "{kind:?}");
        // A second signature, by another key: both have to be valid for whoever verifies.
        dir.run(ORACLE, &["sign", "theirs", "other.pem"]);
        assert_eq!(dir.mistakes("theirs"), ["other-key"], "{kind:?}");
    }
}

#[test]
fn a_signature_made_elsewhere_is_that_of_the_message() {
    let Some(dir) = SifDir::new("sif elsewhere", &RSA) else { return };
    dir.sign_elsewhere(FILE);
    let message = dir.read("message");
    let take = |key: &str, message: &[u8]| {
        let key = SignerCertificate::parse(&dir.read(key)).unwrap().key();
        MessageSignature::made_elsewhere(dir.read("signature"), message, &key)
    };
    assert!(take("key.crt", &message).is_ok());
    assert!(matches!(take("other.crt", &message), Err(SignatureError::BadSignature(_))));
    assert!(matches!(take("key.crt", &message[1..]), Err(SignatureError::BadSignature(_))));
    let key = SigningKey::parse(&dir.read("key.pem")).unwrap();
    let other = SignerCertificate::parse(&dir.read("other.crt")).unwrap();
    let signed = MessageSignature::sign(&message, &key, Some(&other));
    assert!(matches!(signed, Err(SignatureError::OtherKey)));
}

#[test]
fn every_mistake_has_its_name_and_the_library_refuses_it_too() {
    let Some(dir) = SifDir::new("sif mistakes", &P256) else { return };
    dir.run(ORACLE, &["make", "image", FILE, "amd64", "labels=key.crt"]);
    dir.run(ORACLE, &["sign", FILE, "key.pem"]);
    assert_eq!(dir.mistakes(FILE), [""; 0]);
    let start = usize::try_from(IMAGE_START).unwrap();
    assert_eq!(dir.mistakes_after(|bytes| bytes[2] ^= 1), ["changed-header"]);
    assert_eq!(dir.mistakes_after(|bytes| bytes[start + 500_000] ^= 1), ["changed-object"]);
    assert_eq!(dir.mistakes_after(|bytes| bytes[FIRST_AT + NAME_AT] = b'x'), ["changed-descriptor"]);
    assert_eq!(dir.mistakes_after(|bytes| bytes[SECOND_AT + USED_AT] = 0), ["missing-object"]);
    assert_eq!(dir.mistakes_after(|bytes| bytes[SECOND_AT + GROUP_AT] = 0), ["no-group", "missing-object"]);
    assert_eq!(dir.mistakes_after(|bytes| bytes[SECOND_AT + 585 + USED_AT] = 0), ["unsigned-group"]);
    let data_type = dir.mistakes_after(|bytes| bytes[FIRST_AT + PART_TYPE_AT] = 3);
    assert_eq!(data_type, ["no-primary-partition", "changed-descriptor"]);
    let ext3 = dir.mistakes_after(|bytes| bytes[FIRST_AT + FS_TYPE_AT] = 2);
    assert_eq!(ext3, ["not-squashfs", "changed-descriptor"]);
    assert_eq!(dir.mistakes_after(|bytes| bytes[32] = b'X'), ["not-sif"]);
    assert_eq!(dir.mistakes_after(|bytes| bytes[43] = b'2'), ["not-sif"]);
    assert_eq!(dir.mistakes_after(|bytes| bytes.truncate(100)), ["not-sif"]);
    assert_eq!(dir.mistakes_after(|bytes| bytes.truncate(5000)), ["bad-object-table"]);
    assert_eq!(dir.mistakes_after(|bytes| bytes[SECOND_AT + SIZE_AT + 3] = 1), ["bad-object-table"]);
    assert_eq!(dir.mistakes_after(|bytes| bytes[TOTAL_AT + 5] = 1), ["bad-object-table"]);
    let is_quote = |byte: &u8| *byte == b'"';
    let bad_json = |bytes: &mut Vec<u8>| {
        let at = bytes.iter().rposition(is_quote).unwrap();
        bytes[at] = b'x';
    };
    assert_eq!(dir.mistakes_after(bad_json), ["bad-envelope"]);

    dir.run(ORACLE, &["add", FILE, "more=key.pub"]);
    assert_eq!(dir.mistakes(FILE), ["unsigned-object"]);
    dir.run(ORACLE, &["make", "image", "pgp", "amd64"]);
    dir.run(ORACLE, &["sign-pgp", "pgp"]);
    assert_eq!(dir.mistakes("pgp"), ["pgp-signature"]);
    fs::write(dir.path("text"), noise(5000)).unwrap();
    dir.run(ORACLE, &["make", "text", "no-image", "amd64"]);
    dir.run(ORACLE, &["sign", "no-image", "key.pem"]);
    assert_eq!(dir.mistakes("no-image"), ["not-squashfs"]);
}

#[test]
fn only_squashfs_becomes_a_sif_file() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("file"), noise(10_000)).unwrap();
    Builder::erofs().codec(Codec::Lz4).dir(dir.path()).build(dir.path().join("image")).unwrap();
    for image in [fs::read(dir.path().join("image")).unwrap(), noise(5000), Vec::new()] {
        let image: Arc<dyn ReadAt> = Arc::new(image);
        let described = UnsignedSif::describe(&image, SifArchitecture::own().unwrap(), &effort(1));
        assert!(matches!(described, Err(Error::Sif(SifError::NotSquashfs))));
    }
}
