//! Encodes pieces on the workers: cuts them into physical clusters, or takes these from an older image.

pub(crate) mod fit;
pub(crate) mod gaps;
pub(crate) mod lanes;
pub(crate) mod older;
pub(crate) mod piece;
pub(crate) mod raw;
pub(crate) mod worker;
