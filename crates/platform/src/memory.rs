//! Memory: what the process holds and does not use, and what the system keeps of files.

use std::os::fd::{AsRawFd, BorrowedFd};

/// From this size on a block is mapped by itself, and goes back to the system when it is freed.
///
/// Above the largest frame that producers send by default (1 MiB), whose pages are worth keeping.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const MAPPED_BYTES: libc::c_int = 4 << 20;
/// So much free memory at the end of a heap goes back by itself.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const KEPT_BYTES: libc::c_int = 8 << 20;

/// Bounds what the allocator keeps of large blocks; for the start of a process, before its threads.
///
/// Left alone, glibc takes the first large block that is freed, of up to 32 MiB, for the size that is
/// usual from then on: blocks up to there come from heaps, and twice as much of each heap is kept. One
/// decompression bomb or large frame would set that for ever.
pub fn bound_what_is_kept() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[expect(unsafe_code, reason = "rustix has no call for the allocator")]
    // SAFETY: takes no pointers; an unknown parameter is refused, which leaves things as they were.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED_BYTES);
        libc::mallopt(libc::M_TRIM_THRESHOLD, KEPT_BYTES);
    }
}

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

/// Whether the system has these bytes of a file in memory; true where it does not tell (before Linux 6.5).
pub(crate) fn is_cached(file: BorrowedFd<'_>, position: u64, len: u64) -> bool {
    #[cfg(target_os = "linux")]
    {
        const PAGE: u64 = 4096;
        /// The same on all architectures that Rust's standard library is built for.
        const CACHESTAT: libc::c_long = 451;
        // `struct cachestat_range`; `struct cachestat`, whose first field counts pages in memory.
        let range = [position, len];
        let mut found = [0_u64; 5];
        #[expect(unsafe_code, reason = "rustix does not have this call")]
        // SAFETY: both arrays have the layout of the structures that the call reads and writes, and outlive it; a
        // system that does not know the call refuses it.
        let outcome = unsafe {
            libc::syscall(CACHESTAT, file.as_raw_fd(), range.as_ptr(), found.as_mut_ptr(), 0_u32)
        };
        let pages = (position + len).div_ceil(PAGE) - position / PAGE;
        outcome != 0 || found[0] >= pages
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (file.as_raw_fd(), position, len);
        true
    }
}
