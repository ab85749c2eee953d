//! `weir convert`: PgBouncer's configuration as Weir's.

use std::path::Path;

use weir_config::FileFormat;
use weir_store::load;

use crate::failure::Failure;
use weir_terminal::print_line;

/// Prints the TOML with the same meaning as an ini.
pub(crate) fn run(file: &Path) -> Result<(), Failure> {
    let config = load::load(file).map_err(|mistakes| Failure::lines(&mistakes))?;
    if config.format == FileFormat::Toml {
        return Err(Failure::at(file.display(), "is TOML already; give a pgbouncer.ini"));
    }
    print_line(weir_config::to_toml(&config).trim_end());
    Ok(())
}
