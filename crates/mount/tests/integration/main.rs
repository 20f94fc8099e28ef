//! Images read through a real mount, served by this very process. Tests say SKIPPED where there is no FUSE.
//!
//! Tests that measure the memory, the descriptors or the threads of the process are programs of their own.

mod calls;
mod dump;
mod handles;
mod many;
mod order;
mod readers;
mod served;
mod suite;
mod whole;
