//! Standard input, where an argument or option names it by `-`.

use std::fs::File;
use std::io::{self, ErrorKind};

use anyhow::{Context, Result};

use crate::startup::{self, StandardStream};

/// Name of standard input in messages.
pub(crate) const STDIN: &str = "standard input";

/// Opens standard input once more. A closed one is an error, because it would look empty.
pub(crate) fn open() -> io::Result<File> {
    if startup::was_closed(StandardStream::Input) {
        return Err(io::Error::new(ErrorKind::NotConnected, "it is closed"));
    }
    Ok(File::from(rustix::io::dup(rustix::stdio::stdin())?))
}

/// Fails if standard input cannot be read because it is closed: for libraries that open it themselves.
pub(crate) fn require_stdin() -> Result<()> {
    open().with_context(|| format!("{STDIN}: cannot read"))?;
    Ok(())
}
