//! Where finished text goes: standard output, or files that appear all together or not at all.

use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::{Args, ColorChoice};

use crate::ingest::inspector::is_log;
use crate::render::{self, Format, Page, Style, units};
use crate::stage::{Stage, followed};
use crate::text::printable;
use crate::{Error, Result, redact};

/// Columns of a table that no terminal shows.
const PIPE_WIDTH: usize = 100;

/// Options of every command that prints.
#[derive(Debug, Args)]
pub struct OutputArgs {
    /// Format on standard output [default: terminal, or nothing if --output is given]
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub format: Option<Format>,
    /// Write a file; its ending (.txt .md .html .json .csv) chooses the format; - is standard output. May be given several times
    #[arg(short, long, value_name = "FILE")]
    pub output: Vec<PathBuf>,
    /// Colours in terminal output
    #[arg(long, value_enum, value_name = "WHEN", default_value = "auto")]
    pub color: ColorChoice,
    /// Columns of terminal output [default: the terminal's, 100 in a pipe]
    #[arg(long, value_name = "COLUMNS", value_parser = clap::value_parser!(u16).range(40..=1000))]
    pub width: Option<u16>,
    /// Everything in the terminal: all tables, evidence and definitions, not the first screen alone
    #[arg(long)]
    pub full: bool,
    /// No progress and no warnings on standard error
    #[arg(short, long, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Say on standard error what was read and written
    #[arg(short, long)]
    pub verbose: bool,
}

impl OutputArgs {
    /// Each file with the format that its ending asks for; standard output is not among them.
    ///
    /// # Errors
    /// An ending that means no format, one file twice, or a folder.
    pub fn files(&self) -> Result<Vec<(&Path, Format)>> {
        let mut files: Vec<(&Path, Format)> = Vec::with_capacity(self.output.len());
        for path in self.output.iter().filter(|path| !is_stdout(path)) {
            let format = Format::of_path(path).ok_or_else(|| {
                Error::usage(format!(
                    "the ending of '{}' does not say which format to write",
                    path.display()
                ))
                .with_hint("end the name in .txt, .md, .html, .json or .csv")
            })?;
            if path.is_dir() {
                return Err(Error::usage(format!("--output '{}' is a folder", path.display()))
                    .with_hint("name a file in it"));
            }
            if path.as_os_str().as_encoded_bytes().ends_with(b"/") {
                return Err(Error::output(path, "is named like a folder, and there is none")
                    .with_hint("leave the separator at the end out"));
            }
            let place = place(path);
            if files.iter().any(|(other, _)| self::place(other) == place) {
                return Err(Error::usage(format!("'{}' is to be written twice", path.display())));
            }
            files.push((path, format));
        }
        Ok(files)
    }

    /// Refuses to write over what is read.
    ///
    /// # Errors
    /// An output is one of the inputs, or an existing log in one of their folders.
    pub fn spare<'p>(&self, inputs: impl IntoIterator<Item = &'p PathBuf>) -> Result<()> {
        let inputs: Vec<PathBuf> =
            inputs.into_iter().filter_map(|path| std::fs::canonicalize(path).ok()).collect();
        for path in &self.output {
            let Ok(existing) = std::fs::canonicalize(path) else { continue };
            // A page that an earlier call left in a folder of logs may be written again.
            let is_read = |input: &PathBuf| {
                *input == existing
                    || (existing.starts_with(input) && input.is_dir() && is_log(&existing))
            };
            if inputs.iter().any(is_read) {
                return Err(Error::usage(format!(
                    "--output '{}' would overwrite an input",
                    path.display()
                ))
                .with_hint("choose another file"));
            }
        }
        Ok(())
    }

    /// The format for standard output, `None` if nothing goes there.
    pub fn stdout_format(&self) -> Option<Format> {
        let is_asked = self.output.is_empty() || self.output.iter().any(|path| is_stdout(path));
        self.format.or(is_asked.then_some(Format::Terminal))
    }

    /// True if something is printed in this format.
    pub fn asks_for(&self, format: Format) -> bool {
        self.stdout_format() == Some(format)
            || self.output.iter().any(|path| Format::of_path(path) == Some(format))
    }

    /// Width and colours of terminal output.
    pub fn style(&self) -> Style {
        let terminal = std::io::stdout().is_terminal();
        let width = match self.width {
            Some(columns) => usize::from(columns),
            None if terminal => {
                terminal_size::terminal_size().map_or(PIPE_WIDTH, |(w, _)| usize::from(w.0).max(40))
            }
            None => PIPE_WIDTH,
        };
        let color = match self.color {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => {
                anstream::AutoStream::choice(&std::io::stdout()) != anstream::ColorChoice::Never
            }
        };
        Style { width, color, full: self.full }
    }

    /// A line on standard error for those who asked for it with `--verbose`.
    pub fn tell(&self, line: impl FnOnce() -> String) {
        if self.verbose {
            note(&line());
        }
    }

    /// Names the inputs that a command went on without, unless `--quiet`.
    pub fn name_left_out(&self, unusable: &[Error]) {
        for error in unusable.iter().filter(|_| !self.quiet) {
            note(&format!("warning: left out: {error}"));
        }
    }

    /// Prints a page wherever it was asked for: files first, but they appear when standard output, too, was written to.
    ///
    /// # Errors
    /// A file's ending that means no format, an output that cannot be written: then no file appears.
    pub fn emit(&self, page: &impl Page) -> Result<()> {
        let plain = Style {
            width: self.width.map_or(PIPE_WIDTH, usize::from),
            color: false,
            full: self.full,
        };
        let mut stage = Stage::default();
        let mut written = Vec::new();
        for (path, format) in self.files()? {
            let size = stage.fill(path, |out| render::write(page, format, &plain, out))?;
            written.push(format!("{} ({})", path.display(), units::bytes(size)));
        }
        if let Some(format) = self.stdout_format() {
            to_stdout(|out| render::write(page, format, &self.style(), out))?;
        }
        stage.place()?;
        if !written.is_empty() && !self.quiet {
            note(&format!("wrote {}", written.join(", ")));
        }
        Ok(())
    }
}

/// `-` is standard output, as everywhere.
fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

/// Where a file is or will be, however its path is written.
fn place(path: &Path) -> PathBuf {
    let path = &followed(path);
    let folder =
        path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = std::fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
    folder.join(path.file_name().unwrap_or_default())
}

/// Writes a line to standard error. That it cannot be written is not a reason to fail: there is nobody to tell.
pub fn note(line: &str) {
    let _ = writeln!(anstream::stderr(), "{}", printable(&redact::text(line)));
}

/// Lets `write` write to standard output; a closed pipe is success.
///
/// # Errors
/// Standard output cannot be written to for another reason.
pub(crate) fn to_stdout(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    let mut out = BufWriter::new(std::io::stdout().lock());
    match write(&mut out).and_then(|()| out.flush()) {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => {
            Err(Error::output(Path::new("standard output"), e.to_string()))
        }
        _ => Ok(()),
    }
}
