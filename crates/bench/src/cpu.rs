//! What a process uses: CPU time and memory, from `/proc`.

use crate::error::{BenchError, io};
use std::fs;
use std::time::Duration;

/// CPU time of all threads of a process that live now, to the nanosecond (`schedstat`).
pub(crate) fn cpu_time(pid: u32) -> Result<Duration, BenchError> {
    let tasks = format!("/proc/{pid}/task");
    let mut nanoseconds = 0;
    for task in fs::read_dir(&tasks).map_err(io(&tasks))?.flatten() {
        // A thread may end between the listing and the reading.
        let text = fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
        nanoseconds += text.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0);
    }
    Ok(Duration::from_nanos(nanoseconds))
}

/// Resident memory of a process in bytes.
pub(crate) fn resident_bytes(pid: u32) -> Result<u64, BenchError> {
    let path = format!("/proc/{pid}/status");
    let text = fs::read_to_string(&path).map_err(io(&path))?;
    let kilobytes = text
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .and_then(|rest| rest.split_whitespace().next())
        .and_then(|number| number.parse::<u64>().ok());
    Ok(kilobytes.unwrap_or(0) * 1024)
}

/// Binds this thread, and what it starts from now on, to one core.
pub(crate) fn pin_self(core: usize) {
    let mut cores = rustix::thread::CpuSet::new();
    cores.set(core);
    set_affinity(&cores);
}

/// Takes back [`pin_self`].
pub(crate) fn unpin_self() {
    let mut cores = rustix::thread::CpuSet::new();
    (0..rustix::thread::CpuSet::MAX_CPU).for_each(|core| cores.set(core));
    set_affinity(&cores);
}

fn set_affinity(cores: &rustix::thread::CpuSet) {
    // A machine with one core has nothing to choose from.
    let _ = rustix::thread::sched_setaffinity(None, cores);
}
