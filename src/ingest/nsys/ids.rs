//! Ids of an export: the process in a `globalPid` or `globalTid`.

/// The process part of a `globalPid` or `globalTid`: hardware, virtual machine and process id, as unsigned.
pub fn process_of(global: i64) -> u64 {
    (global as u64) >> 24
}

/// The operating-system process id in a process key.
pub fn pid_of(process: u64) -> u32 {
    (process & 0xff_ffff) as u32
}
