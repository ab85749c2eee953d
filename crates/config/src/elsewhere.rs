//! Values that a weir.toml refers to: `env:NAME` is a variable of the environment, `file:/PATH` what a file holds. So one
//! file serves all pods of a Deployment.
//!
//! Owns what a reference looks like, and how it is read. A setting that keeps its references (an address that is a
//! secret) reads them where it is used; so do `password_env` and `password_file`.

use std::path::Path;

use crate::kind::Kind;
pub(crate) use crate::origin::is_reference;
use crate::origin::{ENV, FILE, ReadEnv, ReadFile};
use crate::table::Setting;

/// Where the values of a settings file's references are.
pub(crate) struct Elsewhere<'a> {
    /// The folder of the settings file: the paths of a reference are relative to it.
    pub(crate) folder: &'a Path,
    pub(crate) read: ReadFile<'a>,
    pub(crate) env: ReadEnv<'a>,
}

/// Whether this setting's value may be elsewhere, and is read with the settings file.
pub(crate) fn may_refer(setting: &Setting) -> bool {
    !matches!(setting.kind, Kind::Secret | Kind::Query | Kind::Users | Kind::Accounts) && !setting.is_concealed()
}

impl Elsewhere<'_> {
    /// The value of a reference, without the line end of a file; or the end of a sentence that says why there is none,
    /// and what to do.
    pub(crate) fn value(&self, reference: &str) -> Result<String, (String, &'static str)> {
        if let Some(name) = reference.strip_prefix(ENV) {
            let hint = "set it in the environment of the process, or write the value";
            return (self.env)(name).ok_or_else(|| (format!("refers to {reference}, which is not set"), hint));
        }
        let path = reference.strip_prefix(FILE).unwrap_or(reference);
        let text = (self.read)(&self.folder.join(path)).map_err(|error| {
            (
                format!("refers to {reference}, which can't be read: {error}"),
                "let it hold the value, or write the value",
            )
        })?;
        let text = text.strip_suffix('\n').unwrap_or(&text);
        Ok(text.strip_suffix('\r').unwrap_or(text).to_owned())
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;
    use crate::{Config, load};

    fn loaded(text: &str) -> Result<Config, String> {
        let read = |path: &Path| match path.to_str() {
            Some("/etc/weir/weir.toml") => Ok(text.to_owned()),
            Some("/etc/weir/size" | "/run/size") => Ok("7\r\n".to_owned()),
            _ => Err(io::ErrorKind::NotFound.into()),
        };
        let env = |name: &str| match name {
            "POD" => Some("weir-2".to_owned()),
            "SIZE" => Some("5".to_owned()),
            "YES" => Some("true".to_owned()),
            "HOSTS" => Some("a, b".to_owned()),
            "TWO_LINES" => Some("a\nb".to_owned()),
            _ => None,
        };
        load(Path::new("/etc/weir/weir.toml"), &read, &env).map_err(|errors| errors.to_string())
    }

    const USERS: &str = "[auth]\nusers = { ann = \"env:POD\" }\n[listen]\naddress = \"127.0.0.1\"\n";

    #[test]
    fn a_value_of_any_kind_may_be_a_variable_or_a_file() {
        let config = loaded(&format!(
            "{USERS}port = \"env:SIZE\"\n[cluster]\nnode = \"env:POD\"\n[limits]\nquery_timeout = \"env:SIZE\"\n\
             [log]\nconnections = \"env:YES\"\n[pools.a]\nhost = \"env:HOSTS\"\nsize = \"file:size\"\n[pools.b]\n\
             host = \"h\"\nsize = \"file:/run/size\"\npassword = \"env:POD\"\nuser = \"u\"\n"
        ))
        .unwrap();
        assert_eq!((config.listen.port, &*config.cluster.node), (5, "weir-2"));
        assert_eq!(config.limits.query_timeout, weir_base::Span::from_secs(5));
        assert_eq!((config.pools["a"].limits.size, config.pools["b"].limits.size), (7, 7));
    }

    #[test]
    fn a_reference_to_nothing_and_an_unfit_value_are_mistakes_of_their_setting() {
        let said = |line: &str| loaded(&format!("{USERS}{line}\n[pools.a]\nhost = \"h\"\n")).unwrap_err();
        let unset = said("port = \"env:PORT\"");
        assert!(unset.contains("weir.toml:5: \"port\" in [listen] refers to env:PORT, which is not set"), "{unset}");
        let missing = said("port = \"file:/gone\"");
        assert!(missing.contains("\"port\" in [listen] refers to file:/gone, which can't be read"), "{missing}");
        let item = said("backlog = 7\n[cluster]\netcd = [\"env:POD\"]");
        assert!(item.contains("\"etcd\" in [cluster] has a reference within a list"), "{item}");
        for unfit in ["env:POD", "env:TWO_LINES"] {
            let said = said(&format!("port = \"{unfit}\""));
            assert!(said.contains("\"port\" in [listen] must be a whole number"), "{said}");
        }
    }
}
