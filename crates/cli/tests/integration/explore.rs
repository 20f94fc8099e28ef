//! The page that explores an image in a real browser: headless Chromium. Trees with hostile names and every kind of
//! entry are packed, and the page is looked at, searched and walked through at the widths of a phone, a tablet and a
//! desktop.
#![cfg(feature = "serve")]

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;

use crate::common::{FORMATS, axe, fail, have, sample, succeed};
use packfs_blocks::testing::Random;
use packfs_image::name::display;
use serde_json::{Value, json};

/// Runs before the page's own scripts; records errors.
const WATCH: &str = "window.problems = [];
addEventListener('error', event => problems.push(String(event.message)));
addEventListener('securitypolicyviolation', event => problems.push(`policy: ${event.violatedDirective}`));
addEventListener('unhandledrejection', event => problems.push(String(event.reason)));
console.error = (...args) => problems.push(args.join(' '));
console.warn = (...args) => problems.push(args.join(' '));";

/// Runs after them: looks at the page and does what a person would do.
const LOOK: &str = include_str!("explore/look.js");

/// Names that would break out of a page which takes them for markup, or change how others are read.
const HOSTILE: [&[u8]; 12] = [
    b"</script><script>problems.push('broken out')</script>",
    b"<img src=x onerror=problems.push('broken out')>",
    b"\"'><b>quotes.txt",
    b"%25percent%FF",
    b"not utf-8 \xff\xfe.bin",
    b"line\nbreak\ttab\x1b[31m",
    "right\u{202e}to left.gpj".as_bytes(),
    "größe \u{1f600}.TXT".as_bytes(),
    b"#hash?query&amp;+ .conf",
    b"__proto__",
    b"constructor",
    b"back\\slash",
];

/// A page to look at.
struct View<'v> {
    page: &'v str,
    width: usize,
    dark: bool,
    /// Set before the looking: what to search for, which entries to open.
    task: Value,
    /// The script of axe, which finds accessibility problems.
    axe: Option<&'v str>,
}

/// Looks at a page in a frame of some width: the browser makes no window narrower than 500 pixels. The scripts of the
/// test have the nonce of the page's own, so that the page's policy holds.
fn look(dir: &Path, view: &View<'_>) -> Value {
    let nonce = view.page.split("<script nonce=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
    let script = |text: &str| format!("<script nonce=\"{nonce}\">{text}</script>\n");
    let (head, rest) = view.page.split_once("<style").unwrap();
    let mut page = format!("{head}{}<style{rest}", script(WATCH));
    let task = view.task.to_string().replace('<', "\\u003c");
    let after = script(view.axe.unwrap_or_default()) + &script(&format!("const task = {task};\n{LOOK}"));
    page = page.replace("</body>\n</html>", &format!("{after}</body>\n</html>"));
    std::fs::write(dir.join("watched.html"), page).unwrap();
    let frame = format!(
        "<!DOCTYPE html><body><script>addEventListener('message', event => {{ const seen = document.createElement('pre'); \
         seen.id = 'seen'; seen.textContent = event.data; document.body.append(seen); }});</script>\
         <iframe src=\"watched.html\" style=\"width:{}px;height:900px;border:0\"></iframe>",
        view.width
    );
    let path = dir.join("frame.html");
    std::fs::write(&path, frame).unwrap();
    let mut command = chromium(dir);
    command.args(["--virtual-time-budget=60000", "--window-size=1600,1000"]);
    command.args(view.dark.then_some("--blink-settings=preferredColorScheme=0"));
    dumped(command.arg(format!("file://{}", display(&path))))
}

fn chromium(dir: &Path) -> Command {
    let mut command = Command::new("chromium");
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--dump-dom"]);
    command.arg(format!("--user-data-dir={}", display(&dir.join("profile"))));
    command
}

/// Runs the browser and returns what the page saw.
fn dumped(command: &mut Command) -> Value {
    let output = command.output().unwrap();
    let dom = String::from_utf8_lossy(&output.stdout).into_owned();
    let seen = dom.split_once("<pre id=\"seen\">").and_then(|(_, rest)| rest.split_once("</pre>"));
    let (seen, _) = seen.unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    serde_json::from_str(&seen.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")).unwrap()
}

/// Loads a page and searches it, in real time; returns milliseconds until it is drawn, and of the searches.
fn measure(dir: &Path, page: &str, text: &str) -> Value {
    let nonce = page.split("<script nonce=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
    let script = format!(
        "<script nonce=\"{nonce}\">void document.body.offsetHeight; const drawn = performance.now(); \
         const field = document.getElementById('search'); const searches = ['e', 'xyz', {text}, {text}].map(text => {{ \
         field.value = text; const begun = performance.now(); field.dispatchEvent(new Event('input')); \
         void document.body.offsetHeight; return Math.round(performance.now() - begun); }}); \
         const seen = document.createElement('pre'); seen.id = 'seen'; document.body.append(seen); \
         seen.textContent = JSON.stringify({{ drawn: Math.round(drawn), searches }});</script>",
        text = json!(text)
    );
    let path = dir.join("measured.html");
    std::fs::write(&path, page.replace("</body>\n</html>", &format!("{script}</body>\n</html>"))).unwrap();
    dumped(chromium(dir).arg(format!("file://{}", display(&path))))
}

/// Makes a tree of hostile names, text, pictures and duplicates beside the usual one.
fn tree(dir: &Path) {
    sample(dir);
    let root = dir.join("root");
    let hostile = root.join("hostile");
    std::fs::create_dir(&hostile).unwrap();
    for (n, name) in HOSTILE.iter().filter(|name| !name.contains(&b'/')).enumerate() {
        std::fs::write(hostile.join(std::ffi::OsStr::from_bytes(name)), format!("file {n}\n").repeat(100 + n)).unwrap();
    }
    // The one with a slash is a path of folders.
    let path = hostile.join(std::ffi::OsStr::from_bytes(HOSTILE[0]));
    std::fs::create_dir_all(&path).unwrap();
    std::fs::write(path.join("inside"), "inside").unwrap();
    // A picture of one pixel.
    let gif = b"GIF89a\x01\0\x01\0\x80\0\0\xff\0\0\0\0\0!\xf9\x04\0\0\0\0\0,\0\0\0\0\x01\0\x01\0\0\x02\x02D\x01\0;";
    std::fs::write(root.join("pixel.gif"), gif).unwrap();
}

/// Packs the tree and returns the page, with the contents of small files.
fn page(dir: &Path, format: &str, options: &[&str]) -> String {
    succeed(dir, &["build", "root", "-o", "image", "--format", format, "--force", "-q"]);
    succeed(dir, &[&["explore", "image", "-o", "page.html", "--force", "-q", "--contents", "64K"], options].concat());
    std::fs::read_to_string(dir.join("page.html")).unwrap()
}

/// Asserts that nothing is broken, outside of the screen, or covered.
fn assert_readable(seen: &Value, how: &str) {
    assert_eq!(seen["problems"], json!([]), "{how}");
    assert!(seen["width"].as_u64() <= seen["window"].as_u64(), "{how}: wider than the screen: {}", seen["width"]);
    assert_eq!((&seen["overlaps"], &seen["outside"]), (&json!([]), &json!([])), "{how}");
    assert_eq!(seen["areas"], json!([]), "{how}");
    assert!(seen["labels"].as_u64().unwrap() > 2, "{how}: {}", seen["labels"]);
}

#[test]
fn the_page_can_be_read_and_used_at_every_width() {
    let test = "the_page_can_be_read_and_used_at_every_width";
    if !have(test, "chromium") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    tree(dir.path());
    for (format, width, dark) in [
        ("squashfs", 390, false),
        ("squashfs", 390, true),
        ("squashfs", 768, false),
        ("erofs", 768, true),
        ("erofs", 1400, false),
        ("squashfs", 1400, true),
    ] {
        let page = page(dir.path(), format, &[]);
        let task = json!({ "search": "SHARE/doc", "text": "etc/motd", "picture": "pixel.gif" });
        let seen = look(dir.path(), &View { page: &page, width, dark, task, axe: None });
        let how = format!("{format} at {width}, dark: {dark}");
        assert_readable(&seen, &how);
        assert_eq!(seen["paper"], if dark { "rgb(15, 19, 24)" } else { "rgb(255, 255, 255)" }, "{how}");
        // The folder of the largest files is entered by the keyboard, and left.
        assert_eq!(seen["entered"], json!(["image", "image/usr", "image"]), "{how}");
        // The same is true after a click.
        assert_eq!(seen["clicked"], seen["entered"], "{how}");
        assert_eq!(seen["heads"], json!(["Name", "Share", "Stored", "Of data"]), "{how}");
        assert!(seen["marked"].as_u64().unwrap() > 0, "{how}: what was found is not marked");
        assert_eq!(seen["hits"], json!(["usr/share/doc", "usr/share/doc/copy", "usr/share/doc/text"]), "{how}");
        assert_eq!(seen["text"], json!(["Welcome.\n", "1 piece"]), "{how}");
        assert_eq!(seen["picture"], json!([1, 1]), "{how}");
    }
}

/// A folder with many deep ones before others, sizes from bytes to a megabyte, more files than areas.
#[test]
fn areas_are_shared_by_size_and_fill_the_map() {
    let test = "areas_are_shared_by_size_and_fill_the_map";
    if !have(test, "chromium") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    let mut random = Random::new(1);
    let mut noise = |len: usize| random.bytes(len);
    for folder in 0..40 {
        let path = root.join(format!("a/deep/and/deeper/{folder}"));
        std::fs::create_dir_all(&path).unwrap();
        (0..60).for_each(|n| std::fs::write(path.join(format!("{n}.txt")), noise(50 + n * n)).unwrap());
    }
    for folder in 0..20 {
        let path = root.join(format!("b{folder}/c"));
        std::fs::create_dir_all(&path).unwrap();
        (0..400).for_each(|n| std::fs::write(path.join(format!("{n}.bin")), noise(n % 7 * 100 + 1)).unwrap());
        std::fs::write(path.join("large"), noise(10_000 << (folder % 7))).unwrap();
    }
    succeed(dir.path(), &["build", "root", "-o", "image", "-q", "--codec", "lz4"]);
    succeed(dir.path(), &["explore", "image", "-o", "page.html", "-q"]);
    let page = std::fs::read_to_string(dir.path().join("page.html")).unwrap();
    for width in [390, 1400] {
        let seen = look(dir.path(), &View { page: &page, width, dark: false, task: json!({}), axe: None });
        assert_readable(&seen, &format!("at {width}"));
    }
}

#[test]
fn hostile_names_are_shown_and_nothing_else() {
    let test = "hostile_names_are_shown_and_nothing_else";
    if !have(test, "chromium") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    tree(dir.path());
    for format in FORMATS {
        let page = page(dir.path(), format, &[]);
        assert_eq!(page.matches("<script").count(), 4, "names are in the page as markup");
        let task = json!({ "list": "hostile", "text": "hostile/%2525percent%25FF" });
        let seen = look(dir.path(), &View { page: &page, width: 768, dark: false, task, axe: None });
        assert_eq!(seen["problems"], json!([]), "{format}");
        assert_eq!(seen["images"], json!(0), "{format}");
        let listed: Vec<&str> = seen["listed"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        for name in [
            "<",
            "<img src=x onerror=problems.push('broken out')>",
            "\"'><b>quotes.txt",
            "%25percent%FF",
            "not utf-8 \\xff\\xfe.bin",
            "line\\nbreak\\ttab\\u{1b}[31m",
            "right\\u{202e}to left.gpj",
            "größe \u{1f600}.TXT",
            "#hash?query&amp;+ .conf",
            "__proto__",
            "constructor",
            "back\\\\slash",
        ] {
            assert!(listed.contains(&name), "{format}: {name} is not in {listed:?}");
        }
        assert!(seen["text"][0].as_str().unwrap().starts_with("file "), "{format}: {}", seen["text"]);
    }
}

#[test]
fn globs_have_sets_and_names_have_brackets() {
    let test = "globs_have_sets_and_names_have_brackets";
    if !have(test, "chromium") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    std::fs::create_dir_all(root.join("s")).unwrap();
    for name in ["a1", "a2", "b1", "a-", "s/a1", "x[1]", "lib.so.1"] {
        std::fs::write(root.join(name), name).unwrap();
    }
    let page = page(dir.path(), "squashfs", &[]);
    for (glob, hits) in [
        ("a[12]", json!(["a1", "a2", "s/a1"])),
        ("[!a]1", json!(["b1"])),
        ("[a-b][^2]", json!(["a-", "a1", "b1", "s/a1"])),
        ("/[ab]1", json!(["a1", "b1"])),
        ("[s]/*", json!(["s/a1"])),
        ("x[1]", json!(["x[1]"])),
        ("[1]", json!(["x[1]"])),
        ("[z-a]", json!([])),
        ("*.so.[0-9]", json!(["lib.so.1"])),
        ("[", json!(["x[1]"])),
    ] {
        let seen = look(
            dir.path(),
            &View { page: &page, width: 768, dark: false, task: json!({ "search": glob }), axe: None },
        );
        assert_eq!((&seen["hits"], &seen["problems"]), (&hits, &json!([])), "{glob}");
    }
}

#[test]
fn the_numbers_are_those_of_info() {
    let test = "the_numbers_are_those_of_info";
    if !have(test, "chromium") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    tree(dir.path());
    for format in FORMATS {
        let page = page(dir.path(), format, &[]);
        let info: Value = serde_json::from_str(&succeed(dir.path(), &["info", "--stats", "--json", "image"])).unwrap();
        let stats = &info["stats"];
        let seen = look(dir.path(), &View { page: &page, width: 1400, dark: false, task: json!({}), axe: None });
        let mut parts = vec![stats["file_bytes"].clone()];
        parts.extend(stats["metadata"].as_object().unwrap().values().cloned());
        parts.push(stats["unused_bytes"].clone());
        let mut parts: Vec<u64> = parts.iter().filter_map(Value::as_u64).filter(|bytes| *bytes > 0).collect();
        let mut shown: Vec<u64> = seen["parts"].as_array().unwrap().iter().filter_map(Value::as_u64).collect();
        parts.sort_unstable();
        shown.sort_unstable();
        assert_eq!(shown, parts, "{format}");
        // The order of types with equal bytes is no number.
        let rows = |table: &Value, nameless: &str| {
            let mut rows: Vec<Value> = table
                .as_array()
                .unwrap()
                .iter()
                .map(|row| {
                    let name = row["name"].as_str().filter(|name| !name.is_empty()).unwrap_or(nameless);
                    let name = name.replace("%25", "%");
                    json!([name, row["files"], row["stored"], row["data"], row["size"], row["duplicate"]])
                })
                .collect();
            rows.sort_by_key(Value::to_string);
            rows
        };
        let mut types = rows(&stats["types"], "no extension");
        let all = &stats["all"];
        types.push(json!(["all", all["files"], all["stored"], all["data"], all["size"], all["duplicate"]]));
        types.sort_by_key(Value::to_string);
        let mut shown = seen["types"].as_array().unwrap().clone();
        shown.sort_by_key(Value::to_string);
        assert_eq!(shown, types, "{format}");
        let ratios = rows(&stats["ratios"], "");
        let mut shown = seen["ratios"].as_array().unwrap().clone();
        shown.retain(|row| row[0] != "all");
        shown.sort_by_key(Value::to_string);
        assert_eq!(shown, ratios, "{format}");
        let largest: Vec<&Value> =
            stats["largest"].as_array().unwrap().iter().take(50).map(|row| &row["stored"]).collect();
        let shown: Vec<&Value> = seen["largest"].as_array().unwrap().iter().collect();
        assert_eq!(shown, largest, "{format}");
    }
}

#[test]
fn changes_are_coloured_listed_and_counted() {
    let test = "changes_are_coloured_listed_and_counted";
    if !have(test, "chromium") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    tree(dir.path());
    succeed(dir.path(), &["build", "root", "-o", "old.sqfs", "-q"]);
    let root = dir.path().join("root");
    std::fs::create_dir_all(root.join("new/folder")).unwrap();
    let noise: Vec<u8> = (0..50_000_u32).flat_map(|n| n.wrapping_mul(0x9e37_79b9).to_le_bytes()).collect();
    std::fs::write(root.join("new/folder/file"), noise).unwrap();
    std::fs::write(root.join("etc/motd"), "Good bye.\n").unwrap();
    std::fs::remove_file(root.join("usr/share/doc/copy")).unwrap();
    // Its share of the data doubles without the copy, but nothing grows or shrinks.
    let text = root.join("usr/share/doc/text");
    std::fs::set_permissions(&text, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    for format in FORMATS {
        let page = page(dir.path(), format, &["--against", "old.sqfs"]);
        let seen = look(dir.path(), &View { page: &page, width: 1400, dark: false, task: json!({}), axe: None });
        assert_readable(&seen, format);
        let changes: Vec<(&str, &str)> = seen["changes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| (row[0].as_str().unwrap(), row[1].as_str().unwrap()))
            .collect();
        for change in [("new", "added"), ("etc/issue", "changed"), ("usr/share/doc/copy", "removed")] {
            assert!(changes.contains(&change), "{format}: {change:?} is not in {changes:?}");
        }
        assert!(!changes.iter().any(|(path, _)| path.starts_with("new/")), "{format}: {changes:?}");
        assert_eq!(seen["legend"], json!(["unchanged", "added", "changed"]), "{format}");
        let growth = seen["growth"].as_array().unwrap();
        for path in ["usr/share/doc/text", "usr/share/doc/copy"] {
            assert!(growth.contains(&json!([path, 0])), "{format}: {path}: {growth:?}");
        }
    }
}

#[test]
fn the_page_is_accessible() {
    let test = "the_page_is_accessible";
    if !have(test, "chromium") {
        return;
    }
    let Some(axe) = axe(test) else { return };
    let dir = tempfile::tempdir().unwrap();
    tree(dir.path());
    succeed(dir.path(), &["build", "root/usr", "-o", "old.sqfs", "-q"]);
    for (width, dark) in [(390, false), (1400, false), (1400, true)] {
        let page = page(dir.path(), "squashfs", &["--against", "old.sqfs"]);
        let task = json!({ "search": "o", "text": "etc/motd" });
        let seen = look(dir.path(), &View { page: &page, width, dark, task, axe: Some(&axe) });
        assert_eq!(seen["violations"], json!([]), "at {width}, dark: {dark}");
    }
}

#[test]
fn a_large_image_is_shown_and_searched_at_once() {
    let test = "a_large_image_is_shown_and_searched_at_once";
    if !have(test, "chromium") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut archive = tar::Builder::new(Vec::new());
    for n in 0..57_000_u32 {
        let mut header = tar::Header::new_ustar();
        let text = format!("{n}").repeat(20);
        header.set_size(text.len() as u64);
        let path = format!("usr/share/{:02}/{}/file-{n}.{}", n % 40, n % 700, ["txt", "conf", "so"][n as usize % 3]);
        archive.append_data(&mut header, path, text.as_bytes()).unwrap();
    }
    std::fs::write(dir.path().join("many.tar"), archive.into_inner().unwrap()).unwrap();
    succeed(dir.path(), &["build", "many.tar", "-o", "image", "-q"]);
    succeed(dir.path(), &["explore", "image", "-o", "page.html", "-q"]);
    let page = std::fs::read_to_string(dir.path().join("page.html")).unwrap();
    let task = json!({ "search": "*-5699?.so" });
    let seen = look(dir.path(), &View { page: &page, width: 1400, dark: false, task, axe: None });
    assert_readable(&seen, test);
    let hits: Vec<&str> = seen["hits"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let names: Vec<String> = (56_990..57_000).filter(|n| n % 3 == 2).map(|n| format!("/file-{n}.so")).collect();
    assert_eq!(hits.len(), names.len(), "{hits:?}");
    assert!(names.iter().all(|name| hits.iter().any(|hit| hit.ends_with(name))), "{hits:?}");
    // Only what is in sight exists.
    assert!(seen["rows"].as_u64().unwrap() < 100, "{}", seen["rows"]);
    let times = measure(dir.path(), &page, "*-5699?.so");
    println!("57,000 files, a page of {} KiB, milliseconds: {times}", page.len() >> 10);
}

#[test]
fn mistakes_get_one_clear_error() {
    let dir = tempfile::tempdir().unwrap();
    sample(dir.path());
    succeed(dir.path(), &["build", "root", "-o", "image", "-q"]);
    succeed(dir.path(), &["explore", "image", "-o", "page.html", "-q"]);
    let cases: [(i32, &[&str], &str); 6] = [
        (1, &["explore", "image", "-o", "page.html"], "page.html"),
        (1, &["explore", "root", "-o", "new.html"], "a directory, not an image"),
        (1, &["explore", "nowhere", "-o", "new.html"], "nowhere: cannot open"),
        (1, &["explore", "image", "--against", "page.html", "-o", "new.html"], "--against page.html"),
        (2, &["explore", "image", "--contents", "lots"], "--contents"),
        (2, &["explore", "image", "--contents", "1G"], "at most 256M"),
    ];
    for (status, args, why) in cases {
        let told = fail(dir.path(), status, args);
        assert!(told.contains(why), "{args:?}: {told}");
        assert!(!dir.path().join("new.html").exists(), "{args:?}: a page was left");
    }
    let piped = succeed(dir.path(), &["explore", "image", "-o", "-"]);
    assert_eq!(piped, std::fs::read_to_string(dir.path().join("page.html")).unwrap(), "same image, same page");
}
