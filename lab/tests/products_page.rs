//! The page of `weir lab products --serve` in a real browser: every button is clicked, and the page's content is
//! checked.
//!
//! The Go app if Go is installed, and the Rust app on every machine. If a program is missing (Chromium, PostgreSQL, a
//! built `weir`), a test prints so and passes.

mod browser;
mod place;

use std::env;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use browser::Browser;
use place::Place;
use weir_pglocal::{Signal, send_signal};

const LAB: &str = env!("CARGO_BIN_EXE_weir-lab");

/// The timeout of a server, an app and its first build.
const START: Duration = Duration::from_secs(180);
/// The timeout of 200 requests, on a busy machine.
const BURST: Duration = Duration::from_secs(60);

#[test]
fn the_page_of_the_app_in_go_shows_what_each_endpoint_does() {
    let Some((weir, chromium)) = needed(&["go"]) else { return };
    show_each_endpoint(&weir, &chromium, "go", "Go ");
}

#[test]
fn the_page_of_the_app_in_rust_shows_the_same() {
    let Some((weir, chromium)) = needed(&[]) else { return };
    show_each_endpoint(&weir, &chromium, "rust", "Rust");
}

fn show_each_endpoint(weir: &Path, chromium: &PathBuf, language: &str, program: &str) {
    let place = Place::new();
    let served = Served::start(weir, language, &place);
    let notice = place.working_folder().join("weir-lab/products.url");
    let noted = fs::read_to_string(&notice).expect("the panel is informed where the page is");
    assert_eq!(noted.trim(), served.url);
    let mut page = Browser::start(chromium);
    page.look(1440, 900, "light");
    page.open(&served.url);
    page.until("document.querySelectorAll('#chips li').length > 2", BURST);
    assert!(text(&mut page, "#chips").contains(program), "{}", text(&mut page, "#chips"));

    fire_each(&mut page);
    page.picture(&format!("{language}-light"));
    without_a_reset_the_abandoned_connections_fail_the_others(&mut page);
    the_last_result_opens(&mut page);
    dark_and_narrow(&mut page, language);
    assert_eq!(page.thrown, Vec::<String>::new(), "what the page threw");
    served.stop();
    assert!(!notice.exists(), "nothing is served any more");
}

/// Clicks each button once, with the pools reset before, and then the button for all.
fn fire_each(page: &mut Browser) {
    for way in ["new", "normal", "pooled", "weir"] {
        page.click(&format!("[data-fire={way}]"));
        finished(page, way);
        let (served, errors) = counts(page, way);
        assert_eq!(served + errors, 200, "{way}: every request is counted");
        let marks = number(
            page,
            way,
            "document.querySelector(`[data-chart=${way}] .server`).getAttribute('d').split('M').length - 1",
        );
        assert_eq!(marks, served, "{way}: every success has its dot");
        let crosses = number(
            page,
            way,
            "document.querySelector(`[data-chart=${way}] .error`).getAttribute('d').split('M').length - 1",
        );
        assert_eq!(crosses, errors, "{way}: every error has its mark");
        let mean = page.value(&format!("runs.get('{way}').average"));
        assert!(mean.as_f64().is_some_and(|ms| ms > 0.0 && ms < 10_000.0), "{way}: {mean}");
        // The page's running average equals the server's, but for the rounding to a microsecond.
        let shown = page.value(&format!("runs.get('{way}').last.average / 1000"));
        assert!(
            (shown.as_f64().unwrap_or(0.0) / mean.as_f64().unwrap_or(1.0) - 1.0).abs() < 0.25,
            "{way}: {shown}, {mean}"
        );
        match way {
            "new" => {
                assert!((50..=100).contains(&served), "new: {served} served, {errors} errors");
                assert!(text(page, "[data-way=new] .trouble").contains("too many clients"), "the first error is shown");
            }
            _ => {
                assert_eq!((served, errors), (200, 0), "{way}");
                assert_eq!(page.value(&format!("document.querySelector('[data-way={way}] .trouble').hidden")), true);
            }
        }
    }
    page.click("#all");
    page.until("document.getElementById('status').textContent.startsWith('All four')", BURST * 4);
    assert_eq!(page.value("document.querySelectorAll('#rows .rod').length"), 4, "each endpoint is in the comparison");
}

/// With the switch off, `new` uses up the server's connections, and the next endpoint finds none.
fn without_a_reset_the_abandoned_connections_fail_the_others(page: &mut Browser) {
    page.click("#reset");
    page.until("document.getElementById('status').textContent.includes('are closed')", BURST);
    page.click("#afresh");
    for way in ["new", "normal"] {
        page.click(&format!("[data-fire={way}]"));
        finished(page, way);
    }
    let (_, errors) = counts(page, "normal");
    assert!(errors > 0, "the server is full, and `normal` did not notice");
    page.click("#afresh");
    page.click("[data-fire=normal]");
    finished(page, "normal");
    assert_eq!(counts(page, "normal"), (200, 0), "after a reset there is room again");
}

fn the_last_result_opens(page: &mut Browser) {
    page.click("[data-way=pooled] summary");
    page.until("document.querySelector('[data-way=pooled] pre').textContent.includes('\"products\"')", BURST);
    assert_eq!(
        page.value("JSON.parse(document.querySelector('[data-way=pooled] pre').textContent).products.length"),
        1000
    );
    page.click("[data-way=pooled] summary");
}

/// Both colour schemes work, and nothing is wider than a phone.
fn dark_and_narrow(page: &mut Browser, language: &str) {
    let paper = "getComputedStyle(document.body).backgroundColor";
    let light = page.value(paper);
    page.look(1440, 900, "dark");
    page.until(&format!("{paper} !== {light}"), BURST);
    page.picture(&format!("{language}-dark"));
    page.click("#theme");
    page.until(&format!("{paper} === {light}"), BURST);
    page.look(390, 844, "light");
    page.until("innerWidth === 390", BURST);
    assert_eq!(page.value("document.documentElement.scrollWidth <= innerWidth"), true, "the page scrolls sideways");
    page.picture(&format!("{language}-narrow"));
}

fn finished(page: &mut Browser, way: &str) {
    page.until(&format!("!busy && Number.isInteger(runs.get('{way}')?.connections)"), BURST);
}

/// The served and failed requests on the card.
fn counts(page: &mut Browser, way: &str) -> (u64, u64) {
    let shown =
        |stat: &str| format!("parseInt(document.querySelector('[data-way={way}] [data-stat={stat}]').textContent)");
    let [served, errors] = ["served", "errors"].map(shown).map(|expression| page.value(&expression));
    (served.as_u64().expect("a count"), errors.as_u64().expect("a count"))
}

fn number(page: &mut Browser, way: &str, expression: &str) -> u64 {
    page.value(&format!("((way) => {expression})('{way}')")).as_u64().expect("a count")
}

fn text(page: &mut Browser, selector: &str) -> String {
    page.value(&format!("document.querySelector({selector:?}).innerText")).as_str().unwrap_or_default().to_owned()
}

/// The programs of a test, if all are installed: `weir`, Chromium, and these.
fn needed(programs: &[&str]) -> Option<(PathBuf, PathBuf)> {
    let weir = place::needed(programs)?;
    let chromium = browser::find();
    if chromium.is_none() {
        place::skipped("Chromium");
    }
    Some((weir, chromium?))
}

/// `weir lab products --serve`.
struct Served {
    lab: Child,
    url: String,
}

impl Served {
    fn start(weir: &Path, language: &str, place: &Place) -> Served {
        let mut command = Command::new(LAB);
        command.args(["products", "--serve", "--smoke", "--app", language, "--weir"]).arg(weir);
        command.current_dir(place.working_folder());
        let lab = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("the lab starts");
        // From here on it is ended on drop, whatever fails.
        let mut served = Served { lab, url: String::new() };
        let out = BufReader::new(served.lab.stdout.take().expect("piped"));
        let (sender, lines) = channel();
        thread::spawn(move || out.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        while served.url.is_empty() {
            let line = lines.recv_timeout(START).expect("the lab says where the page is");
            line.trim().strip_prefix("The page:").unwrap_or_default().trim().clone_into(&mut served.url);
        }
        served
    }

    /// Ends it with Ctrl-C; it must exit with success.
    fn stop(mut self) {
        send_signal(self.lab.id(), Signal::SIGINT);
        let status = self.lab.wait().expect("a child of ours");
        assert!(status.success(), "{status}");
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.lab.kill();
        let _ = self.lab.wait();
    }
}
