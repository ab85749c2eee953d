//! The panel's built files: that they match its source, and how they are served.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest, Sha256};
use weir_web::WebServer;

use crate::common::web;

/// The files that the panel is built from: the same list as in panel/vite.config.ts.
const SOURCES: &[&str] =
    &["index.html", "package-lock.json", "package.json", "public", "src", "tsconfig.json", "vite.config.ts"];

fn built() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("panel")
}

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../panel")
}

fn files(path: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(path) else { return vec![path.to_owned()] };
    entries.flat_map(|entry| files(&entry.expect("an entry").path())).collect()
}

/// The SHA-256 of each file, by its path below `root`.
fn digests(root: &Path, files: Vec<PathBuf>) -> BTreeMap<String, String> {
    let digest = |file: &Path| {
        let hash = Sha256::digest(fs::read(file).unwrap_or_else(|error| panic!("{}: {error}", file.display())));
        hash.iter().map(|byte| format!("{byte:02x}")).collect()
    };
    let name = |file: &Path| file.strip_prefix(root).expect("below it").display().to_string();
    files.iter().map(|file| (name(file), digest(file))).collect()
}

#[test]
fn the_committed_build_is_of_this_source() {
    let record = fs::read_to_string(built().join("built-of.txt")).expect("a build");
    let (sources, files_built) = record.split_once("\n\n").expect("two lists");
    let read = |list: &str| -> BTreeMap<String, String> {
        let pairs = list.lines().filter_map(|line| line.split_once("  "));
        pairs.map(|(hash, name)| (name.to_owned(), hash.to_owned())).collect()
    };
    let own = SOURCES.iter().flat_map(|name| files(&source().join(name))).collect();
    let again = "the panel's source and its build differ: run `make panel`, and commit crates/web/panel with it";
    assert_eq!(read(sources), digests(&source(), own), "{again}");
    let there = files(&built()).into_iter().filter(|file| !file.ends_with("built-of.txt")).collect();
    assert_eq!(read(files_built), digests(&built(), there), "{again}");
}

/// The status, the head in lower case, and the body.
fn get(web: &WebServer, path: &str, more: &str) -> (u16, String, Vec<u8>) {
    let mut stream = TcpStream::connect(web.bound()[0]).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a time");
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{more}\r\n");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("it answers");
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
    let head = String::from_utf8_lossy(&answer[..end]).to_ascii_lowercase();
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    (status, head, answer[end + 4..].to_vec())
}

fn header<'h>(head: &'h str, name: &str) -> &'h str {
    let line = head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    line.unwrap_or_else(|| panic!("no {name} in {head}"))
}

#[test]
fn every_file_is_served_as_it_is_with_its_type_and_a_policy_that_lets_nothing_else_in() {
    let web = web();
    for file in files(&built()).into_iter().filter(|file| !file.ends_with("built-of.txt")) {
        let name = file.strip_prefix(built()).expect("below it").display().to_string();
        let (status, head, body) = get(&web, &format!("/{name}"), "");
        assert_eq!(status, 200, "{name}");
        assert_eq!(body, fs::read(&file).expect("a file"), "{name}");
        let policy = header(&head, "content-security-policy");
        assert!(policy.starts_with("default-src 'none'; ") && policy.contains("frame-ancestors 'none'"), "{policy}");
        assert!(!policy.contains("unsafe") && !policy.contains("data:") && !policy.contains('*'), "{policy}");
        assert_eq!(header(&head, "x-content-type-options"), "nosniff");
        assert_eq!(header(&head, "referrer-policy"), "no-referrer");
        let kept = header(&head, "cache-control");
        assert_eq!(kept.contains("immutable"), name.starts_with("assets/"), "{name}: {kept}");
        let tag = header(&head, "etag").replacen("w/", "W/", 1);
        let (status, head, body) = get(&web, &format!("/{name}"), &format!("If-None-Match: {tag}\r\n"));
        assert_eq!((status, body.len(), header(&head, "vary")), (304, 0, "accept-encoding"), "{name}: {head}");
    }
}

#[test]
fn what_is_large_is_compressed_for_who_takes_it_so_and_events_never_are() {
    let web = web();
    let scripts =
        files(&built().join("assets")).into_iter().filter(|file| file.extension().is_some_and(|kind| kind == "js"));
    // A small one gains little.
    let script = scripts.max_by_key(|file| fs::metadata(file).map_or(0, |script| script.len()));
    let script = script.expect("a script").strip_prefix(built()).expect("below it").display().to_string();
    for path in [format!("/{script}"), "/api/v1/openapi.json".to_owned()] {
        let (_, head, plain) = get(&web, &path, "");
        assert!(!head.contains("content-encoding") && header(&head, "vary").contains("accept-encoding"), "{head}");
        for none in ["identity", "br", "gzip;q=0", "*;q=0"] {
            let (status, head, body) = get(&web, &path, &format!("Accept-Encoding: {none}\r\n"));
            assert_eq!((status, head.contains("content-encoding"), &body), (200, false, &plain), "{none}");
        }
        let (status, head, body) = get(&web, &path, "Accept-Encoding: br;q=0.5, gzip\r\n");
        assert_eq!((status, header(&head, "content-encoding")), (200, "gzip"), "{head}");
        assert!(header(&head, "vary").contains("accept-encoding"), "{head}");
        let body = if head.contains("transfer-encoding: chunked") { unchunked(&body) } else { body };
        assert!(body.len() * 2 < plain.len(), "{} of {}", body.len(), plain.len());
        let mut read = Vec::new();
        flate2::read::GzDecoder::new(body.as_slice()).read_to_end(&mut read).expect("gzip");
        assert_eq!(read, plain);
    }
    let tag = |more| header(&get(&web, &format!("/{script}"), more).1, "etag").to_owned();
    let (plain, compressed) = (tag(""), tag("Accept-Encoding: gzip\r\n"));
    assert_eq!(plain, compressed);
    assert!(plain.starts_with("w/\""), "the bytes differ: {plain}");
    let mut events = TcpStream::connect(web.bound()[0]).expect("it listens");
    events.set_read_timeout(Some(Duration::from_secs(60))).expect("a time");
    events
        .write_all(b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: gzip\r\n\r\n")
        .expect("it reads");
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        let mut byte = [0];
        events.read_exact(&mut byte).expect("it answers");
        head.push(byte[0].into());
    }
    assert!(head.contains("text/event-stream") && !head.contains("content-encoding"), "{head}");
}

/// The content of a chunked body (RFC 9112, section 7.1).
fn unchunked(mut rest: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    loop {
        let end = rest.windows(2).position(|two| two == b"\r\n").expect("a size");
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..end]).expect("text"), 16).expect("a number");
        if size == 0 {
            return whole;
        }
        whole.extend_from_slice(&rest[end + 2..][..size]);
        rest = &rest[end + 2 + size + 2..];
    }
}

#[test]
fn the_page_is_at_the_root_and_asks_no_other_host_for_anything() {
    let web = web();
    let (status, head, body) = get(&web, "/", "");
    assert_eq!((status, header(&head, "content-type")), (200, "text/html; charset=utf-8"));
    let page = String::from_utf8(body).expect("text");
    assert!(!page.contains("://") && !page.contains("<style") && !page.contains("style="), "{page}");
    for path in ["/built-of.txt", "/assets/", "/assets/none.js", "/assets/..%2findex.html", "/index.php"] {
        assert_eq!(get(&web, path, "").0, 404, "{path}");
    }
}
