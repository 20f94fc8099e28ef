//! Signatures of minisign: made here and verified by it, the other way round, and every mistake by its name.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use packfs_blocks::io::FileAt;
use packfs_blocks::{Progress, ReadAt};
use packfs_seal::consumer::{ConsumerProgram, KernelEnforcement, SealExamination, SealedImage, examine};
use packfs_seal::minisign::{FileDigest, MinisignError, MinisignPublicKey, MinisignSecretKey, signature_path};

use crate::common::{effort, have, noise, run};

const PASSWORD: &[u8] = b"correct horse";

/// A directory with a file, `image`, and the keys `key` and `other`, of which none is encrypted.
struct SignedDir {
    dir: tempfile::TempDir,
}

impl SignedDir {
    /// Returns `None` if there is no minisign to make the keys.
    fn new(test: &str) -> Option<Self> {
        if !have(test, "minisign") {
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        for name in ["key", "other"] {
            let [public, secret] = ["pub", "key"].map(|suffix| format!("{name}.{suffix}"));
            run(dir.path(), "minisign", &["-G", "-W", "-p", &public, "-s", &secret]);
        }
        fs::write(dir.path().join("image"), noise(100_000)).unwrap();
        Some(SignedDir { dir })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }

    fn public_key(&self, name: &str) -> MinisignPublicKey {
        MinisignPublicKey::parse(&self.read(&format!("{name}.pub"))).unwrap()
    }

    /// Signs a file here.
    fn sign(&self, name: &str, comment: &str) {
        let key = MinisignSecretKey::parse(&self.read("key.key"), None).unwrap();
        let digest = FileDigest::of(&self.read(name), &Progress::default()).unwrap();
        fs::write(signature_path(&self.path(name)), key.sign(&digest, comment)).unwrap();
    }

    /// Has minisign do something.
    fn minisign(&self, args: &[&str]) -> String {
        run(self.dir.path(), "minisign", args)
    }

    fn edit(&self, change: impl FnOnce(&str) -> String) {
        let changed = change(&fs::read_to_string(self.path("image.minisig")).unwrap());
        fs::write(self.path("image.minisig"), changed).unwrap();
    }

    fn examine(&self, key: Option<&MinisignPublicKey>) -> SealExamination {
        examine_file(&self.path("image"), key)
    }
}

fn examine_file(path: &Path, minisign_key: Option<&MinisignPublicKey>) -> SealExamination {
    let data: Arc<dyn ReadAt> = Arc::new(FileAt::open(path, 0).unwrap());
    let image = SealedImage { path, data: &data, certificates: &[], minisign_key, signer_key: None };
    examine(ConsumerProgram::Minisign, image, &effort(0)).unwrap()
}

fn names(examination: &SealExamination) -> Vec<&'static str> {
    examination.mistakes.iter().map(|mistake| mistake.name()).collect()
}

#[test]
fn minisign_verifies_signatures_and_makes_those_that_are_verified() {
    let Some(dir) = SignedDir::new("minisign_verifies_signatures_and_makes_those_that_are_verified") else { return };
    let key = dir.public_key("key");
    dir.sign("image", "file:image\thashed");
    let first = dir.read("image.minisig");
    let told = dir.minisign(&["-V", "-H", "-p", "key.pub", "-m", "image"]);
    assert!(told.contains("file:image\thashed"), "{told}");
    dir.sign("image", "file:image\thashed");
    assert!(dir.read("image.minisig") == first, "the same key, file and comment give the same signature");
    // A comment of several lines would end the file too early.
    dir.sign("image", "one\ntwo");
    assert!(dir.minisign(&["-V", "-p", "key.pub", "-m", "image"]).contains("one?two"));

    for kind in [&["-S"][..], &["-S", "-l"]] {
        dir.minisign(&[kind, &["-s", "key.key", "-m", "image", "-t", "version 2"]].concat());
        let examination = dir.examine(Some(&key));
        assert_eq!((names(&examination), examination.enforcement), (vec![], KernelEnforcement::Signed), "{kind:?}");
        assert_eq!(examination.trusted_comment.as_deref(), Some("version 2"));
        let examination = dir.examine(None);
        assert_eq!((names(&examination), examination.enforcement), (vec![], KernelEnforcement::Unsigned));
        assert!(examination.has_signature && examination.trusted_comment.is_none());
    }
    // The key as a line, as minisign -P takes it.
    let line = fs::read_to_string(dir.path("key.pub")).unwrap().lines().nth(1).unwrap().to_owned();
    assert_eq!(MinisignPublicKey::parse(line.as_bytes()), Ok(key));
}

#[test]
fn an_encrypted_key_needs_its_password() {
    let Some(dir) = SignedDir::new("an_encrypted_key_needs_its_password") else { return };
    // With little memory, minisign makes a key that takes little to decrypt.
    let script = format!(
        "ulimit -v 100000; printf '{0}\\n{0}\\n' | minisign -G -f -p key.pub -s key.key",
        String::from_utf8_lossy(PASSWORD)
    );
    let made = Command::new("sh").args(["-c", &script]).current_dir(dir.dir.path()).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let parse = |password| MinisignSecretKey::parse(&dir.read("key.key"), password);
    assert_eq!(parse(None).unwrap_err(), MinisignError::NeedsPassword);
    assert_eq!(parse(Some(b"other")).unwrap_err(), MinisignError::WrongPassword);
    let key = parse(Some(PASSWORD)).unwrap();
    let digest = FileDigest::of(&dir.read("image"), &Progress::default()).unwrap();
    fs::write(dir.path("image.minisig"), key.sign(&digest, "")).unwrap();
    dir.minisign(&["-V", "-p", "key.pub", "-m", "image"]);
}

/// A mistake: its name, and how it is made.
type MistakeCase = (&'static str, fn(&SignedDir));

const MISTAKES: &[MistakeCase] = &[
    ("no-minisig", |dir| fs::remove_file(dir.path("image.minisig")).unwrap()),
    ("other-content", |dir| fs::write(dir.path("image"), "changed").unwrap()),
    ("other-comment", |dir| dir.edit(|text| text.replace("comment: version 2", "comment: version 3"))),
    ("bad-signature", |dir| dir.edit(|text| text.replace("untrusted", "trusted"))),
    ("bad-signature", |dir| dir.edit(|text| text.replace("trusted comment: version", "version"))),
    ("bad-signature", |dir| dir.edit(|text| text.lines().take(3).map(|line| format!("{line}\n")).collect())),
    ("bad-signature", |dir| dir.edit(|text| text.replace('=', ""))),
    ("bad-signature", |dir| dir.edit(|text| text.replace("version 2", &"2".repeat(9000)))),
    // The algorithm is the beginning of the second line.
    ("bad-signature", |dir| dir.edit(|text| text.replace("\nRU", "\nAA"))),
    ("bad-signature", |dir| fs::copy(dir.path("image"), dir.path("image.minisig")).map(drop).unwrap()),
    ("signed-root-hash", |dir| {
        fs::write(dir.path("image.roothash"), "5f".repeat(32)).unwrap();
        dir.sign("image.roothash", "");
        fs::rename(dir.path("image.roothash.minisig"), dir.path("image.minisig")).unwrap();
    }),
];

#[test]
fn every_mistake_with_minisign_has_its_name() {
    let Some(dir) = SignedDir::new("every_mistake_with_minisign_has_its_name") else { return };
    let key = dir.public_key("key");
    for (name, make) in MISTAKES {
        fs::write(dir.path("image"), noise(100_000)).unwrap();
        dir.sign("image", "version 2");
        make(&dir);
        let examination = dir.examine(Some(&key));
        assert_eq!((names(&examination), examination.enforcement), (vec![*name], KernelEnforcement::Refused));
        assert_eq!(examination.trusted_comment, None, "{name}");
        // It is a mistake for minisign, too.
        let verify = ["-V", "-q", "-p", "key.pub", "-m", "image"];
        let judged = Command::new("minisign").args(verify).current_dir(dir.dir.path()).output().unwrap();
        assert!(!judged.status.success(), "{name}");
    }
    fs::write(dir.path("image"), noise(100_000)).unwrap();
    dir.sign("image", "");
    assert_eq!(names(&dir.examine(Some(&dir.public_key("other")))), ["other-key"]);
    // A file that is signed itself is no image whose root hash was signed.
    assert_eq!(names(&examine_file(&dir.path("image.roothash"), Some(&key))), ["no-minisig"]);
}

#[test]
fn keys_of_minisign_that_are_none_are_refused() {
    let Some(dir) = SignedDir::new("keys_of_minisign_that_are_none_are_refused") else { return };
    let secret = fs::read_to_string(dir.path("key.key")).unwrap();
    let public = fs::read_to_string(dir.path("key.pub")).unwrap();
    for wrong in ["", "text", &public, &secret.replace("RWQ", "AAQ"), &secret.replace("\nRWQAAEI", "\nRWQAAEA")] {
        let error = MinisignSecretKey::parse(wrong.as_bytes(), None).unwrap_err();
        assert!(matches!(error, MinisignError::BadSecretKey(_)), "{wrong}: {error}");
    }
    for wrong in ["", "text", &secret, &public.replace("\nRW", "\nAA")] {
        let error = MinisignPublicKey::parse(wrong.as_bytes()).unwrap_err();
        assert!(matches!(error, MinisignError::BadPublicKey(_)), "{wrong}: {error}");
    }
}
