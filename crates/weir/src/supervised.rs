//! Whether a supervisor has started the process that serves, and would take the end of that process for the end of the
//! service. Then another process takes over only through the supervisor, which has to know the service's process.
//!
//! Decides by what /proc shows of the process. No supervisor is asked.

use std::fmt;
use std::fs;

/// Programs that run one child, and restart it, or end, when it ends; as the system shows their names, which it cuts at
/// 15 bytes.
const SUPERVISORS: [&str; 9] = [
    "runsv",
    "s6-supervise",
    "supervise",
    "supervise-daemo",
    "supervisord",
    "tini",
    "dumb-init",
    "docker-init",
    "catatonit",
];

/// What the system shows of a process.
#[derive(Clone, Default, Debug)]
pub(crate) struct Facts {
    pid: u32,
    /// `None`: the environment is not shown to this user.
    environment: Option<Vec<u8>>,
    cgroup: String,
    /// The arguments of the process, a NUL behind each.
    arguments: Vec<u8>,
    /// The name of the parent process.
    parent: String,
}

/// See the head of the file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Supervisor {
    /// Systemd, with the unit, if that is known; one of the user's own manager.
    Systemd { unit: Option<String>, of_user: bool },
    /// The process is the first one of a container.
    Container,
    /// A program of this name.
    Other(String),
}

impl Facts {
    pub(crate) fn of(pid: u32) -> Facts {
        let text = |what: &str| fs::read_to_string(format!("/proc/{pid}/{what}")).unwrap_or_default();
        let status = text("status");
        let parent = status.lines().find_map(|line| line.strip_prefix("PPid:")).map_or("0", str::trim);
        Facts {
            pid,
            environment: fs::read(format!("/proc/{pid}/environ")).ok(),
            cgroup: text("cgroup"),
            arguments: fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default(),
            parent: fs::read_to_string(format!("/proc/{parent}/comm")).unwrap_or_default().trim().to_owned(),
        }
    }

    fn variable(&self, name: &str) -> Option<&[u8]> {
        let all = self.environment.as_deref()?.split(|byte| *byte == 0);
        let mut found = all.filter_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"="));
        found.next().filter(|value| !value.is_empty())
    }

    /// Whether it has left who started it, by `weir pgbouncer -d` or `weir upgrade`: its parent now is whatever adopts
    /// orphans.
    fn is_detached(&self) -> bool {
        let is_short = |word: &[u8]| word.first() == Some(&b'-') && word.get(1) != Some(&b'-') && word.contains(&b'd');
        self.arguments.split(|byte| *byte == 0).any(|word| matches!(word, b"--daemon" | b"--report") || is_short(word))
    }

    /// The service of systemd that the process is in, and whether that is of the user's own manager.
    fn unit(&self) -> Option<(String, bool)> {
        let of_systemd = |line: &str| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            (controllers.is_empty() || controllers == "name=systemd").then(|| path.to_owned())
        };
        let path = self.cgroup.lines().filter_map(of_systemd).max_by_key(String::len)?;
        let manager = |part: &str| part.starts_with("user@");
        let unit = path.rsplit('/').find(|part| part.ends_with(".service"))?;
        (!manager(unit)).then(|| (unit.to_owned(), path.split('/').any(manager)))
    }
}

/// The supervisor that has to be asked when a process with the facts `own` is to take over from `old`; `None` if the
/// supervisor has started that process itself, as for a reload.
pub(crate) fn supervisor(old: &Facts, own: &Facts) -> Option<Supervisor> {
    if old.pid == 1 {
        return Some(Supervisor::Container);
    }
    let is_child = old.parent == "systemd";
    let belongs = match ["NOTIFY_SOCKET", "INVOCATION_ID"].map(|name| (old.variable(name), own.variable(name))) {
        // Systemd runs a unit's ExecReload= with what it has given to the service.
        [_, (Some(old), Some(own))] if old == own => return None,
        [(Some(old), own), _] => Some(old) != own,
        // Everything that a service has started has this one; a child of systemd is the service's main process.
        [_, (Some(_), _)] => is_child,
        _ => old.environment.is_none() && is_child && old.unit() != own.unit(),
    };
    if belongs {
        let (unit, of_user) = old.unit().map_or((None, false), |(unit, of_user)| (Some(unit), of_user));
        return Some(Supervisor::Systemd { unit, of_user });
    }
    (SUPERVISORS.contains(&old.parent.as_str()) && !old.is_detached()).then(|| Supervisor::Other(old.parent.clone()))
}

impl fmt::Display for Supervisor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Supervisor::Systemd { unit, of_user } => {
                let (command, unit) = (if *of_user { "systemctl --user" } else { "systemctl" }, unit.as_deref());
                let of = unit.unwrap_or("a service");
                let reload = unit.unwrap_or("UNIT");
                write!(
                    f,
                    "it belongs to {of} of systemd, which would take its end for the service's: use {command} reload {reload}, with ExecReload= \
                     as in docs/operations.md"
                )
            }
            Supervisor::Container => f.write_str(
                "it is process 1 of its container, which ends with it: start a container with the new version",
            ),
            Supervisor::Other(name) => {
                write!(f, "it was started by {name}, which would take its end for the service's: restart it there")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(pid: u32, environment: &str, cgroup: &str, parent: &str) -> Facts {
        let environment = Some(environment.replace(' ', "\0").into_bytes());
        let arguments = b"weir\0serve\0weir.toml\0".to_vec();
        Facts { pid, environment, cgroup: cgroup.to_owned(), arguments, parent: parent.to_owned() }
    }

    const SERVICE: &str = "0::/system.slice/weir.service\n";
    const LOGIN: &str = "0::/user.slice/user-0.slice/session-3.scope\n";

    fn systemd(unit: Option<&str>, of_user: bool) -> Option<Supervisor> {
        Some(Supervisor::Systemd { unit: unit.map(str::to_owned), of_user })
    }

    #[test]
    fn a_service_of_systemd_is_replaced_by_its_reload_only() {
        let old = facts(7, "A=1 NOTIFY_SOCKET=/run/notify INVOCATION_ID=abc", SERVICE, "systemd");
        let found = supervisor(&old, &facts(9, "A=1", LOGIN, "bash"));
        assert_eq!(found, systemd(Some("weir.service"), false));
        let said = found.unwrap().to_string();
        assert!(said.contains("weir.service") && said.contains("systemctl reload weir.service"), "{said}");
        let reload = facts(9, "NOTIFY_SOCKET=/run/notify INVOCATION_ID=abc", SERVICE, "systemd");
        assert_eq!(supervisor(&old, &reload), None);
        assert_eq!(supervisor(&old, &facts(9, "INVOCATION_ID=abc", SERVICE, "systemd")), None, "NotifyAccess=main");
        let other = facts(9, "INVOCATION_ID=def NOTIFY_SOCKET=/run/notify2", "0::/system.slice/cron.service", "cron");
        assert_eq!(supervisor(&old, &other), systemd(Some("weir.service"), false));
        // After an upgrade the process is no child of systemd any more.
        assert_eq!(
            supervisor(&Facts { parent: "init".to_owned(), ..old }, &other),
            systemd(Some("weir.service"), false)
        );
    }

    #[test]
    fn a_service_without_notifications_is_known_by_its_parent() {
        let simple = facts(7, "INVOCATION_ID=abc", SERVICE, "systemd");
        let login = facts(9, "", LOGIN, "bash");
        assert_eq!(supervisor(&simple, &login), systemd(Some("weir.service"), false));
        let started_by_hand = facts(7, "INVOCATION_ID=abc", "0::/system.slice/ssh.service", "bash");
        assert_eq!(supervisor(&started_by_hand, &login), None);
        let hidden = Facts { environment: None, ..simple };
        assert_eq!(supervisor(&hidden, &login), systemd(Some("weir.service"), false));
        assert_eq!(supervisor(&hidden, &facts(9, "", SERVICE, "systemd")), None, "it is of the same service");
    }

    #[test]
    fn a_users_own_service_has_another_command() {
        let cgroup = "0::/user.slice/user-1000.slice/user@1000.service/app.slice/weir.service";
        let old = facts(7, "NOTIFY_SOCKET=/run/user/1000/systemd/notify", cgroup, "systemd");
        let found = supervisor(&old, &facts(9, "", LOGIN, "bash"));
        assert_eq!(found, systemd(Some("weir.service"), true));
        assert!(found.unwrap().to_string().contains("systemctl --user reload weir.service"));
        let shell = "0::/user.slice/user-1000.slice/user@1000.service/app.slice/terminal.scope";
        assert_eq!(facts(7, "", shell, "").unit(), None);
        let first_version = "12:pids:/x\n1:name=systemd:/system.slice/weir.service\n0::/\n";
        assert_eq!(facts(7, "", first_version, "").unit(), Some(("weir.service".to_owned(), false)));
    }

    #[test]
    fn other_supervisors_are_known_by_name_and_a_process_started_by_hand_has_none() {
        let own = facts(9, "", LOGIN, "bash");
        assert_eq!(supervisor(&facts(1, "", "0::/", ""), &own), Some(Supervisor::Container));
        for name in SUPERVISORS {
            assert_eq!(supervisor(&facts(7, "", "0::/", name), &own), Some(Supervisor::Other(name.to_owned())));
            assert!(name.len() <= 15, "{name}");
        }
        for arguments in ["weir\0pgbouncer\0-qd\0a.ini\0", "weir\0upgrade\0--foreground\0--report\0weir.toml\0"] {
            let orphan = Facts { arguments: arguments.into(), ..facts(7, "", "0::/", "tini") };
            assert_eq!(supervisor(&orphan, &own), None, "{arguments}");
        }
        for parent in ["bash", "systemd", "init", ""] {
            assert_eq!(supervisor(&facts(7, "A=1", LOGIN, parent), &own), None, "{parent}");
        }
    }

    #[test]
    fn facts_are_those_of_the_process() {
        let own = Facts::of(std::process::id());
        assert!(own.environment.is_some() && !own.parent.is_empty(), "{own:?}");
        assert_eq!(supervisor(&own, &own.clone()).filter(|found| matches!(found, Supervisor::Systemd { .. })), None);
    }
}
