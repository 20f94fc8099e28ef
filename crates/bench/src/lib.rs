//! Measures codecs, images and dumps on the user's own data.
//!
//! A cell is one combination of settings. The path of a measurement: [`run`] passes the cells to an [`executor`], each
//! round in a new random order. Every sample becomes a line of a [`record`]. [`results`] computes medians, and [`report`]
//! makes tables and charts.
//!
//! Codecs are measured block by block, as a file system would store the data: [`corpus`] (the data) and [`codecs`] make
//! a [`matrix`] of cells. [`build`], [`read`] and [`split`] time whole programs and mounts. [`tune`] predicts images from
//! a sample.
//!
//! ```
//! use packfs_bench::{policy::StoragePolicy, stats::SampleSummary};
//! // 8 KiB on a file system with sectors of 4 KiB: compressed they have to save one.
//! let block = [0; 8192];
//! assert_eq!(StoragePolicy::Sector.stored_size(&block, Some(4000), 4096).bytes, 4096);
//! assert_eq!(StoragePolicy::Sector.stored_size(&block, Some(4097), 4096).bytes, 8192);
//! assert_eq!(SampleSummary::of(&[3.0, 1.0, 2.0]).unwrap().median, 2.0);
//! ```

pub mod build;
mod clock;
mod clusters;
pub mod codecs;
pub mod compare;
pub mod corpus;
mod error;
pub mod estimate;
pub mod executor;
pub mod format;
pub mod keys;
pub mod matrix;
pub mod memory;
pub mod metrics;
pub mod policy;
pub mod program;
pub mod read;
pub mod real;
pub mod record;
pub mod report;
pub mod results;
mod rng;
pub mod run;
pub mod sample;
pub mod scratch;
pub mod split;
pub mod stats;
mod system;
pub mod tune;
mod units;

pub use error::{Error, Result};

packfs_blocks::options!(compare::CompareRules, tune::choose::TuneLimits);
