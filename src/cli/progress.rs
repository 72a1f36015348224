//! Progress on standard error: only in a terminal, only for work that lasts, never in a pipe.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Work that takes less time than this shows nothing.
const SILENT_FOR: Duration = Duration::from_millis(500);

/// A bar that counts finished files, or nothing.
#[derive(Debug)]
pub struct Progress(ProgressBar);

impl Progress {
    /// A bar over `total` pieces of work; hidden if `quiet` or if standard error is not a terminal.
    pub fn new(total: u64, what: &'static str, quiet: bool) -> Self {
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden());
        if !quiet && std::io::stderr().is_terminal() {
            if let Ok(style) =
                ProgressStyle::with_template("{spinner} {msg} {pos}/{len} [{elapsed}] {wide_bar}")
            {
                bar.set_style(style);
            }
            bar.set_message(what);
            let shown = bar.clone();
            std::thread::spawn(move || {
                std::thread::sleep(SILENT_FOR);
                if !shown.is_finished() {
                    shown.set_draw_target(ProgressDrawTarget::stderr());
                    shown.enable_steady_tick(Duration::from_millis(120));
                }
            });
        }
        Self(bar)
    }

    /// One piece is done.
    pub fn tick(&self) {
        self.0.inc(1);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
