//! `packfs bench --quick` from end to end, on little data.

use crate::common::{fail, run_in, sample, stderr, succeed};

#[test]
fn a_newcomer_gets_findings_a_page_and_the_samples() {
    let dir = tempfile::tempdir().unwrap();
    sample(dir.path());
    let output = run_in(dir.path(), &["bench", "--quick", "root"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let (shown, said) = (String::from_utf8_lossy(&output.stdout).into_owned(), stderr(&output));
    assert!(said.contains("less than two minutes in all"), "{said}");
    assert!(said.contains("packfs-bench.html has charts"), "{said}");
    assert!(shown.contains("The smallest is") && shown.contains("worth considering"), "{shown}");
    let page = std::fs::read_to_string(dir.path().join("packfs-bench.html")).unwrap();
    // The recommendations depend on the machine; the page has everything that was tried.
    assert!(["id=\"tune-time\"", "xz:6", "<td>squashfs</td>", "<td>erofs</td>"].iter().all(|word| page.contains(word)));
    let samples = std::fs::read_to_string(dir.path().join("packfs-bench.jsonl")).unwrap();
    // A session, and three runs of six codecs on two sizes of blocks.
    assert_eq!(samples.lines().count(), 1 + 3 * 6 * 2);
    // In the current folder; an existing page is replaced only on request.
    let error = fail(&dir.path().join("root"), 1, &["bench", "--quick", "-o", "../packfs-bench.html"]);
    assert!(error.contains("packfs-bench.html exists; --force replaces it"), "{error}");
    succeed(&dir.path().join("root"), &["bench", "--quick", "-q", "--force", "-o", "../packfs-bench.html"]);
}

#[test]
fn unreadable_sources_are_reported() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("empty")).unwrap();
    for (args, status, why) in [
        (&["--quick", "empty"][..], 1, "there is no data in it"),
        (&["--quick", "missing"], 1, "missing"),
        (&["--force"], 2, "--quick"),
        (&[], 2, "Usage"),
        (&["--quick", "empty", "codecs"], 2, "codecs"),
    ] {
        let error = fail(dir.path(), status, &[&["bench"], args].concat());
        assert!(error.contains(why), "{args:?}: {error}");
    }
    assert!(!dir.path().join("packfs-bench.html").exists());
}
