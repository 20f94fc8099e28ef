//! Runs the console blocks of the README and the guide as they are.
//!
//! In a block, `$ ` begins a command and `> ` continues it; other lines are the expected output.
//! Each page is one session in a fresh directory: empty for the README, and with `root`, `overlay` and
//! `root.tar.zst` in it for the guide.

mod pages;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::{have, sample, skip};

#[test]
fn readme() {
    if !Path::new("/usr/share/perl").is_dir() {
        return skip("readme", "/usr/share/perl, the directory of its example, does not exist");
    }
    if tools("readme") {
        run(tempfile::tempdir().unwrap().path(), "README.md");
    }
}

#[test]
fn guide_bench() {
    page("guide_bench", "docs/guide/bench.md");
}

#[test]
fn guide_choosing() {
    page("guide_choosing", "docs/guide/choosing.md");
}

#[test]
fn guide_tune() {
    page("guide_tune", "docs/guide/tune.md");
}

#[test]
fn guide_build() {
    page("guide_build", "docs/guide/build.md");
}

#[test]
fn guide_packlist() {
    page("guide_packlist", "docs/guide/packlist.md");
}

#[test]
fn guide_drop_in() {
    page("guide_drop_in", "docs/guide/drop-in.md");
}

#[test]
fn guide_rules() {
    page("guide_rules", "docs/guide/rules.md");
}

#[test]
fn guide_erofs() {
    page("guide_erofs", "docs/guide/erofs.md");
}

#[test]
fn guide_convert() {
    page("guide_convert", "docs/guide/convert.md");
}

#[test]
fn guide_extract() {
    page("guide_extract", "docs/guide/extract.md");
}

#[test]
fn guide_split() {
    page("guide_split", "docs/guide/split.md");
}

#[test]
fn guide_mount() {
    let test = "guide_mount";
    if std::fs::File::options().read(true).write(true).open("/dev/fuse").is_err() {
        return skip(test, "/dev/fuse cannot be opened");
    }
    page(test, "docs/guide/mount.md");
}

#[test]
fn guide_faq() {
    page("guide_faq", "docs/guide/faq.md");
}

/// Every page of docs/recipes, so that a new one cannot be forgotten.
#[test]
fn recipes() {
    let has_fuse = std::fs::File::options().read(true).write(true).open("/dev/fuse").is_ok();
    let recipes = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/recipes");
    for entry in std::fs::read_dir(&recipes).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let test = format!("recipes {name}");
        let text = std::fs::read_to_string(recipes.join(&name)).unwrap();
        let mounts = steps(&text).iter().any(|step| step.command.contains("packfs mount"));
        if name == "README.md" {
            continue;
        }
        if mounts && !has_fuse {
            skip(&test, "/dev/fuse cannot be opened");
            continue;
        }
        page(&test, &format!("docs/recipes/{name}"));
    }
}

#[test]
fn guide_serve() {
    page("guide_serve", "docs/guide/serve.md");
}

#[test]
fn guide_cluster() {
    page("guide_cluster", "docs/guide/cluster.md");
}

#[test]
fn guide_library() {
    page("guide_library", "docs/guide/library.md");
}

#[test]
fn guide_sealed_images() {
    page("guide_sealed_images", "docs/guide/sealed-images.md");
}

#[test]
fn guide_updates() {
    page("guide_updates", "docs/guide/updates.md");
}

#[test]
fn guide_container_layers() {
    page("guide_container_layers", "docs/guide/container-layers.md");
}

#[test]
fn guide_json() {
    page("guide_json", "docs/guide/json.md");
}

/// The table in the guide is the one used by the parser and `--codec help`.
#[test]
fn guide_codecs_has_the_table_of_codecs() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/codecs.md");
    let text = std::fs::read_to_string(&page).unwrap();
    let (before, rest) = text.split_once("<!-- codecs:begin -->\n").expect("the table's beginning is marked");
    let (table, after) = rest.split_once("<!-- codecs:end -->").expect("the table's end is marked");
    let current = packfs_codec::table::markdown();
    if std::env::var_os("PACKFS_UPDATE_DOCS").is_some() {
        let whole = format!("{before}<!-- codecs:begin -->\n{current}<!-- codecs:end -->{after}");
        return std::fs::write(&page, whole).unwrap();
    }
    assert!(
        table == current,
        "docs/guide/codecs.md is out of date: PACKFS_UPDATE_DOCS=1 cargo test -p packfs --test integration docs::"
    );
}

fn tools(test: &str) -> bool {
    ["bash", "tar", "zstd"].iter().all(|tool| have(test, tool))
}

fn page(test: &str, page: &str) {
    if !tools(test) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let _mnt = Unmounted(dir.path().join("mnt"));
    sample(dir.path());
    std::fs::create_dir(dir.path().join("overlay")).unwrap();
    std::fs::write(dir.path().join("overlay/new"), "new\n").unwrap();
    shell(dir.path(), "tar -cf root.tar -C root . && zstd -q --rm root.tar");
    run(dir.path(), page);
}

/// A mount point with nothing mounted in the end, also when a command on a page fails.
struct Unmounted(PathBuf);

impl Drop for Unmounted {
    fn drop(&mut self) {
        if self.0.is_dir() {
            let mut umount = Command::new(env!("CARGO_BIN_EXE_packfs"));
            let _ = umount.args(["umount", "--lazy"]).arg(&self.0).stderr(Stdio::null()).status();
        }
    }
}

fn run(dir: &Path, page: &str) {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let steps = steps(&std::fs::read_to_string(repository.join(page)).unwrap());
    assert!(!steps.is_empty(), "{page} has no console blocks");
    for step in steps {
        let shown = shell(dir, &step.command);
        if !step.shows.is_empty() {
            assert_eq!(shown, step.shows, "{page}: $ {}", step.command);
        }
    }
}

struct Step {
    command: String,
    shows: String,
}

fn steps(page: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut inside = false;
    for line in page.lines() {
        match (inside, line.strip_prefix("$ "), line.strip_prefix("> "), steps.last_mut()) {
            (false, ..) => inside = line == "```console",
            (true, ..) if line == "```" => inside = false,
            (true, Some(command), ..) => steps.push(Step { command: command.into(), shows: String::new() }),
            (true, None, Some(more), Some(step)) => step.command.push_str(&format!("\n{more}")),
            (true, None, _, Some(step)) => step.shows.push_str(&format!("{line}\n")),
            (true, None, _, None) => panic!("output before any command: {line}"),
        }
    }
    steps
}

/// Runs a command as the reader would, with the program under test first on the path. It must succeed.
fn shell(dir: &Path, command: &str) -> String {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_packfs"));
    let mut path = program.parent().unwrap().as_os_str().to_owned();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    let output = Command::new("bash")
        .args(["-euo", "pipefail", "-c", command])
        .current_dir(dir)
        .env("PATH", path)
        .env_remove("SOURCE_DATE_EPOCH")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "$ {command}\n{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}
