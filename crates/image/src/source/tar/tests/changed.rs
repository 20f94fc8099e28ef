//! Archives that change while they are read: an error, as for files.

use std::fs::OpenOptions;
use std::io::Write;

use super::*;
use crate::source::open;

const NAMES: [&str; 3] = ["a.tar", "a.tar.gz", "a.sqfs"];

/// Makes an archive, the same archive compressed, and an image of it.
fn sources(dir: &Path) {
    let bytes = archive(&[member("f", b'0', &[b'x'; 3000])]);
    std::fs::write(dir.join("a.tar"), &bytes).unwrap();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&bytes).unwrap();
    std::fs::write(dir.join("a.tar.gz"), gzip.finish().unwrap()).unwrap();
    let tree = scan_in_place(&bytes).unwrap();
    let fill = |_: &mut dyn Store| Ok(crate::Plan { tree, order: Vec::new() });
    let (options, progress) = (crate::squashfs::Options::default(), packfs_blocks::Progress::default());
    crate::squashfs::build(&dir.join("a.sqfs"), &options, &progress, fill).unwrap();
}

/// Opens a source, changes it, lists it, changes it, and reads its file to the end.
fn read_changing(path: &Path, before: impl Fn(&Path), after: impl Fn(&Path)) -> Result<()> {
    let mut source = open::open(path.as_os_str(), &open::Options::default())?;
    before(path);
    let (mut tree, mut kept) = (Tree::default(), Kept::default());
    source.scan(&mut tree, &mut kept)?;
    after(path);
    if let Kind::File { data: Data::Source { from, key }, .. } = &tree.inode(tree.lookup(b"f").unwrap()).kind {
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
