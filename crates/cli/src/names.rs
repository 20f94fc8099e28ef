//! Lookup of users, groups and hosts in a program that contains its C library.

/// Keeps lookups to the files in /etc and to DNS if the C library is linked statically.
///
/// glibc loads what else /etc/nsswitch.conf names from the system, for which it has to be of exactly the same version: with
/// any other the program may crash. What files and DNS need is part of it.
#[allow(unsafe_code)]
pub(crate) fn keep_to_files_and_dns() {
    #[cfg(all(target_env = "gnu", target_feature = "crt-static"))]
    for (database, services) in [(c"passwd", c"files"), (c"group", c"files"), (c"hosts", c"files dns")] {
        unsafe extern "C" {
            fn __nss_configure_lookup(database: *const std::ffi::c_char, services: *const std::ffi::c_char) -> i32;
        }
        // SAFETY: The function of glibc's <nss.h> reads two strings. No other thread runs yet.
        unsafe { __nss_configure_lookup(database.as_ptr(), services.as_ptr()) };
    }
}
