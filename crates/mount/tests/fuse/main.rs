//! Images read through a real mount, served by this very process. Tests say SKIPPED where there is no FUSE.

mod calls;
mod dump;
mod handles;
mod many;
mod order;
mod readers;
mod served;
mod suite;
mod whole;
