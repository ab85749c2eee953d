//! The flag `--color` of the commands that print colours.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use weir_terminal::{ColorWhen, Term};

/// The flag.
#[derive(clap::Args, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Color {
    /// Colours: auto, always or never; auto honours NO_COLOR
    #[arg(long, value_name = "WHEN", default_value = "auto", hide_possible_values = true, value_parser = words())]
    color: ColorWhen,
}

impl Color {
    /// Standard output, with colours or without.
    pub(crate) fn term(self) -> Term {
        Term::stdout(self.color)
    }
}

fn words() -> impl TypedValueParser<Value = ColorWhen> {
    PossibleValuesParser::new(ColorWhen::WORDS).try_map(|word| word.parse::<ColorWhen>())
}
