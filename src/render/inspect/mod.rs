//! `inspect` in every format.

use super::{Format, Style};
use crate::inspect::Inspection;
use crate::{Error, Result};

/// The whole output in one format.
///
/// # Errors
/// A picture that cannot be drawn.
pub fn render(view: &Inspection, format: Format, style: Style) -> Result<String> {
    match format {
        Format::Json => serde_json::to_string_pretty(view).map(|text| text + "\n").map_err(|e| Error::inputs(e.to_string())),
        _ => todo!("{style:?}"),
    }
}
