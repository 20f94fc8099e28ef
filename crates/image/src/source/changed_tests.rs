//! Archives that change while they are read: an error, as for files.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

use super::{Entry, open};
use crate::testing::{Sink, gzip};
use crate::tree::{FileData, Kind, Tree};
use crate::{Builder, Error, Result};

const NAMES: [&str; 3] = ["a.tar", "a.tar.gz", "a.sqfs"];

/// Makes an archive, the same archive compressed, and an image of it.
fn sources(dir: &Path) {
    let mut archive = ::tar::Builder::new(Vec::new());
    let mut header = ::tar::Header::new_gnu();
    header.set_size(3000);
    header.set_mode(0o644);
    archive.append_data(&mut header, "f", &[b'x'; 3000][..]).unwrap();
    let bytes = archive.into_inner().unwrap();
    std::fs::write(dir.join("a.tar"), &bytes).unwrap();
    std::fs::write(dir.join("a.tar.gz"), gzip(&bytes)).unwrap();
    Builder::squashfs().entries([Entry::file("f", [b'x'; 3000])]).build(dir.join("a.sqfs")).unwrap();
}

/// Opens a source, changes it, lists it, changes it, and reads its file to the end.
fn read_changing(path: &Path, before: impl Fn(&Path), after: impl Fn(&Path)) -> Result<()> {
    let mut source = open::open(path.as_os_str(), &open::SourceReadOptions::default())?;
    before(path);
    let mut tree = Tree::default();
    source.scan(&mut tree, &mut Sink)?;
    after(path);
    if let Kind::File { data: FileData::Source { from, key }, .. } = &tree.inode(tree.lookup(b"f").unwrap()).kind {
        let mut file = from.open(*key)?;
        file.read_exact_at(&mut [0; 3000], 0)?;
        file.finish()?;
    }
    Ok(())
}

#[test]
fn a_source_that_changes_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    sources(dir.path());
    let touch = |path: &Path| {
        // Later than the clock tick in which the files were made.
        std::thread::sleep(std::time::Duration::from_millis(20));
        let mut file = OpenOptions::new().write(true).open(path).unwrap();
        let first = std::fs::read(path).unwrap()[0];
        file.write_all(&[first]).unwrap();
    };
    let grow = |path: &Path| OpenOptions::new().append(true).open(path).unwrap().write_all(&[0]).unwrap();
    let nothing = |_: &Path| ();
    for name in NAMES {
        let path = dir.path().join(name);
        read_changing(&path, nothing, nothing).unwrap();
        // An image is listed from metadata decoded when it was opened; changes are noticed when its files are read.
        let error = read_changing(&path, touch, nothing).unwrap_err();
        assert!(matches!(error, Error::Changed { .. }), "{name}: {error}");
        assert!(error.to_string().contains("was written to after it was opened"), "{name}: {error}");
    }
    for name in ["a.tar", "a.sqfs"] {
        let error = read_changing(&dir.path().join(name), nothing, grow).unwrap_err().to_string();
        assert!(error.contains("bytes long when it was opened"), "{name}: {error}");
    }
}
