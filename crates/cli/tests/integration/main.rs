//! The program as its users meet it: every command, the drop-in names, the pages, and everything that can go wrong.
//!
//! One program for all of it is linked once. Each test runs packfs as a child, in a directory of its own; limits, signals,
//! variables and mount namespaces are those of children. Tests that measure memory are in memory.rs, which says why.

mod acl;
mod architecture;
mod archives;
mod around;
mod cat;
mod common;
mod composefs;
mod convert;
mod delta;
mod digests;
mod docs;
mod drop_in;
mod dry_run;
mod explore;
mod faults;
mod generated;
mod hot;
mod inodes;
mod inputs;
mod interrupted;
mod join;
mod kdump;
mod kills;
mod limits;
#[path = "../../../dump/tests/integration/kdump/machine.rs"]
mod machine;
mod measuring;
mod mistakes;
mod mount;
mod nbd;
mod oci;
mod options;
mod owners;
mod parts;
mod peers;
mod reflink;
mod remote;
mod replaced;
mod reuse;
mod rules;
mod schemas;
mod seal;
mod select;
mod serve;
#[path = "../../../remote/tests/integration/common/mod.rs"]
mod server;
mod sharding;
mod split;
mod stream;
mod streams;
mod subdir;
mod updates;
mod usage;
mod warnings;
mod xattrs;
mod zsync;
