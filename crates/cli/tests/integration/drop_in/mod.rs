//! packfs under the names of other programs.

mod callers;
mod differential;
mod mount_callers;
mod personalities;
mod personalities_erofs;
mod personalities_ng;
mod personalities_rdsquashfs;
mod personalities_reading;
mod personalities_reading_ng;
mod personalities_rules;
mod personalities_sources;
mod refused;
