//! JSON on standard output. Every document begins with the version of its schema, see `docs/guide/json.md`.

use std::io::{self, Write};
use std::path::Path;

use anyhow::Result;
use packfs_image::name::encode;
use serde::Serialize;

/// Version of all documents: raised when a field changes its meaning or is removed, not when one is added.
pub(crate) const SCHEMA: u32 = 1;

/// Content of a document that a command prints with `--json`.
pub(crate) trait JsonDocument: Serialize {
    /// Value of the field `kind`, which names the command.
    const KIND: &'static str;
}

/// Returns a path as text for JSON.
pub(crate) fn encode_path(path: &Path) -> String {
    encode(path.as_os_str().as_encoded_bytes()).into_owned()
}

/// A document as it is printed.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct VersionedDocument<'a, T> {
    /// Version of the schema.
    schema: u32,
    /// Name of the command that printed the document.
    kind: &'a str,
    #[serde(flatten)]
    content: &'a T,
}

/// Prints one document on several lines. It was asked for, so it is a result of every command.
pub(crate) fn print<T: JsonDocument>(content: &T) -> Result<()> {
    super::write_result(|out| {
        let document = VersionedDocument { schema: SCHEMA, kind: T::KIND, content };
        serde_json::to_writer_pretty(&mut *out, &document).map_err(io::Error::from)?;
        Ok(out.write_all(b"\n")?)
    })
}
