//! Written pseudo files are read back unchanged, as pack lists.

use std::path::Path;

use super::*;
use crate::Tree;
use crate::source::{PackList, Source, dir};
use crate::testing::Sink;
use crate::testing::{Node, Piece, Spec, What, differences, one_of_each, snapshot_tree, whole_seconds};
use crate::tree::{Time, TreeImage};

fn write(tree: &Tree, options: &TarOptions) -> Result<Vec<u8>> {
    let (mut out, progress) = (Vec::new(), Progress::default());
    let summary = write_pseudo(&TreeImage::new(tree), &mut out, options, &progress)?;
    assert_eq!(summary.bytes, out.len() as u64);
    Ok(out)
}

fn threads(threads: usize) -> TarOptions {
    TarOptions { threads, ..TarOptions::default() }
}

fn read(path: &Path, bytes: &[u8]) -> Result<Tree> {
    std::fs::write(path, bytes).unwrap();
    let mut tree = Tree::default();
    PackList::new(path, dir::Options::default(), Time { secs: 77, nanos: 0 }).scan(&mut tree, &mut Sink)?;
    Ok(tree)
}

/// A tree with names and values that need care.
fn corners() -> Spec {
    let mut spec = one_of_each(4096, 100);
    let What::Dir(entries) = &mut spec.root.what else { unreachable!() };
    for name in [&b"#hash"[..], b"sp ace\tx", b"q\"uo\\te", b"\xff\xfe", b" lead", b"tail ", b"mode", b"tree", b"a\rb"]
    {
        entries.insert(name.to_vec(), Node::file(vec![Piece::Text { seed: 1, len: 10 }]));
    }
    let mut named = Node::file(vec![Piece::Noise { seed: 9, len: 3_000_000 }, Piece::Hole(8192)]);
    named.attrs.xattrs =
        [("user.hex", &b"0x12"[..]), ("user.q", b"\"q\""), ("user.end", b" a\\"), ("user.b b", b"\r\n\0\\")]
            .map(|(name, value)| (name.to_owned(), value.to_vec()))
            .into();
    entries.insert(b"named too".to_vec(), named);
    entries.insert(
        b"target".to_vec(),
        Node { attrs: crate::testing::Attrs::plain(0o777), what: What::Symlink(b"a \"b\" ".into()) },
    );
    spec.links.push((b"char".to_vec(), b"link to a device".to_vec()));
    spec.links.push((b"named too".to_vec(), b"z".to_vec()));
    spec
}

#[test]
fn pseudo_files_are_read_back_unchanged_for_any_number_of_threads() {
    let tree = corners().tree().unwrap();
    let bytes = write(&tree, &threads(0)).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let again = read(&dir.path().join("list"), &bytes).unwrap();
    let (before, after) = (snapshot_tree(&tree).unwrap(), snapshot_tree(&again).unwrap());
    assert_eq!(differences(&whole_seconds(before), &after), Vec::<String>::new());
    for count in [1, 3] {
        let options = TarOptions { memory: 0, ..threads(count) };
        assert!(write(&tree, &options).unwrap() == bytes, "{count} threads");
        let memory = std::sync::Arc::new(packfs_blocks::io::Memory::default());
        let (out, progress) = (packfs_blocks::Output::over(memory.clone(), "pseudo file"), Progress::default());
        write_pseudo_to(&TreeImage::new(&tree), &out, &options, &progress).unwrap();
        assert!(memory.lock().unwrap().get_ref() == &bytes, "{count} threads, to a file");
    }
    let text = String::from_utf8_lossy(&bytes).into_owned();
    for line in [
        "\n\\#hash R ",
        "link\\ to\\ a\\ device L char\n",
        "named\\ too x user.hex=0t0x12\n",
        "named\\ too x user.q=\"q\"\n",
        "named\\ too x user.b b=0t\\015\\012\\000\\134\n",
        "#\n# START OF DATA - DO NOT MODIFY\n#\n",
    ] {
        assert!(text.contains(line), "{line}");
    }
}

#[test]
fn paths_can_be_selected_moved_and_stored_without_links() {
    let tree = corners().tree().unwrap();
    let options = TarOptions {
        select: vec!["dir/small".into(), "small".into()].into(),
        prefix: Some("new".into()),
        hard_links: false,
        xattrs: false,
        ..threads(0)
    };
    let bytes = write(&tree, &options).unwrap();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let paths: Vec<_> =
        text.lines().take_while(|line| *line != "#").map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(paths, ["new", "new/dir", "new/dir/small", "new/small"]);
    assert_eq!(bytes.len(), text.find("MODIFY\n#\n").unwrap() + 9 + 2 * 7);
    let part = TarOptions { part: Part::new(0, 2).unwrap(), ..threads(0) };
    assert!(matches!(write(&tree, &part), Err(Error::InvalidOption { .. })));
}

#[test]
fn what_a_pseudo_file_cannot_hold_is_an_error() {
    let link = |target: &[u8]| Node { attrs: crate::testing::Attrs::plain(0o777), what: What::Symlink(target.into()) };
    let file = || Node::file(vec![]);
    let at = |secs| {
        let mut node = file();
        node.attrs.mtime = Time { secs, nanos: 0 };
        node
    };
    for (name, node, why) in [
        (&b"a\nb"[..], file(), "a name with a line feed"),
        (b"a", link(b"x\ny"), "the target `x\\ny`"),
        (b"a", link(b" x"), "the target ` x`"),
        (b"a", link(b"x\\"), "the target `x\\\\`"),
        (b"a", at(-1), "the time -1"),
        (b"a", at(1 << 32), "the time 4294967296"),
    ] {
        let tree = Spec::of([(name.to_vec(), node)]).tree().unwrap();
        let told = write(&tree, &threads(0)).unwrap_err().to_string();
        assert!(told.contains(why) && told.contains("leave the entry out"), "{told}");
    }
}

#[test]
fn damaged_pseudo_files_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("list");
    let whole = write(&corners().tree().unwrap(), &threads(0)).unwrap();
    let told = read(&path, &whole[..whole.len() - 1]).unwrap_err().to_string();
    assert!(told.contains("/list:") && told.contains("it is cut short"), "{told}");
    let mark = "# START OF DATA - DO NOT MODIFY\n";
    for (text, why) in [
        ("a R 0 644 0 0 1 0 0\n".to_owned(), "/list:1: the list: no data follows its lines"),
        (format!("a R 0 644 0 0 1 0\n{mark}#\nx"), "the flag of sparse files is missing; expected: PATH R SECONDS"),
        (format!("a R 0 644 0 0 1 18446744073709551615 0\n{mark}#\nx"), "more than the 1 bytes of data"),
        (format!("a R 0 644 0 0 0 0 0\n{mark}x"), "no line `#` before the data"),
        (format!("dir /x 0755 0 0\n{mark}#\n"), "unknown type `/x`"),
        ("a R 0 644 0 0 1 0 0 gone\n".to_owned(), "gone: cannot open"),
    ] {
        let told = read(&path, text.as_bytes()).unwrap_err().to_string();
        assert!(told.contains(why), "{text}: {told}");
    }
    // Bytes of another file, which shrinks before they are read.
    std::fs::write(dir.path().join("of"), "0123456789").unwrap();
    let tree = read(&path, b"a R 0 644 0 0 4 3 0 of\n").unwrap();
    let snapshot = snapshot_tree(&tree).unwrap();
    assert_eq!(snapshot["a"].size, 4);
    std::fs::write(dir.path().join("of"), "01").unwrap();
    let told = snapshot_tree(&tree).unwrap_err().to_string();
    assert!(told.ends_with("/of: was 10 bytes long when it was opened and has 2 now"), "{told}");
}
