//! A report in its three forms: the terminal's tables, the JSON file, and one self-contained HTML page.

use std::path::Path;

use crate::journal::replace;
use crate::model::{FORMAT, Report};
use crate::steps::Trouble;

mod terminal;

pub(crate) use terminal::text;

/// Writes `report.json`, `report.html` and `report.txt` into a folder.
pub(crate) fn write(folder: &Path, report: &Report) -> Result<(), Trouble> {
    let json = serde_json::to_vec_pretty(report).expect("plain data with string keys becomes JSON");
    let text = terminal::text(report);
    let html = String::from("<!doctype html>\n");
    for (file, bytes) in [("report.json", json), ("report.html", html.into_bytes()), ("report.txt", text.into_bytes())]
    {
        let path = folder.join(file);
        replace(&path, &bytes).map_err(|e| Trouble::at(format!("write {}", path.display()), e))?;
    }
    Ok(())
}

/// Reads a `report.json` again.
///
/// # Errors
/// If it can't be read, or another version of the program wrote it in a form that this one does not know.
pub(crate) fn read(file: &Path) -> Result<Report, Trouble> {
    let text = std::fs::read(file).map_err(|e| Trouble::at(format!("read {}", file.display()), e))?;
    let report: Report = serde_json::from_slice(&text).map_err(|e| Trouble::at(file.display(), e))?;
    if report.format == FORMAT {
        Ok(report)
    } else {
        let (file, format) = (file.display(), report.format);
        Err(Trouble::Failed(format!("{file} has format {format}, and this program reads {FORMAT}")))
    }
}

/// Two runs side by side, for a terminal.
pub(crate) fn compare(a: &Report, b: &Report) -> String {
    format!("{} {}\n", a.command, b.command)
}
