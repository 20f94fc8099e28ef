//! Mistakes that people make with seals: each is refused by its name, and says what is enforced in the end.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use packfs_blocks::io::FileAt;
use packfs_blocks::{Output, ReadAt};
use packfs_image::{Builder, Codec};
use packfs_seal::consumer::{ConsumerProgram, KernelEnforcement, SealExamination, SealedImage, examine};
use packfs_seal::ddi::DdiPlan;
use packfs_seal::signature::{SignerCertificate, SigningKey, sign};
use packfs_seal::verity::{self, SUPERBLOCK_LEN, VerityOptions};
use packfs_seal::{ContainerdFiles, LayerMetadata, RootHash, SystemdFiles};

use crate::common::{effort, have, noise, run};

/// A directory with an image sealed for one consumer.
struct SealedDir {
    dir: tempfile::TempDir,
    consumer: ConsumerProgram,
}

/// Byte offset of the tree, after its superblock, in the file of a hash area.
const TREE_AT: usize = 4096;

impl SealedDir {
    /// Makes the image `app.raw` of EROFS and seals it.
    fn new(consumer: ConsumerProgram, options: &VerityOptions) -> Self {
        let sealed = SealedDir { dir: tempfile::tempdir().unwrap(), consumer };
        let root = sealed.path("root");
        fs::create_dir(&root).unwrap();
        fs::write(root.join("noise"), noise(600_000)).unwrap();
        Builder::erofs().codec(Codec::Lz4).dir(root).build(sealed.image()).unwrap();
        sealed.seal(options);
        sealed
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn image(&self) -> PathBuf {
        self.path("app.raw")
    }

    /// Seals the image, as it is now.
    fn seal(&self, options: &VerityOptions) {
        let data = fs::read(self.image()).unwrap();
        let write = |path: &Path, offset: u64, before: &[u8]| {
            let output = Output::create(path, 0o666, true).unwrap();
            output.write_all_at(before, 0).unwrap();
            let sealed = verity::seal(&data, options, offset, Some(&output), &effort(2)).unwrap();
            output.commit().unwrap();
            sealed
        };
        match self.consumer {
            ConsumerProgram::Systemd => {
                let files = SystemdFiles::of(&self.image());
                let sealed = write(&files.hash_tree, 0, &[]);
                fs::write(files.root_hash, sealed.root_hash.to_string()).unwrap();
            }
            ConsumerProgram::Ddi => {
                let kind = "root-x86-64".parse().unwrap();
                let plan = DdiPlan::new(kind, data.len() as u64, options).unwrap();
                let output = Output::create(&self.image(), 0o666, true).unwrap();
                output.write_all_at(&data, plan.data_start).unwrap();
                let sealed = verity::seal(&data, options, plan.hash_start, Some(&output), &effort(2)).unwrap();
                plan.write_table(&sealed, None, &output).unwrap();
                output.commit().unwrap();
                fs::write(SystemdFiles::of(&self.image()).root_hash, sealed.root_hash.to_string()).unwrap();
            }
            _ => {
                let offset = data.len().next_multiple_of(options.hash_block_size as usize) as u64;
                let sealed = write(&self.image(), offset, &data);
                let json = LayerMetadata::of(&sealed).to_json();
                fs::write(ContainerdFiles::of(&self.image()).metadata, json).unwrap();
            }
        }
    }

    fn examine(&self, certificate: Option<&SignerCertificate>) -> SealExamination {
        self.examine_at(&self.image(), certificate)
    }

    fn examine_at(&self, path: &Path, certificate: Option<&SignerCertificate>) -> SealExamination {
        let data: Arc<dyn ReadAt> = Arc::new(FileAt::open(path, 0).unwrap());
        let certificates = certificate.map_or(&[][..], std::slice::from_ref);
        examine(
            self.consumer,
            SealedImage { path, data: &data, certificates, minisign_key: None, signer_key: None },
            &effort(2),
        )
        .unwrap()
    }

    fn edit(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let path = self.path(name);
        let mut bytes = fs::read(&path).unwrap();
        change(&mut bytes);
        fs::write(path, bytes).unwrap();
    }

    fn rename(&self, from: &str, to: &str) {
        fs::rename(self.path(from), self.path(to)).unwrap();
    }
}

fn names(examination: &SealExamination) -> Vec<&'static str> {
    examination.mistakes.iter().map(|mistake| mistake.name()).collect()
}

/// A mistake: its name, what is enforced with it, and how it is made.
type MistakeCase = (&'static str, KernelEnforcement, fn(&SealedDir));

const SYSTEMD: &[MistakeCase] = &[
    ("no-root-hash", KernelEnforcement::Unverified, |dir| fs::remove_file(dir.path("app.roothash")).unwrap()),
    ("root-hash-name", KernelEnforcement::Unverified, |dir| dir.rename("app.roothash", "app.raw.roothash")),
    ("root-hash-name", KernelEnforcement::Unverified, |dir| dir.rename("app.roothash", "app.roothash.txt")),
    ("bad-root-hash", KernelEnforcement::Refused, |dir| fs::write(dir.path("app.roothash"), "sha256:00").unwrap()),
    ("bad-root-hash", KernelEnforcement::Refused, |dir| fs::write(dir.path("app.roothash"), "").unwrap()),
    ("other-root-hash", KernelEnforcement::Refused, |dir| {
        fs::write(dir.path("app.roothash"), "ab".repeat(32)).unwrap()
    }),
    ("other-root-hash", KernelEnforcement::Refused, |dir| {
        fs::write(dir.path("app.roothash"), "ab".repeat(64)).unwrap()
    }),
    ("no-hash-tree", KernelEnforcement::Unverified, |dir| fs::remove_file(dir.path("app.verity")).unwrap()),
    ("hash-tree-name", KernelEnforcement::Unverified, |dir| dir.rename("app.verity", "app.raw.verity")),
    ("hash-tree-name", KernelEnforcement::Unverified, |dir| dir.rename("app.verity", "app.hashtree")),
    ("appended-tree", KernelEnforcement::Unverified, |dir| {
        let tree = fs::read(dir.path("app.verity")).unwrap();
        dir.edit("app.raw", |image| image.extend(tree));
        fs::remove_file(dir.path("app.verity")).unwrap();
    }),
    ("no-superblock", KernelEnforcement::Refused, |dir| dir.edit("app.verity", |tree| drop(tree.drain(..TREE_AT)))),
    ("no-superblock", KernelEnforcement::Refused, |dir| dir.edit("app.verity", Vec::clear)),
    ("bad-superblock", KernelEnforcement::Refused, |dir| dir.edit("app.verity", |tree| tree[12] = 0)),
    ("short-hash-area", KernelEnforcement::Refused, |dir| dir.edit("app.verity", |tree| tree.truncate(tree.len() - 1))),
    ("damaged-tree", KernelEnforcement::Refused, |dir| dir.edit("app.verity", |tree| *tree.last_mut().unwrap() ^= 1)),
    ("damaged-data", KernelEnforcement::Refused, |dir| dir.edit("app.raw", |image| image[9000] ^= 1)),
    ("image-grown", KernelEnforcement::Unsigned, |dir| dir.edit("app.raw", |image| image.extend([0; 4096]))),
    ("image-shortened", KernelEnforcement::Refused, |dir| {
        dir.edit("app.raw", |image| image.truncate(image.len() - 4096))
    }),
    ("block-above-page", KernelEnforcement::Refused, |dir| {
        dir.seal(&VerityOptions::default().set(|all| all.hash_block_size = 8192));
    }),
];

const CONTAINERD: &[MistakeCase] = &[
    ("no-metadata", KernelEnforcement::Unverified, |dir| fs::remove_file(dir.path("app.raw.dmverity")).unwrap()),
    ("bad-metadata", KernelEnforcement::Refused, |dir| fs::write(dir.path("app.raw.dmverity"), "{}").unwrap()),
    ("bad-root-hash", KernelEnforcement::Refused, |dir| edit_metadata(dir, |metadata| metadata.root_hash += "\n")),
    ("other-root-hash", KernelEnforcement::Refused, |dir| {
        edit_metadata(dir, |metadata| metadata.root_hash = "00".repeat(32));
    }),
    ("offset-after-superblock", KernelEnforcement::Refused, |dir| {
        edit_metadata(dir, |metadata| metadata.hash_offset += 4096);
    }),
    ("no-superblock", KernelEnforcement::Refused, |dir| edit_metadata(dir, |metadata| metadata.hash_offset -= 4096)),
    ("no-superblock", KernelEnforcement::Refused, |dir| edit_metadata(dir, |metadata| metadata.hash_offset = u64::MAX)),
    ("no-hash-tree", KernelEnforcement::Unverified, |dir| {
        edit_metadata(dir, |metadata| metadata.hash_device = "elsewhere".into());
    }),
    ("nil-uuid", KernelEnforcement::Refused, |dir| edit_superblock(dir, |superblock| superblock[16..32].fill(0))),
    ("damaged-data", KernelEnforcement::Refused, |dir| dir.edit("app.raw", |image| image[9000] ^= 1)),
    ("short-hash-area", KernelEnforcement::Refused, |dir| dir.edit("app.raw", |image| image.truncate(image.len() - 1))),
    // As many blocks of data as if those of the tree were some.
    ("tree-inside-data", KernelEnforcement::Refused, |dir| edit_superblock(dir, |superblock| superblock[72] += 1)),
];

const DDI: &[MistakeCase] = &[
    ("no-root-hash", KernelEnforcement::Unverified, |dir| fs::remove_file(dir.path("app.roothash")).unwrap()),
    ("bad-root-hash", KernelEnforcement::Refused, |dir| fs::write(dir.path("app.roothash"), "").unwrap()),
    ("other-root-hash", KernelEnforcement::Refused, |dir| {
        fs::write(dir.path("app.roothash"), "ab".repeat(32)).unwrap()
    }),
    ("partition-uuid", KernelEnforcement::Refused, |dir| edit_table(dir, |entries| entries[16] ^= 1)),
    ("partition-uuid", KernelEnforcement::Refused, |dir| edit_table(dir, |entries| entries[ENTRY_LEN + 31] ^= 1)),
    ("no-partition-table", KernelEnforcement::Unverified, |dir| {
        dir.edit("app.raw", |disk| drop(disk.drain(..FIRST_PARTITION)));
    }),
    ("bad-partition-table", KernelEnforcement::Refused, |dir| dir.edit("app.raw", |disk| disk[512 + 60] ^= 1)),
    ("no-backup-table", KernelEnforcement::Unsigned, |dir| dir.edit("app.raw", |disk| disk.truncate(disk.len() - 512))),
    ("no-data-partition", KernelEnforcement::Refused, |dir| edit_table(dir, |entries| entries[0] ^= 1)),
    ("no-hash-partition", KernelEnforcement::Unverified, |dir| edit_table(dir, |entries| entries[ENTRY_LEN] ^= 1)),
    ("no-superblock", KernelEnforcement::Refused, |dir| {
        let at = hash_partition(dir);
        dir.edit("app.raw", |disk| disk[at..at + SUPERBLOCK_LEN].fill(0));
    }),
    ("damaged-tree", KernelEnforcement::Refused, |dir| {
        let at = hash_partition(dir) + 2 * TREE_AT;
        dir.edit("app.raw", |disk| disk[at] ^= 1);
    }),
    ("damaged-data", KernelEnforcement::Refused, |dir| dir.edit("app.raw", |disk| disk[FIRST_PARTITION + 9000] ^= 1)),
];

/// Byte offset of the first partition of a disk image.
const FIRST_PARTITION: usize = 1 << 20;
/// Length of an entry of the partition table in bytes.
const ENTRY_LEN: usize = 128;

/// Changes the entries of the first partition table, whose checksums then are right.
fn edit_table(dir: &SealedDir, change: impl FnOnce(&mut [u8])) {
    dir.edit("app.raw", |disk| {
        let (header, entries) = disk[512..1024 + 128 * ENTRY_LEN].split_at_mut(512);
        change(entries);
        header[88..92].copy_from_slice(&crc32fast::hash(entries).to_le_bytes());
        header[16..20].fill(0);
        let checksum = crc32fast::hash(&header[..92]);
        header[16..20].copy_from_slice(&checksum.to_le_bytes());
    });
}

/// Returns the byte offset of the partition with the tree.
fn hash_partition(dir: &SealedDir) -> usize {
    let disk = fs::read(dir.image()).unwrap();
    let at = 1024 + ENTRY_LEN + 32;
    usize::try_from(u64::from_le_bytes(disk[at..at + 8].try_into().unwrap()) * 512).unwrap()
}

fn edit_metadata(dir: &SealedDir, change: impl FnOnce(&mut LayerMetadata)) {
    let path = dir.path("app.raw.dmverity");
    let mut metadata = LayerMetadata::parse(&fs::read(&path).unwrap()).unwrap();
    change(&mut metadata);
    fs::write(path, metadata.to_json()).unwrap();
}

fn edit_superblock(dir: &SealedDir, change: impl FnOnce(&mut [u8])) {
    let metadata = LayerMetadata::parse(&fs::read(dir.path("app.raw.dmverity")).unwrap()).unwrap();
    let at = usize::try_from(metadata.hash_offset).unwrap();
    dir.edit("app.raw", |image| change(&mut image[at..at + SUPERBLOCK_LEN]));
}

#[test]
fn a_sound_seal_is_enforced() {
    for consumer in [ConsumerProgram::Systemd, ConsumerProgram::Containerd, ConsumerProgram::Ddi] {
        let examination = SealedDir::new(consumer, &VerityOptions::default()).examine(None);
        assert_eq!(names(&examination), [""; 0], "{consumer:?}");
        assert_eq!(examination.enforcement, KernelEnforcement::Unsigned, "{consumer:?}");
        assert!(examination.root_hash.is_some() && !examination.has_signature, "{consumer:?}");
    }
}

#[test]
fn every_mistake_has_its_name_and_its_effect() {
    let all =
        [(ConsumerProgram::Systemd, SYSTEMD), (ConsumerProgram::Containerd, CONTAINERD), (ConsumerProgram::Ddi, DDI)];
    for (consumer, cases) in all {
        for (name, enforcement, make) in cases {
            let dir = SealedDir::new(consumer, &VerityOptions::default());
            make(&dir);
            let examination = dir.examine(None);
            assert!(names(&examination).contains(name), "{consumer:?} {name}: {:?}", examination.mistakes);
            assert_eq!(examination.enforcement, *enforcement, "{consumer:?} {name}: {:?}", examination.mistakes);
        }
    }
}

#[test]
fn systemd_ignores_blanks_in_the_root_hash_and_demands_raw() {
    let dir = SealedDir::new(ConsumerProgram::Systemd, &VerityOptions::default());
    dir.edit("app.roothash", |text| text.push(b'\n'));
    assert_eq!(dir.examine(None).enforcement, KernelEnforcement::Unsigned);
    dir.rename("app.raw", "app");
    let examination = dir.examine_at(&dir.path("app"), None);
    assert_eq!((names(&examination), examination.enforcement), (vec!["not-raw"], KernelEnforcement::Refused));
}

#[test]
fn an_attribute_comes_before_the_file_with_the_root_hash() {
    let dir = SealedDir::new(ConsumerProgram::Systemd, &VerityOptions::default());
    let set = ["-n", "user.verity.roothash", "-v"];
    let set_to = |value: &str| {
        let mut setfattr = Command::new("setfattr");
        setfattr.args(set).arg(value).arg(dir.image()).status().is_ok_and(|status| status.success())
    };
    if !have("an_attribute_comes_before_the_file_with_the_root_hash", "setfattr") || !set_to(&"ab".repeat(32)) {
        return eprintln!("SKIPPED an_attribute_comes_before_the_file_with_the_root_hash: no attributes here");
    }
    let examination = dir.examine(None);
    assert_eq!(names(&examination), ["other-attribute", "other-root-hash"]);
    assert!(set_to(&fs::read_to_string(dir.path("app.roothash")).unwrap()));
    assert_eq!(names(&dir.examine(None)), [""; 0]);
}

#[test]
fn a_file_system_beyond_the_seal_and_smaller_blocks_than_sealed_are_found() {
    let dir = SealedDir::new(ConsumerProgram::Systemd, &VerityOptions::default());
    // Sealed before the image was complete.
    let whole = fs::read(dir.image()).unwrap();
    dir.edit("app.raw", |image| image.truncate(image.len() - 8192));
    dir.seal(&VerityOptions::default());
    fs::write(dir.image(), whole).unwrap();
    assert_eq!(names(&dir.examine(None)), ["image-grown", "uncovered-file-system"]);

    fs::remove_file(dir.image()).unwrap();
    let options = packfs_image::erofs::ErofsOptions::default().set(|all| all.block_size = 1024);
    Builder::new(options).target_kernel("6.12".parse().unwrap()).dir(dir.path("root")).build(dir.image()).unwrap();
    dir.edit("app.raw", |image| image.resize(image.len().next_multiple_of(4096), 0));
    dir.seal(&VerityOptions::default());
    assert_eq!(names(&dir.examine(None)), ["block-above-file-system"]);
    dir.seal(&VerityOptions::default().set(|all| all.data_block_size = 1024));
    assert_eq!(names(&dir.examine(None)), [""; 0]);
}

#[test]
fn signatures_count_only_by_their_name_key_and_content() {
    if !have("signatures_count_only_by_their_name_key_and_content", "openssl") {
        return;
    }
    let dir = SealedDir::new(ConsumerProgram::Systemd, &VerityOptions::default());
    let certificate_of = |name: &str| {
        let key = format!("{name}.pem");
        let certificate = format!("{name}.crt");
        let subject = format!("/CN={name}");
        let begin = ["req", "-x509", "-nodes", "-newkey", "rsa:2048", "-subj", &subject];
        run(dir.dir.path(), "openssl", &[&begin[..], &["-keyout", &key, "-out", &certificate]].concat());
        SignerCertificate::parse(&fs::read(dir.path(&certificate)).unwrap()).unwrap()
    };
    let certificate = certificate_of("key");
    let other = certificate_of("other");
    let key = SigningKey::parse(&fs::read(dir.path("key.pem")).unwrap()).unwrap();
    let root_hash: RootHash = fs::read_to_string(dir.path("app.roothash")).unwrap().parse().unwrap();
    let write = |root_hash: &RootHash| {
        fs::write(dir.path("app.roothash.p7s"), sign(root_hash, &key, &certificate).unwrap()).unwrap();
    };
    let expect = |certificate: Option<&SignerCertificate>, mistakes: &[&str], enforcement| {
        let examination = dir.examine(certificate);
        assert_eq!(names(&examination), mistakes);
        assert_eq!(examination.enforcement, enforcement, "{mistakes:?}");
    };
    expect(Some(&certificate), &["no-signature"], KernelEnforcement::Unsigned);
    write(&root_hash);
    expect(Some(&certificate), &[], KernelEnforcement::Signed);
    expect(None, &[], KernelEnforcement::Unsigned);
    expect(Some(&other), &["other-signer"], KernelEnforcement::Refused);
    // systemd tries all that it has.
    let data: Arc<dyn ReadAt> = Arc::new(FileAt::open(&dir.image(), 0).unwrap());
    let image = dir.image();
    let certificates = [other.clone(), certificate.clone()];
    let image =
        SealedImage { path: &image, data: &data, certificates: &certificates, minisign_key: None, signer_key: None };
    let examination = examine(dir.consumer, image, &effort(2)).unwrap();
    assert_eq!(examination.enforcement, KernelEnforcement::Signed);
    dir.rename("app.roothash.p7s", "app.p7s");
    expect(Some(&certificate), &["signature-name"], KernelEnforcement::Unsigned);
    fs::remove_file(dir.path("app.p7s")).unwrap();
    write(&"00".repeat(32).parse().unwrap());
    expect(Some(&certificate), &["other-content"], KernelEnforcement::Refused);
    fs::write(dir.path("with-newline"), format!("{root_hash}\n")).unwrap();
    let begin = ["smime", "-sign", "-nocerts", "-noattr", "-binary", "-in", "with-newline", "-inkey", "key.pem"];
    let end = ["-signer", "key.crt", "-outform", "der", "-out", "app.roothash.p7s"];
    run(dir.dir.path(), "openssl", &[&begin[..], &end].concat());
    expect(Some(&certificate), &["signed-newline"], KernelEnforcement::Refused);
    fs::copy(dir.path("key.crt"), dir.path("app.roothash.p7s")).unwrap();
    expect(Some(&certificate), &["bad-signature"], KernelEnforcement::Refused);
    expect(None, &["bad-signature"], KernelEnforcement::Refused);
}
