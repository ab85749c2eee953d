//! `weir-pglocal`: which PostgreSQL the demo and the tests will run, asked before they are built.
//!
//! `weir-pglocal --folder` prints the folder of its programs, if it is here. `weir-pglocal [--yes] COMMAND`; COMMAND,
//! such as `make demo`, is named in what is printed. Where there is no PostgreSQL, it asks before it gets one; with
//! `--yes` it does not. Its exit status is 0 if there is one; 1 if there is none; 3 if this process can run none.

use std::process::ExitCode;

use weir_pglocal::{Account, Consent, find_here, find_with};

const NONE: u8 = 1;
const CANNOT_RUN: u8 = 3;

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some("--folder") {
        let programs = find_here();
        programs.iter().for_each(|programs| println!("{}", programs.bin().display()));
        return ExitCode::from(if programs.is_some() { 0 } else { NONE });
    }
    let (options, words): (Vec<_>, Vec<_>) = std::env::args().skip(1).partition(|word| word == "--yes");
    let with_yes = format!("{} ARGS=--yes", words.join(" "));
    if let Err(reason) = Account::check() {
        eprintln!("{reason}.");
        return ExitCode::from(CANNOT_RUN);
    }
    let consent = Consent::new(!options.is_empty());
    match find_with(&mut |offer| consent.decide(offer, &with_yes), &mut |line| println!("  {line}")) {
        Ok(programs) => {
            println!("  PostgreSQL {} in {}", programs.version(), programs.bin().display());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(NONE)
        }
    }
}
