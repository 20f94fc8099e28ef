//! Reads a tree in composefs's dump format from standard input, and writes its image (version 1) to standard output. The
//! argument is the hash function of its objects.

use std::io::{Read, Write};

use composefs::dumpfile::dumpfile_to_validated_filesystem;
use composefs::erofs::format::FormatVersion;
use composefs::erofs::writer::mkfs_erofs_versioned;
use composefs::fsverity::{FsVerityHashValue, Sha256HashValue, Sha512HashValue};

fn image<Id: FsVerityHashValue>(dump: &str) -> anyhow::Result<Box<[u8]>> {
    Ok(mkfs_erofs_versioned(&dumpfile_to_validated_filesystem::<Id>(dump)?, FormatVersion::V1))
}

fn main() -> anyhow::Result<()> {
    let mut dump = String::new();
    let image = match std::env::args().nth(1).as_deref() {
        Some("--version") => return Ok(println!("composefs-oracle of composefs 0.9.4")),
        Some("sha256") => image::<Sha256HashValue>,
        Some("sha512") => image::<Sha512HashValue>,
        _ => anyhow::bail!("usage: composefs-oracle sha256|sha512 < DUMP > IMAGE"),
    };
    std::io::stdin().read_to_string(&mut dump)?;
    Ok(std::io::stdout().write_all(&image(&dump)?)?)
}
