//! Images packed in shards, on one machine and on many.

mod cluster;
mod each;
mod engines;
mod shards;
