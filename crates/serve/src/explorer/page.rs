//! The page as HTML. Its elements, looks and scripts are in `assets/`; see `assets/README.md`.

use std::collections::BTreeMap;
use std::io::{self, Write};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use packfs_blocks::Digest;
use packfs_blocks::page::LOOK;
use serde::Serialize;

use super::{BlockMaps, EmbeddedFiles, ImageModel};
use crate::Result;

const STYLE: &str = include_str!("../../assets/page.css");
const BODY: &str = include_str!("../../assets/body.html");

/// The scripts, in the order in which they need each other.
const SCRIPTS: [&str; 10] = [
    include_str!("../../assets/names.js"),
    include_str!("../../assets/model.js"),
    include_str!("../../assets/colours.js"),
    include_str!("../../assets/treemap.js"),
    include_str!("../../assets/tree.js"),
    include_str!("../../assets/search.js"),
    include_str!("../../assets/tables.js"),
    include_str!("../../assets/contents.js"),
    include_str!("../../assets/panel.js"),
    include_str!("../../assets/page.js"),
];

/// Source of what the page shows.
#[derive(Debug)]
pub enum PageSource<'c> {
    /// The server of the page, at addresses relative to it: the [`ImageModel`] at `api/model`, bytes of files with
    /// ranges at `files/PATH`, archives of folders at `tar/PATH`, pieces of files at `api/map?path=PATH`.
    Served {
        /// Nonce of the scripts and looks, which [`policy`] allows.
        nonce: &'c str,
    },
    /// The page itself, which needs no server.
    Whole {
        /// The image.
        model: &'c ImageModel,
        /// Contents of some of its files.
        files: &'c EmbeddedFiles,
        /// Block maps of its files.
        pieces: &'c BlockMaps,
    },
}

/// Returns the content security policy of a page with this nonce. It allows scripts and looks with the nonce, pictures
/// that the page made itself, and requests to its server; nothing else.
pub fn policy(nonce: &str) -> String {
    format!(
        "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; img-src blob: data:; \
         connect-src 'self'; base-uri 'none'; form-action 'none'"
    )
}

/// Writes the page.
///
/// # Errors
/// Those of `out`.
pub fn page(out: &mut dyn Write, content: &PageSource<'_>) -> Result<()> {
    match content {
        PageSource::Served { nonce } => write(out, nonce, &[]),
        PageSource::Whole { model, files, pieces } => {
            let files: BTreeMap<usize, String> = files.encoded(|bytes| BASE64_STANDARD.encode(bytes));
            let data = [("model", json(model)?), ("contents", json(&files)?), ("pieces", json(pieces)?)];
            // No name in an image can contain the digest of all names in it.
            // Scripts of the page carry this nonce, and no text of an image may.
            let nonce = Digest::of_all(data.iter().map(|(_, text)| Digest::of(text)).collect::<Vec<_>>().iter());
            write(out, &nonce.short(), &data)
        }
    }
}

fn write(out: &mut dyn Write, nonce: &str, data: &[(&str, Vec<u8>)]) -> Result<()> {
    let policy = policy(nonce);
    write!(
        out,
        "<!DOCTYPE html>\n\
         <html lang=\"en\">\n\
         <head>\n\
         <meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>packfs</title>\n\
         <link rel=\"icon\" href=\"data:,\">\n\
         <style nonce=\"{nonce}\">\n{LOOK}{STYLE}</style>\n\
         </head>\n\
         <body>\n\
         {BODY}"
    )?;
    for (id, text) in data {
        write!(out, "<script type=\"application/json\" id=\"{id}\">")?;
        out.write_all(text)?;
        out.write_all(b"</script>\n")?;
    }
    writeln!(out, "<script nonce=\"{nonce}\">")?;
    SCRIPTS.iter().try_for_each(|script| out.write_all(script.as_bytes()))?;
    out.write_all(b"</script>\n</body>\n</html>\n")?;
    Ok(())
}

/// Returns a value as JSON in which nothing looks like the end of a script.
fn json(value: &impl Serialize) -> Result<Vec<u8>> {
    let mut out = ScriptSafeJson(Vec::new());
    serde_json::to_writer(&mut out, value)?;
    Ok(out.0)
}

/// JSON for a page. `<` occurs only in texts, where it can be written otherwise.
struct ScriptSafeJson(Vec<u8>);

impl Write for ScriptSafeJson {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for byte in bytes {
            match byte {
                b'<' => self.0.extend_from_slice(b"\\u003c"),
                other => self.0.push(*other),
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use packfs_image::source::Entry;
    use packfs_image::stats::Stats;
    use packfs_image::{AnyImage, Builder, Codec, OpenOptions};

    use super::*;
    use crate::explorer::BlockMaps;

    #[test]
    fn names_and_contents_do_not_end_the_page() {
        let hostile = "</SCRIPT><script nonce=x>alert(1)</script><!--";
        let names = [format!("a{}", hostile.replace('/', "\\")), hostile.to_owned()];
        let entries = names.map(|name| Entry::file(name, hostile));
        let bytes = Builder::squashfs()
            .codec(Codec::Gzip)
            .entries(entries)
            .write_to(io::Cursor::new(Vec::new()))
            .unwrap()
            .0
            .into_inner();
        let image = AnyImage::open(Arc::new(bytes), OpenOptions::default()).unwrap();
        let stats = Stats::measure(&image).unwrap();
        let model = ImageModel::new(hostile.as_bytes(), &image, &stats).unwrap();
        let files = EmbeddedFiles::read(&image, &stats, 1 << 20).unwrap();
        let pieces = BlockMaps::read(&image, &stats).unwrap();
        assert_eq!(files.files(), 2);
        let written = |content: &PageSource<'_>| {
            let mut out = Vec::new();
            page(&mut out, content).unwrap();
            String::from_utf8(out).unwrap()
        };
        let whole = written(&PageSource::Whole { model: &model, files: &files, pieces: &pieces });
        let served = written(&PageSource::Served { nonce: "mine" });
        for (page, scripts) in [(&whole, 4), (&served, 1)] {
            let lower = page.to_lowercase();
            assert_eq!((lower.matches("<script").count(), lower.matches("</script").count()), (scripts, scripts));
            assert!(!lower.contains("<!--"), "scripts may end late behind it");
            assert!(!lower.contains("http://") && !lower.contains("https://"), "it loads something");
        }
        assert!(served.contains(&policy("mine")) && served.contains("<script nonce=\"mine\">"));
    }
}
