//! `packfs verify`: what a consumer will enforce for a sealed image.

use std::sync::Arc;

use anyhow::{Context, Result};
use packfs_image::name::display;
use packfs_seal::HashEffort;
use packfs_seal::consumer::{ConsumerProgram, KernelEnforcement, SealExamination, SealedImage, examine};
use packfs_seal::minisign::MinisignPublicKey;
use packfs_seal::signature::SignerKey;
use serde::Serialize;

use super::seal::{open_image, read_certificates, read_public_key, read_signer_key, usable_threads};
use crate::args::{VerifyArgs, VerifyConsumer};
use crate::output::failure::{CommandOutcome, UsageError};
use crate::output::findings::Findings;
use crate::output::json::JsonDocument;
use crate::output::meter::ProgressMeter;
use crate::output::{json, say};

pub(super) fn run(args: &VerifyArgs) -> Result<CommandOutcome> {
    check_trusted(args)?;
    let certificates = args.certificate.as_deref().map(read_certificates).transpose()?.unwrap_or_default();
    let keys = TrustedKeys::read(args)?;
    let data = open_image(&args.image)?;
    let consumer = match args.consumer {
        VerifyConsumer::Systemd => ConsumerProgram::Systemd,
        VerifyConsumer::Containerd => ConsumerProgram::Containerd,
        VerifyConsumer::Ddi => ConsumerProgram::Ddi,
        VerifyConsumer::Rauc => ConsumerProgram::Rauc,
        VerifyConsumer::Minisign => ConsumerProgram::Minisign,
        VerifyConsumer::Sif => ConsumerProgram::Apptainer,
    };
    let image = SealedImage {
        path: &args.image,
        data: &data,
        certificates: &certificates,
        minisign_key: keys.minisign.as_ref(),
        signer_key: keys.signer.as_ref(),
    };
    let meter = ProgressMeter::start(args.talk.quiet);
    let effort = HashEffort { threads: usable_threads(&args.effort), progress: Arc::clone(meter.progress()) };
    let examined = examine(consumer, image, &effort).with_context(|| display(&args.image).to_string())?;
    meter.finish();
    let mut findings = Findings::new();
    for mistake in &examined.mistakes {
        findings.add(NamedMistake { name: mistake.name(), text: mistake.to_string() });
    }
    let enforced = EnforcedSeal::of(consumer, &examined);
    if args.json {
        json::print(&VerifyReport {
            image: json::encode_path(&args.image),
            enforced: enforced.name,
            root_hash: examined.root_hash.as_ref().map(ToString::to_string),
            has_signature: examined.has_signature,
            trusted_comment: examined.trusted_comment.as_deref(),
            findings: &findings,
        })?;
    } else {
        findings.print(|mistake| format!("{}: {}", mistake.name, mistake.text))?;
        if !args.talk.quiet {
            say(format_args!("{}: {}", display(&args.image), enforced.text));
        }
    }
    Ok(if examined.mistakes.is_empty() { CommandOutcome::Done } else { CommandOutcome::Findings })
}

/// The public key, as the consumer takes it.
#[derive(Default)]
struct TrustedKeys {
    minisign: Option<MinisignPublicKey>,
    signer: Option<SignerKey>,
}

impl TrustedKeys {
    fn read(args: &VerifyArgs) -> Result<Self> {
        let Some(path) = &args.key else { return Ok(TrustedKeys::default()) };
        Ok(match args.consumer {
            VerifyConsumer::Sif => TrustedKeys { signer: Some(read_signer_key(path)?), minisign: None },
            _ => TrustedKeys { minisign: Some(read_public_key(path)?), signer: None },
        })
    }
}

/// Fails if the keys that are trusted are not those of the consumer: only minisign and Apptainer have keys, and minisign has
/// no certificates.
fn check_trusted(args: &VerifyArgs) -> Result<()> {
    let usage = |why: &str| Err(UsageError(why.into()).into());
    match (args.consumer, &args.key) {
        (VerifyConsumer::Minisign, None) => usage("--as minisign verifies by a public key: give --key FILE"),
        (VerifyConsumer::Sif, None) if args.certificate.is_none() => {
            usage("--as sif verifies by a public key: give --key FILE or --certificate FILE")
        }
        (VerifyConsumer::Minisign | VerifyConsumer::Sif, Some(_)) | (_, None) => Ok(()),
        (_, Some(_)) => usage("--key is for --as minisign and --as sif; other consumers have a --certificate"),
    }
}

/// What is enforced, for programs and for people.
struct EnforcedSeal {
    name: EnforcementName,
    text: String,
}

/// What the consumer enforces when it uses the image.
#[derive(Clone, Copy, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
enum EnforcementName {
    /// The image is used without any verification.
    Unverified,
    /// The image is not used, or reading from it fails.
    Refused,
    /// Every block is verified, by a root hash that is not signed or whose signature was not verified.
    Unsigned,
    /// Every block is verified, by a root hash that the key of the certificate signed; minisign and Apptainer verify the
    /// file once.
    Signed,
}

impl EnforcedSeal {
    fn of(consumer: ConsumerProgram, examined: &SealExamination) -> Self {
        // These verify a file once, when they are asked to.
        let asked = match consumer {
            ConsumerProgram::Minisign => Some("minisign"),
            ConsumerProgram::Apptainer => Some("apptainer verify"),
            _ => None,
        };
        let text = match (examined.enforcement, asked) {
            (KernelEnforcement::Unverified, _) => "it will be used without any verification".into(),
            // It verifies files that it cannot run.
            (KernelEnforcement::Refused, Some(program)) if consumer == ConsumerProgram::Apptainer => {
                format!("{program} will refuse it, or apptainer run")
            }
            (KernelEnforcement::Refused, Some(program)) => format!("{program} will refuse it"),
            (KernelEnforcement::Refused, None) => "it will not be used, or reading from it will fail".into(),
            (KernelEnforcement::Signed, Some(program)) => {
                format!("{program} will accept it; Linux does not verify it when it is read")
            }
            (KernelEnforcement::Signed, None) => "every block will be verified, by a signed root hash".into(),
            _ if examined.has_signature => {
                "every block will be verified; name a --certificate to verify the signature of the root hash".into()
            }
            _ => "every block will be verified, by a root hash that is not signed".into(),
        };
        let name = match examined.enforcement {
            KernelEnforcement::Unverified => EnforcementName::Unverified,
            KernelEnforcement::Refused => EnforcementName::Refused,
            KernelEnforcement::Signed => EnforcementName::Signed,
            _ => EnforcementName::Unsigned,
        };
        EnforcedSeal { name, text }
    }
}

/// A mistake that keeps the consumer from verifying the image.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct NamedMistake {
    /// Name of the mistake, for programs.
    name: &'static str,
    /// Explanation of the mistake, for people.
    text: String,
}

/// Checks that a consumer will enforce for a sealed image.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct VerifyReport<'a> {
    /// Path of the image.
    image: String,
    /// Checks that the consumer enforces when it uses the image.
    enforced: EnforcementName,
    /// Root hash that the consumer finds, in hexadecimal digits; null if it finds none.
    root_hash: Option<String>,
    /// True if there is a signature, even if no certificate was given to verify it by.
    has_signature: bool,
    /// Comment that minisign's signature covers; null if that was not verified.
    trusted_comment: Option<&'a str>,
    /// Mistakes that were found.
    findings: &'a Findings<NamedMistake>,
}

impl JsonDocument for VerifyReport<'_> {
    const KIND: &'static str = "verify";
}
