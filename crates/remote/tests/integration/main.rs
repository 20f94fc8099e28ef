//! Reading objects from servers that are right, slow, wrong, secure, changed, or buckets and registries.

mod announced;
mod bucket;
mod certificate;
mod common;
mod faults;
mod process;
mod proxy;
mod reading;
mod registry;
mod running;
mod secure;
mod versions;
