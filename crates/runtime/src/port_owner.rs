//! Which program listens on a port of this machine, for the message that the port is in use; and whether a Weir serves
//! a file.
//!
//! Source: proc(5), /proc/net/tcp, /proc/PID/fd and /proc/PID/cmdline. Of programs of other users only root sees the
//! sockets.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The state of a listening socket in /proc/net/tcp (TCP_LISTEN).
const LISTENS: &str = "0A";

/// The program that listens on a port, as "NAME (process PID)"; `None`: not found, or not shown to this user.
/// Reads the descriptors of all processes: for an error at the start.
pub(crate) fn owner(port: u16) -> Option<String> {
    let sockets: Vec<String> = ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .filter_map(|table| fs::read_to_string(table).ok())
        .flat_map(|table| listening(&table, port))
        .map(|inode| format!("socket:[{inode}]"))
        .collect();
    let processes = fs::read_dir("/proc").ok()?.flatten();
    processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()).find_map(|pid| {
        let links = fs::read_dir(format!("/proc/{pid}/fd")).ok()?.flatten();
        let mut links = links.filter_map(|link| fs::read_link(link.path()).ok());
        links.any(|link| sockets.iter().any(|socket| link.as_os_str() == socket.as_str())).then(|| {
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            format!("{} (process {pid})", name.trim())
        })
    })
}

/// The commands of Weir that serve the file they name.
const SERVING: [&str; 3] = ["serve", "pgbouncer", "upgrade"];

/// The other name of the program, under which it serves without a command.
const PGBOUNCER: &str = "pgbouncer";

/// Whether a process of this machine is a Weir that serves a file, also one of another user.
pub fn is_served(file: &Path) -> bool {
    let Ok(file) = file.canonicalize() else { return false };
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten().map(|entry| entry.path());
    processes.filter(|process| is_weir(process)).any(|process| {
        let command = fs::read(process.join("cmdline")).unwrap_or_default();
        serves(&command, &process.join("cwd"), &file)
    })
}

/// Whether a process is a Weir, also under PgBouncer's name: then its program shows it, to its own user and to root.
fn is_weir(process: &Path) -> bool {
    let name = fs::read_to_string(process.join("comm")).unwrap_or_default();
    let program = || fs::read_link(process.join("exe")).ok();
    let is_named = |program: PathBuf| program.file_name().is_some_and(|name| name.as_bytes().starts_with(b"weir"));
    name.trim() == "weir" || name.trim() == PGBOUNCER && program().is_some_and(is_named)
}

/// Whether a command, its words with a zero byte after each, serves a file. `folder`: its working directory.
fn serves(command: &[u8], folder: &Path, file: &Path) -> bool {
    let mut words = command.split(|byte| *byte == 0).map(OsStr::from_bytes);
    let is_pgbouncer = words.next().is_some_and(|program| Path::new(program).ends_with(PGBOUNCER));
    let begins = is_pgbouncer || words.next().is_some_and(|word| SERVING.iter().any(|command| word == *command));
    begins
        && words
            .filter(|word| !word.is_empty())
            .any(|word| folder.join(word).canonicalize().is_ok_and(|path| path == file))
}

/// The inodes of the sockets in a table that listen on a port.
fn listening(table: &str, port: u16) -> Vec<String> {
    let of = |line: &str| {
        let mut fields = line.split_whitespace();
        let (local, state) = (fields.nth(1)?, fields.nth(1)?);
        let (_, at) = local.rsplit_once(':')?;
        let matches = state == LISTENS && u16::from_str_radix(at, 16) == Ok(port);
        matches.then(|| fields.nth(5).map(str::to_owned))?
    };
    table.lines().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn the_owner_of_a_port_is_the_process_that_listens_there() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let own = format!("(process {})", std::process::id());
        assert!(owner(port).is_some_and(|owner| owner.ends_with(&own)), "{:?}", owner(port));
        drop(listener);
        assert!(!owner(port).is_some_and(|owner| owner.ends_with(&own)));
    }

    #[test]
    fn a_command_serves_the_file_that_it_names_wherever_it_runs() {
        let folder = std::env::current_dir().unwrap();
        let file = folder.join("Cargo.toml");
        let absolute = [b"weir\0pgbouncer\0-d\0", file.as_os_str().as_bytes(), b"\0"].concat();
        assert!(serves(&absolute, Path::new("/"), &file));
        assert!(serves(b"weir\0serve\0Cargo.toml\0", &folder, &file));
        assert!(serves(b"/usr/bin/pgbouncer\0-d\0Cargo.toml\0", &folder, &file));
        for other in [&b"weir\0serve\0Cargo.lock\0"[..], b"weir\0check\0Cargo.toml\0", b"weir\0serve\0", b""] {
            assert!(!serves(other, &folder, &file), "{}", String::from_utf8_lossy(other));
        }
    }

    #[test]
    fn only_listening_sockets_of_the_port_count() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
                     0: 0100007F:1920 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4711 1 0 100\n   \
                     1: 0100007F:1920 0100007F:D431 01 00000000:00000000 00:00000000 00000000  1000        0 4712 1 0 100\n   \
                     2: 0100007F:1921 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4713 1 0 100\n";
        assert_eq!(listening(table, 0x1920), ["4711"]);
        assert_eq!(listening(table, 0x1922), Vec::<String>::new());
    }
}
