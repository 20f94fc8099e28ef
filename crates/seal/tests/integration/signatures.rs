//! Signatures, made here and verified by openssl, and the other way round.

use std::fs;
use std::path::Path;
use std::process::Command;

use packfs_seal::RootHash;
use packfs_seal::signature::{DetachedSignature, SignatureError, SignerCertificate, SigningKey, sign};

use crate::common::{have, run};

/// Makes the key NAME.pem and the certificate NAME.crt.
fn make_key(dir: &Path, name: &str, kind: &[&str]) {
    let key = format!("{name}.pem");
    let certificate = format!("{name}.crt");
    let subject = format!("/CN={name}");
    let end = ["-keyout", &key, "-out", &certificate, "-subj", &subject];
    run(dir, "openssl", &[&["req", "-x509", "-nodes", "-newkey"], kind, &end[..]].concat());
}

fn key(dir: &Path, name: &str) -> SigningKey {
    SigningKey::parse(&fs::read(dir.join(format!("{name}.pem"))).unwrap()).unwrap()
}

fn certificate(dir: &Path, name: &str) -> SignerCertificate {
    SignerCertificate::parse(&fs::read(dir.join(format!("{name}.crt"))).unwrap()).unwrap()
}

fn root_hash() -> RootHash {
    "5f".repeat(32).parse().unwrap()
}

/// Kinds of keys, as arguments of `openssl req -newkey`.
const KINDS: [(&str, &[&str]); 3] = [
    ("rsa", &["rsa:2048"]),
    ("p256", &["ec", "-pkeyopt", "ec_paramgen_curve:P-256"]),
    ("p384", &["ec", "-pkeyopt", "ec_paramgen_curve:P-384"]),
];

#[test]
fn openssl_verifies_signatures_and_makes_those_that_are_verified() {
    if !have("openssl_verifies_signatures_and_makes_those_that_are_verified", "openssl") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    fs::write(dir.join("roothash"), root_hash().to_string()).unwrap();
    for (name, kind) in KINDS {
        make_key(dir, name, kind);
        let signature = sign(&root_hash(), &key(dir, name), &certificate(dir, name)).unwrap();
        fs::write(dir.join("ours.p7s"), &signature).unwrap();
        let certificate_file = format!("{name}.crt");
        let verify = ["smime", "-verify", "-binary", "-inform", "der", "-in", "ours.p7s", "-content", "roothash"];
        let against = ["-certfile", &certificate_file, "-nointern", "-noverify", "-out", "verified"];
        run(dir, "openssl", &[&verify[..], &against].concat());
        assert_eq!(fs::read_to_string(dir.join("verified")).unwrap(), root_hash().to_string());
        DetachedSignature::parse(&signature).unwrap().verify(&root_hash(), &[certificate(dir, name)]).unwrap();

        let key_file = format!("{name}.pem");
        let by = ["-in", "roothash", "-inkey", &key_file, "-signer", &certificate_file, "-outform", "der"];
        for options in [&["-nocerts", "-noattr"][..], &["-noattr"], &[]] {
            let begin = ["smime", "-sign", "-binary", "-out", "theirs.p7s", "-md", "sha256"];
            run(dir, "openssl", &[&begin[..], options, &by].concat());
            let theirs = fs::read(dir.join("theirs.p7s")).unwrap();
            let parsed = DetachedSignature::parse(&theirs).unwrap();
            parsed.verify(&root_hash(), &[certificate(dir, name)]).unwrap();
            if name == "rsa" && options.len() == 2 {
                assert_eq!(theirs, signature, "a signature of RSA has the bytes of openssl");
            }
        }
    }
}

#[test]
fn a_key_in_the_old_form_of_rsa_is_read() {
    if !have("a_key_in_the_old_form_of_rsa_is_read", "openssl") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    make_key(dir.path(), "new", KINDS[0].1);
    run(dir.path(), "openssl", &["rsa", "-traditional", "-in", "new.pem", "-out", "old.pem"]);
    sign(&root_hash(), &key(dir.path(), "old"), &certificate(dir.path(), "new")).unwrap();
}

#[test]
fn every_wrong_signature_is_named() {
    if !have("every_wrong_signature_is_named", "openssl") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    make_key(dir, "one", KINDS[0].1);
    make_key(dir, "two", KINDS[0].1);
    let one = [certificate(dir, "one")];
    let two = [certificate(dir, "two")];
    assert_eq!(sign(&root_hash(), &key(dir, "one"), &two[0]), Err(SignatureError::OtherKey));
    let signature = sign(&root_hash(), &key(dir, "one"), &one[0]).unwrap();
    let parsed = DetachedSignature::parse(&signature).unwrap();
    assert_eq!(parsed.verify(&root_hash(), &two), Err(SignatureError::OtherSigner));
    let other: RootHash = "60".repeat(32).parse().unwrap();
    assert_eq!(parsed.verify(&other, &one), Err(SignatureError::OtherContent));

    let openssl_signs = |content: &str, options: &[&str]| {
        fs::write(dir.join("content"), content).unwrap();
        let begin = ["smime", "-sign", "-binary", "-in", "content", "-inkey", "one.pem", "-signer", "one.crt"];
        run(dir, "openssl", &[&begin[..], &["-out", "theirs"], options].concat());
        DetachedSignature::parse(&fs::read(dir.join("theirs")).unwrap())
    };
    for attributes in [&["-noattr", "-outform", "der"][..], &["-outform", "der"]] {
        let with_newline = openssl_signs(&format!("{}\n", root_hash()), attributes).unwrap();
        assert_eq!(with_newline.verify(&root_hash(), &one), Err(SignatureError::SignedNewline));
    }
    for (options, why) in [(&["-outform", "pem"][..], "PEM"), (&["-nodetach", "-outform", "der"], "detached")] {
        let error = openssl_signs("x", options).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
    // Every byte may be wrong, and nothing panics. Only what says again which digest was used is not read: the list of
    // digests at the beginning, and parameters of algorithms that have none.
    let is_redundant = |at| at < 60 || signature[at - 1] == 0x05 || signature[at - 2] == 0x05 || signature[at] == 0x05;
    for at in (0..signature.len()).filter(|at| !is_redundant(*at)) {
        let mut wrong = signature.clone();
        wrong[at] ^= 0x41;
        let accepted = DetachedSignature::parse(&wrong).and_then(|parsed| parsed.verify(&root_hash(), &one));
        assert!(accepted.is_err(), "byte {at}");
    }
}

/// Both systemd and the kernel refuse a signature if one of their keys signed something else beside it.
#[test]
fn every_signer_must_be_trusted() {
    if !have("every_signer_must_be_trusted", "openssl") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    for (name, kind) in [("one", KINDS[0].1), ("two", KINDS[1].1)] {
        make_key(dir, name, kind);
    }
    let certificates = ["one", "two"].map(|name| certificate(dir, name));
    let both = ["one.crt", "two.crt"].map(|name| fs::read(dir.join(name)).unwrap()).concat();
    fs::write(dir.join("both.crt"), both).unwrap();
    fs::write(dir.join("roothash"), root_hash().to_string()).unwrap();
    let begin = ["smime", "-sign", "-binary", "-nocerts", "-noattr", "-in", "roothash", "-outform", "der"];
    let by = ["-out", "both.p7s", "-signer", "one.crt", "-inkey", "one.pem", "-signer", "two.crt", "-inkey", "two.pem"];
    run(dir, "openssl", &[&begin[..], &by].concat());
    // As systemd verifies by the certificates of a folder.
    let openssl_accepts = |signature: &str, trusted: &str| {
        let verify = ["smime", "-verify", "-binary", "-inform", "der", "-in", signature, "-content", "roothash"];
        let against = ["-certfile", trusted, "-nointern", "-noverify", "-out", "verified"];
        let ran = Command::new("openssl").args(verify).args(against).current_dir(dir).output().unwrap();
        ran.status.success()
    };
    let bytes = fs::read(dir.join("both.p7s")).unwrap();
    let signature = DetachedSignature::parse(&bytes).unwrap();
    assert_eq!(signature.verify(&root_hash(), &certificates), Ok(()));
    assert!(openssl_accepts("both.p7s", "both.crt"));
    for (trusted, name) in certificates.iter().zip(["one.crt", "two.crt"]) {
        let untrusted = Err(SignatureError::UntrustedSigner { count: 2 });
        assert_eq!(signature.verify(&root_hash(), std::slice::from_ref(trusted)), untrusted);
        assert!(!openssl_accepts("both.p7s", name));
    }
    // The end of the file is that of the last signature.
    let mut changed = bytes;
    *changed.last_mut().unwrap() ^= 1;
    fs::write(dir.join("changed.p7s"), &changed).unwrap();
    let signature = DetachedSignature::parse(&changed).unwrap();
    assert_eq!(signature.verify(&root_hash(), &certificates), Err(SignatureError::OtherContent));
    assert!(!openssl_accepts("changed.p7s", "both.crt"));
}

#[test]
fn keys_and_certificates_that_are_none_are_named() {
    for (key, why) in [
        ("", "not in PEM"),
        ("-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n", "encrypted"),
        ("-----BEGIN EC PRIVATE KEY-----\nAAAA\n-----END EC PRIVATE KEY-----\n", "PKCS#8"),
        ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "not a private key"),
        ("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "neither RSA"),
    ] {
        let error = SigningKey::parse(key.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(why), "{key}: {error}");
    }
    for certificate in ["", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "text"] {
        let error = SignerCertificate::parse(certificate.as_bytes()).unwrap_err();
        assert!(matches!(error, SignatureError::BadCertificate(_)), "{certificate}: {error}");
    }
}
