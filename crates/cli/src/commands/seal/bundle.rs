//! `packfs seal --for rauc`: a bundle, which is one file with image, tree and signed manifest.

use std::sync::Arc;

use anyhow::{Context, Result};
use packfs_blocks::{Output, ReadAt};
use packfs_image::FileAt;
use packfs_image::name::display;
use packfs_seal::HashEffort;
use packfs_seal::rauc::UnsignedBundle;
use packfs_seal::verity::VerityOptions;

use super::minisign::MinisignOutput;
use super::signing::ManifestSignature;
use super::{copy_image, name_file, print, report_seal};
use crate::args::{MinisignSubject, SealArgs};
use crate::output::failure::{CommandOutcome, UsageError};
use crate::output::meter::ProgressMeter;
use crate::output::{json, target};

pub(super) fn run(
    args: &SealArgs,
    image: &Arc<FileAt>,
    options: &VerityOptions,
    effort: &HashEffort,
    meter: ProgressMeter,
) -> Result<CommandOutcome> {
    let usage = |why: &str| Err(UsageError(why.into()).into());
    if args.partition_type.is_some() {
        return usage("--partition-type is for --for ddi");
    }
    if args.append {
        return usage("a bundle has its tree after the image anyway: leave out --append");
    }
    let bytes = Arc::clone(image) as Arc<dyn ReadAt>;
    let seal = |output: Option<&Output>| {
        let sealed = UnsignedBundle::seal(&bytes, options, output, effort);
        sealed.map_err(|error| name_file(error, &args.image, output))
    };
    if args.root_hash_only || args.manifest_only {
        let bundle = seal(None)?;
        meter.finish();
        let printed = if args.manifest_only { bundle.manifest } else { format!("{}\n", bundle.sealed.root_hash) };
        return print(&printed);
    }
    let Some(path) = &args.output else {
        return usage("a bundle is a file of its own: name it with -o NAME.raucb");
    };
    let Some(signature) = ManifestSignature::read(args.signature_files())? else {
        return usage("RAUC refuses unsigned bundles: give --certificate, and --key or --attach-signature");
    };
    if args.minisign_of == MinisignSubject::RootHash {
        return usage("a bundle has no file with the root hash: leave out --minisign-of");
    }
    let output = target::create(path, target::READABLE, args.force)?;
    let minisign = MinisignOutput::create(args, path)?;
    let bundle = seal(Some(&output))?;
    // Copied only now, because sealing finds out whether a bundle can be made of the image.
    copy_image(image, &output, 0)?;
    let cms = signature.make(&bundle.manifest)?;
    bundle.write_signature(&cms, &output).with_context(|| display(output.target()).to_string())?;
    let mut files = vec![json::encode_path(output.target())];
    target::commit(output)?;
    files.extend(minisign.map(|minisign| minisign.complete(effort)).transpose()?);
    meter.finish();
    report_seal(args, &bundle.sealed, &files)
}
