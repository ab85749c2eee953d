//! The environment of experiments: a temporary folder, the processes in it, and the folder of raw outputs.
//!
//! Guarantees that nothing is left behind: every process works below one folder, whose reaper ends it when the lab
//! ends, in any way. Owns the environment of commands, and stores their output. Must not know what is measured.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use weir_pglocal::{Account, Reaper, TempFolder};

use crate::length::Length;
use crate::model::Ran;
use crate::progress::Progress;
use crate::servers::Process;
use crate::steps::LabError;
use crate::tools::{Program, Tool};

/// The environment of experiments.
pub(crate) struct Lab {
    length: Length,
    /// A `weir` named on the command line.
    weir: Option<PathBuf>,
    account: Option<Account>,
    progress: Progress,
    raw: PathBuf,
    found: RefCell<BTreeMap<Tool, Program>>,
    /// Versions of programs that are not a [`Tool`]: PostgreSQL's own programs, drivers.
    versions: RefCell<BTreeMap<String, String>>,
    // Dropped in this order: the folder is removed before its reaper ends.
    folder: TempFolder,
    reaper: Arc<Reaper>,
}

/// A command's output and exit status.
#[derive(Clone, Debug)]
pub(crate) struct CommandOutput {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) ran: Ran,
}

/// A command that [`Lab::begin`] started; dropping it ends it.
#[derive(Debug)]
pub(crate) struct Running {
    name: String,
    what: String,
    line: String,
    out: PathBuf,
    err: PathBuf,
    process: Process,
}

impl Lab {
    /// A lab whose raw outputs go to `raw`.
    pub(crate) fn new(
        length: Length,
        weir: Option<PathBuf>,
        raw: PathBuf,
        progress: Progress,
    ) -> Result<Lab, LabError> {
        let account = Account::to_drop_to()?;
        let folder = TempFolder::owned_by(account.as_ref())?;
        let reaper = Arc::new(Reaper::of(folder.path())?);
        fs::create_dir_all(&raw).map_err(|e| LabError::at(format!("create {}", raw.display()), e))?;
        let (found, versions) = (RefCell::default(), RefCell::default());
        Ok(Lab { length, weir, account, progress, raw, found, versions, folder, reaper })
    }

    pub(crate) fn length(&self) -> Length {
        self.length
    }

    /// The temporary folder of all files of a run.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Ends the processes that are added to it if this process is killed.
    pub(crate) fn reaper(&self) -> &Arc<Reaper> {
        &self.reaper
    }

    /// Finds a program, and records its version for the report.
    ///
    /// # Errors
    /// [`LabError::Missing`]; `effect` is what is left out without the program.
    pub(crate) fn tool(&self, tool: Tool, effect: &str) -> Result<Program, LabError> {
        if let Some(program) = self.found.borrow().get(&tool) {
            return Ok(program.clone());
        }
        let program = tool.find(self.weir.as_deref()).map_err(|mut missing| {
            effect.clone_into(&mut missing.effect);
            LabError::Missing(missing)
        })?;
        self.note_version(program.name, &program.version);
        self.found.borrow_mut().insert(tool, program.clone());
        Ok(program)
    }

    /// Records a version; ignores an empty one.
    pub(crate) fn note_version(&self, name: &str, version: &str) {
        if !version.is_empty() {
            self.versions.borrow_mut().insert(name.to_owned(), version.to_owned());
        }
    }

    /// The versions so far.
    pub(crate) fn versions(&self) -> BTreeMap<String, String> {
        self.versions.borrow().clone()
    }

    /// Prints a line above the progress.
    pub(crate) fn say(&self, line: &str) {
        self.progress.say(line);
    }

    /// Shows the current activity within a step or an opening: `filling the tables`.
    pub(crate) fn doing(&self, what: &str) {
        self.progress.doing(what);
    }

    /// Creates a folder below the temporary one, owned by the ordinary user if we are root. It may exist already.
    pub(crate) fn subfolder(&self, name: &str) -> Result<PathBuf, LabError> {
        let path = self.folder().join(name);
        fs::create_dir_all(&path).map_err(|e| LabError::at(format!("create {}", path.display()), e))?;
        self.give(&path)?;
        Ok(path)
    }

    /// Writes a file for a server, owned by the ordinary user if we are root.
    pub(crate) fn write(&self, path: &Path, text: &str) -> Result<(), LabError> {
        fs::write(path, text).map_err(|e| LabError::at(format!("write {}", path.display()), e))?;
        self.give(path)
    }

    fn give(&self, path: &Path) -> Result<(), LabError> {
        let Some(account) = &self.account else { return Ok(()) };
        chown(path, Some(account.uid), Some(account.gid))
            .map_err(|e| LabError::at(format!("give {} to {}", path.display(), account.name), e))
    }

    /// A command with the working directory `folder` (below ours), plain English messages, its temporary files in our
    /// folder, and without the caller's PG… variables. It runs as we do; for servers that refuse root see also
    /// [`Lab::drop_root`].
    pub(crate) fn command(&self, program: &Path, folder: &Path) -> Command {
        debug_assert!(folder.starts_with(self.folder()), "{} is not below the lab's folder", folder.display());
        let mut command = Command::new(program);
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"PG")) {
            command.env_remove(name);
        }
        command.env("LC_ALL", "C").env("TMPDIR", self.folder()).current_dir(folder);
        command.stdin(Stdio::null()).process_group(0);
        command
    }

    /// Makes a command run as the ordinary user if we are root.
    pub(crate) fn drop_root(&self, command: &mut Command) {
        if let Some(account) = &self.account {
            account.run(command);
        }
    }

    /// Starts a program in the background; its output goes to `NAME.log` in our folder.
    pub(crate) fn start(&self, name: &str, command: Command) -> Result<Process, LabError> {
        Process::start(name, command, self.folder().join(format!("{name}.log")), self.reaper())
    }

    /// Runs a command until it ends, or until `timeout`, and stores its output in `raw/NAME.txt`.
    ///
    /// `what` is for a reader: `150 clients through Weir`. An exit status other than 0 is no error here; a timeout is.
    pub(crate) fn run(
        &self,
        name: &str,
        what: &str,
        command: Command,
        timeout: Duration,
    ) -> Result<CommandOutput, LabError> {
        self.begin(name, what, command)?.finish(self, timeout)
    }

    /// Starts a command as [`Lab::run`] does; several may run at the same time.
    pub(crate) fn begin(&self, name: &str, what: &str, mut command: Command) -> Result<Running, LabError> {
        // The lab's temporary folder does not exist any more when a reader repeats the command.
        let line = command_line(&command).replace(&self.folder().display().to_string(), ".");
        let path = |stream: &str| self.folder().join(format!("run-{name}.{stream}"));
        let create =
            |path: &Path| File::create(path).map_err(|e| LabError::at(format!("create {}", path.display()), e));
        let (out, err) = (path("out"), path("err"));
        command.stdout(create(&out)?).stderr(create(&err)?);
        let process = Process::of(name, command, err.clone(), self.reaper())?;
        Ok(Running { name: name.to_owned(), what: what.to_owned(), line, out, err, process })
    }

    /// Stores a raw output that did not come from [`Lab::run`].
    pub(crate) fn keep(&self, name: &str, what: &str, line: &str, text: &str) -> Result<Ran, LabError> {
        let file = self.raw.join(format!("{name}.txt"));
        fs::write(&file, format!("$ {line}\n{text}"))
            .map_err(|e| LabError::at(format!("write {}", file.display()), e))?;
        Ok(Ran { what: what.to_owned(), line: line.to_owned(), raw: format!("raw/{name}.txt") })
    }
}

impl Running {
    /// Waits for its end, and stores its output.
    ///
    /// # Errors
    /// A timeout; the command is ended then.
    pub(crate) fn finish(mut self, lab: &Lab, timeout: Duration) -> Result<CommandOutput, LabError> {
        let status = self.process.wait(timeout);
        drop(self.process);
        let read = |path: &Path| {
            let text = fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
            let _ = fs::remove_file(path);
            text
        };
        let (stdout, stderr) = (read(&self.out), read(&self.err));
        let ended = status.map_or("not ended in time".to_owned(), |status| status.to_string());
        let text = format!("{stdout}\n--- stderr\n{stderr}\n--- {ended}\n");
        let ran = lab.keep(&self.name, &self.what, &self.line, &text)?;
        match status {
            Some(status) => Ok(CommandOutput { status, stdout, stderr, ran }),
            None => {
                let (what, line) = (&self.what, &self.line);
                Err(LabError::Failed(format!("{what}: not done after {} s: {line}", timeout.as_secs())))
            }
        }
    }
}

impl CommandOutput {
    /// An error with the last lines of output, unless the command succeeded.
    pub(crate) fn success(self) -> Result<CommandOutput, LabError> {
        if self.status.success() {
            return Ok(self);
        }
        let said = if self.stderr.trim().is_empty() { &self.stdout } else { &self.stderr };
        let lines: Vec<_> = said.trim_end().lines().collect();
        let shown = lines[lines.len().saturating_sub(6)..].join("\n");
        Err(LabError::Failed(format!("{} ({}): {}\n{shown}", self.ran.what, self.status, self.ran.line)))
    }
}

/// The command line as a user would type it, its file without the folders.
pub(crate) fn command_line(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let words = command.get_args().map(|word| quote(&word.to_string_lossy()));
    std::iter::once(program).chain(words).collect::<Vec<_>>().join(" ")
}

fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@+%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Polls until the condition holds, or until `timeout`; returns whether it holds.
pub(crate) fn eventually(timeout: Duration, mut so: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + timeout;
    loop {
        if so() {
            return true;
        }
        if Instant::now() >= end {
            return false;
        }
        thread::sleep(Duration::from_millis(20));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lab() -> (TempFolder, Lab) {
        let out = TempFolder::new().unwrap();
        let lab = Lab::new(Length::Smoke, None, out.path().join("raw"), Progress::silent()).unwrap();
        (out, lab)
    }

    #[test]
    fn what_a_command_says_is_returned_and_kept() {
        let (out, lab) = lab();
        let mut command = lab.command(Path::new("/bin/sh"), lab.folder());
        command.args(["-c", "echo well; echo bad >&2; exit 3"]);
        let said = lab.run("try", "a try", command, Duration::from_secs(10)).unwrap();
        assert_eq!((said.stdout.as_str(), said.stderr.as_str(), said.status.code()), ("well\n", "bad\n", Some(3)));
        let kept = fs::read_to_string(out.path().join(&said.ran.raw)).unwrap();
        assert!(kept.starts_with("$ sh -c 'echo well; echo bad >&2; exit 3'\nwell\n"), "{kept}");
        let Err(LabError::Failed(text)) = said.success() else { panic!("a status of 3 is no success") };
        assert!(text.contains("bad") && text.contains("a try"), "{text}");
    }

    #[test]
    fn a_command_that_does_not_end_is_ended() {
        let (_out, lab) = lab();
        let mut command = lab.command(Path::new("sleep"), lab.folder());
        command.arg("60");
        let began = Instant::now();
        let trouble = lab.run("sleep", "a sleep", command, Duration::from_millis(100)).unwrap_err();
        assert!(trouble.to_string().contains("not done"), "{trouble}");
        assert!(began.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn the_folder_is_gone_with_the_lab() {
        let (_out, lab) = lab();
        let path = lab.subfolder("below").unwrap();
        assert!(path.exists());
        drop(lab);
        assert!(!path.parent().unwrap().exists());
    }
}
