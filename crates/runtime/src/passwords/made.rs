//! Passwords for our logins at servers that a program prints (`password_command`) or a service makes
//! (`password_source`), and how long they count.
//!
//! Owns what was made: one run of a program, and one request to a service, at a time, whose password counts for all
//! logins until its time ends, or a server refuses it.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use weir_base::Target;
use weir_config::{PasswordCommand, PasswordSource};
use weir_engine::port::PrintedPassword;
use weir_tokens::{Cache, ClockReading, Made, Tokens};

use super::printed::run;

/// What programs have printed: a changed program is another one.
static PRINTED: LazyLock<Cache<PasswordCommand, Arc<str>>> = LazyLock::new(Cache::new);

/// What services have made.
static TOKENS: LazyLock<Tokens> = LazyLock::new(Tokens::default);

/// The password for a login at a server; one that was made before while that counts, and is not the `refused` one.
/// Blocks for as long as the program or the service may take, and while the same one is made for another login. Called
/// by helpers, and by the control plane's tests of pools and looks at servers.
///
/// # Errors
/// Why there is none, in a line that begins with the setting, and without any output of the program or secret of the
/// service.
pub fn made_password(
    source: &PasswordSource,
    target: &Target,
    refused: Option<&str>,
) -> Result<PrintedPassword, String> {
    let made = match source {
        PasswordSource::Command(command) => printed(command, refused),
        PasswordSource::Token(token) => TOKENS.get(token, target, refused).map(|found| PrintedPassword {
            password: found.value.password,
            is_new: found.is_new,
            about: Some(found.value.about),
            overdue: found.overdue.map(|why| source.failed(&why)),
        }),
    };
    made.map_err(|why| source.failed(&why))
}

/// What makes the password: each has a thread of its own.
pub(crate) fn key(source: &PasswordSource, target: &Target) -> String {
    match source {
        PasswordSource::Command(command) => command.argv.join("\0"),
        PasswordSource::Token(token) if token.service.is_by_host() => {
            format!("{}\0{target}", token.words.join("\0"))
        }
        PasswordSource::Token(token) => token.words.join("\0"),
    }
}

fn printed(command: &PasswordCommand, refused: Option<&str>) -> Result<PrintedPassword, String> {
    let lifetime = Duration::from_micros(command.lifetime.micros());
    let found = PRINTED.get(
        ClockReading::now,
        command,
        |password| refused == Some(password),
        |_| {
            let password = run(command)?;
            // It counts from the end of the run.
            Ok(Made::lasting(password, ClockReading::now(), lifetime))
        },
    )?;
    Ok(PrintedPassword { password: found.value, is_new: found.is_new, about: None, overdue: None })
}

#[cfg(test)]
mod tests {
    use weir_base::{Host, Span};

    use super::*;

    #[test]
    fn a_password_counts_for_its_lifetime_unless_a_server_refuses_it() {
        let count = std::env::temp_dir().join(format!("weir-printed-count-{}", std::process::id()));
        let text = format!("echo x >>{0}; wc -l <{0}", count.to_str().unwrap());
        let argv = ["/bin/sh", "-c", &text].map(str::to_owned).to_vec();
        let command = PasswordCommand { argv, timeout: Span::from_secs(20), lifetime: Span::from_secs(3600) };
        let get = |command: &PasswordCommand, refused: Option<&str>| {
            let source = PasswordSource::Command(Arc::new(command.clone()));
            let target = Target { host: Host::parse("h"), port: 1 };
            let made = made_password(&source, &target, refused).unwrap();
            (made.password.trim().to_owned(), made.is_new)
        };
        let made = |text: &str, is_new| (text.to_owned(), is_new);
        assert_eq!(get(&command, None), made("1", true));
        assert_eq!(get(&command, None), made("1", false));
        assert_eq!(get(&command, Some("1")), made("2", true));
        // Another login had the first one, too.
        assert_eq!(get(&command, Some("1")), made("2", false));
        let short = PasswordCommand { lifetime: Span::ZERO, ..command };
        assert_eq!(get(&short, None), made("3", true));
        assert_eq!(get(&short, None), made("4", true));
        std::fs::remove_file(&count).unwrap();
    }

    #[test]
    fn a_program_that_fails_is_an_error_with_the_settings_name() {
        let argv = vec!["/no/such/program".to_owned()];
        let command = PasswordCommand { argv, ..PasswordCommand::default() };
        let target = Target { host: Host::parse("h"), port: 1 };
        let error = made_password(&PasswordSource::Command(Arc::new(command)), &target, None).map(|_| ()).unwrap_err();
        assert_eq!(
            error,
            "password_command failed: /no/such/program could not be started: No such file or directory (os error 2)"
        );
    }
}
