//! The files that a seal consists of.

use std::path::{Path, PathBuf};

use anyhow::Result;
use packfs_image::name::display;
use packfs_seal::ddi::DdiType;
use packfs_seal::verity::VeritySeal;
use packfs_seal::{ContainerdFiles, LayerMetadata, SystemdFiles};

use crate::args::{MinisignSubject, SealArgs, SealConsumer};
use crate::output::failure::UsageError;

/// Names of the files to write, and the form of the root hash.
#[derive(Debug)]
pub(super) struct SealLayout {
    /// Copy of the image.
    pub(super) copy: Option<PathBuf>,
    /// File of the tree; `None` if it is in that of the copy.
    pub(super) hash_tree: Option<PathBuf>,
    /// File of the signature; `None` without one, and if it is in that of the copy.
    pub(super) signature: Option<PathBuf>,
    /// Type of the partition, if the copy is a disk image.
    pub(super) disk: Option<DdiType>,
    /// File with the root hash.
    pub(super) root_hash: PathBuf,
    /// True if that file is the JSON of containerd.
    is_metadata: bool,
}

impl SealLayout {
    /// Decides where everything goes.
    pub(super) fn of(args: &SealArgs, is_signed: bool) -> Result<Self> {
        let sealed = args.output.as_deref().unwrap_or(&args.image);
        if let Some(SealConsumer::Ddi) = args.consumer {
            return SealLayout::of_disk(args);
        }
        if args.partition_type.is_some() {
            return Err(UsageError("--partition-type is for --for ddi".into()).into());
        }
        let appends = args.append || args.consumer == Some(SealConsumer::Containerd);
        if args.consumer == Some(SealConsumer::Systemd) {
            check_systemd(args, sealed)?;
        }
        if appends && args.output.is_none() {
            check_replaced(args)?;
        }
        let copy = (appends || args.output.is_some()).then(|| sealed.to_owned());
        if args.consumer == Some(SealConsumer::Containerd) {
            let files = ContainerdFiles::of(sealed);
            let signature = is_signed.then_some(files.signature);
            return Ok(SealLayout {
                copy,
                hash_tree: None,
                signature,
                disk: None,
                root_hash: files.metadata,
                is_metadata: true,
            });
        }
        let beside = SealLayout::beside(sealed, is_signed);
        let hash_tree = beside.hash_tree.filter(|_| !appends);
        Ok(SealLayout { copy, hash_tree, ..beside })
    }

    /// Puts tree, root hash and signature beside an image, as systemd looks for them.
    pub(super) fn beside(image: &Path, is_signed: bool) -> Self {
        let files = SystemdFiles::of(image);
        SealLayout {
            copy: None,
            hash_tree: Some(files.hash_tree),
            signature: is_signed.then_some(files.signature),
            disk: None,
            root_hash: files.root_hash,
            is_metadata: false,
        }
    }

    /// Decides the same for a disk image, which contains everything but the root hash.
    fn of_disk(args: &SealArgs) -> Result<Self> {
        let usage = |why: &str| Err(UsageError(why.into()).into());
        if args.append {
            return usage("a disk image has a partition for the tree: leave out --append");
        }
        let Some(disk) = &args.output else {
            return usage("a disk image is a file of its own: name it with -o NAME.raw");
        };
        check_name(disk)?;
        let Some(kind) = args.partition_type.or_else(DdiType::own_root) else {
            return usage("this machine has no type of a root partition: choose one with --partition-type");
        };
        let files = SystemdFiles::of(disk);
        Ok(SealLayout {
            copy: Some(disk.clone()),
            hash_tree: None,
            signature: None,
            disk: Some(kind),
            root_hash: if kind.is_usr() { files.usr_hash } else { files.root_hash },
            is_metadata: false,
        })
    }

    /// Returns the file that minisign signs.
    pub(super) fn minisign_subject<'l>(&'l self, args: &'l SealArgs) -> &'l Path {
        match args.minisign_of {
            MinisignSubject::Image => self.copy.as_deref().unwrap_or(&args.image),
            MinisignSubject::RootHash => &self.root_hash,
        }
    }

    /// Returns the contents of the file with the root hash.
    pub(super) fn root_hash_text(&self, sealed: &VeritySeal) -> String {
        if self.is_metadata { LayerMetadata::of(sealed).to_json() } else { sealed.root_hash.to_string() }
    }
}

fn check_systemd(args: &SealArgs, sealed: &Path) -> Result<()> {
    if args.append {
        return Err(UsageError("systemd looks for the tree in a file of its own: leave out --append".into()).into());
    }
    check_name(sealed)
}

/// Fails if systemd would not look for an image of this name.
fn check_name(sealed: &Path) -> Result<()> {
    if !SystemdFiles::is_found(sealed) {
        let name = display(sealed);
        return Err(
            UsageError(format!("systemd looks for names that end in .raw, not for {name}: use -o NAME.raw")).into()
        );
    }
    Ok(())
}

/// Fails if the image itself cannot be replaced by its sealed copy.
fn check_replaced(args: &SealArgs) -> Result<()> {
    if !args.image.is_file() {
        return Err(UsageError("a tree is appended to a regular file; name one with -o".into()).into());
    }
    if !args.force {
        let name = display(&args.image);
        return Err(UsageError(format!("this would replace {name}; use --force, or write a copy with -o")).into());
    }
    Ok(())
}
