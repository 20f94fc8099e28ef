//! Appending to an image: packfs builds it again, with what it has.

use std::ffi::OsString;
use std::fmt::Display;
use std::path::Path;

use packfs_image::name::display;
use packfs_image::source::open::whole_image;

use super::MksquashfsOptions;
use crate::personalities::command_line::CommandLine;
use crate::personalities::magic_at;

/// Options of the layout, which an image that is appended to has already.
pub(super) const LAYOUT: [&str; 3] = ["--block-size", "--fragments", "--no-export"];

impl MksquashfsOptions {
    /// Returns the options that append to an image, if there is one and it is not to be replaced.
    pub(super) fn append_options(&self, image: &Path) -> Result<Option<CommandLine>, String> {
        let exists = image.metadata().is_ok_and(|found| found.is_file() && found.len() > 0);
        // An image of a stream or of an archive is new in any case.
        if !exists || self.no_append || self.is_sqfstar || self.stream {
            return match exists && self.is_sqfstar && !self.replaces && !self.stream {
                true => Err(format!("{}: exists, and sqfstar never appends; -force replaces it", display(image))),
                false => Ok(None),
            };
        }
        let mut line = CommandLine::default();
        line.set("--append", image);
        if let Some(name) = &self.root_becomes {
            line.set("--append-below", name);
        }
        // With an index, blocks of the old image need not be compressed again.
        // Where packfs puts the index of an image by default.
        let mut index = OsString::from(image);
        index.push(".index");
        // Without it, nothing is known of what the old blocks were made from.
        if Path::new(&index).exists() {
            line.set("--reuse", image);
            line.switch("--index");
        }
        Ok(Some(line))
    }

    /// Returns the names that the old image has in the root of the new one.
    pub(super) fn root_names_of(&self, image: &Path) -> Result<Vec<Vec<u8>>, String> {
        // mksquashfs names the option that replaces the image, and so do we.
        let refused = |why: &dyn Display| format!("{why}: cannot append to it; -noappend replaces it");
        // packfs would take the entries of an image of another format.
        if magic_at(image, 0).is_ok_and(|magic| magic != *b"hsqs") {
            return Err(refused(&format_args!("{}: not a SquashFS image", display(image))));
        }
        let names = whole_image(image).and_then(|image| image.root_names()).map_err(|error| refused(&error))?;
        match &self.root_becomes {
            Some(name) => Ok(vec![name.as_bytes().to_vec()]),
            None => Ok(names.into_iter().map(Vec::from).collect()),
        }
    }
}
