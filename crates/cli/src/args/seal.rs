//! Options of `packfs seal`.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use packfs_seal::ddi::DdiType;
use packfs_seal::sif::SifArchitecture;
use packfs_seal::verity::Uuid;
use packfs_seal::{HashAlgorithm, from_hex};

use super::known::NamedValueParser;
use super::{EffortArgs, TalkArgs, value};

/// Make the hash tree by which Linux verifies an image as it reads.
///
/// The tree is that of dm-verity, byte for byte as `veritysetup format` writes it. Without options, IMAGE is not
/// changed, and packfs writes NAME.verity and NAME.roothash beside it; NAME is the name of IMAGE without `.raw`. The
/// same image gives the same root hash each time, because salt and UUID are derived from its contents.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  packfs seal root.erofs
  packfs seal root.erofs -o app.raw --for systemd --key key.pem --certificate cert.pem
  packfs seal root.erofs -o disk.raw --for ddi --key key.pem --certificate cert.pem
  packfs seal layer.erofs --for containerd --force
  packfs seal update.sqfs -o update.raucb --for rauc --key key.pem --certificate cert.pem
  packfs seal root.sqfs -o app.sif --for sif --key key.pem
  packfs seal root.erofs --root-hash-only
  packfs seal root.erofs --attach-signature root.p7s --certificate cert.pem
  packfs seal root.erofs --minisign-key minisign.key --minisign-password password.txt")]
pub(crate) struct SealArgs {
    /// Image to seal: a file or a block device
    #[arg(value_name = "IMAGE", value_hint = ValueHint::FilePath)]
    pub(crate) image: PathBuf,

    /// Write a sealed copy of the image to FILE
    ///
    /// packfs writes the other files beside it.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,

    /// Name and arrange the files as a consumer expects them
    #[arg(long = "for", value_enum, value_name = "CONSUMER")]
    pub(crate) consumer: Option<SealConsumer>,

    /// Type of the partition for --for ddi [default: root-ARCHITECTURE, of this machine]
    ///
    /// `root-` or `usr-` with an architecture: x86-64, x86, arm64, arm, riscv64, ppc64-le, s390x or loongarch64. By it,
    /// systemd knows where the file system belongs.
    #[arg(long, value_name = "TYPE", value_parser = partition_type(), hide_possible_values = true)]
    pub(crate) partition_type: Option<DdiType>,

    /// Machine that runs the programs in a file of --for sif [default: this one]
    ///
    /// Apptainer starts no containers for other machines. The names are those of Go.
    #[arg(long, value_name = "NAME", value_parser = architecture(), hide_possible_values = true)]
    pub(crate) architecture: Option<SifArchitecture>,

    /// Append the tree to the image
    ///
    /// Without -o, the sealed copy replaces IMAGE when it is complete; this needs --force.
    #[arg(long)]
    pub(crate) append: bool,

    /// Print the root hash and write no files
    ///
    /// For a signature that is made elsewhere: sign the digits without the newline.
    #[arg(long, conflicts_with_all = ["output", "key", "attach_signature", "minisign_key", "fs_verity", "json"])]
    pub(crate) root_hash_only: bool,

    /// Print the bytes to sign for --for rauc or sif and write no files
    ///
    /// For a signature that is made elsewhere: that of a bundle contains the manifest that this prints, that of a SIF file
    /// is the signature of it alone.
    #[arg(
        long,
        conflicts_with_all = ["output", "key", "attach_signature", "minisign_key", "root_hash_only", "fs_verity", "json"]
    )]
    pub(crate) manifest_only: bool,

    /// Print the digest that fs-verity has for the file and write no files
    ///
    /// `fsverity digest` prints the same. Of the other options, only --algorithm applies.
    #[arg(long, conflicts_with_all = ["output", "key", "attach_signature", "minisign_key", "consumer", "append", "json"])]
    pub(crate) fs_verity: bool,

    /// Sign the root hash with the private key in FILE
    ///
    /// The key is in PEM, not encrypted: RSA with 2048 to 4096 bits, or ECDSA on P-256 or P-384. The signature is
    /// PKCS#7 in DER, detached, as systemd and Linux expect it; with --for rauc, it contains the manifest. All but SIF files
    /// also need --certificate.
    #[arg(help_heading = "Signature", long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) key: Option<PathBuf>,

    /// Certificate of the key, in PEM or DER
    #[arg(help_heading = "Signature", long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) certificate: Option<PathBuf>,

    /// Verify a signature that was made elsewhere, and write it to its file
    ///
    /// FILE has PKCS#7 in DER, detached, of the root hash that --root-hash-only prints, without the newline. With --for
    /// rauc, it contains the manifest that --manifest-only prints. With --for sif, it is the signature alone, without PKCS#7.
    #[arg(
        help_heading = "Signature",
        long,
        value_name = "FILE",
        requires = "certificate",
        conflicts_with = "key",
        value_hint = ValueHint::FilePath
    )]
    pub(crate) attach_signature: Option<PathBuf>,

    /// Sign the sealed image for minisign with the secret key in FILE
    ///
    /// The signature is beside the image, in a file of the same name and `.minisig`; `minisign -V` verifies it. It covers
    /// the whole file, but Linux does not verify it.
    #[arg(help_heading = "Signature", long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) minisign_key: Option<PathBuf>,

    /// Read the password of --minisign-key from the first line of FILE
    ///
    /// `-` is standard input. Keys of `minisign -G -W` have no password.
    #[arg(
        help_heading = "Signature",
        long,
        value_name = "FILE",
        requires = "minisign_key",
        value_hint = ValueHint::FilePath
    )]
    pub(crate) minisign_password: Option<PathBuf>,

    /// File that is signed for minisign: the image, or its root hash
    #[arg(
        help_heading = "Signature",
        long,
        value_enum,
        value_name = "WHAT",
        default_value = "image",
        requires = "minisign_key"
    )]
    pub(crate) minisign_of: MinisignSubject,

    /// Hash function: sha256 or sha512
    #[arg(help_heading = "Tree", long, value_name = "NAME", default_value = "sha256")]
    pub(crate) algorithm: HashAlgorithm,

    /// Size of the blocks that are hashed, from 512 to 512K
    ///
    /// Linux accepts at most its page size, and mounts EROFS only if the blocks of the image are at least as large.
    #[arg(help_heading = "Tree", long, value_name = "SIZE", default_value = "4K", value_parser = value::size)]
    pub(crate) data_block_size: u64,

    /// Size of the blocks of the tree, from 512 to 512K
    #[arg(help_heading = "Tree", long, value_name = "SIZE", default_value = "4K", value_parser = value::size)]
    pub(crate) hash_block_size: u64,

    /// Salt of the hashes in hexadecimal digits, or `-` for none
    ///
    /// The default is derived from the beginning of the image; with `--for containerd` it is 32 zeros, as in
    /// containerd.
    #[arg(help_heading = "Tree", long, value_name = "HEX", value_parser = salt, allow_hyphen_values = true)]
    pub(crate) salt: Option<BlockSalt>,

    /// UUID of the tree [default: derived from the root hash]
    #[arg(help_heading = "Tree", long, value_name = "UUID")]
    pub(crate) uuid: Option<Uuid>,

    /// Leave out the superblock of the tree
    ///
    /// Whoever opens such a tree must know all its parameters. The consumers of --for do not.
    #[arg(help_heading = "Tree", long, conflicts_with_all = ["consumer", "uuid"])]
    pub(crate) no_superblock: bool,

    /// Replace files that exist
    #[arg(short, long)]
    pub(crate) force: bool,

    #[command(flatten)]
    pub(crate) effort: EffortArgs,

    /// Print parameters and files as JSON on standard output
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) talk: TalkArgs,
}

/// Programs that set up dm-verity for an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SealConsumer {
    /// NAME.raw with NAME.verity, NAME.roothash and NAME.roothash.p7s
    Systemd,
    /// The tree is appended; IMAGE.dmverity names it, IMAGE.sig is the signature
    Containerd,
    /// A disk image with partitions for image, tree and signature (DDI)
    Ddi,
    /// A bundle with image, tree and signed manifest (format verity)
    Rauc,
    /// A file of Apptainer or Singularity with the image, signed or not
    Sif,
}

/// File that is signed for minisign.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum MinisignSubject {
    /// The image as it is sealed, with a tree that is appended
    Image,
    /// The file with the root hash, by which every block can be verified
    RootHash,
}

/// Bytes that come before each block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BlockSalt(pub(crate) Vec<u8>);

/// Returns the parser of types of partitions, which offers their names.
fn partition_type() -> NamedValueParser<DdiType> {
    NamedValueParser::of(|| DdiType::all().map(DdiType::name).collect())
}

/// Returns the parser of architectures, which offers their names.
fn architecture() -> NamedValueParser<SifArchitecture> {
    NamedValueParser::of(|| SifArchitecture::all().map(SifArchitecture::name).collect())
}

fn salt(text: &str) -> Result<BlockSalt, String> {
    if text == "-" {
        return Ok(BlockSalt(Vec::new()));
    }
    let bytes = from_hex(text).filter(|bytes| !bytes.is_empty());
    bytes.map(BlockSalt).ok_or_else(|| "expected pairs of hexadecimal digits, or - for no salt".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_salt_is_hexadecimal_or_none() {
        assert_eq!(salt("-"), Ok(BlockSalt(vec![])));
        assert_eq!(salt("00fF"), Ok(BlockSalt(vec![0, 255])));
        for wrong in ["", "0", "xx", "--"] {
            assert!(salt(wrong).is_err(), "{wrong}");
        }
    }
}
