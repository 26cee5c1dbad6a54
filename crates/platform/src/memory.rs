//! Memory that the process holds and does not use.

/// Gives what the allocator keeps for reuse back to the system.
///
/// It keeps what lies between blocks that are in use, however much that is. Walks all free blocks: for
/// after a flood, not for every day.
pub fn return_unused() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[expect(unsafe_code, reason = "rustix has no call for the allocator")]
    // SAFETY: takes no pointers, may be called at any time from any thread.
    unsafe {
        libc::malloc_trim(0);
    }
}
