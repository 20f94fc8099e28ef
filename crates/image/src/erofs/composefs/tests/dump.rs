//! Trees as text, in the dump format of composefs, which its programs read.

use std::collections::HashMap;
use std::fmt::Write;

use super::super::FileContent;
use crate::erofs::writer::emit::inode::type_bits;
use crate::tree::{Ino, Kind, ROOT, Tree};

/// Returns the text of a tree.
pub(super) fn text(tree: &Tree, files: &HashMap<Ino, FileContent>) -> String {
    let mut text = String::new();
    line(tree, files, ROOT, b"/", &mut text);
    let mut first_names = HashMap::<Ino, Vec<u8>>::new();
    tree.each_name(|_, _, ino, path| {
        let path = [b"/", path].concat();
        match first_names.get(&ino) {
            Some(first) => {
                let mode = type_bits(&tree.inode(ino).kind);
                writeln!(text, "{} 0 @{mode:o} - - - - 0.0 {} - -", escaped(&path), escaped(first)).unwrap();
            }
            None => {
                line(tree, files, ino, &path, &mut text);
                first_names.insert(ino, path);
            }
        }
        true
    });
    text
}

fn line(tree: &Tree, files: &HashMap<Ino, FileContent>, ino: Ino, path: &[u8], text: &mut String) {
    let inode = tree.inode(ino);
    let (mut size, mut device, mut payload, mut content, mut digest) =
        (0, 0, "-".to_owned(), "-".to_owned(), "-".to_owned());
    match &inode.kind {
        Kind::File { size: len, .. } => {
            size = *len;
            match files.get(&ino) {
                Some(FileContent::Inline(bytes)) => content = escaped(bytes),
                Some(FileContent::Object(object)) => {
                    payload = object.path();
                    digest = payload.replace('/', "");
                }
                None => {}
            }
        }
        Kind::Symlink(target) => (size, payload) = (target.len() as u64, escaped(target)),
        Kind::Char(number) | Kind::Block(number) => device = number.encode(),
        Kind::Dir | Kind::Fifo | Kind::Socket => {}
    }
    let mode = type_bits(&inode.kind) | inode.mode;
    let links = inode.links;
    let uid = inode.uid;
    let gid = inode.gid;
    let secs = inode.mtime.secs.cast_unsigned();
    let nanos = inode.mtime.nanos;
    write!(text, "{} {size} {mode:o} {links} {uid} {gid} {device} {secs}.{nanos}", escaped(path)).unwrap();
    write!(text, " {payload} {content} {digest}").unwrap();
    for (name, value) in tree.xattrs.get(inode.xattrs) {
        write!(text, " {}={}", hex(name), hex(value)).unwrap();
    }
    text.push('\n');
}

/// Escapes what is no plain character; an empty field is a dash.
fn escaped(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return "-".to_owned();
    }
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._".contains(byte);
    let one = |byte: &u8| if is_plain(byte) { char::from(*byte).to_string() } else { format!("\\x{byte:02x}") };
    bytes.iter().map(one).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("\\x{byte:02x}")).collect()
}
