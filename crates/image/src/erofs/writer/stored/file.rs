//! A file whose data is written: little memory for the forms that most files have, as an image may have millions of them.

use super::cluster::Part;
use super::tails::Kept;
use crate::{Error, Result};

/// The end of a file that is not in its own clusters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// In the packed inode from this offset on.
    Fragment(u64),
    /// A cluster after the index.
    Inline { kept: Kept, raw: bool, algorithm: u8 },
}

/// Data in the inode of a regular file that locates its contents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Body {
    /// Consecutive whole blocks from `start` on ([`None`]: a hole), and the bytes after the last
    /// whole block, which follow the inode and lie within one block.
    Plain { start: Option<u64>, tail: Kept },
    /// Chunks of `1 << bits` blocks, each at a block of a device (0: the image) or a hole.
    Chunks { device: u16, bits: u8, blocks: Box<[Option<u64>]> },
    /// Compressed: its clusters, and its end. See [`DataDone::index`].
    Compressed { parts: Box<[Part]>, end: Option<End> },
}

/// A [`Body`], as it is read.
#[derive(Debug, Clone, Copy)]
pub(crate) enum View<'s> {
    Plain { start: Option<u64>, tail: Kept },
    Chunks { device: u16, bits: u8, blocks: &'s [Option<u64>] },
    Compressed { parts: &'s [Part], end: Option<End> },
}

/// A file whose data is written.
#[derive(Debug, Clone)]
pub(crate) struct Stored {
    pub(crate) size: u64,
    form: Form,
}

const _: () = assert!(size_of::<Stored>() <= 24);

/// A body, small if it is a usual one.
#[derive(Debug, Clone)]
enum Form {
    /// Whole blocks alone, from this one on.
    Row(u64),
    /// Nothing but what follows the inode, if anything does.
    Tail(Kept),
    /// All of it in the packed inode, from this offset on.
    Fragment(u64),
    /// Clusters alone.
    Clusters(Part),
    Other(Box<Body>),
}

impl Form {
    fn of(body: Body) -> Form {
        match &body {
            Body::Plain { start: Some(start), tail: Kept::NONE } => Form::Row(*start),
            Body::Plain { start: None, tail } => Form::Tail(*tail),
            Body::Compressed { parts, end } => match (&parts[..], end) {
                ([], Some(End::Fragment(offset))) => Form::Fragment(*offset),
                ([part], None) => Form::Clusters(*part),
                _ => Form::Other(Box::new(body)),
            },
            _ => Form::Other(Box::new(body)),
        }
    }

    fn into_body(self) -> Body {
        match self {
            Form::Row(start) => Body::Plain { start: Some(start), tail: Kept::NONE },
            Form::Tail(tail) => Body::Plain { start: None, tail },
            Form::Fragment(offset) => Body::Compressed { parts: Box::new([]), end: Some(End::Fragment(offset)) },
            Form::Clusters(part) => Body::Compressed { parts: Box::new([part]), end: None },
            Form::Other(body) => *body,
        }
    }
}

impl Stored {
    /// Makes a file of `size` bytes.
    pub(crate) fn new(size: u64, body: Body) -> Stored {
        Stored { size, form: Form::of(body) }
    }

    /// Makes a file of clusters.
    pub(crate) fn of_clusters(size: u64, parts: Vec<Part>) -> Stored {
        Stored::new(size, Body::Compressed { parts: parts.into(), end: None })
    }

    /// Returns where its data is.
    pub(crate) fn view(&self) -> View<'_> {
        match &self.form {
            Form::Row(start) => View::Plain { start: Some(*start), tail: Kept::NONE },
            Form::Tail(tail) => View::Plain { start: None, tail: *tail },
            Form::Fragment(offset) => View::Compressed { parts: &[], end: Some(End::Fragment(*offset)) },
            Form::Clusters(part) => View::Compressed { parts: std::slice::from_ref(part), end: None },
            Form::Other(body) => match &**body {
                Body::Plain { start, tail } => View::Plain { start: *start, tail: *tail },
                Body::Chunks { device, bits, blocks } => View::Chunks { device: *device, bits: *bits, blocks },
                Body::Compressed { parts, end } => View::Compressed { parts, end: *end },
            },
        }
    }

    /// Changes where its data is; returns what `change` returns.
    pub(crate) fn change<R>(&mut self, change: impl FnOnce(&mut Body) -> R) -> R {
        let mut body = std::mem::replace(&mut self.form, Form::Tail(Kept::NONE)).into_body();
        let changed = change(&mut body);
        self.form = Form::of(body);
        changed
    }

    /// Appends the data of another file. Both consist of clusters, and this one ends with a whole block.
    pub(crate) fn append(&mut self, next: Stored) -> Result<()> {
        let size = next.size;
        self.change(|body| match (body, next.form.into_body()) {
            (Body::Compressed { parts, end: None }, Body::Compressed { parts: more, end: None }) => {
                *parts = parts.iter().chain(&more).copied().collect();
                Ok(())
            }
            _ => Err(Error::Misuse("the packed inode consists of clusters only".into())),
        })?;
        self.size += size;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_body_is_the_one_that_was_put_in() {
        let (tail, part) = (Kept::new(7, 100).unwrap(), Part { first: 3, count: 2 });
        let parts = |count: usize| -> Box<[Part]> { vec![part; count].into() };
        let inline = End::Inline { kept: tail, raw: false, algorithm: 1 };
        let mut bodies = vec![
            Body::Chunks { device: 1, bits: 3, blocks: Box::new([Some(5), None]) },
            Body::Chunks { device: 0, bits: 0, blocks: Box::new([]) },
        ];
        for start in [None, Some(0), Some(1 << 47)] {
            bodies.extend([Kept::NONE, tail].map(|tail| Body::Plain { start, tail }));
        }
        for end in [None, Some(End::Fragment(0)), Some(End::Fragment(u64::MAX)), Some(inline)] {
            bodies.extend([0, 1, 2].map(|count| Body::Compressed { parts: parts(count), end }));
        }
        for body in bodies {
            let mut stored = Stored::new(9, body.clone());
            let seen = match stored.view() {
                View::Plain { start, tail } => Body::Plain { start, tail },
                View::Chunks { device, bits, blocks } => Body::Chunks { device, bits, blocks: blocks.into() },
                View::Compressed { parts, end } => Body::Compressed { parts: parts.into(), end },
            };
            assert_eq!(seen, body);
            stored.change(|changed| assert_eq!(*changed, body));
            assert_eq!(stored.form.into_body(), body);
        }
    }

    #[test]
    fn clusters_are_appended_to_clusters_only() {
        let part = |first| Part { first, count: 2 };
        let mut stored = Stored::of_clusters(10, vec![part(0)]);
        stored.append(Stored::of_clusters(5, vec![part(4), part(9)])).unwrap();
        assert!(matches!(stored.view(), View::Compressed { parts, end: None } if parts == [part(0), part(4), part(9)]));
        assert_eq!(stored.size, 15);
        let hole = Stored::new(7, Body::Plain { start: None, tail: Kept::NONE });
        assert!(stored.append(hole).is_err());
        assert_eq!(stored.size, 15);
    }
}
