//! Memory that the allocator keeps.
//!
//! This is the one module of the program with unsafe code.

/// Gives free memory back to the system.
///
/// The allocator of glibc keeps what one thread has freed between blocks in use, so that a server whose
/// clients have left would keep their memory. Other allocators give it back themselves.
pub(crate) fn give_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[expect(
        unsafe_code,
        reason = "a function of the C library without arguments in memory"
    )]
    {
        unsafe extern "C" {
            safe fn malloc_trim(pad: usize) -> std::ffi::c_int;
        }
        // The result states whether anything was given back.
        malloc_trim(0);
    }
}
