//! JSON on standard output. Every document begins with the version of its schema, see `docs/guide/json.md`.

use std::io::{self, Write};

use anyhow::Result;
use serde::Serialize;

/// Version of all documents: raised when a field changes its meaning or goes away, not when one is added.
pub(crate) const SCHEMA: u32 = 1;

#[derive(Serialize)]
struct Document<'a, T> {
    schema: u32,
    kind: &'a str,
    #[serde(flatten)]
    content: &'a T,
}

/// Prints one document over several lines.
pub(crate) fn print(kind: &str, content: &impl Serialize) -> Result<()> {
    let mut out = super::stdout()?;
    serde_json::to_writer_pretty(&mut out, &Document { schema: SCHEMA, kind, content }).map_err(io::Error::from)?;
    out.write_all(b"\n")?;
    out.flush()?;
    Ok(())
}

/// Bytes of a name or a link target: as text where they are UTF-8, with `%XX` for each byte that is not
/// and for `%` itself.
pub(crate) fn text(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        out.push_str(&chunk.valid().replace('%', "%25"));
        for byte in chunk.invalid() {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_name_becomes_text_without_loss() {
        assert_eq!(text(b"plain"), "plain");
        assert_eq!(text("größe 100%".as_bytes()), "größe 100%25");
        assert_eq!(text(b"a\xff\xfeb"), "a%FF%FEb");
    }
}
