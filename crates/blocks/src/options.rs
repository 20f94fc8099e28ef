//! The way in which options of all crates are changed.

/// Gives options a way to be changed in one expression, which more options to come leave as it is.
///
/// ```
/// #[derive(Default)]
/// #[non_exhaustive]
/// pub struct Options {
///     /// Worker threads.
///     pub threads: usize,
/// }
/// packfs_blocks::options!(Options);
/// assert_eq!(Options::default().set(|all| all.threads = 2).threads, 2);
/// ```
#[macro_export]
macro_rules! options {
    ($($options:ty),* $(,)?) => {$(
        impl $options {
            /// These options with changes: `Options::default().set(|all| all.threads = 2)`.
            #[must_use]
            pub fn set(mut self, change: impl FnOnce(&mut Self)) -> Self {
                change(&mut self);
                self
            }
        }
    )*};
}
