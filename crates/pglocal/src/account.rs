//! As which operating-system user PostgreSQL runs: it refuses to be root, so root's servers drop to an ordinary user.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::Error;

/// An ordinary user of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// The user's name in `/etc/passwd`.
    pub name: String,
    /// The user's number.
    pub uid: u32,
    /// The number of the user's first group.
    pub gid: u32,
}

impl Account {
    /// The ordinary user for servers that refuse to be root; `None` where we are an ordinary user ourselves.
    ///
    /// # Errors
    /// If we are root, and this machine has no user to drop to.
    pub fn to_drop_to() -> Result<Option<Account>, Error> {
        to_drop_to()
    }

    /// Fails with the reason why this process can run no PostgreSQL, whatever is installed.
    ///
    /// # Errors
    /// If we are root, and there is no user to drop to, or we may not become that user.
    pub fn check() -> Result<(), Error> {
        check(to_drop_to()?.as_ref())
    }

    /// Makes `command` run as this user; std drops the supplementary groups with it.
    pub fn run(&self, command: &mut Command) {
        command.uid(self.uid).gid(self.gid);
    }
}

/// The user to drop to: `None` unless we are root.
///
/// Tried in this order: `postgres`, the user who called `sudo`, `nobody`.
pub(crate) fn to_drop_to() -> Result<Option<Account>, Error> {
    if !nix::unistd::geteuid().is_root() {
        return Ok(None);
    }
    let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let sudo = std::env::var("SUDO_USER").ok();
    choose(&passwd, sudo.as_deref()).map(Some).ok_or_else(|| {
        Error::new(
            "PostgreSQL does not run as root, and this machine has neither a user `postgres` nor `nobody`: \
             run as an ordinary user, or add one (useradd postgres)",
        )
    })
}

/// Fails if this process may not become that user: root in a container whose capabilities were dropped.
pub(crate) fn check(account: Option<&Account>) -> Result<(), Error> {
    let Some(account) = account else { return Ok(()) };
    let mut command = Command::new("true");
    account.run(&mut command);
    match command.status() {
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => Err(Error::new(format!(
            "PostgreSQL does not run as root, and this process may not become the user {}: it lacks the capabilities \
             SETUID and SETGID. Run it as an ordinary user",
            account.name
        ))),
        _ => Ok(()),
    }
}

/// Picks the user from the text of `/etc/passwd`.
fn choose(passwd: &str, sudo_user: Option<&str>) -> Option<Account> {
    let wanted = [Some("postgres"), sudo_user, Some("nobody")];
    wanted.into_iter().flatten().find_map(|name| passwd.lines().find_map(|line| entry(line, name)))
}

/// One line of `/etc/passwd`, if it is about `name` and not another name for root.
fn entry(line: &str, name: &str) -> Option<Account> {
    let mut fields = line.split(':');
    if fields.next()? != name {
        return None;
    }
    let uid = fields.nth(1)?.parse().ok()?;
    let gid = fields.next()?.parse().ok()?;
    (uid != 0).then(|| Account { name: name.to_owned(), uid, gid })
}

/// Makes `command` run as `account`; std drops the supplementary groups with it.
pub(crate) fn run_as(command: &mut Command, account: Option<&Account>) {
    if let Some(account) = account {
        account.run(command);
    }
}

/// Whether any user may reach `path`: each folder above it, and it, has the search bit for others.
///
/// An ordinary user cannot use programs below `/root`, nor a temporary folder there.
pub(crate) fn open_to_others(path: &Path) -> bool {
    let Ok(path) = path.canonicalize() else { return false };
    path.ancestors().all(|step| step.metadata().is_ok_and(|meta| meta.mode() & 0o001 != 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str = "root:x:0:0:root:/root:/bin/bash\n\
                          nobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n\
                          ann:x:1000:1000::/home/ann:/bin/sh\n";

    #[test]
    fn postgres_is_preferred_then_the_caller_of_sudo_then_nobody() {
        let with_postgres = format!("{PASSWD}postgres:x:101:104::/var/lib/postgresql:/bin/bash\n");
        assert_eq!(choose(&with_postgres, Some("ann")).unwrap().uid, 101);
        assert_eq!(choose(PASSWD, Some("ann")).unwrap().name, "ann");
        assert_eq!(choose(PASSWD, None).unwrap().gid, 65534);
    }

    #[test]
    fn root_under_any_name_is_not_an_ordinary_user() {
        assert_eq!(choose("postgres:x:0:0::/:/bin/sh\n", None), None);
    }

    #[test]
    fn the_root_folder_is_open_and_a_missing_path_is_not() {
        assert!(open_to_others(Path::new("/")));
        assert!(!open_to_others(Path::new("/no/such/folder")));
    }
}
