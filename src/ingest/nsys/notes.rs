//! What the profiler noted while it captured, and which of it concerns a report.

/// Words of what a report is made of.
const OURS: [&str; 3] = ["cuda", "cupti", "nvtx"];
/// Words of a loss, of whatever it may be.
const LOSS: [&str; 4] = ["lost", "dropped", "discarded", "overflow"];
/// Words of what a report does not look at.
const FOREIGN: [&str; 20] = [
    "opengl",
    "vulkan",
    "directx",
    "dx11",
    "dx12",
    "openxr",
    "wddm",
    "etw",
    "cpu",
    "perf",
    "backtrace",
    "sampling",
    "context",
    "ftrace",
    "osrt",
    "syscall",
    "mpi",
    "ucx",
    "network",
    "python",
];

/// True if a note is about CUDA or NVTX, or about lost events and nothing else that is known: what else it says takes
/// nothing from a report.
pub fn concerns_report(note: &str) -> bool {
    let note = note.to_ascii_lowercase();
    let mut words = note.split(|c: char| !c.is_ascii_alphanumeric());
    let holds = |parts: &[&str]| parts.iter().any(|part| note.contains(part));
    holds(&OURS) || (holds(&LOSS) && !words.any(|word| FOREIGN.contains(&word)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_judged_by_what_they_are_about() {
        for note in [
            "CUDA profiling might have not been started correctly.",
            "Not all NVTX events might have been collected.",
            "CUPTI could not be initialised",
            "Some events were lost: the buffer was too small.",
            "Events dropped: 1000",
        ] {
            assert!(concerns_report(note), "{note}");
        }
        for note in [
            "No OpenGL events collected. Does the process use OpenGL?",
            "Unable to collect CPU kernel IP/backtrace samples. perf event paranoid level is 2.",
            "Unable to configure the collection of CPU IP/backtrace samples, context switch data, or event sampling data.",
            "CPU sampling: 12 samples were lost",
            "Vulkan profiling might have not been started correctly.",
            "Network interface metrics are not available.",
        ] {
            assert!(!concerns_report(note), "{note}");
        }
    }
}
