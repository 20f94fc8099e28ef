//! A request applies sources, additions, rules and changes in one order, which its fields do not tell by themselves.

use std::path::Path;
use std::sync::Arc;

use packfs_image::request::{AppendedImage, NewRoot, RequestNotes};
use packfs_image::rules::Rules;
use packfs_image::tree::WhiteoutPolicy;
use packfs_image::{BuildRequest, Error, Fs, Progress, squashfs};

/// Makes two layers, an archive's worth of entries below `base` and changes of them in `local`.
fn make_sources(place: &Path) {
    let files = [
        ("base/usr/share/doc/readme", "long"),
        ("base/usr/bin/tool", "old tool"),
        ("base/etc/motd", "Welcome."),
        ("local/usr/bin/tool", "new tool"),
        ("local/etc/.wh.motd", ""),
    ];
    for (path, text) in files {
        let path = place.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
}

fn request(place: &Path) -> BuildRequest {
    let mut request = BuildRequest::new(squashfs::SquashfsOptions::default());
    request.sources = vec![place.join("base"), place.join("local")];
    request
}

/// Returns the paths in an image, with the mode in octal digits and the contents of files.
fn entries(image: &Path) -> Vec<String> {
    let fs = Fs::open(image).unwrap();
    let mut found = Vec::new();
    let walked = fs.walk(|entry| {
        let text = fs.read(&entry.path).map(|bytes| String::from_utf8(bytes).unwrap());
        let path = packfs_image::name::display(&entry.path).to_string();
        found.push(format!("{path} {:o} {}", entry.stat.mode & 0o777, text.unwrap_or_default()).trim_end().to_owned());
        std::ops::ControlFlow::<()>::Continue(())
    });
    assert!(walked.unwrap().is_continue());
    found
}

fn built(place: &Path, request: &BuildRequest) -> Vec<String> {
    let image = place.join("made.sqfs");
    let _ = std::fs::remove_file(&image);
    request.build(&image, &Arc::new(Progress::default())).unwrap();
    entries(&image)
}

#[test]
fn each_field_applies_when_the_documentation_says() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path();
    make_sources(place);
    let has = |found: &[String], line: &str| found.iter().any(|entry| entry.contains(line));

    let plain = built(place, &request(place));
    assert!(has(&plain, "usr/bin/tool") && has(&plain, "new tool"), "{plain:?}");
    assert!(has(&plain, "etc/.wh.motd") && has(&plain, "Welcome."), "{plain:?}");

    let mut stripped = request(place);
    stripped.whiteouts = WhiteoutPolicy::Strip;
    let without_marks = built(place, &stripped);
    assert!(!has(&without_marks, ".wh.") && has(&without_marks, "new tool"), "{without_marks:?}");

    // Additions come after the new root, whose paths they use; rules see both, and win over changes of all entries.
    let mut changed = request(place);
    changed.new_root = Some(NewRoot { dir: "usr".into(), retarget: false });
    changed.additions = vec!["dir bin/added 0755 0 0".into()];
    changed.transform.mode = "0700".parse().unwrap();
    changed.rules = Rules::parse([(Path::new("rules"), &b"glob=bin/tool -> mode=0444"[..])]).unwrap();
    let found = built(place, &changed);
    assert!(has(&found, "bin/added 700"), "{found:?}");
    assert!(has(&found, "bin/tool 444 new tool"), "{found:?}");
    assert!(!has(&found, "etc"), "{found:?}");

    // Entries of an appended image stay, under other names where new ones have theirs.
    let old = place.join("old.sqfs");
    request(place).build(&old, &Arc::default()).unwrap();
    let mut appended = request(place);
    appended.append = Some(AppendedImage { image: old, below: Some("before".into()) });
    let both = built(place, &appended);
    assert!(has(&both, "before/usr/bin/tool"), "{both:?}");
}

#[test]
fn an_error_tells_the_source_and_names_fields_as_the_caller_does() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path();
    make_sources(place);
    let fill = |request: &BuildRequest| {
        let mut notes = RequestNotes::default();
        let mut store = packfs_image::source::LazySpool::new(place);
        let filled = request.fill(None, &mut store, &Arc::default(), &mut notes);
        (filled.map(|plan| plan.tree.len()), notes)
    };

    let mut missing = request(place);
    missing.sources.push(place.join("absent"));
    let (result, notes) = fill(&missing);
    assert!(matches!(result, Err(Error::Io { .. })), "{result:?}");
    assert_eq!(notes.reading, Some(place.join("absent")));

    let mut wrong_root = request(place);
    wrong_root.new_root = Some(NewRoot { dir: "opt".into(), retarget: false });
    wrong_root.names.new_root = "--subdir";
    let error = fill(&wrong_root).0.unwrap_err().to_string();
    assert!(error.contains("--subdir") && error.contains("no source has this directory"), "{error}");
}
