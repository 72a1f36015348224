//! Input paths as they were typed: a pattern that no shell expanded is expanded here.

use std::path::PathBuf;

use crate::Result;
use crate::compare::group;

/// Every path that has no pattern as it stands, and the files that each pattern matches, in order.
///
/// # Errors
/// See [`group::expand`].
pub fn expand(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let lists = paths.iter().map(|path| group::expand(path)).collect::<Result<Vec<_>>>()?;
    Ok(lists.concat())
}
