//! Images served over HTTP and NBD, to clients that are right, wrong, slow and many.

mod common;
mod hostile;
mod http;
mod nbd;
