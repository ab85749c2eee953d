//! The demo from the outside: it tells its story without a terminal, and leaves nothing behind however it ends.

use std::io::{BufRead, BufReader, Read, Write};
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use weir_pglocal::{Signal, send_signal};

/// A demo is a machine full of clients; one at a time.
static ALONE: Mutex<()> = Mutex::new(());

const SOON: Duration = Duration::from_secs(30);

/// The beginning of the last line; what follows depends on whether PostgreSQL was downloaded.
const ENDED: &str = "Stopped. Server, pooler and folder are gone;";

/// A demo, which ends with its test, also with one that fails.
struct Demo(Child);

impl Deref for Demo {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for Demo {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        // The reaper clears up what it leaves.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn demo(arguments: &[&str]) -> Command {
    let mut command = Command::new(weir_tests::weir_binary());
    command.arg("demo").args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn start(arguments: &[&str]) -> Demo {
    Demo(demo(arguments).spawn().unwrap())
}

/// Starts the demo as a shell does: `before` comes before the command, `behind` after it.
fn start_by_shell(before: &str, arguments: &[&str], behind: &str) -> Demo {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{before} exec \"$0\" demo \"$@\" {behind}")]).arg(weir_tests::weir_binary());
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Demo(command.spawn().unwrap())
}

/// Reads the story up to its first live line; returns it, its folder, and the reader, which keeps the pipe open.
fn until_live(demo: &mut Child) -> (String, PathBuf, BufReader<ChildStdout>) {
    let mut reader = BufReader::new(demo.stdout.take().unwrap());
    let (mut story, mut folder, mut line) = (String::new(), None, String::new());
    while !line.contains(" TPS ") {
        line.clear();
        if reader.read_line(&mut line).unwrap() == 0 {
            let mut why = String::new();
            demo.stderr.take().unwrap().read_to_string(&mut why).unwrap();
            panic!("the demo ended early: {story}{why}");
        }
        if let Some((_, path)) = line.split_once("data in ") {
            folder = Some(PathBuf::from(path.trim()));
        }
        story.push_str(&line);
    }
    (story, folder.unwrap(), reader)
}

/// Processes that have this folder's name on their command line.
fn processes_of(folder: &Path) -> usize {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let name = folder.display().to_string();
    entries
        .filter(|entry| std::fs::read_to_string(entry.path().join("cmdline")).is_ok_and(|l| l.contains(&name)))
        .count()
}

fn is_gone_soon(folder: &Path) -> bool {
    let end = Instant::now() + SOON;
    while (folder.exists() || processes_of(folder) > 0) && Instant::now() < end {
        thread::sleep(Duration::from_millis(50));
    }
    !folder.exists() && processes_of(folder) == 0
}

#[test]
fn the_story_is_told_without_a_terminal() {
    let _alone = ALONE.lock();
    let output = demo(&["--seconds", "2"]).output().unwrap();
    let story = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{story}{}", String::from_utf8_lossy(&output.stderr));
    for said in [
        "max_connections = 100",
        "  97 served",
        "  53 refused",
        "(53300)",
        "server processes for clients: 97\n",
        " 150 served",
        "   0 refused\n",
        "server processes for clients: 20 instead of 150\n",
        "450 rows in the table: none lost",
        "/test-pool",
        " TPS ",
        ENDED,
    ] {
        assert!(story.contains(said), "\"{said}\" is not in the story:\n{story}");
    }
    assert!(!story.contains('\x1b'), "no terminal, no colours");
}

/// What follows these words in the story, run by a shell as a person would who copied it; none without psql.
fn copied(story: &str, words: &str) -> Option<String> {
    let line = story.lines().find_map(|line| line.trim().strip_prefix(words)).unwrap_or_else(|| panic!("{story}"));
    if story.contains("there is no psql") {
        return None;
    }
    let command = format!("{} -X -A", line.trim());
    let output = Command::new("sh").args(["-c", &command]).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{command}: {output:?}");
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// `show clients` by a console's line of the story, as columns and rows.
fn clients(story: &str) -> Option<Vec<Vec<String>>> {
    let rows = copied(&story.replace("show pools", "show clients"), "the console ")?;
    Some(rows.lines().map(|line| line.split('|').map(str::to_owned).collect()).collect())
}

/// What a link of the story leads to, head and all.
fn get(link: &str) -> String {
    let (host, path) = link.strip_prefix("http://").and_then(|rest| rest.split_once('/')).expect("a link");
    let mut stream = std::net::TcpStream::connect(host).unwrap();
    write!(stream, "GET /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn the_panel_is_served_and_the_lines_to_copy_are_encrypted_beside_plain_clients() {
    let _alone = ALONE.lock();
    let mut demo = start(&["--seconds", "600"]);
    let (story, _, reader) = until_live(&mut demo);
    copied(&story, "a client ");
    let page = get(story.lines().find_map(|line| line.trim().strip_prefix("the panel ")).expect("a link").trim());
    assert!(page.starts_with("HTTP/1.1 200") && page.contains("<title>Weir</title>"), "{page}");
    if let Some(rows) = clients(&story) {
        let tls = rows[0].iter().position(|column| column == "tls").unwrap();
        let how: Vec<_> = rows[1..].iter().filter_map(|row| row.get(tls)).collect();
        assert!(how.iter().any(|how| how.starts_with("TLSv1.")), "{rows:?}");
        assert!(how.iter().any(|how| how.is_empty()), "the demo's own clients are plain: {rows:?}");
    }
    send_signal(demo.id(), Signal::SIGINT);
    assert!(reader.lines().map_while(Result::ok).last().unwrap().contains(ENDED));
    assert!(demo.wait().unwrap().success());
}

#[test]
fn ctrl_c_ends_it_in_order() {
    let _alone = ALONE.lock();
    let mut demo = start(&["--seconds", "600"]);
    let (_, folder, reader) = until_live(&mut demo);
    send_signal(demo.id(), Signal::SIGINT);
    let rest: Vec<_> = reader.lines().map_while(Result::ok).collect();
    assert!(demo.wait().unwrap().success());
    assert!(rest.last().unwrap().contains(ENDED), "{rest:?}");
    assert!(!folder.exists());
    assert_eq!(processes_of(&folder), 0);
}

#[test]
fn a_demo_that_is_killed_leaves_nothing_behind_either() {
    let _alone = ALONE.lock();
    let mut demo = start(&["--seconds", "600"]);
    let (_, folder, _reader) = until_live(&mut demo);
    assert!(processes_of(&folder) > 1);
    send_signal(demo.id(), Signal::SIGKILL);
    demo.wait().unwrap();
    assert!(is_gone_soon(&folder));
}

#[test]
fn a_demo_that_began_with_signals_ignored_ends_as_any_other() {
    let _alone = ALONE.lock();
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGKILL] {
        let mut demo = start_by_shell("trap '' HUP INT QUIT TERM;", &["--seconds", "600"], "");
        let (_, folder, reader) = until_live(&mut demo);
        // Under nohup, the end of the terminal is not the end of the demo.
        send_signal(demo.id(), Signal::SIGHUP);
        thread::sleep(Duration::from_millis(300));
        assert!(demo.try_wait().unwrap().is_none(), "it continues after HUP");
        send_signal(demo.id(), signal);
        let rest: Vec<_> = reader.lines().map_while(Result::ok).collect();
        let status = demo.wait().unwrap();
        if signal != Signal::SIGKILL {
            assert!(status.success() && rest.last().unwrap().contains(ENDED), "{signal}: {rest:?}");
        }
        assert!(is_gone_soon(&folder), "{signal}");
    }
}

/// `make` in a terminal window of its own leads the session: the kernel sends HUP to it alone, and it waits for the
/// demo. Here a shell leads, which treats HUP as `make` does.
#[test]
fn the_end_of_the_terminal_ends_a_demo_whose_leader_waits_for_it() {
    let _alone = ALONE.lock();
    if Command::new("script").arg("--version").stdout(Stdio::null()).status().is_err() {
        weir_tests::skipped("the demo whose terminal ends: there is no program `script`");
        return;
    }
    if weir_pglocal::is_ignored(Signal::SIGHUP) {
        weir_tests::skipped("the demo whose terminal ends: HUP is ignored here, as under nohup");
        return;
    }
    let leader = format!("exec sh -c \"trap : HUP; '{}' demo --seconds 600; :\"", weir_tests::weir_binary().display());
    let mut terminal = Command::new("script");
    terminal.args(["--quiet", "--return", "--command", &leader, "/dev/null"]).env("NO_COLOR", "1");
    let terminal = terminal.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut terminal = Demo(terminal.spawn().unwrap());
    let (_, folder, _reader) = until_live(&mut terminal);
    assert!(processes_of(&folder) > 1);
    send_signal(terminal.id(), Signal::SIGKILL);
    terminal.wait().unwrap();
    assert!(is_gone_soon(&folder));
}

#[test]
fn a_demo_that_is_killed_while_it_begins_leaves_nothing_behind() {
    let _alone = ALONE.lock();
    for moment in [100, 400, 1000, 2000, 4000] {
        let place = std::env::temp_dir().join(format!("weir-demo-{}-{moment}", std::process::id()));
        std::fs::create_dir(&place).unwrap();
        let mut demo = start_by_shell(&format!("trap '' INT QUIT; TMPDIR={}", place.display()), &[], "");
        thread::sleep(Duration::from_millis(moment));
        send_signal(demo.id(), Signal::SIGKILL);
        demo.wait().unwrap();
        let end = Instant::now() + SOON;
        let left = || std::fs::read_dir(&place).unwrap().count() + processes_of(&place);
        while left() > 0 && Instant::now() < end {
            thread::sleep(Duration::from_millis(50));
        }
        assert_eq!(left(), 0, "after {moment} ms");
        std::fs::remove_dir(&place).unwrap();
    }
}

#[test]
fn a_demo_without_a_terminal_or_any_open_stream_prints_and_leaves_nothing() {
    let _alone = ALONE.lock();
    let place = std::env::temp_dir().join(format!("weir-demo-{}", std::process::id()));
    std::fs::create_dir(&place).unwrap();
    let before = format!("TMPDIR={}; export TMPDIR; exec setsid --wait sh -c '", place.display());
    for behind in ["<&- >&- 2>&-'", "| head -1 >/dev/null'"] {
        // The quotes begin in one piece and end in the other; the words go along.
        let words = format!("{before} \"$0\" demo --seconds 1 {behind} {}", weir_tests::weir_binary().display());
        let output = Command::new("sh").args(["-c", &words]).output().unwrap();
        assert!(!String::from_utf8_lossy(&output.stderr).contains("panicked"), "{output:?}");
        let end = Instant::now() + SOON;
        while std::fs::read_dir(&place).unwrap().count() + processes_of(&place) > 0 {
            assert!(Instant::now() < end, "something is left: {output:?}");
            thread::sleep(Duration::from_millis(50));
        }
    }
    std::fs::remove_dir(&place).unwrap();
}

#[test]
fn a_busy_port_is_passed_by() {
    let _alone = ALONE.lock();
    // If the ports are in use already, that serves as well.
    let _taken: Vec<_> = [5432, 6432].map(|port| std::net::TcpListener::bind(("127.0.0.1", port))).into();
    // Long enough for a live line on a machine that is busy with other things.
    let mut demo = start(&["--seconds", "5"]);
    let (story, folder, reader) = until_live(&mut demo);
    assert!(story.contains("(5432 is taken)") && story.contains("(6432 is taken)"), "{story}");
    assert!(reader.lines().map_while(Result::ok).last().unwrap().contains(ENDED));
    assert!(demo.wait().unwrap().success());
    assert!(!folder.exists());
}
