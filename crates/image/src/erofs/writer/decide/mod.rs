//! Decides where file data goes, on the conductor, piece by piece and in order: the layout of each file, what is a duplicate,
//! what goes into the packed inode and what is compressed.
//!
//! A piece is a small file or a few megabytes of a larger one. It is the unit of compression and of
//! dedup: a file is a list of pieces, which may lie anywhere, and equal pieces are stored once.
//! [`DataWriter`](writer::DataWriter) conducts; each of its parts has one responsibility:
//!
//! | part | responsibility |
//! |---|---|
//! | [`rules`] | the options as decisions ask for them |
//! | [`files`], [`layout`] | the file that is arriving, and the position of each file |
//! | [`sharing`], [`stretches`], [`chunks`] | stored data that is equal, as a whole and in part |
//! | [`packed_inode`] | the packed inode: small files and tails of files |
//! | [`content_cuts`] | where a new piece of the packed inode begins early, for small updates |
//! | [`compressed`], [`uncompressed`] | what becomes of a piece in each layout |
//! | [`referred`], [`staying_extents`] | files whose data stays on an additional device |
//! | [`jobs`], [`results`] | pieces in flight, and when the result of each is taken |
//! | [`locations`] | finished pieces, and the data that inodes carry |
//!
//! Tails of files that workers leave over are known only when the workers are done. They are
//! collected in a separate stream and written a fixed number of jobs later, so that the image does
//! not depend on the speed of any worker.

pub(crate) mod chunks;
pub(crate) mod compressed;
pub(crate) mod content_cuts;
pub(crate) mod files;
pub(crate) mod jobs;
pub(crate) mod layout;
pub(crate) mod locations;
pub(crate) mod packed_inode;
pub(crate) mod referred;
pub(crate) mod results;
pub(crate) mod rules;
pub(crate) mod sharing;
pub(crate) mod staying_extents;
pub(crate) mod stretches;
pub(crate) mod uncompressed;
pub(crate) mod writer;
