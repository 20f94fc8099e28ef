//! Streamed images: written in order, read as they are, and completed to what a file would have got.

use std::io::Write;
use std::sync::{Arc, Mutex};

use packfs_blocks::Output;
use packfs_blocks::io::SequentialStorage;

use super::*;
use crate::squashfs::{build_to, complete};
use crate::testing::{Node, Piece, everything};

/// A pipe whose bytes can be seen.
#[derive(Clone, Default)]
struct Pipe(Arc<Mutex<Vec<u8>>>);

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn streamed(spec: &Spec, options: &SquashfsOptions) -> Result<Vec<u8>> {
    let (pipe, plan) = (Pipe::default(), Plan { tree: spec.tree()?, order: Vec::new() });
    let output = Output::over(SequentialStorage::new(pipe.clone()), "pipe");
    let summary =
        build_to(output, &SquashfsOptions { stream: true, ..options.clone() }, &Progress::default(), |_| Ok(plan))?;
    let bytes = pipe.0.lock().unwrap().clone();
    assert_eq!(summary.padded_bytes(), bytes.len() as u64);
    Ok(bytes)
}

#[test]
fn a_completed_stream_is_the_image_that_a_file_gets() {
    let spec = everything(4096, 3000);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    for codec in ["zstd:3", "gzip:9:window=10", "none"] {
        let options = |threads| {
            options(codec, 4096).with(|build| (build.threads, build.memory, build.dedup) = (threads, 1, false))
        };
        let plain = std::fs::read(&built(&spec, &options(0)).image).unwrap();
        for threads in [0, 1, 5] {
            let stream = streamed(&spec, &options(threads)).unwrap();
            assert!(stream.starts_with(b"HSQS"));
            std::fs::write(&path, &stream).unwrap();
            let seen = snapshot_image(&*open(&path).unwrap()).unwrap();
            assert_eq!(
                crate::testing::differences(
                    &seen,
                    &held(crate::testing::snapshot_tree(&spec.tree().unwrap()).unwrap())
                ),
                Vec::<String>::new()
            );
            complete(&path).unwrap();
            assert!(std::fs::read(&path).unwrap() == plain, "{codec} with {threads} threads");
            // A process killed before it removed the superblock at the end.
            std::fs::write(&path, [&plain, &stream[stream.len() - 96..]].concat()).unwrap();
            complete(&path).unwrap();
            assert!(std::fs::read(&path).unwrap() == plain, "{codec}, begun before");
        }
    }
}

#[test]
fn what_is_no_whole_stream_is_refused_and_stays() {
    let spec = Spec::of([(b"f".to_vec(), Node::file(vec![Piece::Text { seed: 1, len: 9000 }]))]);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    let stream = streamed(&spec, &options("zstd", 4096)).unwrap();
    let plain = std::fs::read(&built(&spec, &options("zstd", 4096)).image).unwrap();
    let cut = &stream[..stream.len() - 1];
    for (bytes, why) in [
        (&b"short"[..], "too short"),
        (&plain, "not a streamed image"),
        (cut, "cut short"),
        (&[&stream[..], b"\0"].concat(), "bytes follow it"),
        (&[b"HSQS", &[0; 500][..]].concat(), "cut short"),
    ] {
        std::fs::write(&path, bytes).unwrap();
        let told = complete(&path).unwrap_err().to_string();
        assert!(told.contains(why), "{told}");
        assert!(std::fs::read(&path).unwrap() == bytes, "{why}");
        if bytes.starts_with(b"HSQS") {
            let told = open(&path).unwrap_err().to_string();
            assert!(told.contains("without a superblock at its end"), "{told}");
        }
    }
    for options in [
        options("zstd", 4096).with(|build| build.offset = 4096),
        options("zstd", 4096).with(|build| build.index = Some("index".into())),
    ] {
        assert!(matches!(streamed(&spec, &options), Err(Error::InvalidOption { .. })));
    }
}

#[test]
fn a_device_whose_end_is_not_that_of_the_image_is_refused() {
    let device = tempfile::NamedTempFile::new().unwrap();
    let before = vec![b'x'; 1 << 20];
    std::fs::write(&device, &before).unwrap();
    let spec = everything(4096, 3000);
    let plan = Plan { tree: spec.tree().unwrap(), order: Vec::new() };
    let output = Output::over(packfs_blocks::io::BlockDevice(device.reopen().unwrap()), "device");
    let options = SquashfsOptions { stream: true, ..options("zstd", 4096) };
    let error = build_to(output, &options, &Progress::default(), |_| Ok(plan)).unwrap_err().to_string();
    assert!(error.contains("a block device has another end than the image"), "{error}");
    assert!(std::fs::read(&device).unwrap() == before);
}
