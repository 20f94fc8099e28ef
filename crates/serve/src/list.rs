//! The page that lists the images of a server, each with its format, its length and what can be done with it.

use std::fmt::Write as _;
use std::path::Path;

use packfs_blocks::name::display;
use packfs_blocks::page::{LOOK, escape_html};
use packfs_blocks::percent::{self, is_unreserved};
use packfs_blocks::units::Size;
use packfs_image::AnyImage;

use crate::served::ServedImage;

const STYLE: &str = include_str!("../assets/list.css");

/// Returns the content security policy of the page: only its own styles.
pub(crate) fn security_policy(nonce: &str) -> String {
    format!(
        "default-src 'none'; style-src 'nonce-{nonce}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
}

/// Writes the page.
pub(crate) fn render_page<'s>(images: impl Iterator<Item = &'s ServedImage> + Clone, nonce: &str) -> String {
    let total: u64 = images.clone().map(|served| served.bytes.len()).sum();
    let count = images.clone().count();
    let items: String = images.map(render_item).collect();
    format!(
        "<!DOCTYPE html>\n\
         <html lang=\"en\">\n\
         <head>\n\
         <meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{count} images – packfs</title>\n\
         <link rel=\"icon\" href=\"data:,\">\n\
         <style nonce=\"{nonce}\">\n{LOOK}{STYLE}</style>\n\
         </head>\n\
         <body>\n\
         <main>\n\
         <header>\n\
         <h1>Images on this server</h1>\n\
         <p class=\"about\">{count} images, {} in all. Open one to see what takes its space.</p>\n\
         </header>\n\
         <ul class=\"images\">\n{items}</ul>\n\
         </main>\n\
         </body>\n\
         </html>\n",
        Size(total)
    )
}

fn render_item(served: &ServedImage) -> String {
    // Names come from files, and may be anything.
    let name = escape_html(&display(Path::new(&served.name)).to_string());
    let place = percent::encode(served.name.as_bytes(), is_unreserved);
    let (format, codecs) = match &*served.image {
        AnyImage::Squashfs(reader) => ("SquashFS", vec![reader.superblock().codec.name()]),
        AnyImage::Erofs(reader) => ("EROFS", reader.superblock().compression.iter().map(|one| one.name()).collect()),
    };
    let codecs = if codecs.is_empty() { "not compressed".to_owned() } else { codecs.join(", ") };
    let mut facts = format!("{format}, {codecs}, {} inodes", served.image.image().inode_count());
    if let Some((older, _)) = &served.older {
        let _ = write!(facts, ", compared with {}", escape_html(older));
    }
    let size = Size(served.bytes.len());
    format!(
        "<li>\n\
         <h2><a href=\"{place}/\">{name}</a></h2>\n\
         <p class=\"about\"><span class=\"size\">{size}</span><br>{facts}</p>\n\
         <div class=\"links\"><a href=\"{place}/image\" download>Download image</a> \
         <a href=\"{place}/tar/\">Download as tar</a></div>\n\
         </li>\n"
    )
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;
    use std::sync::Arc;

    use packfs_image::source::Entry;
    use packfs_image::{Builder, Codec, OpenOptions};

    use super::*;

    fn served(name: &str) -> ServedImage {
        let bytes = Builder::squashfs()
            .codec(Codec::Gzip)
            .entries([Entry::file("a", "text")])
            .write_to(Cursor::new(Vec::new()))
            .unwrap()
            .0
            .into_inner();
        let bytes = Arc::new(bytes);
        let image = Arc::new(AnyImage::open(bytes.clone(), OpenOptions::default()).unwrap());
        ServedImage { name: name.to_owned(), image, bytes, version: "1".into(), remote: false, older: None }
    }

    #[test]
    fn names_are_text_and_links_lead_to_their_images() {
        let images = [served("plain.sqfs"), served("</a><script>x</script>&\" ü.sqfs")];
        let page = render_page(images.iter(), "mine");
        assert!(page.contains("<a href=\"plain.sqfs/\">plain.sqfs</a>"), "{page}");
        assert!(page.contains("&lt;/a&gt;&lt;script&gt;x&lt;/script&gt;&amp;&quot; ü.sqfs</a>"), "{page}");
        assert!(!page.contains("<script"), "{page}");
        assert!(page.contains("href=\"%3C%2Fa%3E%3Cscript%3E"), "{page}");
        assert_eq!(page.matches("SquashFS, gzip, 2 inodes").count(), 2, "{page}");
        assert!(page.contains("<style nonce=\"mine\">") && security_policy("mine").contains("'nonce-mine'"));
    }
}
