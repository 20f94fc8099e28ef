//! Builds as they are measured: stages of one, and `packfs bench build` as a user runs it.

mod common;

use std::fs::File;
use std::process::Stdio;

use common::{FORMATS, packfs, sample, stderr, succeed};
use serde_json::Value;

/// Times are those of the machine, but without workers no two stages are at the same time, and a directory is no
/// stream.
#[test]
fn a_build_tells_where_its_time_went() {
    let dir = tempfile::tempdir().unwrap();
    sample(dir.path());
    succeed(dir.path(), &["build", "root", "-o", "first.sqfs", "-q"]);
    succeed(dir.path(), &["tar", "first.sqfs", "-o", "root.tar", "-q"]);
    for format in FORMATS {
        for (source, jobs, codec) in [("root", "0", "none"), ("root", "2", "zstd:1"), ("-", "0", "zstd:1")] {
            let built = ["build", source, "-o", "image", "-f", "-q", "--json", "--format", format];
            let kernel = if format == "erofs" { &["--target-kernel", "6.10"][..] } else { &[] };
            let mut command = packfs([&built[..], &["--codec", codec, "-j", jobs], kernel].concat());
            let tar = File::open(dir.path().join("root.tar")).unwrap();
            let output = command.current_dir(dir.path()).stdin(Stdio::from(tar)).output().unwrap();
            assert!(output.status.success(), "{}", stderr(&output));
            let json: Value = serde_json::from_slice(&output.stdout).unwrap();
            let of = |stage: &str| json["stages"][stage].as_f64().unwrap();
            let stages = json["stages"].as_object().unwrap();
            let names: Vec<&str> = stages.keys().map(String::as_str).collect();
            let all = ["compress", "flush", "hash", "metadata", "order", "read", "scan", "stream", "wait", "write"];
            assert_eq!(names, all, "{format} of {source}");
            assert!(stages.values().all(|seconds| seconds.as_f64().unwrap() >= 0.0), "{stages:?}");
            assert_eq!((of("read") > 0.0, of("stream") > 0.0), (source == "root", source == "-"), "{stages:?}");
            assert!(of("hash") > 0.0 && of("write") > 0.0 && of("flush") > 0.0, "{stages:?}");
            let sum: f64 = all.into_iter().map(of).sum();
            assert!(jobs != "0" || sum <= json["seconds"].as_f64().unwrap(), "{format} of {source}: {stages:?}");
        }
    }
}
