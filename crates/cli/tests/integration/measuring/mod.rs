//! Measurements: `packfs bench`, its report, and `packfs tune`.

mod bench;
mod bench_build;
mod bench_quick;
mod bench_read;
mod bench_split;
mod page;
mod tune;
