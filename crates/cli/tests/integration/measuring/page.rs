//! The page of `packfs bench report` in a real browser: headless Chromium. Every kind of chart is
//! drawn from the results in docs/results at the widths of a phone, a tablet and a desktop, and the
//! boxes of the page are compared.

use std::path::Path;
use std::process::Command;

use crate::common::{self, axe, have, succeed};
use packfs_image::name::display;
use serde_json::{Value, json};

/// Inserted before the page's own scripts; records errors.
const WATCH: &str = r#"<script>
window.problems = [];
addEventListener("error", event => problems.push(String(event.message)));
addEventListener("unhandledrejection", event => problems.push(String(event.reason)));
console.error = (...args) => problems.push(args.join(" "));
console.warn = (...args) => problems.push(args.join(" "));
</script>"#;

/// Inserted after them; records the layout.
const LOOK: &str = include_str!("page/look.js");

/// A way to view the page.
#[derive(Clone, Copy, Default)]
struct View<'v> {
    width: usize,
    dark: bool,
    /// True for the print style.
    printed: bool,
    /// The script of axe, which finds accessibility problems.
    axe: Option<&'v str>,
}

/// Views a page in a frame of some width: the browser makes no window narrower than 500 pixels.
fn look(dir: &Path, page: &str, view: View<'_>) -> Value {
    let (head, rest) = page.split_once("<style>").unwrap();
    let printed = if view.printed { "<script>window.printed = true;</script>" } else { "" };
    let axe = view.axe.map_or(String::new(), |axe| format!("<script>{axe}</script>"));
    let mut watched = format!("{head}{WATCH}{printed}<style>{rest}");
    watched = watched.replace("</body>", &format!("{axe}<script>{LOOK}</script></body>"));
    if view.printed {
        watched = watched.replace("@media print", "@media all").replace("@media screen", "@media speech");
    }
    let inner = serde_json::to_string(&watched).unwrap().replace('<', "\\u003c");
    let frame = format!(
        "<!DOCTYPE html><body><script>const frame = document.createElement('iframe');\
         frame.style = 'width:{}px;height:900px;border:0'; frame.srcdoc = {inner}; document.body.append(frame);</script>",
        view.width
    );
    let path = dir.join("frame.html");
    std::fs::write(&path, frame).unwrap();
    let output = chromium(dir)
        .args(["--dump-dom", "--virtual-time-budget=300000", "--window-size=1600,1000"])
        .args(view.dark.then_some("--blink-settings=preferredColorScheme=0"))
        .arg(format!("file://{}", display(&path)))
        .output()
        .unwrap();
    let dom = String::from_utf8_lossy(&output.stdout).into_owned();
    let seen = dom.split_once("<pre id=\"seen\">").and_then(|(_, rest)| rest.split_once("</pre>"));
    let (seen, _) = seen.unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    serde_json::from_str(&seen.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")).unwrap()
}

fn chromium(dir: &Path) -> Command {
    let mut command = Command::new("chromium");
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]);
    command.arg(format!("--user-data-dir={}", display(&dir.join("profile"))));
    command
}

/// Unpacks the results of the documentation.
fn results_of_docs(dir: &Path) -> [&'static str; 4] {
    let results = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/results");
    let names = ["codecs.jsonl", "build.jsonl", "read.jsonl", "split.jsonl"];
    for name in names {
        let packed = std::fs::File::open(results.join(format!("{name}.xz"))).unwrap();
        let unpacked = Command::new("xz").arg("-dc").stdin(packed).output().unwrap();
        assert!(unpacked.status.success(), "{name}");
        std::fs::write(dir.join(name), unpacked.stdout).unwrap();
    }
    names
}

/// The page of all results that the documentation has.
fn page_of_docs(dir: &Path) -> String {
    let names = results_of_docs(dir);
    succeed(dir, &[&["bench", "report", "-o", "page.html"], &names[..]].concat());
    std::fs::read_to_string(dir.join("page.html")).unwrap()
}

/// The page that compares the two sessions of codecs in the results of the documentation.
fn page_of_changes(dir: &Path) -> String {
    results_of_docs(dir);
    let text = std::fs::read_to_string(dir.join("codecs.jsonl")).unwrap();
    let first: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    let session = first["session"].as_str().unwrap();
    let (old, new): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| line.contains(session));
    std::fs::write(dir.join("old.jsonl"), old.join("\n") + "\n").unwrap();
    std::fs::write(dir.join("new.jsonl"), new.join("\n") + "\n").unwrap();
    let args = ["bench", "report", "new.jsonl", "--against", "old.jsonl", "-o", "changes.html"];
    // Something got slower, as the machine was busy.
    assert_eq!(common::packfs(args).current_dir(dir).status().unwrap().code(), Some(1));
    std::fs::read_to_string(dir.join("changes.html")).unwrap()
}

/// Asserts that there are no errors, no overlapping words, nothing outside of its chart, no legend
/// over the drawing, and that every chart shows values with units.
fn assert_readable(seen: &Value, view: View<'_>) {
    let View { width, dark, printed, .. } = view;
    let how = format!("at {width}, dark: {dark}, printed: {printed}");
    assert_eq!(seen["problems"], json!([]), "{how}");
    assert_eq!(seen["dangling"], json!([]), "{how}");
    assert!(seen["width"].as_u64() <= seen["window"].as_u64(), "{how}: wider than the screen: {}", seen["width"]);
    let charts = seen["charts"].as_array().unwrap();
    assert!(!charts.is_empty(), "{how}");
    for chart in charts {
        let id = &chart["id"];
        assert!(chart["marks"].as_u64().unwrap() > 0 && chart["words"].as_u64().unwrap() > 3, "{how}: {chart}");
        assert_eq!(chart["overlaps"], json!([]), "{how}: {id}");
        assert_eq!(chart["outside"], json!([]), "{how}: {id}");
        assert_eq!((&chart["covered"], &chart["numbers"]), (&json!(0), &json!([])), "{how}: {id}");
        assert_eq!(chart["pressed"], json!(true), "{how}: {id}");
        if !printed {
            let shown = chart["hover"]["text"].as_str().unwrap();
            assert!(shown.chars().any(|c| c.is_ascii_digit()) && shown.contains(": "), "{how}: {chart}");
            assert_eq!(chart["hover"]["whole"], json!(true), "{how}: {chart}");
        }
    }
    assert!(seen["hits"].as_u64().unwrap() > 0, "{how}");
    assert_eq!(seen["searched"], json!([]), "{how}: with names of what is searched");
}

#[test]
fn every_chart_can_be_read_at_every_width() {
    let test = "every_chart_can_be_read_at_every_width";
    if !have(test, "chromium") || !have(test, "xz") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let page = page_of_docs(dir.path());
    // It loads nothing from elsewhere.
    let others = page.replace("http://www.w3.org/2000/svg", "");
    assert!(!others.contains("http://") && !others.contains("https://"));
    // Colours move nothing.
    for (width, dark) in [(390, false), (768, true), (1400, false)] {
        let view = View { width, dark, ..View::default() };
        let seen = look(dir.path(), &page, view);
        assert_readable(&seen, view);
        assert_eq!(seen["paper"], if dark { "rgb(15, 19, 24)" } else { "rgb(255, 255, 255)" });
        assert_eq!(seen["menu"], json!(width >= 1200), "contents are a menu where there is no room beside the page");
        assert!((3..=5).contains(&seen["findings"].as_u64().unwrap()), "{}", seen["findings"]);
        let chapters = json!(["Codecs", "Building", "Reading", "Splitting", "Method and raw data"]);
        assert_eq!(seen["headings"], chapters);
    }
    let view = View { width: 768, printed: true, ..View::default() };
    assert_readable(&look(dir.path(), &page, view), view);
}

#[test]
fn the_page_of_a_comparison_can_be_read_at_every_width() {
    let test = "the_page_of_a_comparison_can_be_read_at_every_width";
    if !have(test, "chromium") || !have(test, "xz") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let page = page_of_changes(dir.path());
    for (width, dark, printed) in [(390, false, false), (768, false, false), (1400, true, false), (768, false, true)] {
        let view = View { width, dark, printed, ..View::default() };
        let seen = look(dir.path(), &page, view);
        assert_readable(&seen, view);
        let ids: Vec<&str> = seen["charts"].as_array().unwrap().iter().filter_map(|one| one["id"].as_str()).collect();
        // Sizes did not change, so they have no chart. The report on the new results follows.
        assert_eq!(ids[..2], ["ratios-compressing", "ratios-decompressing"], "{ids:?}");
        assert!(!ids[2..].iter().any(|id| id.starts_with("ratios")), "{ids:?}");
        assert_eq!(seen["headings"][0], json!("Changes"));
        if !printed {
            let told = seen["charts"][0]["hover"]["text"].as_str().unwrap();
            assert!(told.contains("samples: ") && told.contains("spread "), "{told}");
        }
    }
}

#[test]
fn the_page_can_be_printed() {
    let test = "the_page_can_be_printed";
    if !have(test, "chromium") || !have(test, "xz") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    page_of_docs(dir.path());
    let (page, printed) = (dir.path().join("page.html"), dir.path().join("page.pdf"));
    let output = chromium(dir.path())
        .args([format!("--print-to-pdf={}", display(&printed)), format!("file://{}", display(&page))])
        .output()
        .unwrap();
    let bytes = std::fs::read(&printed).unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    let pages = String::from_utf8_lossy(&bytes).matches("/Type /Page\n").count();
    assert!(bytes.starts_with(b"%PDF") && pages > 10, "{pages} pages");
}

/// The twenty questions about a full run, each with the section of the page that answers it.
#[test]
fn every_question_about_a_full_run_has_its_place() {
    let test = "every_question_about_a_full_run_has_its_place";
    if !have(test, "xz") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let page = page_of_docs(dir.path());
    let titles: Vec<&str> = ["<h3>", "<summary>"].iter().flat_map(|tag| page.split(tag).skip(1)).collect();
    let titles: Vec<&str> = titles.iter().filter_map(|text| text.split("</").next()).collect();
    let note =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/design/full-run.md")).unwrap();
    let table = note.split("## Where the page answers what").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows: Vec<&str> = table.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
    assert_eq!(rows.len(), 20);
    for row in rows {
        let place = row.split('|').nth(2).unwrap();
        let anchor = row.split('|').nth(3).unwrap().trim().trim_matches('`').strip_prefix('#').unwrap();
        assert!(page.contains(&format!(" id=\"{anchor}\"")), "{row}: the page has no #{anchor}");
        let named: Vec<&str> = place.split(';').filter_map(|part| part.split_once(": ")?.1.split(',').next()).collect();
        assert!(!named.is_empty(), "{row}");
        for name in named {
            // Dots stand for the data.
            let parts: Vec<&str> = name.trim().split("...").map(str::trim).collect();
            let fits = |title: &&str| parts.iter().all(|part| title.contains(part));
            assert!(titles.iter().any(fits), "{row}: there is no section {name:?}");
        }
    }
}

#[test]
fn the_page_is_accessible() {
    let test = "the_page_is_accessible";
    if !have(test, "chromium") || !have(test, "xz") {
        return;
    }
    let Some(axe) = axe(test) else { return };
    let dir = tempfile::tempdir().unwrap();
    let page = page_of_docs(dir.path());
    for (width, dark) in [(390, false), (1400, true)] {
        let seen = look(dir.path(), &page, View { width, dark, axe: Some(&axe), printed: false });
        assert_eq!(seen["violations"], json!([]), "at {width}, dark: {dark}");
    }
    let view = View { width: 1400, axe: Some(&axe), ..View::default() };
    assert_eq!(look(dir.path(), &page_of_changes(dir.path()), view)["violations"], json!([]), "of a comparison");
}

/// A page of fresh measurements, with few codecs and one block size.
#[test]
fn the_page_of_a_small_measurement_is_whole() {
    let test = "the_page_of_a_small_measurement_is_whole";
    if !have(test, "chromium") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let quick = ["--codecs", "memcpy,lz4,zstd:1,zlib:9", "--blocks", "8K,64K", "-j", "1,2", "--sample", "256K"];
    succeed(dir.path(), &[&["bench", "codecs", "-q", "--runs", "3", "--least", "0"], &quick[..]].concat());
    succeed(dir.path(), &["bench", "report", "packfs-bench.jsonl", "-o", "report.html"]);
    let page = std::fs::read_to_string(dir.path().join("report.html")).unwrap();
    let view = View { width: 768, ..View::default() };
    let seen = look(dir.path(), &page, view);
    assert_readable(&seen, view);
    // Four for each of two blocks; then size by block, two for threads, noise, relative speed, savings for each block.
    assert_eq!(seen["charts"].as_array().unwrap().len(), 4 * 2 + 1 + 2 + 1 + 1 + 2);
    let told = seen["charts"][0]["hover"]["text"].as_str().unwrap();
    for part in ["MB/s: ", "size, % of the data: ", "samples: ", "spread ", "packfs bench codecs --data "] {
        assert!(told.contains(part), "{part}: {told}");
    }
}
