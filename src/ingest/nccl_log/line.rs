//! From a line of a log to the NCCL messages on it.
//!
//! NCCL writes `host:pid:tid [dev] NCCL INFO message`, and for warnings `host:pid:tid [dev] file:line NCCL WARN message`.
//! Launchers put text in front (`[1,6]<stdout>:`, `[default0]:`), and where several processes share one file a line can
//! break off in the middle and go on with that of another process.

/// One whole NCCL message with who wrote it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Segment<'a> {
    /// Host name as printed (NCCL cuts it at the first dot). On a torn line the end of another process's text may stick to its front.
    pub host: &'a str,
    pub pid: u32,
    pub tid: u32,
    pub warning: bool,
    pub message: &'a str,
}

/// What is on a line.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Line<'a> {
    /// The message that runs to the end of the line.
    pub segment: Option<Segment<'a>>,
    /// Messages that broke off, or whose beginning is missing.
    pub torn: u64,
}

/// Finds the message of `line`. Only the last of several can be whole: the others end where it begins, not where they should.
pub(super) fn split(line: &str) -> Line<'_> {
    let mut marks = Vec::new();
    let mut from = 0;
    while let Some(at) = line.get(from..).and_then(|rest| rest.find("NCCL ")) {
        let at = from + at;
        from = at + "NCCL ".len();
        let rest = &line[from..];
        let end_of_word = |rest: &str| rest.is_empty() || rest.starts_with(' ');
        for (word, warning) in [("INFO", false), ("WARN", true)] {
            if let Some(rest) = rest.strip_prefix(word).filter(|rest| end_of_word(rest)) {
                marks.push((at, warning, rest.strip_prefix(' ').unwrap_or(rest)));
            }
        }
    }
    let Some((at, warning, message)) = marks.pop() else { return Line::default() };
    let torn = marks.len() as u64;
    match prefix(&line[..at], warning) {
        Some((host, pid, tid)) => {
            Line { segment: Some(Segment { host, pid, tid, warning, message }), torn }
        }
        None => Line { segment: None, torn: torn + 1 },
    }
}

/// Reads `host:pid:tid [dev] ` (and `file:line ` or `file:line (function) ` before a warning) from the end of `text` backwards.
fn prefix(text: &str, warning: bool) -> Option<(&str, u32, u32)> {
    let mut text = text.strip_suffix(' ')?;
    if warning {
        if let Some(inner) = text.strip_suffix(')') {
            text = inner.rsplit_once(" (")?.0;
        }
        let (before, source) = text.rsplit_once(' ')?;
        source.rsplit_once(':').filter(|(_, line)| is_number(line))?;
        text = before;
    }
    let (text, device) = text.strip_suffix(']')?.rsplit_once(" [")?;
    if !is_number(device) {
        return None;
    }
    let (text, tid) = text.rsplit_once(':')?;
    let (text, pid) = text.rsplit_once(':')?;
    // Where names are replaced before a log is passed on, the host is often in angle brackets.
    if let Some((_, host)) = text.strip_suffix('>').and_then(|text| text.rsplit_once('<')) {
        return (!host.is_empty()).then_some((host, number(pid)?, number(tid)?));
    }
    let start = text
        .rfind(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')))
        .map_or(0, |at| {
            // The character is not part of the host; it may take several bytes.
            at + text[at..].chars().next().map_or(0, char::len_utf8)
        });
    let host = text[start..].trim_start_matches(['-', '.']);
    if host.is_empty() {
        return None;
    }
    Some((host, number(pid)?, number(tid)?))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

fn number(text: &str) -> Option<u32> {
    if is_number(text) { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(
        host: &'static str,
        pid: u32,
        tid: u32,
        warning: bool,
        message: &'static str,
    ) -> Line<'static> {
        Line { segment: Some(Segment { host, pid, tid, warning, message }), torn: 0 }
    }

    #[test]
    fn wrappers_in_front_are_skipped() {
        let expected = whole("node0", 100, 101, false, "Connected all trees");
        for wrapper in [
            "",
            "[1,6]<stdout>:",
            "[rank0]:[default0]:",
            "(RayWorker pid=7) ",
            "0: ",
            "worker-3 | ",
            "[2026-05-05 06:16:47] ",
            "[2026-05-05 06:16:47.123] ",
            "µ",
        ] {
            let line = format!("{wrapper}node0:100:101 [0] NCCL INFO Connected all trees");
            assert_eq!(split(&line), expected, "{wrapper}");
        }
    }

    #[test]
    fn a_host_in_angle_brackets() {
        for (line, host) in [
            ("<node-3>:7:8 [0] NCCL INFO x", "node-3"),
            ("[1,6]<stdout>:<host name>:7:8 [0] NCCL INFO x", "host name"),
            ("[1,6]<stdout>:node0:7:8 [0] NCCL INFO x", "node0"),
        ] {
            assert_eq!(split(line), whole(host, 7, 8, false, "x"), "{line}");
        }
    }

    #[test]
    fn a_warning_names_its_source_line_before_the_mark() {
        assert_eq!(
            split("[2026-05-05 06:16:47] node0:100:101 [3] plugin/net.cc:334 NCCL WARN Failed"),
            whole("node0", 100, 101, true, "Failed")
        );
        assert_eq!(
            split("node0:100:101 [3] plugin/net.cc:334 (ncclNetInit) NCCL WARN Failed"),
            whole("node0", 100, 101, true, "Failed")
        );
    }

    #[test]
    fn other_lines_hold_no_message() {
        for line in [
            "",
            "NCCL version 2.28.9+cuda13.0",
            "step 3 loss 0.4",
            "  NCCL_INSPECTOR_ENABLE = 1",
            "NCCL INFORMATION",
        ] {
            assert_eq!(split(line), Line::default(), "{line}");
        }
    }

    #[test]
    fn torn_lines_keep_only_the_message_that_reaches_the_end() {
        // The head of one process's line, then a whole line of another.
        let line = split(
            "vm:984:984 [1] NCCL INFO Trees [0] -1/-1/-1->1->0 [1] 0/-vm:987:987 [0] NCCL INFO cudaDriverVersion 13000",
        );
        assert_eq!(
            line,
            Line { torn: 1, ..whole("vm", 987, 987, false, "cudaDriverVersion 13000") }
        );
        // The torn head sticks to the host; the reader of the log knows the hosts and removes it.
        assert_eq!(
            split("vm:631:631vm:628:628 [1] NCCL INFO x"),
            whole("631vm", 628, 628, false, "x")
        );
        // The head is lost: nobody knows who wrote it.
        for line in [
            "vm:6 [0] NCCL INFO Ring 00 : 1 -> 0 -> 1",
            "NCCL INFO x",
            "vm:628:628 [1] NCCL 1 [0] NCCL INFO x",
            "a:1:2 [] NCCL INFO x",
        ] {
            assert_eq!(split(line), Line { segment: None, torn: 1 }, "{line}");
        }
        assert_eq!(
            split("vm:1:1 [1] NCCL INFO handle 0x7f[0] NCCL INFO size 5"),
            Line { segment: None, torn: 2 }
        );
    }
}
