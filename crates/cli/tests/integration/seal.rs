//! `packfs seal`, and what other programs make of its files.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::common::{FORMATS, fail, have, run_in, sample, stderr, succeed};

/// Runs another program in `dir`, which must succeed; returns its output.
fn judge(dir: &Path, program: &str, args: &[&str]) -> String {
    let ran = Command::new(program).args(args).current_dir(dir).output().unwrap();
    assert!(ran.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8_lossy(&ran.stdout).into_owned()
}

/// Makes images `squashfs` and `erofs`, and with openssl the key and certificate `NAME.pem` and `NAME.crt`.
fn inputs(names: &[&str]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    sample(dir.path());
    for format in FORMATS {
        succeed(dir.path(), &["build", "root", "-o", format, "--format", format, "-q"]);
    }
    for name in names {
        let key = format!("{name}.pem");
        let certificate = format!("{name}.crt");
        let subject = format!("/CN={name}");
        let begin = ["req", "-x509", "-nodes", "-newkey", "rsa:2048", "-subj", &subject];
        judge(dir.path(), "openssl", &[&begin[..], &["-keyout", &key, "-out", &certificate]].concat());
    }
    dir
}

#[test]
fn veritysetup_verifies_trees_beside_and_after_images() {
    if !have("veritysetup_verifies_trees_beside_and_after_images", "veritysetup") {
        return;
    }
    let dir = inputs(&[]);
    let dir = dir.path();
    for format in FORMATS {
        succeed(dir, &["seal", format, "-q"]);
        let root_hash = fs::read_to_string(dir.join(format!("{format}.roothash"))).unwrap();
        judge(dir, "veritysetup", &["verify", format, &format!("{format}.verity"), &root_hash]);
        assert_eq!(succeed(dir, &["seal", format, "--root-hash-only", "-q"]), format!("{root_hash}\n"));

        let json = succeed(dir, &["seal", format, "--append", "-o", "appended", "--force", "--json", "-q"]);
        let len = fs::metadata(dir.join(format)).unwrap().len();
        assert!(json.contains(&format!("\"hash_offset\": {len},")) && json.contains(&root_hash), "{json}");
        judge(dir, "veritysetup", &["verify", "appended", "appended", &root_hash, &format!("--hash-offset={len}")]);
        // The image in the copy is still one.
        succeed(dir, &["check", "appended", "-q"]);
    }
}

#[test]
fn the_files_do_not_depend_on_the_number_of_threads() {
    let dir = inputs(&[]);
    let sealed = |jobs| {
        succeed(dir.path(), &["seal", "erofs", "-f", "-q", "-j", jobs]);
        ["erofs.verity", "erofs.roothash"].map(|name| fs::read(dir.path().join(name)).unwrap())
    };
    assert!(["1", "2", "8"].iter().all(|jobs| sealed(jobs) == sealed("0")));
}

#[test]
fn systemd_finds_the_tree_and_openssl_verifies_the_signature() {
    let test = "systemd_finds_the_tree_and_openssl_verifies_the_signature";
    if !have(test, "systemd-dissect") || !have(test, "openssl") {
        return;
    }
    let dir = inputs(&["key"]);
    let dir = dir.path();
    let by = ["--key", "key.pem", "--certificate", "key.crt", "-q"];
    succeed(dir, &[&["seal", "squashfs", "-o", "app.raw", "--for", "systemd"], &by[..]].concat());
    assert_eq!(fs::read(dir.join("app.raw")).unwrap(), fs::read(dir.join("squashfs")).unwrap());
    let verify =
        ["smime", "-verify", "-binary", "-inform", "der", "-in", "app.roothash.p7s", "-content", "app.roothash"];
    judge(dir, "openssl", &[&verify[..], &["-certfile", "key.crt", "-nointern", "-noverify"]].concat());
    // Without udev, systemd-dissect cannot set the tree up, but says by the files what it would do.
    let shown = judge(dir, "systemd-dissect", &["--no-pager", "--no-legend", "app.raw"]);
    assert!(shown.contains("squashfs"), "{shown}");
}

#[test]
fn a_signature_made_elsewhere_is_verified_before_anything_is_written() {
    if !have("a_signature_made_elsewhere_is_verified_before_anything_is_written", "openssl") {
        return;
    }
    let dir = inputs(&["key", "other"]);
    let dir = dir.path();
    let printed = succeed(dir, &["seal", "erofs", "--root-hash-only", "-q"]);
    let sign = |content: &str, name: &str| {
        fs::write(dir.join("content"), content).unwrap();
        let begin = ["smime", "-sign", "-nocerts", "-noattr", "-binary", "-in", "content", "-inkey", "key.pem"];
        judge(dir, "openssl", &[&begin[..], &["-signer", "key.crt", "-outform", "der", "-out", name]].concat());
    };
    sign(printed.trim_end(), "good.p7s");
    sign(&printed, "newline.p7s");
    let attach =
        |signature, certificate| ["seal", "erofs", "-q", "--attach-signature", signature, "--certificate", certificate];
    for (signature, certificate, why) in [
        ("newline.p7s", "key.crt", "newline"),
        ("good.p7s", "other.crt", "another certificate"),
        ("key.crt", "key.crt", "PEM"),
        ("good.p7s", "key.pem", "not an X.509 certificate"),
        ("good.p7s", "none.crt", "none.crt: cannot read"),
    ] {
        let told = fail(dir, 1, &attach(signature, certificate));
        assert!(told.contains(why), "{why}: {told}");
        assert!(!dir.join("erofs.roothash").exists() && !dir.join("erofs.verity").exists(), "{why}");
    }
    succeed(dir, &attach("good.p7s", "key.crt"));
    assert_eq!(fs::read(dir.join("erofs.roothash.p7s")).unwrap(), fs::read(dir.join("good.p7s")).unwrap());
    let told = fail(dir, 1, &["seal", "erofs", "-qf", "--key", "key.pem", "--certificate", "other.crt"]);
    assert!(told.contains("does not belong"), "{told}");
}

#[test]
fn containerd_gets_the_offset_of_the_superblock() {
    if !have("containerd_gets_the_offset_of_the_superblock", "veritysetup") {
        return;
    }
    let dir = inputs(&[]);
    let dir = dir.path();
    let len = fs::metadata(dir.join("erofs")).unwrap().len();
    let usage = fail(dir, 2, &["seal", "erofs", "--for", "containerd"]);
    assert!(usage.contains("--force"), "{usage}");
    succeed(dir, &["seal", "erofs", "--for", "containerd", "--force", "-q"]);
    let metadata = fs::read_to_string(dir.join("erofs.dmverity")).unwrap();
    let root_hash = metadata.split('"').nth(3).unwrap();
    assert_eq!(metadata, format!("{{\n  \"roothash\": \"{root_hash}\",\n  \"hashoffset\": {len}\n}}"));
    let offset = format!("--hash-offset={len}");
    judge(dir, "veritysetup", &["verify", "erofs", "erofs", root_hash, &offset]);
    let dumped = judge(dir, "veritysetup", &["dump", "erofs", &offset]);
    assert!(dumped.contains(&"0".repeat(64)), "the salt of containerd: {dumped}");
}

#[test]
fn fs_verity_has_the_digest_of_fsverity() {
    if !have("fs_verity_has_the_digest_of_fsverity", "fsverity") {
        return;
    }
    let dir = inputs(&[]);
    for algorithm in ["sha256", "sha512"] {
        let ours = succeed(dir.path(), &["seal", "squashfs", "--fs-verity", "--algorithm", algorithm, "-q"]);
        let theirs = judge(dir.path(), "fsverity", &["digest", "squashfs", "--hash-alg", algorithm]);
        assert_eq!(Some(ours.trim_end()), theirs.split_whitespace().next());
    }
}

#[test]
fn disk_images_are_what_systemd_and_fdisk_read() {
    let test = "disk_images_are_what_systemd_and_fdisk_read";
    if !["systemd-dissect", "veritysetup", "openssl", "sfdisk"].iter().all(|program| have(test, program)) {
        return;
    }
    let dir = inputs(&["key", "other"]);
    let dir = dir.path();
    let seal = ["seal", "erofs", "--for", "ddi", "-fq"];
    let by = ["--key", "key.pem", "--certificate", "key.crt"];
    succeed(dir, &[&seal[..], &["-o", "disk.raw", "--partition-type", "root-x86-64"], &by].concat());
    let root_hash = fs::read_to_string(dir.join("disk.roothash")).unwrap();

    let told = judge(dir, "sfdisk", &["--verify", "disk.raw"]);
    assert!(told.contains("No errors detected"), "{told}");
    let table = judge(dir, "sfdisk", &["--dump", "disk.raw"]).to_lowercase().replace('-', "");
    let sectors = |line: &str, field: &str| -> u64 {
        let (_, rest) = line.split_once(field).unwrap();
        rest.trim_start_matches([' ', '=']).split(',').next().unwrap().parse().unwrap()
    };
    let partitions: Vec<&str> = table.lines().filter(|line| line.contains("start=")).collect();
    assert!(partitions[0].contains(&root_hash[..32]) && partitions[1].contains(&root_hash[32..]), "{table}");
    let disk = fs::read(dir.join("disk.raw")).unwrap();
    for (line, name) in partitions.iter().zip(["data", "tree", "signature"]) {
        let start = usize::try_from(sectors(line, "start") * 512).unwrap();
        let len = usize::try_from(sectors(line, "size") * 512).unwrap();
        fs::write(dir.join(name), &disk[start..start + len]).unwrap();
    }
    assert_eq!(fs::read(dir.join("data")).unwrap(), fs::read(dir.join("erofs")).unwrap());
    judge(dir, "veritysetup", &["verify", "data", "tree", &root_hash]);

    // The JSON of the signature, as openssl sees it.
    let json = fs::read_to_string(dir.join("signature")).unwrap();
    let json = json.trim_end_matches('\0');
    let field = |name: &str| json.split(&format!("\"{name}\":\"")).nth(1).unwrap().split('"').next().unwrap();
    assert_eq!(field("rootHash"), root_hash);
    let fingerprint = judge(dir, "openssl", &["x509", "-in", "key.crt", "-noout", "-fingerprint", "-sha256"]);
    let fingerprint = fingerprint.trim().rsplit('=').next().unwrap().replace(':', "").to_lowercase();
    assert_eq!(field("certificateFingerprint"), fingerprint);
    fs::write(dir.join("base64"), field("signature")).unwrap();
    judge(dir, "openssl", &["base64", "-d", "-A", "-in", "base64", "-out", "p7s"]);
    let verify = ["smime", "-verify", "-binary", "-inform", "der", "-in", "p7s", "-content", "disk.roothash"];
    judge(dir, "openssl", &[&verify[..], &["-certfile", "key.crt", "-nointern", "-noverify"]].concat());

    // Like the tests that mount, this one needs loop devices.
    if rustix::process::geteuid().is_root() {
        let shown = judge(dir, "systemd-dissect", &["--no-pager", "disk.raw"]);
        assert!(shown.contains("signed") && shown.contains("root-verity-sig"), "{shown}");
    }

    let verify = |certificate| run_in(dir, &["verify", "disk.raw", "--as", "ddi", "--certificate", certificate]);
    let trusted = verify("key.crt");
    assert!(trusted.status.success() && stderr(&trusted).contains("by a signed root hash"), "{}", stderr(&trusted));
    let mistake = |ran: std::process::Output| String::from_utf8_lossy(&ran.stdout).into_owned();
    assert!(mistake(verify("other.crt")).starts_with("other-signer"));
    fs::write(dir.join("disk.roothash"), "ab".repeat(32)).unwrap();
    assert!(mistake(verify("key.crt")).starts_with("other-signed-hash"));
    fs::remove_file(dir.join("disk.roothash")).unwrap();
    assert!(verify("key.crt").status.success(), "the signature has the root hash, too");

    succeed(dir, &[&seal[..], &["-o", "usr.raw", "--partition-type", "usr-arm64"]].concat());
    assert!(dir.join("usr.usrhash").exists());
    assert!(run_in(dir, &["verify", "usr.raw", "--as", "ddi"]).status.success());
    assert!(
        mistake(run_in(dir, &["verify", "usr.raw", "--as", "ddi", "--certificate", "key.crt"]))
            .starts_with("no-signature-p")
    );
}

#[test]
fn rauc_reads_bundles_and_makes_those_that_are_verified() {
    let test = "rauc_reads_bundles_and_makes_those_that_are_verified";
    if !["rauc", "mksquashfs", "openssl"].iter().all(|program| have(test, program)) {
        return;
    }
    let dir = inputs(&["key", "other"]);
    let dir = dir.path();
    fs::create_dir(dir.join("content")).unwrap();
    let rootfs = packfs_blocks::testing::noise(100_000, 7);
    fs::write(dir.join("content/rootfs.img"), &rootfs).unwrap();
    let manifest = "[update]\ncompatible=Test\n[bundle]\nformat=verity\n[image.rootfs]\nfilename=rootfs.img\n";
    fs::write(dir.join("content/manifest.raucm"), manifest).unwrap();
    succeed(dir, &["build", "content", "-o", "image", "--format", "squashfs", "-q"]);
    let seal = ["seal", "image", "--for", "rauc", "-fq"];
    let by_key = ["--key", "key.pem", "--certificate", "key.crt"];
    succeed(dir, &[&seal[..], &["-o", "ours.raucb"], &by_key].concat());
    let told = judge(dir, "rauc", &["info", "--keyring=key.crt", "ours.raucb"]);
    assert!(told.contains("Test") && told.contains("rootfs.img"), "{told}");
    judge(dir, "rauc", &["extract", "--keyring=key.crt", "ours.raucb", "extracted"]);
    assert!(fs::read(dir.join("extracted/rootfs.img")).unwrap() == rootfs);

    judge(dir, "rauc", &["bundle", "--cert=key.crt", "--key=key.pem", "content", "theirs.raucb"]);
    for bundle in ["ours.raucb", "theirs.raucb"] {
        let verify = |certificate| run_in(dir, &["verify", bundle, "--as", "rauc", "--certificate", certificate]);
        let trusted = verify("key.crt");
        let shown = String::from_utf8_lossy(&trusted.stdout).into_owned() + &stderr(&trusted);
        assert!(trusted.status.success() && shown.contains("by a signed root hash"), "{bundle}: {shown}");
        assert!(String::from_utf8_lossy(&verify("other.crt").stdout).starts_with("other-signer"), "{bundle}");
        let certificates = ["other.crt", "key.crt"].map(|name| fs::read(dir.join(name)).unwrap()).concat();
        fs::write(dir.join("both.crt"), certificates).unwrap();
        assert!(verify("both.crt").status.success(), "{bundle}");
    }

    // Signed elsewhere.
    let printed = succeed(dir, &[&seal[..], &["--manifest-only"]].concat());
    let root_hash = succeed(dir, &[&seal[..], &["--root-hash-only"]].concat());
    assert!(printed.contains(&format!("verity-hash={root_hash}")), "{printed}");
    fs::write(dir.join("manifest"), &printed).unwrap();
    let sign = |options: &[&str]| {
        let begin = ["cms", "-sign", "-in", "manifest", "-inkey", "key.pem", "-signer", "key.crt", "-outform", "der"];
        judge(dir, "openssl", &[&begin[..], &["-out", "signed"], options].concat());
    };
    let attach = ["-o", "attached.raucb", "--attach-signature", "signed", "--certificate", "key.crt"];
    for (options, why) in [
        (&["-binary"][..], "-nodetach"),
        (&["-nodetach"][..], "-binary"),
        (&["-binary", "-nodetach", "-nocerts"][..], "-nocerts"),
    ] {
        sign(options);
        let told = fail(dir, 1, &[&seal[..], &attach].concat());
        assert!(told.contains(why) && !dir.join("attached.raucb").exists(), "{options:?}: {told}");
    }
    sign(&["-binary", "-nodetach"]);
    succeed(dir, &[&seal[..], &attach].concat());
    judge(dir, "rauc", &["info", "--keyring=key.crt", "attached.raucb"]);
}

#[test]
fn minisign_verifies_images_and_root_hashes() {
    if !have("minisign_verifies_images_and_root_hashes", "minisign") {
        return;
    }
    let dir = inputs(&[]);
    let dir = dir.path();
    for name in ["key", "other"] {
        let [public, secret] = ["pub", "key"].map(|suffix| format!("{name}.{suffix}"));
        judge(dir, "minisign", &["-G", "-W", "-p", &public, "-s", &secret]);
    }
    let by_key = ["-q", "--minisign-key", "key.key"];
    succeed(dir, &[&["seal", "erofs"], &by_key[..]].concat());
    succeed(dir, &[&["seal", "erofs", "--append", "-o", "appended"], &by_key[..]].concat());
    for image in ["erofs", "appended"] {
        judge(dir, "minisign", &["-V", "-p", "key.pub", "-m", image]);
        let verify = |key| run_in(dir, &["verify", image, "--as", "minisign", "--key", key]);
        let trusted = verify("key.pub");
        assert!(trusted.status.success() && stderr(&trusted).contains("minisign will accept it"), "{image}");
        assert!(String::from_utf8_lossy(&verify("other.pub").stdout).starts_with("other-key"), "{image}");
    }
    let signed = ["seal", "erofs", "-f", "--minisign-of", "root-hash", "--json"];
    let json = succeed(dir, &[&signed[..], &by_key].concat());
    assert!(json.contains("erofs.roothash.minisig") && json.contains("\"is_signed\": true"), "{json}");
    judge(dir, "minisign", &["-V", "-p", "key.pub", "-m", "erofs.roothash"]);
    succeed(dir, &["verify", "erofs.roothash", "--as", "minisign", "--key", "key.pub", "-q"]);
    fs::rename(dir.join("erofs.roothash.minisig"), dir.join("erofs.minisig")).unwrap();
    let mistaken = run_in(dir, &["verify", "erofs", "--as", "minisign", "--key", "key.pub"]);
    assert!(String::from_utf8_lossy(&mistaken.stdout).starts_with("signed-root-hash"));

    for (status, line, why) in [
        (2, "verify erofs --as minisign", "--key FILE"),
        (2, "verify erofs --as systemd --key key.pub", "--as minisign"),
        (2, "seal erofs -f --minisign-of root-hash", "--minisign-key"),
        (1, "seal erofs -f --minisign-key key.pub", "key.pub: not a secret key"),
        (1, "seal erofs --minisign-key key.key", "exists"),
    ] {
        let line: Vec<&str> = line.split(' ').collect();
        let told = fail(dir, status, &line);
        assert!(told.contains(why), "{line:?}: {told}");
    }
}

#[test]
fn apptainer_verifies_what_becomes_a_sif_file() {
    let test = "apptainer_verifies_what_becomes_a_sif_file";
    if !["openssl", "sif-oracle"].iter().all(|program| have(test, program)) {
        return;
    }
    let dir = inputs(&["key", "other"]);
    let dir = dir.path();
    judge(dir, "openssl", &["x509", "-in", "key.crt", "-pubkey", "-noout", "-out", "key.pub"]);
    let seal = ["seal", "squashfs", "--for", "sif", "--architecture", "arm64", "-fq"];
    let json = succeed(dir, &[&seal[..], &["-o", "app.sif", "--key", "key.pem", "--json"]].concat());
    assert!(json.contains("\"architecture\": \"arm64\"") && json.contains("\"is_signed\": true"), "{json}");
    judge(dir, "sif-oracle", &["verify", "app.sif", "key.pub"]);
    for trusted in [["--key", "key.pub"], ["--certificate", "key.crt"]] {
        let verified = run_in(dir, &[&["verify", "app.sif", "--as", "sif"], &trusted[..]].concat());
        let told = stderr(&verified);
        assert!(verified.status.success() && told.contains("apptainer verify will accept it"), "{told}");
    }
    let wrong = run_in(dir, &["verify", "app.sif", "--as", "sif", "--certificate", "other.crt"]);
    assert_eq!(wrong.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&wrong.stdout).starts_with("other-key: the signature in object 2"));
    // The image in it is read by its offset, and the file is a program.
    succeed(dir, &["check", "app.sif", "--offset", "32K", "--against", "root", "-q"]);
    assert_eq!(fs::metadata(dir.join("app.sif")).unwrap().permissions().mode() & 0o100, 0o100);

    // Signed elsewhere, with the same bytes, as RSA signs alike each time.
    fs::write(dir.join("message"), succeed(dir, &[&seal[..], &["--manifest-only"]].concat())).unwrap();
    judge(dir, "openssl", &["dgst", "-sha256", "-sign", "key.pem", "-out", "signature", "message"]);
    let attach = |certificate| {
        let signed = ["-o", "attached.sif", "--attach-signature", "signature", "--certificate", certificate];
        run_in(dir, &[&seal[..], &signed].concat())
    };
    assert!(stderr(&attach("other.crt")).contains("signature: the signature cannot be used"));
    assert!(!dir.join("attached.sif").exists());
    assert!(attach("key.crt").status.success());
    assert!(fs::read(dir.join("attached.sif")).unwrap() == fs::read(dir.join("app.sif")).unwrap());

    succeed(dir, &[&seal[..], &["-o", "plain.sif"]].concat());
    let plain = run_in(dir, &["verify", "plain.sif", "--as", "sif", "--key", "key.pub"]);
    assert!(String::from_utf8_lossy(&plain.stdout).starts_with("unsigned-group"));
    assert!(stderr(&plain).contains("apptainer verify will refuse it, or apptainer run"), "{}", stderr(&plain));
    for (status, line, why) in [
        (2, "verify app.sif --as sif", "--key FILE"),
        (2, "seal squashfs --for sif", "-o NAME.sif"),
        (2, "seal squashfs --for sif -o a --salt 00", "no hash tree"),
        (2, "seal squashfs --for sif -o a --partition-type root-arm64", "--for ddi"),
        (2, "seal squashfs --for sif -o a --architecture x86_64", "amd64"),
        (2, "seal squashfs --for sif -o a --certificate key.crt", "does not sign"),
        (2, "seal squashfs --architecture arm64", "--for sif"),
        (1, "seal squashfs --for sif -o a --key key.pem --certificate other.crt", "does not belong"),
        (1, "seal squashfs --for sif -o a --key key.crt", "not a private key"),
        (1, "seal erofs --for sif -o a", "not SquashFS"),
        (1, "seal squashfs --for sif -o app.sif", "--force"),
    ] {
        let told = fail(dir, status, &line.split(' ').collect::<Vec<_>>());
        assert!(told.contains(why) && !dir.join("a").exists(), "{line}: {told}");
    }
}

#[test]
fn a_build_seals_its_image_as_seal_does() {
    let dir = inputs(&["key"]);
    let dir = dir.path();
    for format in FORMATS {
        let build = ["build", "root", "-o", "built.raw", "--format", format, "-f", "--seal", "--json", "-q"];
        let json = succeed(dir, &build);
        let ours = ["verity", "roothash"].map(|suffix| fs::read(dir.join(format!("built.{suffix}"))).unwrap());
        succeed(dir, &["seal", "built.raw", "-fq"]);
        let theirs = ["verity", "roothash"].map(|suffix| fs::read(dir.join(format!("built.{suffix}"))).unwrap());
        assert!(ours == theirs, "{format}");
        assert!(json.contains(&format!("\"root_hash\": \"{}\"", String::from_utf8_lossy(&ours[1]))), "{json}");
    }
    let signed = ["--seal", "--seal-key", "key.pem", "--seal-certificate", "key.crt"];
    succeed(dir, &[&["build", "root", "-o", "signed.raw", "-q"], &signed[..]].concat());
    let verify = ["verify", "signed.raw", "--as", "systemd", "--certificate", "key.crt"];
    assert!(stderr(&run_in(dir, &verify)).contains("by a signed root hash"));
    // Linux refuses a tree whose blocks are larger than those of the file system.
    let small = ["--format", "erofs", "--fs-block", "1K", "--target-kernel", "6.8"];
    succeed(dir, &[&["build", "root", "-o", "small.raw", "--seal", "-q"], &small[..]].concat());
    assert!(run_in(dir, &["verify", "small.raw", "--as", "systemd"]).status.success());

    for (status, line, why) in [
        (2, "--seal-key key.pem", "--seal"),
        (2, "--seal --seal-key key.pem", "--seal-certificate"),
        (2, "--seal --no-pad", "--no-pad"),
        (2, "--seal --offset 4K", "--offset"),
        (1, "--seal --seal-key none --seal-certificate key.crt", "none: cannot read"),
    ] {
        let line: Vec<&str> = line.split(' ').collect();
        let told = fail(dir, status, &[&["build", "root", "-o", "new.raw"], &line[..]].concat());
        assert!(told.contains(why) && !dir.join("new.raw").exists(), "{line:?}: {told}");
    }
    fs::write(dir.join("kept.roothash"), "mine").unwrap();
    assert!(fail(dir, 1, &["build", "root", "-o", "kept.raw", "--seal"]).contains("kept.roothash exists"));
    assert!(!dir.join("kept.raw").exists() && !dir.join("kept.verity").exists());
}

#[test]
fn a_disk_image_does_not_depend_on_threads_and_time() {
    let dir = inputs(&[]);
    let sealed = |jobs| {
        succeed(dir.path(), &["seal", "squashfs", "--for", "ddi", "-o", "disk.raw", "-f", "-q", "-j", jobs]);
        fs::read(dir.path().join("disk.raw")).unwrap()
    };
    assert!(["1", "4"].iter().all(|jobs| sealed(jobs) == sealed("0")));
}

#[test]
fn verify_says_what_is_enforced_and_names_mistakes() {
    let dir = inputs(&[]);
    let dir = dir.path();
    succeed(dir, &["seal", "squashfs", "-o", "app.raw", "--for", "systemd", "-q"]);
    succeed(dir, &["seal", "erofs", "-o", "layer", "--for", "containerd", "-q"]);
    for line in [["verify", "app.raw", "--as", "systemd"], ["verify", "layer", "--as", "containerd"]] {
        let sound = run_in(dir, &line);
        assert!(sound.status.success() && sound.stdout.is_empty(), "{}", stderr(&sound));
        assert!(stderr(&sound).contains("every block will be verified"), "{}", stderr(&sound));
    }
    let json = succeed(dir, &["verify", "layer", "--as", "containerd", "--json"]);
    assert!(json.contains("\"enforced\": \"unsigned\""), "{json}");

    fs::rename(dir.join("app.roothash"), dir.join("app.raw.roothash")).unwrap();
    let wrong = run_in(dir, &["verify", "app.raw", "--as", "systemd"]);
    assert_eq!(wrong.status.code(), Some(1));
    assert!(
        String::from_utf8_lossy(&wrong.stdout)
            .starts_with("root-hash-name: systemd does not look for app.raw.roothash")
    );
    assert!(stderr(&wrong).contains("without any verification"), "{}", stderr(&wrong));
    let json = run_in(dir, &["verify", "app.raw", "--as", "systemd", "--json"]);
    let json = String::from_utf8_lossy(&json.stdout).into_owned();
    assert!(json.contains("\"name\": \"root-hash-name\"") && json.contains("\"unverified\""), "{json}");
    assert!(fail(dir, 1, &["verify", "none", "--as", "systemd"]).contains("none: cannot open"));
    assert!(fail(dir, 2, &["verify", "app.raw"]).contains("--as"));
}

#[test]
fn wrong_use_is_told() {
    let dir = inputs(&[]);
    let dir = dir.path();
    fs::write(dir.join("odd"), "odd").unwrap();
    for (status, line, why) in [
        (2, "seal erofs --for systemd", "-o NAME.raw"),
        (2, "seal erofs --for systemd -o a.raw --append", "leave out --append"),
        (2, "seal erofs --append", "--force"),
        (2, "seal erofs --for ddi", "-o NAME.raw"),
        (2, "seal erofs --for ddi -o a.img", "-o NAME.raw"),
        (2, "seal erofs --for ddi -o a.raw --append", "leave out --append"),
        (2, "seal erofs --for ddi -o a.raw --partition-type root", "usr-ARCHITECTURE"),
        (2, "seal erofs --partition-type root-x86-64", "--for ddi"),
        (2, "seal squashfs --for rauc --append -o a", "leave out --append"),
        (2, "seal squashfs --for rauc", "-o NAME.raucb"),
        (2, "seal squashfs --for rauc -o a", "refuses unsigned bundles"),
        (2, "seal squashfs --for rauc --partition-type root-x86-64", "--for ddi"),
        (2, "seal squashfs --manifest-only", "--for sif"),
        (1, "seal squashfs --for rauc --manifest-only", "no manifest.raucm"),
        (1, "seal erofs --for rauc --manifest-only", "not SquashFS"),
        (2, "seal erofs --key k", "--certificate"),
        (2, "seal erofs --certificate k", "k: cannot read"),
        (2, "seal erofs --salt x", "hexadecimal"),
        (2, "seal erofs --uuid x", "01234567-89ab"),
        (2, "seal erofs --algorithm md5", "sha256 or sha512"),
        (2, "seal erofs --data-block-size 5000", "data block size 5000"),
        (2, "seal erofs --append -o a --hash-block-size 0", "hash block size 0"),
        (2, "seal erofs --for containerd -o a --hash-block-size 0", "hash block size 0"),
        (2, "seal erofs --append -o a --data-block-size 0", "data block size 0"),
        (2, "seal erofs --hash-block-size 8G", "8589934592"),
        (1, "seal odd", "3 bytes"),
        (1, "seal root", "directory"),
        (1, "seal none", "none: cannot open"),
    ] {
        let status = if why == "k: cannot read" { 1 } else { status };
        let told = fail(dir, status, &line.split(' ').collect::<Vec<_>>());
        assert!(told.contains(why), "{line}: {told}");
    }
    succeed(dir, &["seal", "erofs", "-q"]);
    assert!(fail(dir, 1, &["seal", "erofs"]).contains("erofs.verity exists; --force replaces it"));
}

#[test]
fn a_sealed_image_is_not_sealed_again() {
    let dir = inputs(&[]);
    for format in FORMATS {
        succeed(dir.path(), &["seal", format, "--append", "-fq"]);
        let told = fail(dir.path(), 1, &["seal", format, "--append", "-f"]);
        assert!(told.contains("sealed already"), "{told}");
    }
}

#[test]
fn without_a_signature_a_note_says_what_a_seal_is_worth() {
    let dir = inputs(&[]);
    let told = stderr(&run_in(dir.path(), &["seal", "erofs"]));
    assert!(told.contains("root hash") && told.contains("without a signature"), "{told}");
}
