//! The lab's reports: the list of its folder, the verdicts of each report, and the files of one.
//!
//! Owns the bounds: the newest [`MOST`] reports, files of [`LARGEST`] bytes, and no name that leads out of the folder.
//! The lab (`weir lab`) writes the folder and owns the format of `report.json` and of `products.url`; this file reads
//! only what the panel lists. Every function may block on a disk: callers use a thread for blocking work.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

/// Reports that are listed.
const MOST: usize = 50;
/// The largest file that is read, in bytes.
const LARGEST: u64 = 16 << 20;
/// The version of `report.json` that this file reads.
const FORMAT: u32 = 1;
/// The file with the address of the products page, locked while the page is served.
const PRODUCTS: &str = "products.url";

/// The folder of the lab's reports, if there is one; cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Lab(Option<Arc<Path>>);

/// The content of the folder.
#[derive(Default, Serialize)]
pub(crate) struct ReportList {
    /// The folder, or none.
    folder: Option<String>,
    /// The address of the products page, if it is served now.
    products: Option<String>,
    /// The newest first.
    reports: Vec<ReportEntry>,
}

/// A report in the list.
#[derive(Serialize)]
struct ReportEntry {
    /// The name of the report's folder.
    name: String,
    #[serde(flatten)]
    summary: Option<ReportSummary>,
}

/// The fields of `report.json` that the list shows.
#[derive(Deserialize, Serialize)]
struct ReportSummary {
    #[serde(skip_serializing)]
    format: u32,
    began: String,
    length: String,
    experiments: Vec<Experiment>,
}

#[derive(Deserialize, Serialize)]
struct Experiment {
    id: String,
    title: String,
    #[serde(deserialize_with = "verdicts", rename(deserialize = "claims"))]
    verdicts: Verdicts,
}

/// How many of an experiment's claims have each verdict.
#[derive(Default, Serialize)]
struct Verdicts {
    held: usize,
    not_held: usize,
    open: usize,
}

/// A file of a report, and its type.
pub(crate) struct ReportFile {
    pub(crate) kind: &'static str,
    pub(crate) bytes: Vec<u8>,
}

impl Lab {
    pub(crate) fn new(folder: Option<PathBuf>) -> Lab {
        // Absolute, since a reader of the path does not know Weir's working directory.
        Lab(folder.map(|folder| std::path::absolute(&folder).unwrap_or(folder).into()))
    }

    /// The list. A folder that does not exist yet is empty; of a report that can't be parsed only the name is listed.
    pub(crate) fn list(&self) -> ReportList {
        let Some(folder) = &self.0 else { return ReportList::default() };
        let mut found: Vec<(SystemTime, String)> =
            fs::read_dir(folder).into_iter().flatten().filter_map(report).collect();
        found.sort_unstable_by(|a, b| b.cmp(a));
        found.truncate(MOST);
        let entry = |(_, name): (SystemTime, String)| ReportEntry { summary: summary(&folder.join(&name)), name };
        ReportList {
            folder: Some(folder.display().to_string()),
            products: served(&folder.join(PRODUCTS)),
            reports: found.into_iter().map(entry).collect(),
        }
    }

    /// A file of a report: the report in one of its forms, or `raw/` and the name of an output.
    pub(crate) fn page(&self, report: &str, file: &str) -> Option<ReportFile> {
        let (raw, name) = file.strip_prefix("raw/").map_or((false, file), |name| (true, name));
        if !is_plain(report) || !is_plain(name) {
            return None;
        }
        let kind = match (raw, name) {
            (false, "report.html") => "text/html; charset=utf-8",
            (false, "report.json") => "application/json",
            (false, "report.md" | "report.txt") => "text/plain; charset=utf-8",
            (true, name) if name.ends_with(".txt") => "text/plain; charset=utf-8",
            _ => return None,
        };
        let bytes = read(&self.0.as_ref()?.join(report).join(file))?;
        Some(ReportFile { kind, bytes })
    }
}

/// A folder with a report in it, and when that was written.
fn report(entry: std::io::Result<fs::DirEntry>) -> Option<(SystemTime, String)> {
    let entry = entry.ok()?;
    let name = entry.file_name().into_string().ok().filter(|name| is_plain(name))?;
    let written = fs::metadata(entry.path().join("report.json")).and_then(|file| file.modified()).ok()?;
    Some((written, name))
}

fn summary(report: &Path) -> Option<ReportSummary> {
    let summary: ReportSummary = serde_json::from_slice(&read(&report.join("report.json"))?).ok()?;
    (summary.format == FORMAT).then_some(summary)
}

/// The address in a file, only while a process holds the file's lock: the file of a killed process is ignored.
fn served(file: &Path) -> Option<String> {
    let open = File::open(file).ok()?;
    if flock(&open, FlockOperation::NonBlockingLockShared).is_ok() {
        return None;
    }
    let url = String::from_utf8(read(file)?).ok()?;
    let url = url.trim();
    url.starts_with("http://").then(|| url.to_owned())
}

fn read(file: &Path) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(file).ok()?.take(LARGEST + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 <= LARGEST).then_some(bytes)
}

/// Whether a name is that of a file, without a path.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\\', '\0'])
}

fn verdicts<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Verdicts, D::Error> {
    #[derive(Deserialize)]
    struct Claim {
        verdict: String,
    }
    let mut verdicts = Verdicts::default();
    for claim in Vec::<Claim>::deserialize(from)? {
        match claim.verdict.as_str() {
            "held" => verdicts.held += 1,
            "notheld" => verdicts.not_held += 1,
            _ => verdicts.open += 1,
        }
    }
    Ok(verdicts)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("weir-list-{name}-{}", std::process::id()));
        fs::create_dir_all(folder.join("pgbench-quick/raw")).expect("a folder");
        folder
    }

    #[test]
    fn reports_are_listed_by_what_they_found_and_strange_ones_by_their_name() {
        let folder = folder("list");
        let claims =
            json!([{"verdict": "held", "text": "a"}, {"verdict": "notheld"}, {"verdict": "open"}, {"verdict": "held"}]);
        let report = json!({"format": 1, "began": "2026-01-31T10:15:00Z", "length": "quick",
                            "experiments": [{"id": "pgbench", "title": "A pool", "claims": claims, "tables": []}]});
        fs::write(folder.join("pgbench-quick/report.json"), report.to_string()).expect("a file");
        for (name, text) in [("later", "{\"format\": 2}"), ("broken", "{")] {
            fs::create_dir(folder.join(name)).expect("a folder");
            fs::write(folder.join(name).join("report.json"), text).expect("a file");
        }
        fs::create_dir(folder.join("unfinished")).expect("a folder");
        let list = serde_json::to_value(Lab::new(Some(folder.clone())).list()).expect("JSON");
        let reports = list["reports"].as_array().expect("a list");
        let named = |name: &str| reports.iter().find(|report| report["name"] == name).cloned();
        assert_eq!(reports.len(), 3);
        let experiment = &named("pgbench-quick").expect("a listed report")["experiments"][0];
        assert_eq!(experiment["verdicts"], json!({"held": 2, "not_held": 1, "open": 1}));
        assert_eq!(
            (named("later"), named("broken")),
            (Some(json!({"name": "later"})), Some(json!({"name": "broken"})))
        );
        assert!(Lab::default().list().folder.is_none());
        fs::remove_dir_all(folder).expect("it goes");
    }

    #[test]
    fn only_a_report_s_own_files_are_read() {
        let folder = folder("files");
        fs::write(folder.join("pgbench-quick/report.html"), "<html>").expect("a file");
        fs::write(folder.join("pgbench-quick/raw/one.txt"), "one").expect("a file");
        fs::write(folder.join("pgbench-quick/run.json"), "{}").expect("a file");
        fs::write(folder.join("report.html"), "not of a report").expect("a file");
        let lab = Lab::new(Some(folder.clone()));
        let read = |report: &str, file: &str| lab.page(report, file).map(|page| page.bytes);
        assert_eq!(read("pgbench-quick", "report.html"), Some(b"<html>".to_vec()));
        assert_eq!(read("pgbench-quick", "raw/one.txt"), Some(b"one".to_vec()));
        for (report, file) in [
            ("pgbench-quick", "run.json"),
            ("pgbench-quick", "raw/../report.html"),
            ("pgbench-quick", "raw/none.txt"),
            ("pgbench-quick", "../report.html"),
            ("..", "report.html"),
            (".", "report.html"),
            ("", "report.html"),
            ("none", "report.html"),
        ] {
            assert_eq!(read(report, file), None, "{report} {file}");
        }
        fs::remove_dir_all(folder).expect("it goes");
    }

    #[test]
    fn the_products_page_is_known_while_somebody_serves_it() {
        let folder = folder("products");
        let file = folder.join(PRODUCTS);
        fs::write(&file, "http://127.0.0.1:4000/\n").expect("a file");
        let lab = Lab::new(Some(folder.clone()));
        assert_eq!(lab.list().products, None, "whoever wrote it has gone");
        let held = File::open(&file).expect("it is there");
        flock(&held, FlockOperation::LockExclusive).expect("it is free");
        assert_eq!(lab.list().products.as_deref(), Some("http://127.0.0.1:4000/"));
        fs::write(&file, "javascript:alert(1)").expect("a file");
        assert_eq!(lab.list().products, None);
        fs::remove_dir_all(folder).expect("it goes");
    }
}
