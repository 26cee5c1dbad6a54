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

/// Binds every thread of a process to one core.
pub(crate) fn pin(pid: u32, core: usize) {
    let mut cores = rustix::thread::CpuSet::new();
    cores.set(core);
    if let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) {
        for task in tasks.flatten() {
            let id = task.file_name().to_string_lossy().parse().ok();
            if let Some(id) = id.and_then(rustix::process::Pid::from_raw) {
                // A thread that ended needs no core.
                let _ = rustix::thread::sched_setaffinity(Some(id), &cores);
            }
        }
    }
}
