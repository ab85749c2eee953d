//! `weir man`: manual pages, made of the command line's help and of the table of settings.
//!
//! Sections of a page are clap_mangen's, but for the text after the help, whose lines must stay as they are.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap_mangen::Man;
use weir_terminal::print_line;

use crate::failure::Failure;

pub(crate) const HELP: &str = "\
Examples:
  weir man                        weir(1), in the pager
  weir man weir.toml              weir.toml(5): every setting
  weir man weir-check             weir-check(1); so for every command
  weir man --dir /usr/share/man   writes all pages, into man1 and man5

If standard output is no terminal, or there is no program man, the source of the page is printed.";

/// The page of the settings.
const SETTINGS: &str = "weir.toml";

/// The arguments of `weir man`.
#[derive(clap::Args, Debug)]
pub(crate) struct Arguments {
    /// The page: weir, weir.toml, or weir-COMMAND
    #[arg(default_value = "weir")]
    page: String,
    /// Write all pages below this folder
    #[arg(long, value_name = "FOLDER", conflicts_with = "page")]
    dir: Option<PathBuf>,
}

/// A manual page.
struct Page {
    name: String,
    section: u8,
    text: String,
}

/// Shows a page, or writes all.
pub(crate) fn run(arguments: &Arguments, command: clap::Command) -> Result<(), Failure> {
    let pages = pages(command)?;
    if let Some(dir) = &arguments.dir {
        return pages.iter().try_for_each(|page| write(dir, page));
    }
    let named = |page: &&Page| page.name == arguments.page || page.name.strip_prefix("weir-") == Some(&arguments.page);
    let Some(page) = pages.iter().find(named) else {
        let names: Vec<_> = pages.iter().map(|page| page.name.as_str()).collect();
        return Err(Failure::Message(format!("there is no page {}; there are {}", arguments.page, names.join(", "))));
    };
    if !(io::stdout().is_terminal() && is_shown(&page.text)) {
        print_line(page.text.trim_end());
    }
    Ok(())
}

fn pages(mut command: clap::Command) -> Result<Vec<Page>, Failure> {
    command.build();
    let mut pages = vec![of_command("weir", &command)?];
    // The companions have a command line of their own.
    for sub in command.get_subcommands().filter(|sub| !["demo", "lab", "help"].contains(&sub.get_name())) {
        let name = format!("weir-{}", sub.get_name());
        pages.push(of_command(&name, sub)?);
        for inner in sub.get_subcommands().filter(|inner| inner.get_name() != "help") {
            pages.push(of_command(&format!("{name}-{}", inner.get_name()), inner)?);
        }
    }
    let text = weir_config::reference_roff(env!("CARGO_PKG_VERSION"));
    pages.push(Page { name: SETTINGS.to_owned(), section: 5, text });
    Ok(pages)
}

fn of_command(name: &str, command: &clap::Command) -> Result<Page, Failure> {
    let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let version = format!("weir {}", env!("CARGO_PKG_VERSION"));
    let man = Man::new(command.clone()).title(name.to_uppercase()).section("1").source(version);
    let mut text = Vec::new();
    man.render_title(&mut text)
        .and_then(|()| man.render_name_section(&mut text))
        .and_then(|()| man.render_synopsis_section(&mut text))
        .and_then(|()| man.render_description_section(&mut text))
        .and_then(|()| man.render_options_section(&mut text))
        .and_then(|()| if command.has_subcommands() { man.render_subcommands_section(&mut text) } else { Ok(()) })
        .map_err(|error| Failure::at("can't make the page", error))?;
    let mut text = String::from_utf8_lossy(&text).into_owned();
    if !after.is_empty() {
        // A first line without blanks before it is the heading.
        let (heading, rest) = match after.strip_prefix("Examples:\n") {
            Some(rest) => ("EXAMPLES", rest),
            None => ("NOTES", after.as_str()),
        };
        text.push_str(&format!(".SH {heading}\n.nf\n{}\n.fi\n", weir_config::escape_roff(rest)));
    }
    text.push_str(".SH \"SEE ALSO\"\n.BR weir (1),\n.BR weir.toml (5)\n");
    Ok(Page { name: name.to_owned(), section: 1, text })
}

fn write(dir: &Path, page: &Page) -> Result<(), Failure> {
    let folder = dir.join(format!("man{}", page.section));
    let file = folder.join(format!("{}.{}", page.name, page.section));
    let written = std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(&file, &page.text));
    written.map_err(|error| Failure::at(file.display(), error))
}

/// Shows a page by `man`. Whether that was possible.
fn is_shown(text: &str) -> bool {
    let Ok(mut man) = Command::new("man").args(["-l", "-"]).stdin(Stdio::piped()).spawn() else { return false };
    // A reader may leave before the end.
    let _ = man.stdin.take().map(|mut input| input.write_all(text.as_bytes()));
    man.wait().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn there_is_a_page_for_each_command_and_its_examples_keep_their_lines() {
        let pages = pages(crate::Cli::command()).unwrap();
        let find = |name: &str| pages.iter().find(|page| page.name == name).unwrap_or_else(|| panic!("{name}"));
        let check = &find("weir-check").text;
        assert!(check.starts_with(".ie") || check.starts_with(".TH"), "{check}");
        for part in [".SH NAME", ".SH SYNOPSIS", ".SH OPTIONS", ".SH EXAMPLES\n.nf\n", "\\-\\-connect"] {
            assert!(check.contains(part), "{part}: {check}");
        }
        assert!(find("weir").text.contains("SUBCOMMANDS"), "{}", find("weir").text);
        assert!(find("weir-pgbouncer").text.contains("\\-\\-reboot"));
        assert!(find("weir-cluster-apply").text.contains("password_file"));
        let settings = find("weir.toml");
        assert!(settings.section == 5 && settings.text.contains("query_wait_timeout"));
        for page in &pages {
            let line = page.text.lines().find(|line| line.starts_with('\''));
            assert_eq!(line, None, "{}: a request that was not meant", page.name);
        }
    }
}
