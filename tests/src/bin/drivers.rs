//! The results of `tests/drivers`: the table at the end of a run, and the page in docs.

use std::path::Path;
use std::process::{Command, ExitCode};

use weir_tests::drivers;

const USAGE: &str = "\
usage: drivers page                                the text of docs/drivers.md, of the kept results
       drivers table RESULTS DRIVER…               what a run has left in the folder RESULTS; 1 if a check failed
       drivers keep RESULTS SERVER-VERSION DRIVER… keeps it in tests/drivers, where the page finds it";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let word = |index: usize| words.get(index).map_or("", String::as_str);
    match word(0) {
        "page" => print!("{}", drivers::page()),
        "table" if words.len() > 1 => {
            let (table, all_well) = drivers::table(Path::new(word(1)), &words[2..]);
            println!("{table}");
            if !all_well {
                return ExitCode::FAILURE;
            }
        }
        "keep" if words.len() > 2 => drivers::keep(Path::new(word(1)), word(2), &today(), &words[3..]),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}

/// Today's date, from the machine's clock.
fn today() -> String {
    let output = Command::new("date").args(["-u", "+%Y-%m-%d"]).output().expect("date runs");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}
