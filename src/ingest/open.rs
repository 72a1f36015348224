//! How every file that a user names or a folder holds is opened: regular files only. A pipe would be waited for, a device
//! read without end, and a report is read back and forth.

use std::fs::{File, Metadata};
use std::io::{ErrorKind, Read};
use std::path::Path;

use crate::{Error, Result};

/// Opens the file at `path` for reading.
///
/// # Errors
/// It is not there, may not be read, or is a folder, a pipe, a socket or a device.
pub(crate) fn open(path: &Path) -> Result<File> {
    let unreadable = |e: std::io::Error| match e.kind() {
        ErrorKind::NotFound => Error::input(path, "there is no such file"),
        _ => Error::input(path, format!("cannot be opened: {e}")),
    };
    // Asked before it is opened: opening a pipe waits for its writer.
    require_regular(path, &std::fs::metadata(path).map_err(unreadable)?)?;
    let file = File::open(path).map_err(unreadable)?;
    require_regular(path, &file.metadata().map_err(unreadable)?)?;
    Ok(file)
}

/// The first bytes of the file at `path`, `most` of them or all that it has.
///
/// # Errors
/// As [`open`], or it cannot be read.
pub(crate) fn head(path: &Path, most: u64) -> Result<Vec<u8>> {
    let mut head = Vec::new();
    open(path)?
        .take(most)
        .read_to_end(&mut head)
        .map_err(|e| Error::input(path, format!("cannot be read: {e}")))?;
    Ok(head)
}

fn require_regular(path: &Path, metadata: &Metadata) -> Result<()> {
    if metadata.is_file() {
        Ok(())
    } else if metadata.is_dir() {
        Err(Error::input(path, "is a folder").with_hint("name the files in it"))
    } else {
        let what = if is_socket(metadata) { "a socket" } else { "a pipe or a device" };
        Err(Error::input(path, format!("is {what}, and only files are read"))
            .with_hint("save it as a file first"))
    }
}

fn is_socket(metadata: &Metadata) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        metadata.file_type().is_socket()
    }
    #[cfg(not(unix))]
    {
        let _ = metadata;
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn only_regular_files_are_opened_and_nothing_is_waited_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("file"), "abc").expect("written");
        std::os::unix::fs::symlink(at("file"), at("link")).expect("a link");
        for name in ["file", "link"] {
            assert_eq!(head(&at(name), 2).expect("read"), b"ab");
        }
        assert!(
            std::process::Command::new("mkfifo").arg(at("fifo")).status().expect("runs").success()
        );
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).expect("a socket");
        std::os::unix::fs::symlink(at("fifo"), at("link to fifo")).expect("a link");
        let devices = ["/dev/zero", "/dev/null"].map(std::path::PathBuf::from);
        for path in [at("fifo"), at("link to fifo")].iter().chain(&devices) {
            let error = open(path).expect_err("refused");
            assert!(error.fact.starts_with("is a pipe or a device"), "{error}");
        }
        let error = open(&at("socket")).expect_err("refused");
        assert!(error.fact.starts_with("is a socket"), "{error}");
        assert_eq!(open(folder.path()).expect_err("refused").fact, "is a folder");
        assert_eq!(open(&at("none")).expect_err("refused").fact, "there is no such file");
    }
}
