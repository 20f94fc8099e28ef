//! `packfs bench`.

mod memory;

use anyhow::Result;

use crate::args::{Bench, BenchCommand};
use crate::output::failure::Outcome;

pub(super) fn run(args: &Bench) -> Result<Outcome> {
    match &args.command {
        BenchCommand::Memory(args) => memory::run(args),
    }
}
