//! JSON Schemas of the documents that commands print with `--json`, for `packfs help json-schema`.
//!
//! The program only contains their texts. Tests derive them from the types that are serialised, so the generator is not
//! linked into the program, and compare them with the files.

use anyhow::Result;

use crate::output::failure::{CommandOutcome, UsageError};

/// Lists schemas with the texts of their files.
macro_rules! schema_files {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("../../../schemas/", $name, ".schema.json")))),*]
    };
}

/// Names and texts of all schemas. A name is that of the command, whose words are joined by `-`; `bench-results` is about
/// the lines of the files that `packfs bench` writes.
const SCHEMAS: [(&str, &str); 26] = schema_files![
    "apply",
    "assemble",
    "bench-build",
    "bench-codecs",
    "bench-read",
    "bench-results",
    "bench-split",
    "build",
    "check",
    "delta",
    "diff",
    "info",
    "join",
    "list",
    "oci-cache",
    "oci-convert",
    "oci-export",
    "oci-merge",
    "plan",
    "seal",
    "shard",
    "split",
    "status",
    "tune",
    "update",
    "verify",
];

/// Prints the schema of a command, or the names of all schemas if no command is given.
pub(crate) fn print(command: &[String]) -> Result<CommandOutcome> {
    if command.is_empty() {
        let names: Vec<&str> = SCHEMAS.iter().map(|(name, _)| *name).collect();
        return super::print(&format!("{}\n", names.join("\n")));
    }
    let wanted = command.join("-");
    match SCHEMAS.iter().find(|(name, _)| *name == wanted) {
        Some((_, schema)) => super::print(schema),
        None => {
            let command = command.join(" ");
            Err(UsageError(format!("no schema of `{command}`: packfs help json-schema lists the commands with --json"))
                .into())
        }
    }
}

#[cfg(test)]
mod derived;
#[cfg(test)]
mod fields;
