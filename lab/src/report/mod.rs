//! The formats of a report: the terminal's tables, the JSON file, Markdown, and one self-contained HTML page.

use std::path::Path;

use crate::journal::replace;
use crate::model::{FORMAT, Report};
use crate::steps::LabError;

mod chart;
mod compare;
mod figures;
mod html;
mod markdown;
#[cfg(test)]
mod sample;
mod terminal;
mod words;

/// Writes `report.html`, `report.json`, `report.md` and `report.txt` into a folder.
pub(crate) fn write(folder: &Path, report: &Report) -> Result<(), LabError> {
    let json = serde_json::to_vec_pretty(report).expect("plain data with string keys becomes JSON");
    let text = terminal::text(report, terminal::Paper::FILE);
    let html = html::page(report).into_string();
    let markdown = markdown::text(report);
    let files = [
        ("report.json", json),
        ("report.html", html.into_bytes()),
        ("report.md", markdown.into_bytes()),
        ("report.txt", text.into_bytes()),
    ];
    for (file, bytes) in files {
        let path = folder.join(file);
        replace(&path, &bytes).map_err(|e| LabError::at(format!("write {}", path.display()), e))?;
    }
    Ok(())
}

/// Reads a `report.json`.
///
/// # Errors
/// It can't be read, or it has another format version.
pub(crate) fn read(file: &Path) -> Result<Report, LabError> {
    let text = std::fs::read(file).map_err(|e| LabError::at(format!("read {}", file.display()), e))?;
    let report: Report = serde_json::from_slice(&text).map_err(|e| LabError::at(file.display(), e))?;
    if report.format == FORMAT {
        Ok(report)
    } else {
        let (file, format) = (file.display(), report.format);
        Err(LabError::Failed(format!("{file} has format {format}, and this program reads {FORMAT}")))
    }
}

/// The whole report for the standard output: with colours and as wide as the terminal, if it is one.
pub(crate) fn text(report: &Report) -> String {
    terminal::text(report, terminal::Paper::stdout())
}

/// Two runs side by side, for the standard output.
pub(crate) fn compare(a: &Report, b: &Report) -> String {
    compare::text(a, b, terminal::Paper::stdout())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_report_reads_back_and_another_format_is_refused() {
        let folder = weir_pglocal::TempFolder::new().unwrap();
        let mut report = sample::report();
        write(folder.path(), &report).unwrap();
        let page = std::fs::read_to_string(folder.path().join("report.html")).unwrap();
        // A float may come back as its neighbour, so the visible text is compared.
        let again = read(&folder.path().join("report.json")).unwrap();
        assert_eq!(html::page(&again).into_string(), page);
        assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>"));
        let text = std::fs::read_to_string(folder.path().join("report.txt")).unwrap();
        assert!(!text.contains('\u{1b}') && text.lines().all(|line| line.chars().count() <= 100), "{text}");
        report.format += 1;
        write(folder.path(), &report).unwrap();
        assert!(read(&folder.path().join("report.json")).unwrap_err().to_string().contains("format"));
    }

    /// For a visual check: `REPORT_SAMPLE=/tmp/sample cargo test -p weir-lab sample_for_the_eye`.
    #[test]
    fn a_sample_for_the_eye_is_written_where_asked() {
        let Some(folder) = std::env::var_os("REPORT_SAMPLE") else { return };
        let folder = Path::new(&folder);
        std::fs::create_dir_all(folder).unwrap();
        write(folder, &sample::report()).unwrap();
    }
}
