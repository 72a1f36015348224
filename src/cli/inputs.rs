//! Input paths as they were typed: a pattern that no shell expanded is expanded here.

use std::path::PathBuf;

use crate::{Error, Result};

/// Every path that exists as it stands, and the files that each pattern matches, in order.
///
/// # Errors
/// A pattern that is malformed or matches nothing.
pub fn expand(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut list = Vec::with_capacity(paths.len());
    for path in paths {
        let pattern = path.to_str().filter(|text| text.contains(['*', '?', '[']) && !path.exists());
        let Some(pattern) = pattern else {
            list.push(path.clone());
            continue;
        };
        let found = glob::glob(pattern).map_err(|e| Error::usage(format!("'{pattern}' is no pattern for file names: {e}")))?;
        let before = list.len();
        list.extend(found.filter_map(std::result::Result::ok));
        if list.len() == before {
            return Err(Error::input(path, "matches no file"));
        }
    }
    Ok(list)
}
