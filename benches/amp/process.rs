//! What the operating system knows of this process (Linux; zeros elsewhere).

use std::fs;

/// `VmRSS` or `VmHWM` in MiB.
pub fn memory_mib(field: &str) -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse::<f64>().ok());
    kib.unwrap_or(0.0) / 1024.0
}

/// Lets `VmHWM` start again from the present size.
pub fn reset_peak() {
    fs::write("/proc/self/clear_refs", "5").ok();
}

/// Minor page faults so far.
pub fn page_faults() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The command name may hold spaces; fields are counted behind its closing parenthesis.
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    fields.split_whitespace().nth(7).and_then(|value| value.parse().ok()).unwrap_or(0.0)
}
