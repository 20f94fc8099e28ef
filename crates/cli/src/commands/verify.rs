//! `packfs verify`: what a consumer will enforce for a sealed image.

use std::sync::Arc;

use anyhow::{Context, Result};
use packfs_image::name::{display, encode};
use packfs_seal::HashEffort;
use packfs_seal::consumer::{Consumer, Enforcement, Examination, SealedImage, examine};
use serde::Serialize;

use super::seal::{open_image, read_certificate, threads};
use crate::args::{SealConsumer, Verify};
use crate::output::failure::Outcome;
use crate::output::findings::Findings;
use crate::output::meter::Meter;
use crate::output::{json, say};

pub(super) fn run(args: &Verify) -> Result<Outcome> {
    let certificate = args.certificate.as_deref().map(read_certificate).transpose()?;
    let data = open_image(&args.image)?;
    let consumer = match args.consumer {
        SealConsumer::Systemd => Consumer::Systemd,
        SealConsumer::Containerd => Consumer::Containerd,
    };
    let image = SealedImage { path: &args.image, data: &data, certificate: certificate.as_ref() };
    let meter = Meter::start(args.talk.quiet);
    let effort = HashEffort { threads: threads(&args.effort), progress: Arc::clone(meter.progress()) };
    let examined = examine(consumer, image, &effort).with_context(|| display(&args.image).to_string())?;
    meter.finish();
    let mut findings = Findings::new();
    for mistake in &examined.mistakes {
        findings.add(NamedMistake { name: mistake.name(), text: mistake.to_string() });
    }
    let enforced = EnforcedSeal::of(&examined);
    if args.json {
        json::print(
            "verify",
            &Report {
                image: encode(args.image.as_os_str().as_encoded_bytes()).into_owned(),
                enforced: enforced.name,
                root_hash: examined.root_hash.as_ref().map(ToString::to_string),
                has_signature: examined.has_signature,
                findings: &findings,
            },
        )?;
    } else {
        findings.print(|mistake| format!("{}: {}", mistake.name, mistake.text))?;
        if !args.talk.quiet {
            say(format_args!("{}: {}", display(&args.image), enforced.text));
        }
    }
    Ok(if examined.mistakes.is_empty() { Outcome::Done } else { Outcome::Findings })
}

/// What is enforced, for programs and for people.
struct EnforcedSeal {
    name: &'static str,
    text: &'static str,
}

impl EnforcedSeal {
    fn of(examined: &Examination) -> Self {
        let (name, text) = match examined.enforcement {
            Enforcement::Unverified => ("unverified", "it will be used without any verification"),
            Enforcement::Refused => ("refused", "it will not be used, or reading from it will fail"),
            Enforcement::Signed => ("signed", "every block will be verified, by a signed root hash"),
            _ if examined.has_signature => (
                "unsigned",
                "every block will be verified; name a --certificate to verify the signature of the root hash",
            ),
            _ => ("unsigned", "every block will be verified, by a root hash that is not signed"),
        };
        EnforcedSeal { name, text }
    }
}

/// A mistake by its name.
#[derive(Debug, Serialize)]
struct NamedMistake {
    name: &'static str,
    text: String,
}

/// See `docs/guide/json.md`.
#[derive(Serialize)]
struct Report<'a> {
    image: String,
    enforced: &'static str,
    root_hash: Option<String>,
    has_signature: bool,
    findings: &'a Findings<NamedMistake>,
}
