use super::*;
use crate::personalities::options::{OptionEffect, OptionValues};

fn line(translated: TranslatedLine) -> String {
    match translated {
        TranslatedLine::Run(line, _) => line.into_text(),
        other => panic!("{other:?}"),
    }
}

/// Translates a command line, without the time of the image, nor the attributes of a root of its own.
fn translated(text: &str) -> Result<String, String> {
    let line = mksquashfs(text.split(' ').map(OsString::from).collect()).map(line)?;
    let line = line.replace("--image-time=now ", "");
    match line.split_once(" --add=dir / 0777 ") {
        Some((before, root)) => {
            let (_, after) = root.split_once("--add=time / ").unwrap();
            let rest = after.trim_start_matches(|digit: char| digit.is_ascii_digit());
            Ok(format!("{before}{rest}"))
        }
        None => Ok(line),
    }
}

#[test]
fn command_lines_of_callers_become_builds() {
    let start = "build --output=new.sqfs --format=squashfs";
    let table = [
        // apptainer
        (
            "src new.sqfs -noappend -comp gzip -processors 4 -mem 1G -all-root",
            "--codec=gzip:9 --fragments=small --on-error=skip --force src --jobs=4 --memory=1073741824 --owner=0:0",
        ),
        // snapd
        (
            "src new.sqfs -noappend -comp xz -no-xattrs -no-fragments -no-progress",
            "--codec=xz --on-error=skip --force src --no-xattrs --fragments=none",
        ),
        // mmdebstrap
        (
            "src new.sqfs -reproducible -xattrs -wildcards -b 1M -e dev/* ... *.pyc",
            "--codec=gzip:9 --fragments=small --on-error=skip --force src --exclude=/dev/* --exclude=/... \
             --exclude=/*.pyc --block-size=1M",
        ),
        // enroot
        (
            "src new.sqfs -all-root -comp zstd -Xcompression-level 1 -e main.rs args sys[1]",
            "--codec=zstd:1 --fragments=small --on-error=skip --force src --exclude=/main.rs --exclude=/args \
             --owner=0:0",
        ),
        (
            "src/lib.rs new.sqfs -no-compression",
            "--codec=gzip:9 --plain-metadata --plain-data --plain-fragments --fragments=small --on-error=skip \
          --force --add=\"/lib.rs\" l \"src/lib.rs\"",
        ),
        (
            "src new.sqfs -comp xz -Xbcj x86,arm -Xdict-size 50% -b 1M -tailends -root-uid root",
            "--codec=xz:bcj=x86+arm:dict=50% --on-error=skip --force src --block-size=1M --fragments=tails \
          --add=owner / 0 *",
        ),
    ];
    // The tests run in the folder of the crate; src and src/main.rs exist.
    for (text, expected) in table {
        let text = text.replace("src/lib.rs", "src/main.rs");
        let expected = format!("{start} {}", expected.replace("lib.rs", "main.rs"));
        assert_eq!(translated(&text).unwrap(), expected, "{text}");
    }
}

#[test]
fn paths_are_kept_with_the_attributes_of_their_directories() {
    let got = translated("./src/main.rs src/args new.sqfs -no-strip").unwrap();
    let at = |what: &str| got.find(what).unwrap_or_else(|| panic!("{what} is not in {got}"));
    assert!(at("--add=dirlike \"/src\" ./src") < at("--add=\"/src/main.rs\" l \"./src/main.rs\""), "{got}");
    at("--add=tree \"/src/args\" ./src/args");
    assert_eq!(got.matches("--add=dirlike ").count(), 2, "the root and src: {got}");
    at("--add=dirlike \"/\" ./");
}

#[test]
fn attributes_of_the_root_are_those_of_mksquashfs() {
    for (text, expected) in [
        ("-root-mode 0711", "src --add=mode / 0711"),
        ("-root-mode u=rwx,go-w", "src --rule=path=/ -> mode=u=rwx,go-w"),
        // A mode of all directories is that of the root, too.
        ("-root-mode 0711 -force-dir-mode 0700", "src --mode=D0700"),
        // Defaults count for the root; the last option wins.
        ("-root-mode 0711 -default-mode go= -default-uid 5", "src --add=owner / 5 * --rule=path=/ -> mode=go="),
        ("-all-root -uid-gid-offset 7", "src --uid-offset=7 --gid-offset=7 --owner=0:0"),
        // Owners are shifted after everything else.
        (
            "-uid-gid-offset 7 -action uid(3)@true -force-gid 4",
            "src --uid-offset=7 --gid-offset=7 --rule=all -> owner=10 --rule=all -> group=11",
        ),
    ] {
        let got = translated(&format!("src new.sqfs {text}")).unwrap();
        let expected = expected.strip_prefix("src ").unwrap();
        assert!(got.ends_with(&format!("--force src {expected}")), "{text}: {got}");
    }
    let got = translated("- new.sqfs -tar -default-mode g-rx,o=").unwrap();
    assert!(got.contains("--implied-dirs=0700,"), "{got}");
    // By default, ends of files are packed together if the files come from an archive.
    assert!(got.contains("--fragments=tails"), "{got}");
    for wrong in ["-root-mode x", "-default-mode 9", "-uid-gid-offset -1", "-uid-gid-offset 4294967296"] {
        let told = translated(&format!("src new.sqfs {wrong}")).unwrap_err();
        assert!(told.contains(wrong), "{told}");
    }
}

#[test]
fn several_sources_lie_under_their_names() {
    let got = translated("src src/main.rs new.sqfs -force-file-mode u=rw,go=r").unwrap();
    assert!(got.contains("--add=tree \"/src\" src --add=\"/main.rs\" l \"src/main.rs\" --mode=Fu=rw,Fgo=r"), "{got}");
    let got = translated("src ../cli/src Cargo.toml ../image/Cargo.toml new.sqfs").unwrap();
    let twice = "--add=tree \"/src\" src --add=tree \"/src_1\" ../cli/src --add=\"/Cargo.toml\" l \"Cargo.toml\" \
                 --add=\"/Cargo.toml_1\" l \"../image/Cargo.toml\"";
    assert!(got.contains(twice), "{got}");
}

#[test]
fn what_would_give_another_image_is_refused() {
    for (text, why) in [
        ("src Cargo.toml", "Cargo.toml: not a SquashFS image: cannot append to it; -noappend replaces it"),
        ("src new.sqfs -comp lz4 -Xbcj x86", "has no such option"),
        ("src new.sqfs -comp xz -comp zstd", "given twice"),
        ("src new.sqfs -action fragment(a)@true", "fragment: packfs has one"),
        ("src new.sqfs -frobnicate", "no such option"),
        ("new.sqfs", "expected: mksquashfs SOURCE"),
        ("nosuch new.sqfs", "nosuch: cannot open"),
        ("src new.sqfs -wildcards -e !(a)", "extended patterns"),
        ("src new.sqfs -wildcards -e ./main.rs", "nothing begins with /, ./ or ../"),
        ("src new.sqfs -regex -e /src", "nothing begins with /, ./ or ../"),
        ("src new.sqfs -e", "-e: its value is missing"),
        ("-comp xz src new.sqfs", "src: not an option; sources"),
        ("src -no-progress new.sqfs", "new.sqfs: not an option; sources"),
        ("src new.sqfs -b 128K 64K", "64K: not an option; sources"),
        ("src new.sqfs -help-comp nosuch", "no such compressor"),
    ] {
        let error = translated(text).unwrap_err();
        assert!(error.contains(why), "{text}: {error}");
    }
}

#[test]
fn numbers_that_have_no_effect_are_checked() {
    for (option, accepted, wrong) in [
        ("-throttle", ["0", "99"], "100"),
        ("-limit", ["1", "100"], "0"),
        ("-processors", ["1", "8"], "0"),
        ("-mem", ["4M", "1G"], "4095K"),
        ("-mem-percent", ["1", "75"], "76"),
        ("-small-readers", ["1", "1024"], "0"),
        ("-block-readers", ["1", "1024"], "1025"),
        ("-overcommit", ["0", "100"], "101"),
        ("-read-queue", ["64", "4096"], "0"),
        ("-write-queue", ["64", "4096"], "0"),
        ("-fragment-queue", ["1", "64"], "0"),
        ("-cols", ["0", "80"], "80x"),
    ] {
        for value in accepted {
            assert!(translated(&format!("src new.sqfs {option} {value}")).is_ok(), "{option} {value}");
        }
        for value in ["abc", "-1", "1x", wrong] {
            let told = translated(&format!("src new.sqfs {option} {value}")).unwrap_err();
            assert!(told.starts_with(&format!("{option} {value}: expected ")), "{told}");
        }
        assert!(translated(&format!("src new.sqfs {option}")).is_err(), "{option}");
    }
}

#[test]
fn every_option_of_the_table_is_understood() {
    crate::personalities::options::tests::check(TABLE);
    for option in TABLE {
        let OptionEffect::Same(_) = option.does else { continue };
        let mut args: Vec<OsString> = vec!["src".into(), "new.sqfs".into(), option.names[0].into()];
        match option.takes {
            OptionValues::Nothing => {}
            _ => args.push(match option.names[0] {
                "-ef" => "Cargo.toml".into(),
                "-help-comp" => "gzip".into(),
                "-pd" => "d 755 0 0".into(),
                "-pf" => "/dev/null".into(),
                action if action.ends_with("-action") => "exclude@true".into(),
                file if file.ends_with("-action-file") => "/dev/null".into(),
                "-xattrs-exclude" | "-xattrs-include" => "^user.".into(),
                _ => "1".into(),
            }),
        }
        match mksquashfs(args) {
            Ok(_) => {}
            // Options that need others.
            Err(why) => assert!(
                ["together with", "gzip has no", "the source is -", "an option of sqfstar"]
                    .iter()
                    .any(|known| why.contains(known)),
                "{option:?}: {why}"
            ),
        }
    }
}
