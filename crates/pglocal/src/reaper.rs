//! Nothing left behind: a tiny shell process that outlives us and clears up.
//!
//! The shell reads from a pipe whose other end only we hold. Whatever ends us, be it a panic, Ctrl-C or SIGKILL, closes
//! the pipe; then it stops the processes that were added to it, and those that work in the folder, and removes the
//! folder. While we live it does nothing at all.
//!
//! Invariant: a process is added before anything else can fail, and removed only after it has been waited for, so its
//! id can't belong to another process while we live. One that was started in the moment of our death, or by a child of
//! ours, is found by its working directory, which is in the folder.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Mutex;

use crate::Error;

/// What the shell runs; `$1` is the folder.
///
/// The shell ignores the terminal's signals, and is in a process group of its own as well. QUIT ends PostgreSQL and
/// Weir at once; CONT wakes a process that a test has stopped; who stays gets TERM and INT, for a program may ignore
/// any of the three; KILL is for those that will not go within six seconds, however many they are. Who has ended, and
/// has not been waited for, is gone. Then the folder is removed until it stays away, because a program such as initdb
/// may still be writing into it for a moment.
const SCRIPT: &str = r#"
trap '' HUP INT QUIT TERM PIPE
folder=$1
pids=' '
while read -r verb pid; do
    case $verb in
        watch) pids="$pids$pid " ;;
        forget) case $pids in *" $pid "*) pids="${pids%% $pid *} ${pids#* $pid }" ;; esac ;;
        leave) exit 0 ;;
    esac
done
inside() { find /proc -maxdepth 2 -name cwd \( -lname "$folder" -o -lname "$folder/*" \) 2>/dev/null | cut -d/ -f3; }
alive() {
    for pid in "$@"; do
        kill -0 "$pid" || continue
        case $(sed 's/.*) //' "/proc/$pid/stat") in [ZX]*) ;; *) echo "$pid" ;; esac
    done 2>/dev/null
}
send() { for pid in $left; do kill "-$1" "$pid"; kill -CONT "$pid"; done 2>/dev/null; }
left="$pids $(inside)"
n=0
while [ $n -lt 60 ] && [ -n "$left" ]; do
    case $n in 0) send QUIT ;; 10) send TERM ;; 20) send INT ;; esac
    sleep 0.1
    left=$(alive $left)
    n=$((n + 1))
done
send KILL
n=0
while [ $n -lt 4 ]; do
    for pid in $(inside); do kill -KILL $pid; done 2>/dev/null
    rm -rf -- "$folder" 2>/dev/null
    n=$((n + 1))
    sleep 0.25
done
"#;

/// Ends the processes it watches, and removes a folder, when this process is gone or when it is dropped unasked.
#[derive(Debug)]
pub struct Reaper {
    shell: Child,
    pipe: Mutex<Option<ChildStdin>>,
}

impl Reaper {
    /// Starts one for `folder`, which need not exist yet.
    pub fn of(folder: &Path) -> Result<Self, Error> {
        crate::restore_signals_for_children();
        let mut shell = Command::new("/bin/sh")
            .args(["-c", SCRIPT, "weir-reaper"])
            .arg(folder)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .map_err(|e| Error::io("start /bin/sh, which clears up after us", &e))?;
        let pipe = Mutex::new(shell.stdin.take());
        Ok(Reaper { shell, pipe })
    }

    /// From now on this process ends with us.
    pub fn watch(&self, pid: u32) {
        self.say(&format!("watch {pid}\n"));
    }

    /// This process has ended and has been waited for; its id may belong to another process from now on.
    pub fn forget(&self, pid: u32) {
        self.say(&format!("forget {pid}\n"));
    }

    /// Does at once what would be done at our death, and returns when it is done.
    pub fn clear(&self) {
        drop(self.pipe.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take());
        // A shell that is not a child of ours any more has been waited for: then all is done.
        let _ = nix::sys::wait::waitpid(nix::unistd::Pid::from_raw(self.shell.id().cast_signed()), None);
    }

    /// Whether [`Reaper::clear`] has begun: what is started now would be ended at once, or not at all.
    pub fn clearing(&self) -> bool {
        self.pipe.lock().unwrap_or_else(std::sync::PoisonError::into_inner).is_none()
    }

    fn say(&self, line: &str) {
        let mut pipe = self.pipe.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(pipe) = pipe.as_mut() {
            // A reaper that was killed can't be reached; the processes are still ended by their owners.
            let _ = pipe.write_all(line.as_bytes());
        }
    }
}

impl Drop for Reaper {
    /// Our own cleaning comes first: an owner drops its processes and its folder, then this.
    fn drop(&mut self) {
        self.say("leave\n");
        drop(self.pipe.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take());
        let _ = self.shell.wait();
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::process::{self, Signal, send_signal};

    /// A reaper whose owner dies: the pipe closes without a word.
    fn orphan(reaper: &Reaper) {
        drop(reaper.pipe.lock().unwrap().take());
    }

    fn folder(name: &str) -> std::path::PathBuf {
        let path = std::env::temp_dir().join(format!("weir-reaper-{name}-{}", std::process::id()));
        fs::create_dir_all(path.join("below")).unwrap();
        path
    }

    fn gone_within(path: &Path, timeout: Duration) -> bool {
        let end = Instant::now() + timeout;
        while path.exists() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(20));
        }
        !path.exists()
    }

    #[test]
    fn what_is_watched_ends_with_its_owner_and_what_is_forgotten_does_not() {
        let path = folder("watch");
        let reaper = Reaper::of(&path).unwrap();
        let mut sleepers: Vec<_> = (0..3).map(|_| Command::new("sleep").arg("60").spawn().unwrap()).collect();
        sleepers.iter().for_each(|sleeper| reaper.watch(sleeper.id()));
        send_signal(sleepers[2].id(), Signal::SIGSTOP);
        reaper.forget(sleepers[1].id());
        orphan(&reaper);
        assert!(process::wait(&mut sleepers[0], Duration::from_secs(5)).is_some(), "a watched process ends");
        assert!(process::wait(&mut sleepers[2], Duration::from_secs(5)).is_some(), "a stopped one too");
        assert!(process::wait(&mut sleepers[1], Duration::from_millis(50)).is_none(), "a forgotten one continues");
        sleepers[1].kill().unwrap();
        sleepers[1].wait().unwrap();
        assert!(gone_within(&path, Duration::from_secs(5)));
    }

    #[test]
    fn who_ignores_every_signal_is_killed_and_many_are_not_waited_for_one_by_one() {
        let path = folder("stay");
        let reaper = Reaper::of(&path).unwrap();
        let ignoring = "trap '' HUP INT QUIT TERM; echo; exec sleep 600";
        let mut sleepers: Vec<_> = (0..5)
            .map(|_| {
                let mut sleeper = Command::new("sh").args(["-c", ignoring]).stdout(Stdio::piped()).spawn().unwrap();
                // From now on it ignores them.
                std::io::Read::read_exact(sleeper.stdout.as_mut().unwrap(), &mut [0]).unwrap();
                sleeper
            })
            .collect();
        sleepers.iter().for_each(|sleeper| reaper.watch(sleeper.id()));
        orphan(&reaper);
        // Six seconds for all; it would be thirty for one after the other.
        let end = Instant::now() + Duration::from_secs(20);
        for sleeper in &mut sleepers {
            assert!(process::wait(sleeper, end.saturating_duration_since(Instant::now())).is_some());
        }
        assert!(gone_within(&path, Duration::from_secs(5)));
    }

    #[test]
    fn what_works_in_the_folder_ends_too_though_nobody_told_of_it() {
        let path = folder("inside");
        let reaper = Reaper::of(&path).unwrap();
        let mut sleeper = Command::new("sleep").arg("60").current_dir(path.join("below")).spawn().unwrap();
        assert!(!reaper.clearing());
        reaper.clear();
        assert!(reaper.clearing());
        assert!(process::wait(&mut sleeper, Duration::from_secs(5)).is_some());
        assert!(!path.exists(), "and when clear() returns, the folder is gone");
    }

    #[test]
    fn a_reaper_that_is_dropped_leaves_the_cleaning_to_its_owner() {
        let path = folder("leave");
        drop(Reaper::of(&path).unwrap());
        assert!(path.exists());
        fs::remove_dir_all(&path).unwrap();
    }
}
