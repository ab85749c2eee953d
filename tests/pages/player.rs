//! Runs pages: reads their blocks, makes one script of them, and compares what each block printed.
//!
//! All of it happens in one temporary folder, as an ordinary user. Processes that still work there at the end are
//! killed.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use weir_pglocal::{Account, Auth, Options, Reaper, Server, TempFolder};
use weir_tests::weir_binary;

/// After this long for each page, packages included, the pages of a test are given up as stuck.
const SECONDS: usize = 900;

/// A block of a page.
struct Block {
    /// The page and the line where the block begins.
    place: String,
    text: String,
    fails: bool,
    /// Removes what the page made: runs after all other pages, or before the page begins again.
    last: bool,
    /// What the block prints, if the page shows it.
    output: Option<String>,
}

/// Runs pages that start their own PostgreSQL.
pub(crate) fn play(pages: &[&str]) {
    let scene = Scene::new(None);
    scene.run(pages);
}

/// Runs pages that expect a PostgreSQL on port 5432 and its superuser as the user of psql.
pub(crate) fn play_on_server(pages: &[&str]) {
    let options = Options { auth: Auth::ScramSha256, ..Options::default() };
    let server = Server::start(options).unwrap_or_else(|error| panic!("{error}"));
    let scene = Scene::new(Some(server));
    scene.run(pages);
}

/// A folder in which pages run, with Weir in `PATH`, and perhaps a PostgreSQL.
struct Scene {
    folder: TempFolder,
    reaper: Reaper,
    account: Option<Account>,
    server: Option<Server>,
    /// The ports of the pages, each with the one that this test uses instead.
    ports: Vec<(&'static str, String)>,
}

impl Scene {
    fn new(server: Option<Server>) -> Scene {
        let account = Account::to_drop_to().unwrap_or_else(|error| panic!("{error}"));
        let folder = TempFolder::owned_by(account.as_ref()).unwrap_or_else(|error| panic!("{error}"));
        let reaper = Reaper::of(folder.path()).unwrap_or_else(|error| panic!("{error}"));
        let mut ports: Vec<_> =
            ["5433", "6432", "6433", "8432", "8433"].into_iter().map(|port| (port, free_port())).collect();
        ports.extend(server.as_ref().map(|server| ("5432", server.port().to_string())));
        Scene { folder, reaper, account, server, ports }
    }

    fn run(&self, pages: &[&str]) {
        let blocks = self.in_order(pages);
        assert!(!blocks.is_empty(), "{pages:?} have nothing to run");
        let outputs = self.folder.path().join("outputs");
        let script = self.folder.path().join("script");
        fs::write(&script, self.script(&blocks, &outputs)).expect("a file in our folder");
        let mut command = Command::new("timeout");
        let seconds = SECONDS * pages.len();
        command.args(["--kill-after=5", &seconds.to_string(), "bash"]).arg(&script).current_dir("/");
        command.env("PATH", self.path()).env("HOME", self.folder.path()).env("PIP_DISABLE_PIP_VERSION_CHECK", "1");
        // Java takes the home of the user, whatever HOME is. Prisma's engine for migrations is in no package.
        command.env("MAVEN_OPTS", format!("-Duser.home={}", self.folder.path().display()));
        command.env("PRISMA_SCHEMA_ENGINE_BINARY", "/bin/true").env("CHECKPOINT_DISABLE", "1");
        for variable in ["PGHOST", "PGPORT", "PGUSER", "PGPASSWORD", "PGDATABASE", "PGOPTIONS"] {
            command.env_remove(variable);
        }
        if let Some(server) = &self.server {
            command.env("PGHOST", server.socket_dir()).env("PGPORT", server.port().to_string());
            command.env("PGUSER", server.superuser());
        }
        if let Some(account) = &self.account {
            account.run(&mut command);
        }
        let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status().expect("bash runs");
        let faults: Vec<String> =
            blocks.iter().enumerate().filter_map(|(n, block)| fault(block, n, &outputs)).collect();
        let logs = Scene::logs(&blocks, &outputs);
        self.reaper.clear();
        let ended = if status.success() {
            String::new()
        } else {
            format!("the pages ran for more than {seconds} s, or a block ended the shell: {status}\n\n")
        };
        assert!(faults.is_empty() && status.success(), "{ended}{}\n\n{logs}", faults.join("\n\n"));
    }

    /// The blocks of pages as a reader pastes them who goes from page to page, and removes at the end what they made.
    fn in_order(&self, pages: &[&str]) -> Vec<Block> {
        let mut blocks = Vec::new();
        let mut removals: Vec<(&str, Vec<Block>)> = Vec::new();
        for page in pages {
            if let Some(begun) = removals.iter().position(|(earlier, _)| earlier == page) {
                blocks.extend(removals.remove(begun).1);
            }
            let (last, now): (Vec<Block>, Vec<Block>) = self.blocks(page).into_iter().partition(|block| block.last);
            blocks.extend(now);
            removals.push((page, last));
        }
        blocks.extend(removals.into_iter().rev().flat_map(|(_, last)| last));
        blocks
    }

    /// The blocks of a page that are to be run, with this test's ports.
    fn blocks(&self, page: &str) -> Vec<Block> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(page);
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{page}: {error}"));
        let mut blocks: Vec<Block> = Vec::new();
        let mut lines = text.lines().enumerate();
        // A text belongs to the block before it.
        while let Some((number, line)) = lines.next() {
            let Some(language) = line.strip_prefix("```") else { continue };
            let inside: Vec<&str> = lines.by_ref().map(|(_, line)| line).take_while(|line| *line != "```").collect();
            let text = self.with_ports(&(inside.join("\n") + "\n"));
            match language {
                "sh" | "sh fails" | "sh last" => {
                    let place = format!("{page}:{}", number + 1);
                    let (fails, last) = (language == "sh fails", language == "sh last");
                    blocks.push(Block { place, text, fails, last, output: None });
                }
                "text" => blocks.last_mut().expect("an output follows its command").output = Some(text),
                _ => {}
            }
        }
        blocks
    }

    /// Only whole numbers are replaced, and once: a new port may contain the digits of another one.
    fn with_ports(&self, text: &str) -> String {
        let not_a_digit = |c: char| !c.is_ascii_digit();
        let pieces = text.split_inclusive(not_a_digit).map(|piece| {
            let number = piece.trim_end_matches(not_a_digit);
            let ours = self.ports.iter().find(|(theirs, _)| *theirs == number).map_or(number, |(_, ours)| ours);
            ours.to_owned() + &piece[number.len()..]
        });
        pieces.collect()
    }

    /// Each block with its output and its exit status in files of its own.
    fn script(&self, blocks: &[Block], outputs: &Path) -> String {
        let outputs = outputs.display();
        let home = self.folder.path().display();
        let mut script = format!("set -m\nmkdir {outputs}\ncd {home}\n");
        for (n, block) in blocks.iter().enumerate() {
            script += &format!("exec >{outputs}/{n} 2>&1\n{}echo $? >{outputs}/{n}.status\n", block.text);
            if block.text.contains("weir serve") {
                // A reader takes longer to paste the next block than Weir to start.
                let port = self.port_before(&blocks[..=n]);
                script +=
                    &format!("for try in {{1..600}}; do (: </dev/tcp/127.0.0.1/{port}) && break; sleep 0.1; done\n");
            }
        }
        script + "exit 0\n"
    }

    /// Where the Weir listens whose file these blocks have written last.
    fn port_before(&self, blocks: &[Block]) -> String {
        let ports = ["6432", "6433"].map(|port| self.with_ports(port));
        let found = |block: &Block| ports.iter().find(|port| block.text.contains(&format!("port = {port}\n"))).cloned();
        blocks.iter().rev().find_map(found).expect("a page writes a file before it starts Weir")
    }

    /// What each Weir has logged where its page sends that to the terminal.
    fn logs(blocks: &[Block], outputs: &Path) -> String {
        let serving = blocks.iter().enumerate().filter(|(_, block)| block.text.contains("weir serve"));
        serving.filter_map(|(n, _)| fs::read_to_string(outputs.join(n.to_string())).ok()).collect()
    }

    /// Weir comes first, then PostgreSQL's programs.
    fn path(&self) -> std::ffi::OsString {
        // Not "bin", which applications have, too.
        let bin = self.folder.path().join("programs");
        fs::create_dir(&bin).expect("a folder in ours");
        // The ordinary user may not be able to reach the folder of the build.
        fs::copy(weir_binary(), bin.join("weir")).expect("the program can be copied");
        let usual = std::env::var_os("PATH").unwrap_or_default();
        let programs = self.server.as_ref().map(|server| server.programs().bin().to_owned());
        let folders: Vec<PathBuf> = [bin].into_iter().chain(programs).chain(std::env::split_paths(&usual)).collect();
        std::env::join_paths(folders).expect("folders without colons")
    }
}

/// A port that this process has not returned before, and that the system gives to no outgoing connection by itself: a
/// page may fetch packages for minutes before it listens.
fn free_port() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let number = std::process::id().wrapping_mul(16).wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        let port = 20_000 + u16::try_from(number % 12_000).expect("a small number");
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port.to_string();
        }
    }
}

/// What is wrong with a block's result.
fn fault(block: &Block, number: usize, outputs: &Path) -> Option<String> {
    let output = fs::read_to_string(outputs.join(number.to_string())).unwrap_or_default();
    let status = fs::read_to_string(outputs.join(format!("{number}.status"))).unwrap_or_default();
    let place = &block.place;
    if status.is_empty() || (status.trim() == "0") == block.fails {
        let status = if status.is_empty() { "none" } else { status.trim() };
        return Some(format!("{place}: exit status {status}, and this output:\n{output}"));
    }
    let wanted = block.output.as_ref()?;
    let (wanted, got) = (trimmed(wanted), trimmed(&output));
    (!matches(&wanted, &got)).then(|| format!("{place}: the page shows\n{wanted}\nand the output is\n{got}"))
}

/// With one space for several, since the width of a column depends on its values, and without empty lines at the end.
fn trimmed(text: &str) -> String {
    let lines: Vec<String> = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    lines.join("\n").trim_end().to_owned()
}

/// Whether a text is the pattern, in which each `…` is any text.
fn matches(pattern: &str, text: &str) -> bool {
    let pieces: Vec<&str> = pattern.split('…').collect();
    let [first, .., last] = pieces[..] else { return pattern == text };
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    for piece in &pieces[1..pieces.len() - 1] {
        let Some(at) = rest.find(piece) else { return false };
        rest = &rest[at + piece.len()..];
    }
    rest.ends_with(last)
}

#[test]
fn dots_match_any_text_and_nothing_else_does() {
    assert!(matches("a…c", "abc") && matches("a…", "a") && matches("…\nb", "x\ny\nb") && matches("a", "a"));
    assert!(!matches("a…c", "abd") && !matches("a", "ab") && !matches("a…b…c", "acb") && !matches("aa…aa", "aaa"));
}
