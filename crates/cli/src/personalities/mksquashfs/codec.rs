//! `-comp`, the options of compressors, and those that turn compression off.

use crate::personalities::command_line::CommandLine;

/// Options of compression, as given.
#[derive(Debug, Default)]
pub(super) struct CompressionOptions {
    name: Option<String>,
    /// Options that begin with `-X`, and their values.
    own: Vec<(&'static str, String)>,
    plain_metadata: bool,
    plain_data: bool,
    plain_fragments: bool,
}

impl CompressionOptions {
    pub(super) fn take(&mut self, name: &'static str, value: String) -> Result<(), String> {
        match name {
            "-comp" => match self.name.replace(value) {
                // The same name twice is harmless; wrappers add it.
                Some(before) if self.name.as_ref() != Some(&before) => {
                    return Err(format!("-comp: given twice, first as {before}"));
                }
                _ => {}
            },
            // packfs has one setting for inodes, ids and attributes, as all of these are metadata.
            "-noI" | "-noId" | "-noX" => self.plain_metadata = true,
            "-noD" => self.plain_data = true,
            "-noF" => self.plain_fragments = true,
            "-no-compression" => (self.plain_metadata, self.plain_data, self.plain_fragments) = (true, true, true),
            _ => self.own.push((name, value)),
        }
        Ok(())
    }

    /// Returns options of `packfs build`; those of packfs's defaults are left out if `fast`.
    pub(super) fn options(&self, fast: bool) -> Result<CommandLine, String> {
        let mut line = CommandLine::default();
        if !fast || self.name.is_some() || !self.own.is_empty() {
            line.set("--codec", self.choice()?);
        }
        line.switch_if(self.plain_metadata, "--plain-metadata");
        line.switch_if(self.plain_data, "--plain-data");
        line.switch_if(self.plain_fragments, "--plain-fragments");
        Ok(line)
    }

    /// Returns true if files, or fragments, are not compressed.
    pub(super) fn is_plain(&self) -> bool {
        self.plain_data || self.plain_fragments
    }

    /// Returns the codec as packfs writes it.
    fn choice(&self) -> Result<String, String> {
        let name = self.name.as_deref().unwrap_or("gzip");
        let mut options = Vec::new();
        let mut codec = name.to_owned();
        // Where mksquashfs and packfs differ in their defaults.
        let mut level = (name == "gzip").then(|| "9".to_owned());
        // `-Xhc` may come after the options that need it.
        let has_hc = self.own.iter().any(|(option, _)| *option == "-Xhc");
        for (option, value) in &self.own {
            match (name, *option) {
                ("gzip" | "lzo" | "zstd", "-Xcompression-level") => level = Some(value.clone()),
                ("gzip", "-Xwindow-size") => options.push(format!("window={value}")),
                ("gzip", "-Xstrategy") => {
                    let names = value.replace("huffman_only", "huffman").replace("run_length_encoded", "rle");
                    options.push(format!("strategies={}", names.replace(',', "+")));
                }
                ("lzo", "-Xalgorithm") => options.push(format!("algorithm={value}")),
                ("lz4", "-Xhc") => codec = "lz4hc".to_owned(),
                ("lz4", "-Xacceleration") if !has_hc => options.push(format!("acceleration={value}")),
                ("lz4", "-Xcompression-level") if has_hc => level = Some(value.clone()),
                ("lz4", "-Xacceleration") => return Err("both -Xacceleration and -Xhc".into()),
                ("lz4", "-Xcompression-level") => return Err("-Xcompression-level of lz4 needs -Xhc".into()),
                ("xz", "-Xbcj") => options.push(format!("bcj={}", value.replace(',', "+"))),
                ("xz", "-Xdict-size") => options.push(format!("dict={value}")),
                _ => return Err(format!("{option}: {name} has no such option")),
            }
        }
        Ok([vec![codec], level.into_iter().collect(), options].concat().join(":"))
    }
}
