//! The page of `packfs bench report` in a real browser: Chromium without a screen.

mod common;

use packfs_image::name::display;
use std::path::Path;
use std::process::Command;

use common::{have, succeed};

/// Goes before the page's own scripts and keeps what goes wrong.
const WATCH: &str = r#"<script>
window.problems = [];
addEventListener("error", event => problems.push(String(event.message)));
addEventListener("unhandledrejection", event => problems.push(String(event.reason)));
console.error = (...args) => problems.push(args.join(" "));
console.warn = (...args) => problems.push(args.join(" "));
</script>"#;

/// Goes after them: looks at every chart, moves the mouse over a mark of each kind, and writes down what it saw.
const LOOK: &str = r#"<script>
addEventListener("load", () => setTimeout(async () => {
  const seen = { charts: [], width: document.documentElement.scrollWidth, window: innerWidth,
    paper: getComputedStyle(document.body).backgroundColor, opened: performance.now() };
  for (const div of document.querySelectorAll(".chart")) {
    div.scrollIntoView({ block: "center" });
    const all = () => div.querySelectorAll(".scatterlayer .point, .barlayer .point path");
    for (let wait = 0; wait < 50 && !all().length; wait++) await new Promise(done => setTimeout(done, 50));
    const marks = all();
    const mark = marks[Math.floor(marks.length / 2)];
    const box = mark.getBoundingClientRect();
    // A bar on a scale of powers has no end below: its upper end is where it can be seen.
    const at = { clientX: box.x + box.width / 2, clientY: box.y + Math.min(box.height / 2, 5), bubbles: true };
    const area = div.querySelector(".nsewdrag");
    for (const kind of ["mouseover", "mousemove"]) area.dispatchEvent(new MouseEvent(kind, at));
    await new Promise(done => setTimeout(done, 150));
    seen.charts.push({ id: div.id, marks: marks.length, hover: div.querySelector(".hoverlayer").textContent,
      width: div.getBoundingClientRect().width });
  }
  const result = document.createElement("pre");
  result.id = "seen";
  result.textContent = JSON.stringify({ ...seen, problems });
  document.body.append(result);
}, 300));
</script>"#;

/// What the page looks like from within, at a size and with some options.
fn look(dir: &Path, page: &str, size: &str, options: &[&str]) -> serde_json::Value {
    let (head, rest) = page.split_once("<style>").unwrap();
    let watched = format!("{head}{WATCH}<style>{rest}").replace("</body>", &format!("{LOOK}</body>"));
    let path = dir.join("watched.html");
    std::fs::write(&path, watched).unwrap();
    let output = Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--dump-dom"])
        .arg(format!("--user-data-dir={}", display(&dir.join("profile"))))
        .args(["--virtual-time-budget=30000", &format!("--window-size={size}")])
        .args(options)
        .arg(format!("file://{}", display(&path)))
        .output()
        .unwrap();
    let dom = String::from_utf8_lossy(&output.stdout).into_owned();
    let seen = dom.split_once("<pre id=\"seen\">").and_then(|(_, rest)| rest.split_once("</pre>"));
    let (seen, _) = seen.unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    serde_json::from_str(&seen.replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">")).unwrap()
}

#[test]
fn the_page_draws_its_charts_and_shows_values() {
    if !have("the_page_draws_its_charts_and_shows_values", "chromium") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let quick = ["--codecs", "memcpy,lz4,zstd:1,zlib:9", "--blocks", "8K,64K", "-j", "1,2", "--sample", "256K"];
    succeed(dir.path(), &[&["bench", "codecs", "-q", "--runs", "3", "--least", "0"], &quick[..]].concat());
    succeed(dir.path(), &["bench", "report", "packfs-bench.jsonl", "-o", "report.html"]);
    let page = std::fs::read_to_string(dir.path().join("report.html")).unwrap();
    // Nothing of it comes from elsewhere.
    let own = page.split("<script>").next().unwrap();
    assert!(!own.contains("http"), "{own}");

    let light = look(dir.path(), &page, "1200,900", &[]);
    assert_eq!(light["problems"], serde_json::json!([]));
    let charts = light["charts"].as_array().unwrap();
    // Four for each of two blocks; then relative speed, savings for each block, noise, sizes, and two for threads.
    assert_eq!(charts.len(), 4 * 2 + 1 + 2 + 1 + 1 + 2, "{charts:#?}");
    for chart in charts {
        assert!(chart["marks"].as_u64().unwrap() >= 3, "{chart}");
        assert!(chart["hover"].as_str().unwrap().chars().any(|c| c.is_ascii_digit()), "no value is shown: {chart}");
    }
    assert_eq!(light["paper"], "rgb(255, 255, 255)");

    let phone = look(dir.path(), &page, "500,900", &["--blink-settings=preferredColorScheme=0"]);
    assert_eq!(phone["problems"], serde_json::json!([]));
    assert_eq!(phone["paper"], "rgb(15, 19, 24)", "dark");
    let (width, window) = (phone["width"].as_u64().unwrap(), phone["window"].as_u64().unwrap());
    assert!(width <= window, "{width} wider than the screen of {window}");
}
