//! Building and reading images by the library alone. The tests in rust_only.rs are a program of their own, which is also
//! compiled without a C compiler.

mod announce;
mod builder;
mod cancel;
mod faults;
mod overwritten;
mod programs;
mod request;
