//! `packfs verify`: what a consumer will enforce for a sealed image.

use std::sync::Arc;

use anyhow::{Context, Result};
use packfs_image::name::display;
use packfs_seal::HashEffort;
use packfs_seal::consumer::{ConsumerProgram, KernelEnforcement, SealExamination, SealedImage, examine};
use serde::Serialize;

use super::seal::{open_image, read_certificates, read_public_key, usable_threads};
use crate::args::{VerifyArgs, VerifyConsumer};
use crate::output::failure::{CommandOutcome, UsageError};
use crate::output::findings::Findings;
use crate::output::json::JsonDocument;
use crate::output::meter::ProgressMeter;
use crate::output::{json, say};

pub(super) fn run(args: &VerifyArgs) -> Result<CommandOutcome> {
    check_trusted(args)?;
    let certificates = args.certificate.as_deref().map(read_certificates).transpose()?.unwrap_or_default();
    let minisign_key = args.key.as_deref().map(read_public_key).transpose()?;
    let data = open_image(&args.image)?;
    let consumer = match args.consumer {
        VerifyConsumer::Systemd => ConsumerProgram::Systemd,
        VerifyConsumer::Containerd => ConsumerProgram::Containerd,
        VerifyConsumer::Ddi => ConsumerProgram::Ddi,
        VerifyConsumer::Rauc => ConsumerProgram::Rauc,
        VerifyConsumer::Minisign => ConsumerProgram::Minisign,
    };
    let minisign_key = minisign_key.as_ref();
    let image = SealedImage { path: &args.image, data: &data, certificates: &certificates, minisign_key };
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

/// Fails if the keys that are trusted are not those of the consumer: minisign has no certificates, and only it has keys.
fn check_trusted(args: &VerifyArgs) -> Result<()> {
    let usage = |why: &str| Err(UsageError(why.into()).into());
    match (args.consumer, &args.key) {
        (VerifyConsumer::Minisign, None) => usage("--as minisign verifies by a public key: give --key FILE"),
        (VerifyConsumer::Minisign, Some(_)) | (_, None) => Ok(()),
        (_, Some(_)) => usage("--key is for --as minisign; other consumers have a --certificate"),
    }
}

/// What is enforced, for programs and for people.
struct EnforcedSeal {
    name: EnforcementName,
    text: &'static str,
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
    /// Every block is verified, by a root hash that the key of the certificate signed; minisign verifies the file once.
    Signed,
}

impl EnforcedSeal {
    fn of(consumer: ConsumerProgram, examined: &SealExamination) -> Self {
        let (name, text) = match examined.enforcement {
            KernelEnforcement::Unverified => (EnforcementName::Unverified, "it will be used without any verification"),
            KernelEnforcement::Refused if consumer == ConsumerProgram::Minisign => {
                (EnforcementName::Refused, "minisign will refuse it")
            }
            KernelEnforcement::Refused => {
                (EnforcementName::Refused, "it will not be used, or reading from it will fail")
            }
            KernelEnforcement::Signed if consumer == ConsumerProgram::Minisign => {
                (EnforcementName::Signed, "minisign will accept it; Linux does not verify it when it is read")
            }
            KernelEnforcement::Signed => {
                (EnforcementName::Signed, "every block will be verified, by a signed root hash")
            }
            _ if examined.has_signature => (
                EnforcementName::Unsigned,
                "every block will be verified; name a --certificate to verify the signature of the root hash",
            ),
            _ => (EnforcementName::Unsigned, "every block will be verified, by a root hash that is not signed"),
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
