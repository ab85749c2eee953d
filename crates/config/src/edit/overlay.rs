//! Changes laid over what was read from a file that can't be written, in either face.

use std::path::Path;

use crate::error::ConfigError;
use crate::model::Config;
use crate::pool_text::PoolText;
use crate::table::Section;
use crate::toml::{Draft, fill_pool};

use super::{Edits, Keys, Sum};

/// Lays the changes over what the file `source` says.
pub(crate) fn lay_over(draft: &mut Draft, source: &Path, edits: &Edits) -> Result<(), ConfigError> {
    for (name, sum) in &edits.0 {
        match sum {
            Sum::Gone => forget(draft, name),
            Sum::Made { keys, .. } => {
                forget(draft, name);
                let mut pool = PoolText::new(name, &draft.config);
                draft.config.lines.insert_nowhere(format!("pools.{name}"));
                set(&mut pool, &mut draft.config, source, keys)?;
                draft.pools.push(pool);
            }
            Sum::Altered(keys) => {
                if let Some(pool) = draft.pools.iter_mut().find(|pool| pool.name == *name) {
                    set(pool, &mut draft.config, source, keys)?;
                }
            }
        }
    }
    Ok(())
}

fn forget(draft: &mut Draft, name: &str) {
    draft.pools.retain(|pool| pool.name != name);
    let lines = &mut draft.config.lines;
    Section::Pool.settings().for_each(|setting| lines.remove(&format!("pools.{name}.{}", setting.name)));
    lines.remove(&format!("pools.{name}"));
}

fn set(pool: &mut PoolText, config: &mut Config, source: &Path, keys: &Keys) -> Result<(), ConfigError> {
    let mut usual = PoolText::new(&pool.name, config);
    for (key, value) in &keys.0 {
        let place = format!("pools.{}.{key}", pool.name);
        if value.is_some() {
            config.lines.insert_nowhere(place);
            continue;
        }
        config.lines.remove(&place);
        let Some(setting) = Section::Pool.find(key) else { continue };
        if let (Some(slot), Some(usual)) = (setting.pool_slot(pool), setting.pool_slot(&mut usual)) {
            let written = setting.write_ini(slot, &usual.show());
            debug_assert!(written.is_ok(), "{key}: a default suits");
        }
    }
    fill_pool(source, &keys.table(), pool)
}
