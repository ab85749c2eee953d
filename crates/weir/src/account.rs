//! `weir account`: prints a line of `weir.toml` for an account of the control plane.
//!
//! Writes no file, and stores nothing: a password is read without echo, and only its hash is printed.

use std::io::{BufRead, IsTerminal, Write, stderr, stdin};

use nix::sys::termios::{LocalFlags, SetArg, Termios, tcgetattr, tcsetattr};
use weir_config::{Account, WebRole};

use crate::failure::Failure;
use weir_terminal::print_line;

/// The kind of account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A user with a password.
    Person,
    /// A program with a token.
    Program,
}

/// The shortest password, in characters: any client that reaches the port may guess.
const MIN_PASSWORD: usize = 8;

/// Prints the line, and its section.
pub(crate) fn run(name: &str, role: WebRole, kind: Kind) -> Result<(), Failure> {
    if name.is_empty() || name.chars().any(char::is_control) {
        return Err(Failure::Message("this can't be the name of an account".to_owned()));
    }
    let (section, hash) = match kind {
        Kind::Person => ("[web.users]", weir_web::hash_password(&password()?).map_err(Failure::of)?),
        Kind::Program => {
            let token = weir_web::new_token();
            eprintln!("The token, which is shown only now; send it as Authorization: Bearer TOKEN\n{token}\n");
            ("[web.tokens]", weir_web::hash_token(&token))
        }
    };
    eprintln!("Put this line below {section} of weir.toml, and have it read again (RELOAD):");
    print_line(Account { role, hash }.line(name));
    Ok(())
}

fn password() -> Result<String, Failure> {
    let mut password = String::new();
    if stdin().is_terminal() {
        eprint!("Password: ");
        // A closed terminal can't be handled.
        let _ = stderr().flush();
        let _hidden = Hidden::begin();
        read_line(&mut password)?;
        eprintln!();
    } else {
        read_line(&mut password)?;
    }
    let password = password.trim_end_matches(['\r', '\n']).to_owned();
    if password.chars().count() < MIN_PASSWORD {
        return Err(Failure::Message(format!("a password has at least {MIN_PASSWORD} characters")));
    }
    Ok(password)
}

fn read_line(text: &mut String) -> Result<(), Failure> {
    stdin().lock().read_line(text).map(drop).map_err(|error| Failure::at("can't read the password", error))
}

/// Turns the terminal's echo off, until this is dropped.
struct Hidden(Termios);

impl Hidden {
    fn begin() -> Option<Hidden> {
        let before = tcgetattr(stdin()).ok()?;
        let mut without_echo = before.clone();
        without_echo.local_flags.remove(LocalFlags::ECHO);
        tcsetattr(stdin(), SetArg::TCSAFLUSH, &without_echo).ok()?;
        Some(Hidden(before))
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        let _ = tcsetattr(stdin(), SetArg::TCSAFLUSH, &self.0);
    }
}
