//! What the allocator keeps of freed memory, as safe functions. With `uring` and `pam` one of the crates that may be
//! unsafe.
//!
//! glibc keeps what is freed: it raises its own thresholds to the largest block that was ever freed, up to 32 MiB for
//! each arena, and returns pages from the middle of a heap only on request. So one client could leave the process
//! several times as large as before. With another C library the functions do nothing.
//!
//! Why it is sound: the functions of glibc that are called here take numbers, may be called by any thread at any time,
//! and change nothing that is allocated.
//!
//! Source: mallopt(3), malloc_trim(3), mallinfo(3).

/// Larger blocks are mapped one by one, and unmapped when they are freed. Nothing on the path of a query is as large.
#[cfg(target_env = "gnu")]
const MAPPED: libc::c_int = 512 << 10;
/// The most free memory at the end of a heap. Each thread may have a heap of its own, and [`give_back`] returns what is
/// free at the end of the main one only.
#[cfg(target_env = "gnu")]
const AT_THE_END: libc::c_int = 128 << 10;

/// Bounds what each heap keeps at its end. For the beginning of the process.
pub fn keep_little() {
    #[cfg(target_env = "gnu")]
    for (parameter, value) in [(libc::M_MMAP_THRESHOLD, MAPPED), (libc::M_TRIM_THRESHOLD, AT_THE_END)] {
        // SAFETY: see the top of the file. A refusal leaves the allocator as it was.
        unsafe { libc::mallopt(parameter, value) };
    }
}

/// The bytes that are free in all heaps, whether they were returned or not; modulo 4 GiB.
pub fn free() -> u32 {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: see the top of the file. mallinfo2 would count further, and is missing before glibc 2.33.
        let info = unsafe { libc::mallinfo() };
        info.fordblks.cast_unsigned()
    }
    #[cfg(not(target_env = "gnu"))]
    0
}

/// Returns all free pages of all heaps to the operating system.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: see the top of the file.
    unsafe {
        libc::malloc_trim(0)
    };
}

#[cfg(all(test, target_env = "gnu"))]
mod tests {
    use super::*;

    /// The resident memory of this process, in KiB.
    fn resident() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    #[test]
    fn freed_memory_between_used_blocks_is_counted_and_returned() {
        keep_little();
        let mut blocks: Vec<Vec<u8>> = (0..4096).map(|_| vec![1; 16 << 10]).collect();
        let full = resident();
        let mut number = 0;
        // Each eighth one stays.
        blocks.retain(|_| {
            number += 1;
            number % 8 == 0
        });
        assert!(free() > 48 << 20, "{} are free", free());
        give_back();
        assert!(resident() < full - (40 << 10), "{} KiB of {full}", resident());
        assert!(blocks.iter().flatten().all(|byte| *byte == 1));
    }
}
