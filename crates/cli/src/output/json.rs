//! JSON on standard output. Every document begins with the version of its schema, see `docs/guide/json.md`.

use std::io::{self, Write};

use anyhow::Result;
use serde::Serialize;

/// Version of all documents: raised when a field changes its meaning or is removed, not when one is added.
pub(crate) const SCHEMA: u32 = 1;

#[derive(Serialize)]
struct Document<'a, T> {
    schema: u32,
    kind: &'a str,
    #[serde(flatten)]
    content: &'a T,
}

/// Prints one document on several lines. It was asked for, so it is a result of every command.
pub(crate) fn print(kind: &str, content: &impl Serialize) -> Result<()> {
    super::write_result(|out| {
        serde_json::to_writer_pretty(&mut *out, &Document { schema: SCHEMA, kind, content })
            .map_err(io::Error::from)?;
        Ok(out.write_all(b"\n")?)
    })
}
