//! `weir completions`: the script that makes a shell complete the words of `weir`.

use clap_complete::Shell;
use weir_terminal::print_line;

use crate::failure::Failure;

pub(crate) const HELP: &str = "\
Examples:
  weir completions bash > /usr/share/bash-completion/completions/weir
  weir completions zsh > /usr/share/zsh/site-functions/_weir
  weir completions fish > ~/.config/fish/completions/weir.fish

`make install` writes these files.";

/// The arguments of `weir completions`.
#[derive(clap::Args, Debug)]
pub(crate) struct Arguments {
    /// The shell
    shell: Shell,
}

/// Prints the script for a shell.
pub(crate) fn run(arguments: &Arguments, mut command: clap::Command) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, "weir", &mut script);
    print_line(String::from_utf8_lossy(&script).trim_end());
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn a_script_knows_each_command_and_the_words_of_its_flags() {
        for shell in [clap_complete::Shell::Bash, clap_complete::Shell::Zsh, clap_complete::Shell::Fish] {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut crate::Cli::command(), "weir", &mut script);
            let script = String::from_utf8(script).unwrap();
            for word in ["serve", "check", "convert", "top", "upgrade", "pgbouncer", "connect", "color", "never"] {
                assert!(script.contains(word), "{shell}: {word}");
            }
        }
    }
}
