//! Bundles of RAUC: what is signed, and every mistake by its name.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use packfs_blocks::io::FileAt;
use packfs_blocks::{Output, ReadAt};
use packfs_image::{Builder, Codec};
use packfs_seal::consumer::{ConsumerProgram, KernelEnforcement, SealExamination, SealedImage, examine};
use packfs_seal::rauc::{BundleError, UnsignedBundle, usual_options};
use packfs_seal::signature::{EmbeddedSignature, SignerCertificate, SigningKey, sign, sign_content};
use packfs_seal::{Error, HashAlgorithm};

use crate::common::{effort, have, noise, run};

const BUNDLE: &str = "update.raucb";
const MANIFEST: &str =
    "# by hand\n[update]\ncompatible = Test\\sSystem\nversion=1\n[image.rootfs]\nfilename=rootfs.img\n";
/// Length of a block, and of the tree of the bundle, in bytes.
const BLOCK_LEN: usize = 4096;

/// A directory with a SquashFS image, `image`, and two keys with their certificates.
struct BundleDir {
    dir: tempfile::TempDir,
    key: SigningKey,
    certificate: SignerCertificate,
    other: SignerCertificate,
}

impl BundleDir {
    /// Returns `None` if there is no openssl to make the keys.
    fn new(test: &str) -> Option<Self> {
        if !have(test, "openssl") {
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        for name in ["key", "other"] {
            let key = format!("{name}.pem");
            let certificate = format!("{name}.crt");
            let subject = format!("/CN={name}");
            let begin = ["req", "-x509", "-nodes", "-newkey", "rsa:2048", "-subj", &subject];
            run(dir.path(), "openssl", &[&begin[..], &["-keyout", &key, "-out", &certificate]].concat());
        }
        let read = |name: &str| fs::read(dir.path().join(name)).unwrap();
        let key = SigningKey::parse(&read("key.pem")).unwrap();
        let certificate = SignerCertificate::parse(&read("key.crt")).unwrap();
        let other = SignerCertificate::parse(&read("other.crt")).unwrap();
        let root = dir.path().join("root");
        fs::create_dir(&root).unwrap();
        fs::write(root.join("rootfs.img"), noise(100_000)).unwrap();
        let found = BundleDir { dir, key, certificate, other };
        found.build(MANIFEST);
        Some(found)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Makes the image with a manifest.
    fn build(&self, manifest: &str) {
        fs::write(self.path("root/manifest.raucm"), manifest).unwrap();
        let _ = fs::remove_file(self.path("image"));
        Builder::squashfs().codec(Codec::Lz4).dir(self.path("root")).build(self.path("image")).unwrap();
    }

    /// Makes the bundle, with a changed manifest.
    fn seal(&self, change: &dyn Fn(&str) -> String) {
        let bytes = fs::read(self.path("image")).unwrap();
        let output = Output::create(&self.path(BUNDLE), 0o666, true).unwrap();
        output.write_all_at(&bytes, 0).unwrap();
        let image: Arc<dyn ReadAt> = Arc::new(bytes);
        let bundle = UnsignedBundle::seal(&image, &usual_options(), Some(&output), &effort(2)).unwrap();
        let cms = sign_content(change(&bundle.manifest).as_bytes(), &self.key, &self.certificate).unwrap();
        bundle.write_signature(&cms, &output).unwrap();
        output.commit().unwrap();
    }

    /// Replaces a part of the signed manifest.
    fn seal_with(&self, old: &str, new: &str) {
        self.seal(&|manifest| {
            assert!(manifest.contains(old), "{old}: {manifest}");
            manifest.replace(old, new)
        });
    }

    /// Changes the image with its tree, and the signature.
    fn edit(&self, change: impl FnOnce(&mut Vec<u8>, &mut Vec<u8>)) {
        let mut payload = fs::read(self.path(BUNDLE)).unwrap();
        let mut cms = split_cms(&mut payload);
        change(&mut payload, &mut cms);
        let len = (cms.len() as u64).to_be_bytes();
        fs::write(self.path(BUNDLE), [&payload[..], &cms, &len].concat()).unwrap();
    }

    /// Replaces the signature by one that openssl makes with `options`.
    fn sign_again(&self, options: &[&str]) {
        self.edit(|_, cms| {
            fs::write(self.path("content"), EmbeddedSignature::parse(cms).unwrap().content()).unwrap();
            let begin = ["cms", "-sign", "-binary", "-nodetach", "-in", "content", "-outform", "der", "-out", "signed"];
            run(self.dir.path(), "openssl", &[&begin[..], options].concat());
            *cms = fs::read(self.path("signed")).unwrap();
        });
    }

    fn examine(&self, certificate: Option<&SignerCertificate>) -> SealExamination {
        self.examine_with(certificate.map_or(&[][..], std::slice::from_ref))
    }

    fn examine_with(&self, certificates: &[SignerCertificate]) -> SealExamination {
        examine_file(&self.path(BUNDLE), certificates)
    }
}

/// Takes the signature from the end of a bundle.
fn split_cms(bundle: &mut Vec<u8>) -> Vec<u8> {
    let len = bundle.split_off(bundle.len() - 8);
    let len = usize::try_from(u64::from_be_bytes(len.try_into().unwrap())).unwrap();
    bundle.split_off(bundle.len() - len)
}

fn examine_file(path: &Path, certificates: &[SignerCertificate]) -> SealExamination {
    let data: Arc<dyn ReadAt> = Arc::new(FileAt::open(path, 0).unwrap());
    examine(
        ConsumerProgram::Rauc,
        SealedImage { path, data: &data, certificates, minisign_key: None, signer_key: None },
        &effort(2),
    )
    .unwrap()
}

fn names(examination: &SealExamination) -> Vec<&'static str> {
    examination.mistakes.iter().map(|mistake| mistake.name()).collect()
}

fn digits(text: &str) -> &str {
    text.lines().next().unwrap()
}

/// Returns the line of a manifest that begins with a key.
fn line<'m>(manifest: &'m str, key: &str) -> &'m str {
    manifest.lines().find(|line| line.starts_with(key)).unwrap()
}

#[test]
fn a_sound_bundle_is_enforced_by_the_manifest_in_its_signature() {
    let Some(dir) = BundleDir::new("a_sound_bundle_is_enforced_by_the_manifest_in_its_signature") else { return };
    dir.seal(&str::to_owned);
    for (certificate, enforcement) in
        [(Some(&dir.certificate), KernelEnforcement::Signed), (None, KernelEnforcement::Unsigned)]
    {
        let examination = dir.examine(certificate);
        assert_eq!(names(&examination), [""; 0]);
        assert!(examination.enforcement == enforcement && examination.has_signature);
    }
    let sha256 = digits(&run(dir.dir.path(), "sha256sum", &["root/rootfs.img"]))[..64].to_owned();
    let root_hash = dir.examine(None).root_hash.unwrap();
    dir.edit(|payload, cms| {
        assert_eq!(payload.len() % BLOCK_LEN, 0);
        let signature = EmbeddedSignature::parse(cms).unwrap();
        let manifest = std::str::from_utf8(signature.content()).unwrap().to_owned();
        let salt = line(&manifest, "verity-salt=");
        assert_eq!(salt.len(), "verity-salt=".len() + 64);
        let expected = format!(
            "[update]\ncompatible=Test\\sSystem\nversion=1\n\n[image.rootfs]\nfilename=rootfs.img\nsha256={sha256}\n\
             size=100000\n\n[bundle]\nformat=verity\nverity-hash={root_hash}\n{salt}\nverity-size={BLOCK_LEN}\n"
        );
        assert_eq!(manifest, expected);
    });
    // The same image gives the same bundle, as signatures of RSA are the same each time.
    let first = fs::read(dir.path(BUNDLE)).unwrap();
    dir.seal(&str::to_owned);
    assert!(fs::read(dir.path(BUNDLE)).unwrap() == first);
}

#[test]
fn rauc_reads_bundles_and_makes_those_that_are_sound() {
    let test = "rauc_reads_bundles_and_makes_those_that_are_sound";
    if !["rauc", "mksquashfs"].iter().all(|program| have(test, program)) {
        return;
    }
    let Some(dir) = BundleDir::new(test) else { return };
    dir.seal(&str::to_owned);
    let told = run(dir.dir.path(), "rauc", &["info", "--keyring=key.crt", BUNDLE]);
    assert!(told.contains("Test System") && told.contains("rootfs.img"), "{told}");
    run(dir.dir.path(), "rauc", &["extract", "--keyring=key.crt", BUNDLE, "extracted"]);
    assert!(fs::read(dir.path("extracted/rootfs.img")).unwrap() == noise(100_000));

    fs::write(dir.path("root/manifest.raucm"), format!("{MANIFEST}[bundle]\nformat=verity\n")).unwrap();
    let bundle = ["bundle", "--cert=key.crt", "--key=key.pem", "--mksquashfs-args=-comp lz4", "root", "theirs.raucb"];
    run(dir.dir.path(), "rauc", &bundle);
    let examination = examine_file(&dir.path("theirs.raucb"), std::slice::from_ref(&dir.certificate));
    assert_eq!((names(&examination), examination.enforcement), (vec![], KernelEnforcement::Signed));
}

/// A mistake: its name, what is enforced with it, and how it is made.
type MistakeCase = (&'static str, KernelEnforcement, fn(&BundleDir));

const MISTAKES: &[MistakeCase] = &[
    ("bad-trailer", KernelEnforcement::Refused, |dir| fs::write(dir.path(BUNDLE), "short").unwrap()),
    ("bad-trailer", KernelEnforcement::Refused, |dir| fs::write(dir.path(BUNDLE), [0; 4096]).unwrap()),
    ("bad-trailer", KernelEnforcement::Refused, |dir| {
        fs::copy(dir.path("root/rootfs.img"), dir.path(BUNDLE)).unwrap();
    }),
    ("bad-signature", KernelEnforcement::Refused, |dir| {
        dir.seal(&str::to_owned);
        dir.edit(|_, cms| cms[0] ^= 1);
    }),
    ("plain-bundle", KernelEnforcement::Unverified, |dir| {
        dir.seal(&str::to_owned);
        let detached = sign(&"5f".repeat(32).parse().unwrap(), &dir.key, &dir.certificate).unwrap();
        dir.edit(|_, cms| *cms = detached);
    }),
    ("crypt-bundle", KernelEnforcement::Refused, |dir| {
        dir.seal(&str::to_owned);
        let begin = ["cms", "-encrypt", "-binary", "-aes256", "-in", "root/manifest.raucm", "-outform", "der"];
        run(dir.dir.path(), "openssl", &[&begin[..], &["-out", "enveloped", "key.crt"]].concat());
        dir.edit(|_, cms| *cms = fs::read(dir.path("enveloped")).unwrap());
    }),
    ("no-signer-certificate", KernelEnforcement::Refused, |dir| {
        dir.seal(&str::to_owned);
        dir.sign_again(&["-nocerts", "-inkey", "key.pem", "-signer", "key.crt"]);
    }),
    ("unaligned-payload", KernelEnforcement::Refused, |dir| {
        dir.seal(&str::to_owned);
        dir.edit(|payload, _| payload.push(0));
    }),
    ("verity-size", KernelEnforcement::Refused, |dir| dir.seal_with("verity-size=4096", "verity-size=8192")),
    // Bytes after the tree, which nobody reads.
    ("verity-size", KernelEnforcement::Unsigned, |dir| {
        dir.seal_with("verity-size=4096", "verity-size=8192");
        dir.edit(|payload, _| payload.resize(payload.len() + BLOCK_LEN, 0));
    }),
    ("manifest-syntax", KernelEnforcement::Refused, |dir| dir.seal(&|_| "nonsense".into())),
    ("no-compatible", KernelEnforcement::Refused, |dir| dir.seal_with("compatible=", "comment=")),
    ("no-compatible", KernelEnforcement::Refused, |dir| dir.seal_with("Test\\sSystem", "")),
    ("manifest-format", KernelEnforcement::Refused, |dir| dir.seal_with("format=verity", "format=plain")),
    ("manifest-format", KernelEnforcement::Refused, |dir| dir.seal_with("format=verity\n", "")),
    ("manifest-key", KernelEnforcement::Refused, |dir| dir.seal_with("verity-salt=", "verity-salt=00")),
    ("manifest-key", KernelEnforcement::Refused, |dir| dir.seal_with("verity-hash", "hash")),
    ("manifest-key", KernelEnforcement::Refused, |dir| dir.seal_with("verity-size=4096", "verity-size=4095")),
    ("manifest-key", KernelEnforcement::Refused, |dir| dir.seal_with("verity-size=4096", "verity-size=409600")),
    ("manifest-key", KernelEnforcement::Refused, |dir| dir.seal_with("\nsize=100000\n", "\n")),
    ("manifest-key", KernelEnforcement::Refused, |dir| dir.seal_with("\nsize=100000\n", "\nsize=1e5\n")),
    ("manifest-key", KernelEnforcement::Refused, |dir| dir.seal_with("sha256=", "sha256=0")),
    ("manifest-key", KernelEnforcement::Refused, |dir| dir.seal_with("sha256=", "comment=")),
    ("manifest-key", KernelEnforcement::Refused, |dir| dir.seal_with("=rootfs.img", "=../rootfs.img")),
    ("manifest-key", KernelEnforcement::Refused, |dir| dir.seal_with("filename=rootfs.img\n", "")),
    ("missing-image", KernelEnforcement::Refused, |dir| dir.seal_with("=rootfs.img", "=other.img")),
    ("missing-image", KernelEnforcement::Refused, |dir| dir.seal_with("=rootfs.img", "=..")),
    ("image-size", KernelEnforcement::Refused, |dir| dir.seal_with("\nsize=100000\n", "\nsize=99999\n")),
    ("image-checksum", KernelEnforcement::Unsigned, |dir| {
        dir.seal(&|manifest| manifest.replace(line(manifest, "sha256="), &format!("sha256={}", "ab".repeat(32))));
    }),
    ("other-root-hash", KernelEnforcement::Refused, |dir| {
        dir.seal(&|manifest| {
            manifest.replace(line(manifest, "verity-hash="), &format!("verity-hash={}", "ab".repeat(32)))
        });
    }),
    // A single block of the tree is its highest.
    ("other-root-hash", KernelEnforcement::Refused, |dir| {
        dir.seal(&str::to_owned);
        dir.edit(|payload, _| *payload.last_mut().unwrap() ^= 1);
    }),
    ("damaged-data", KernelEnforcement::Refused, |dir| {
        dir.seal(&str::to_owned);
        dir.edit(|payload, _| payload[9000] ^= 1);
    }),
];

#[test]
fn every_mistake_in_a_bundle_has_its_name_and_its_effect() {
    let Some(dir) = BundleDir::new("every_mistake_in_a_bundle_has_its_name_and_its_effect") else { return };
    for (name, enforcement, make) in MISTAKES {
        make(&dir);
        let examination = dir.examine(None);
        assert!(names(&examination).contains(name), "{name}: {:?}", examination.mistakes);
        assert_eq!(examination.enforcement, *enforcement, "{name}: {:?}", examination.mistakes);
    }
    // A file that a hook installs needs no size.
    dir.seal_with("\nsize=100000\n", "\nhooks=install;\n");
    assert_eq!(names(&dir.examine(None)), [""; 0]);
    dir.seal(&str::to_owned);
    let examination = dir.examine(Some(&dir.other));
    assert_eq!((names(&examination), examination.enforcement), (vec!["other-signer"], KernelEnforcement::Refused));
    // A changed manifest, without a new signature.
    dir.edit(|_, cms| {
        let at = cms.windows(7).position(|bytes| bytes == b"version").unwrap();
        cms[at] = b'V';
    });
    assert_eq!(names(&dir.examine(Some(&dir.certificate))), ["bad-signature"]);
}

#[test]
fn the_certificate_within_a_bundle_counts() {
    let test = "the_certificate_within_a_bundle_counts";
    let Some(dir) = BundleDir::new(test) else { return };
    let with_rauc = have(test, "rauc");
    run(dir.dir.path(), "openssl", &["x509", "-in", "key.crt", "-outform", "der", "-out", "key.der"]);
    let inside = fs::read(dir.path("key.der")).unwrap();
    // Its signature, by itself: the name stays that of the trusted one, and so does the key.
    for back in [10, 200] {
        dir.seal(&str::to_owned);
        dir.edit(|_, cms| {
            let at = cms.windows(inside.len()).position(|bytes| bytes == inside).unwrap();
            cms[at + inside.len() - back] ^= 1;
        });
        assert_eq!(names(&dir.examine(Some(&dir.certificate))), ["bad-signature"], "{back} bytes before its end");
        if with_rauc {
            let info = ["info", "--keyring=key.crt", BUNDLE];
            let told = std::process::Command::new("rauc").args(info).current_dir(&dir.dir).output().unwrap();
            assert!(!told.status.success(), "{told:?}");
        }
    }
}

const BY_KEY: [&str; 4] = ["-signer", "key.crt", "-inkey", "key.pem"];
const BY_OTHER: [&str; 4] = ["-signer", "other.crt", "-inkey", "other.pem"];

#[test]
fn every_signer_of_a_bundle_must_be_trusted() {
    let test = "every_signer_of_a_bundle_must_be_trusted";
    let Some(dir) = BundleDir::new(test) else { return };
    let key = std::slice::from_ref(&dir.certificate);
    let other = std::slice::from_ref(&dir.other);
    let both = [key, other].concat();
    let expect = |certificates: &[SignerCertificate], mistakes: &[&str], enforcement| {
        let examination = dir.examine_with(certificates);
        assert_eq!(names(&examination), mistakes);
        assert_eq!(examination.enforcement, enforcement, "{mistakes:?}");
    };
    dir.seal(&str::to_owned);
    expect(&both, &[], KernelEnforcement::Signed);
    // Named by the identifier of the key.
    dir.sign_again(&[&BY_KEY[..], &["-keyid"]].concat());
    expect(key, &[], KernelEnforcement::Signed);
    expect(other, &["other-signer"], KernelEnforcement::Refused);

    dir.sign_again(&[BY_KEY, BY_OTHER].concat());
    expect(&both, &["several-signers"], KernelEnforcement::Signed);
    expect(&[], &["several-signers"], KernelEnforcement::Unsigned);
    for one in [key, other] {
        expect(one, &["several-signers", "untrusted-signer"], KernelEnforcement::Refused);
    }
    if have(test, "rauc") {
        let rauc = |keyring: &str| {
            let mut info = std::process::Command::new("rauc");
            let ran = info.args(["info", keyring, BUNDLE]).current_dir(dir.dir.path()).output().unwrap();
            (ran.status.success(), String::from_utf8_lossy(&ran.stderr).into_owned())
        };
        let (is_accepted, told) = rauc("--keyring=key.crt");
        assert!(!is_accepted && told.contains("verification failed"), "{told}");
        fs::write(
            dir.path("both.crt"),
            ["key.crt", "other.crt"].map(|name| fs::read(dir.path(name)).unwrap()).concat(),
        )
        .unwrap();
        let (is_accepted, told) = rauc("--keyring=both.crt");
        assert!(is_accepted || told.contains("Unsupported number of signers"), "{told}");
        let keyring = SignerCertificate::parse_all(&fs::read(dir.path("both.crt")).unwrap()).unwrap();
        expect(&keyring, &["several-signers"], KernelEnforcement::Signed);
    }
    // The end of the message is that of the last signature.
    dir.edit(|_, cms| *cms.last_mut().unwrap() ^= 1);
    expect(&both, &["several-signers", "bad-signature"], KernelEnforcement::Refused);
}

#[test]
fn images_from_which_no_bundle_can_be_made_are_refused() {
    let Some(dir) = BundleDir::new("images_from_which_no_bundle_can_be_made_are_refused") else { return };
    let refusal = |name: &str| {
        let image: Arc<dyn ReadAt> = Arc::new(fs::read(dir.path(name)).unwrap());
        match UnsignedBundle::seal(&image, &usual_options(), None, &effort(0)) {
            Err(Error::Bundle(error)) => error.name(),
            other => panic!("{name}: {other:?}"),
        }
    };
    dir.seal(&str::to_owned);
    assert_eq!(refusal(BUNDLE), BundleError::AlreadyBundle.name());
    assert_eq!(refusal("root/rootfs.img"), "not-squashfs");
    Builder::erofs().codec(Codec::Lz4).dir(dir.path("root")).build(dir.path("erofs")).unwrap();
    assert_eq!(refusal("erofs"), "not-squashfs");
    for (old, new, name) in [
        ("compatible", "system", "no-compatible"),
        ("[update]", "[update", "manifest-syntax"),
        ("filename=rootfs", "filename=other", "missing-image"),
        ("filename=rootfs.img", "filename=rootfs.img\nsize=1", "image-size"),
        ("filename=rootfs.img", "filename=sub/rootfs.img", "manifest-key"),
        ("version=1", "version=1\n[bundle]\nformat=crypt", "manifest-format"),
    ] {
        dir.build(&MANIFEST.replace(old, new));
        assert_eq!(refusal("image"), name);
    }
    dir.build(MANIFEST);
    fs::remove_file(dir.path("root/manifest.raucm")).unwrap();
    fs::remove_file(dir.path("image")).unwrap();
    Builder::squashfs().codec(Codec::Lz4).dir(dir.path("root")).build(dir.path("image")).unwrap();
    assert_eq!(refusal("image"), "no-manifest");
}

#[test]
fn rauc_has_only_one_kind_of_tree() {
    let image: Arc<dyn ReadAt> = Arc::new(noise(8192));
    for options in [
        usual_options().set(|all| all.algorithm = HashAlgorithm::Sha512),
        usual_options().set(|all| all.data_block_size = 1024),
        usual_options().set(|all| all.hash_block_size = 8192),
        usual_options().set(|all| all.salt = Some(vec![])),
        usual_options().set(|all| all.uuid = Some("01234567-89ab-cdef-0123-456789abcdef".parse().unwrap())),
        usual_options().set(|all| all.has_superblock = true),
    ] {
        let refused = UnsignedBundle::seal(&image, &options, None, &effort(0));
        assert!(matches!(refused, Err(Error::InvalidOption { .. })), "{options:?}: {refused:?}");
    }
}
