//! Plans of many images, seen through the program alone.

use std::path::Path;
use std::time::Instant;

use crate::common::{fail, packfs, run_in, sample_dir, stderr, succeed};
use serde_json::Value;

const LINES: [&str; 5] = [
    "root/etc -o small.sqfs",
    "big -o big.erofs --codec lz4hc:1",
    "root/usr 'a dir' -o \"with space.sqfs\" --codec zstd:1 --exclude '*.txt'",
    "big -o two.sqfs --shards 2 --codec gzip:1",
    "none -o empty.erofs",
];
/// Shards of the images above where each has about 1 MiB.
const OPTIONS: [&str; 5] = ["", "--shard-size 1M", "", "--shards 2", ""];

/// Writes sources and a list of images into a directory, and builds the images locally into `local/`.
fn workplace() -> tempfile::TempDir {
    let work = sample_dir();
    let dir = work.path();
    for name in ["big", "a dir", "none", "local"] {
        std::fs::create_dir(dir.join(name)).unwrap();
    }
    std::fs::write(dir.join("a dir/file"), "text").unwrap();
    for n in 0..40u64 {
        let text: String = (0..4000).map(|i| format!("{:x} ", i * i * (7919 + n % 30))).collect();
        std::fs::write(dir.join(format!("big/{n}")), text).unwrap();
    }
    std::fs::write(dir.join("list"), format!("# images\n\n{}\n", LINES.join("\n"))).unwrap();
    for (line, options) in LINES.iter().zip(OPTIONS) {
        let mut words: Vec<String> =
            shlex::split(line).unwrap().into_iter().chain(options.split_whitespace().map(str::to_owned)).collect();
        let at = words.iter().position(|word| word == "-o").unwrap() + 1;
        words[at] = format!("local/{}", words[at]);
        if options == "--shards 2" {
            words.truncate(words.len() - 2);
        }
        let words: Vec<&str> = ["build", "-q"].into_iter().chain(words.iter().map(String::as_str)).collect();
        succeed(dir, &words);
    }
    work
}

fn assert_images(dir: &Path) {
    for image in std::fs::read_dir(dir.join("local")).unwrap() {
        let image = image.unwrap();
        let [made, local] = [dir.join(image.file_name()), image.path()].map(|path| std::fs::read(path).unwrap());
        assert!(made == local, "{:?} differs from a local build", image.file_name());
    }
}

fn plan(dir: &Path, options: &[&str]) -> Value {
    let all = [&["plan", "--each", "list", "-o", "set.plan", "--shard-size", "1M", "--json"], options].concat();
    serde_json::from_str(&succeed(dir, &all)).unwrap()
}

#[test]
fn a_task_makes_a_small_image_and_shards_are_assembled() {
    let work = workplace();
    let dir = work.path();
    let planned = plan(dir, &[]);
    assert_eq!((&planned["images"], &planned["cut_images"]), (&5.into(), &2.into()));
    let tasks = planned["tasks"].as_u64().unwrap();
    assert!(tasks > 6, "{planned}");
    let mut longest = u64::MAX;
    for n in 0..tasks {
        let task = succeed(dir, &["shard", "set.plan", &n.to_string(), "-o", "shards", "--json"]);
        let task: Value = serde_json::from_str(&task).unwrap();
        let len = task["file_bytes"].as_u64().unwrap();
        // Each file counts for 4 KiB besides its bytes.
        assert!(task["packed"] == true && len.saturating_sub(50 << 12) <= longest, "task {n} is too late: {task}");
        longest = len;
    }
    assert!(dir.join("small.sqfs").exists() && !dir.join("big.erofs").exists());
    let state = run_in(dir, &["status", "set.plan", "shards"]);
    let shown = String::from_utf8(state.stdout).unwrap();
    assert!(state.status.code() == Some(1) && shown.contains("written     3 of 5 images"), "{shown}");
    let json = succeed(dir, &["assemble", "set.plan", "shards", "--json"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["assembled"], &json["failed"]), (&2.into(), &0.into()));
    assert_images(dir);
    succeed(dir, &["status", "set.plan", "shards"]);
    // What is done is left alone; an image that is gone is made again, and one that is not the plan's as well.
    let again = succeed(dir, &["assemble", "set.plan", "shards", "--json"]);
    assert!(again.contains("\"earlier\": 2"), "{again}");
    std::fs::remove_file(dir.join("small.sqfs")).unwrap();
    std::fs::write(dir.join("big.erofs"), "of somebody else").unwrap();
    let state: Value =
        serde_json::from_slice(&run_in(dir, &["status", "set.plan", "shards", "--json"]).stdout).unwrap();
    assert_eq!((&state["images"]["done"], state["missing"].as_array().unwrap().len()), (&3.into(), 1));
    let packed = (0..tasks).map(|n| succeed(dir, &["shard", "set.plan", &n.to_string(), "-o", "shards", "--json"]));
    assert_eq!(packed.filter(|task| task.contains("\"packed\": true")).count(), 1);
    succeed(dir, &["assemble", "set.plan", "shards", "--shard", "0/2"]);
    succeed(dir, &["assemble", "set.plan", "shards", "--shard", "1/2"]);
    assert_images(dir);
}

/// The image of yesterday lies in the source of today's.
#[test]
fn an_image_that_is_replaced_is_not_packed() {
    let work = sample_dir();
    let dir = work.path();
    for shards in ["1", "2"] {
        std::fs::write(dir.join("list"), format!("root -o root/a.sqfs --force --shards {shards}\n")).unwrap();
        for attempt in 0..2 {
            let planned = succeed(dir, &["plan", "--each", "list", "-o", "set.plan", "--force", "--json"]);
            let planned: Value = serde_json::from_str(&planned).unwrap();
            for task in 0..planned["tasks"].as_u64().unwrap() {
                succeed(dir, &["shard", "set.plan", &task.to_string(), "-o", "shards", "-q"]);
            }
            succeed(dir, &["assemble", "set.plan", "shards", "-q"]);
            let listed = succeed(dir, &["list", "root/a.sqfs"]);
            assert!(!listed.contains("a.sqfs"), "{shards} shards, attempt {attempt}: {listed}");
            std::fs::remove_dir_all(dir.join("shards")).unwrap();
        }
        std::fs::remove_file(dir.join("root/a.sqfs")).unwrap();
    }
}

#[test]
fn tasks_killed_and_run_twice_give_the_same_images() {
    let work = workplace();
    let dir = work.path();
    let tasks = plan(dir, &[])["tasks"].as_u64().unwrap();
    let start = |n: u64| {
        let mut task = packfs(["shard", "set.plan", &n.to_string(), "-o", "shards", "-q", "-j", "1"]);
        task.current_dir(dir).spawn().unwrap()
    };
    for n in 0..tasks {
        let begun = Instant::now();
        assert!(start(n).wait().unwrap().success());
        let took = begun.elapsed();
        for moment in 0..6 {
            for image in std::fs::read_dir(dir.join("shards")).unwrap() {
                for file in std::fs::read_dir(image.unwrap().path()).unwrap() {
                    std::fs::remove_file(file.unwrap().path()).unwrap();
                }
            }
            let mut task = start(n);
            std::thread::sleep(took * moment / 5);
            let _ = task.kill();
            task.wait().unwrap();
        }
    }
    let all: Vec<_> = (0..tasks).chain(0..tasks).map(start).collect();
    assert!(all.into_iter().all(|mut task| task.wait().unwrap().success()));
    succeed(dir, &["assemble", "set.plan", "shards", "-q"]);
    assert_images(dir);
}

#[test]
fn a_failed_image_leaves_the_others_alone() {
    let work = workplace();
    let dir = work.path();
    let tasks = plan(dir, &[])["tasks"].as_u64().unwrap();
    std::fs::write(dir.join("big/7"), "changed").unwrap();
    let failed = (0..tasks).map(|n| run_in(dir, &["shard", "set.plan", &n.to_string(), "-o", "shards", "-q"]));
    let failed: Vec<_> = failed.filter(|done| !done.status.success()).map(|done| stderr(&done)).collect();
    assert_eq!(failed.len(), 2, "{failed:?}");
    assert!(failed.iter().all(|error| error.contains("big/7: ")), "{failed:?}");
    let error = fail(dir, 1, &["assemble", "set.plan", "shards"]);
    assert!(error.contains("big.erofs") && error.contains("two.sqfs") && error.contains(".shard"), "{error}");
    assert!(dir.join("small.sqfs").exists() && dir.join("with space.sqfs").exists());
    let state: Value =
        serde_json::from_slice(&run_in(dir, &["status", "set.plan", "shards", "--json"]).stdout).unwrap();
    assert_eq!((&state["images"]["done"], state["failed"].as_array().unwrap().len()), (&3.into(), 2));
}

#[test]
fn bad_lists_name_the_line() {
    let work = workplace();
    let dir = work.path();
    for (list, status, why) in [
        ("", 2, "bad: the list has no image"),
        ("root -o a\nroot -o ./a -f\n", 2, "bad:2: ./a is also the output of line 1"),
        ("root -o small\nroot -o taken\n", 1, "bad:2: taken exists"),
        ("root -o a 'b\n", 2, "bad:1: a quote is not closed"),
        ("root\n", 2, "bad:1: the following required arguments"),
        ("\nroot -o a --json", 2, "bad:2: a line of --each cannot have --json"),
        ("root -o a --index\n", 2, "bad:1: "),
        ("gone -o a\n", 1, "gone"),
        ("root -o a --block-size 3\n", 2, "bad:1: "),
    ] {
        std::fs::write(dir.join("bad"), list).unwrap();
        std::fs::write(dir.join("taken"), "").unwrap();
        let error = fail(dir, status, &["plan", "--each", "bad", "-o", "bad.plan"]);
        assert!(error.contains(why), "{list:?}: {error}");
        assert!(!dir.join("bad.plan").exists());
    }
    let error = fail(dir, 2, &["plan", "--each", "list", "-o", "x.plan", "--codec", "xz"]);
    assert!(error.contains("cannot be used with"), "{error}");
    plan(dir, &[]);
    assert!(fail(dir, 2, &["assemble", "set.plan", "shards", "-o", "x"]).contains("contains their paths"));
    assert!(fail(dir, 2, &["assemble", "set.plan", "shards", "--shard", "2/2"]).contains("0/2 to 1/2"));
    assert!(fail(dir, 2, &["shard", "set.plan", "999", "-o", "shards"]).contains("has shards 0 to"));
}

#[test]
fn damaged_plans_are_refused() {
    let work = workplace();
    let dir = work.path();
    plan(dir, &[]);
    let good = std::fs::read(dir.join("set.plan")).unwrap();
    let tasks = |bytes: &[u8]| {
        std::fs::write(dir.join("bad.plan"), bytes).unwrap();
        let state = run_in(dir, &["status", "bad.plan", "shards"]);
        (state.status.code(), stderr(&state))
    };
    assert_eq!(tasks(&good).1, "");
    let mut other = good.clone();
    other[8] = 9;
    assert!(tasks(&other).1.contains("header is damaged"));
    for at in (0..148).chain(good.len() - 200..good.len()).step_by(13) {
        let mut bad = good.clone();
        bad[at] ^= 1;
        let (status, error) = tasks(&bad);
        assert!(status == Some(1) && error.contains("bad.plan"), "byte {at}: {error}");
    }
    for len in [0, 7, 8, 100, good.len() / 2, good.len() - 1] {
        let (status, error) = tasks(&good[..len]);
        assert!(status == Some(1) && error.contains("bad.plan"), "{len} bytes: {error}");
    }
}

#[test]
fn the_scripts_for_engines_make_all_images() {
    let work = workplace();
    let dir = work.path();
    let script = |engine: &str, list: &str| {
        let plan = format!("{engine}.plan");
        succeed(dir, &["plan", "--each", list, "-o", &plan, "-f", "-q", "--shard-size", "1M", "--for", engine])
    };
    let slurm = script("slurm", "list");
    for words in ["afterany", "--array=0-1 ", "\"$SLURM_ARRAY_TASK_ID/2\""] {
        assert!(slurm.contains(words), "{words}: {slurm}");
    }
    std::fs::write(dir.join("small"), "root/etc -o one.sqfs\nroot/etc -o other.sqfs\n").unwrap();
    assert!(!script("slurm", "small").contains("assemble"));
    for engine in ["hq", "parallel", "k8s"] {
        let text = script(engine, "list");
        assert!(text.contains("packfs assemble") && !text.contains(" -o 'set.sqfs'"), "{text}");
        assert!(engine == "k8s" || text.trim_end().lines().last().unwrap().starts_with("packfs status"), "{text}");
    }
}
