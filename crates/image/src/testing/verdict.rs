//! Images with one wrong field, and what a reader and a check are expected to say: a table of mutations for each format.

use super::{exercise, findings};
use crate::Result;
use crate::image::{Image, Nid};
use crate::tree::components;

/// A sound image to be changed. Formats add methods that find the positions of its structures.
#[derive(Debug)]
pub struct Base<R> {
    /// Bytes of the image.
    pub image: Vec<u8>,
    /// Reader of the image as it was before any change.
    pub reader: R,
    open: Open<R>,
}

/// Opens an image in memory.
type Open<R> = fn(&[u8]) -> Result<R>;

/// A change of one thing: its name, the verdict on the result, and the change itself.
pub type Mutation<R> = (&'static str, Verdict, fn(&mut Base<R>));

/// Expected verdict on a wrong image. The texts are parts of an error or a finding.
#[derive(Debug)]
pub enum Verdict {
    /// It cannot be opened.
    Open(&'static str),
    /// It can be opened, but a check finds this.
    Check(&'static str),
    /// As [`Verdict::Check`], but the image is sound.
    Noted(&'static str),
    /// As [`Verdict::Check`], and the attributes of this path cannot be read.
    Stat(&'static str, &'static str),
    /// As [`Verdict::Check`], and the names in this directory cannot be read.
    List(&'static str, &'static str),
    /// As [`Verdict::Check`], and the contents of this path cannot be read.
    Read(&'static str, &'static str),
    /// As [`Verdict::Check`], and the xattrs of this path cannot be read.
    Xattrs(&'static str, &'static str),
    /// It has no defect.
    Fine,
}

impl<R: Image> Base<R> {
    /// Opens an image with `open`.
    ///
    /// # Panics
    /// If it cannot be opened.
    pub fn open(image: Vec<u8>, open: Open<R>) -> Self {
        Base { reader: open(&image).expect("the image is sound"), image, open }
    }

    /// Returns the number of `len` bytes at `at`.
    pub fn get(&self, at: usize, len: usize) -> u64 {
        let mut bytes = [0; 8];
        bytes[..len].copy_from_slice(&self.image[at..at + len]);
        u64::from_le_bytes(bytes)
    }

    /// Changes the number of `len` bytes at `at`.
    pub fn put(&mut self, at: usize, len: usize, value: u64) {
        self.image[at..at + len].copy_from_slice(&value.to_le_bytes()[..len]);
    }

    /// Adds to the number of `len` bytes at `at`.
    pub fn add(&mut self, at: usize, len: usize, delta: i64) {
        self.put(at, len, self.get(at, len).wrapping_add_signed(delta));
    }
}

/// Makes each change and compares what comes of it with the verdict.
///
/// # Panics
/// If the base is not sound, or if any verdict is another.
pub fn judge<R: Image>(base: &Base<R>, mutations: &[Mutation<R>]) {
    assert_eq!(findings(&base.reader, 0), Vec::<String>::new());
    let mut surprises = Vec::new();
    for (what, verdict, mutate) in mutations {
        let mut wrong = Base::open(base.image.clone(), base.open);
        mutate(&mut wrong);
        let opened = (base.open)(&wrong.image);
        surprises.extend(surprise(base, opened, verdict).map(|surprise| format!("{what}: {surprise}")));
    }
    assert_eq!(surprises, Vec::<String>::new());
}

/// Compares the results with the verdict; returns the discrepancy, if any.
fn surprise<R: Image>(base: &Base<R>, opened: Result<R>, verdict: &Verdict) -> Option<String> {
    let reader = match (opened, verdict) {
        (Err(error), Verdict::Open(why)) if error.to_string().contains(why) => return None,
        (Err(error), _) => return Some(format!("cannot be opened: {error}")),
        (Ok(_), Verdict::Open(_)) => return Some("can be opened".into()),
        (Ok(reader), _) => reader,
    };
    exercise(&reader, 200, 100);
    let nid = |path| find(&base.reader, path);
    let (expected, refused) = match verdict {
        Verdict::Stat(path, why) => (*why, reader.stat(nid(path)).is_err()),
        Verdict::List(path, why) => (*why, reader.read_dir(nid(path)).is_err()),
        Verdict::Read(path, why) => (*why, reader.read_at(nid(path), &mut [0; 1 << 16], 0).is_err()),
        Verdict::Xattrs(path, why) => (*why, reader.xattrs(nid(path)).is_err()),
        Verdict::Check(why) | Verdict::Noted(why) | Verdict::Open(why) => (*why, true),
        Verdict::Fine => ("", true),
    };
    if !refused {
        return Some("is read in spite of it".into());
    }
    for threads in [0, 2] {
        let found = findings(&reader, threads);
        let any = found.iter().any(|finding| finding.contains(expected));
        let sound = found.iter().all(|finding| finding.starts_with("note: "));
        let as_expected = match verdict {
            Verdict::Fine => found.is_empty(),
            Verdict::Noted(_) => any && sound,
            _ => any && !sound,
        };
        if !as_expected {
            return Some(format!("expected `{expected}`, found {found:#?}"));
        }
    }
    None
}

fn find(image: &dyn Image, path: &str) -> Nid {
    components(path.as_bytes()).fold(image.root(), |dir, name| {
        image.lookup(dir, name).expect("the image is sound").expect("the path is in the image")
    })
}
