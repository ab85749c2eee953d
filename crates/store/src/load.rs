//! Loads a configuration from disk: gives the reader of settings access to files and the environment.

use std::cell::RefCell;
use std::io::{self, ErrorKind, Read};
use std::path::Path;

use weir_config::{Config, ConfigErrors, Edits, HOST_NAME, HostLimits, Severity};

use crate::error::StoreError;

/// A longer file, in bytes, is no configuration.
const MAX_FILE: u64 = 256 << 20;

/// The name of standard input in messages.
const STDIN: &str = "<stdin>";

/// The file that the command line names: `-` is standard input, whose relative paths are those of the working
/// directory.
pub fn named(file: &Path) -> &Path {
    if file == Path::new("-") { Path::new(STDIN) } else { file }
}

/// Reads a configuration and the files that it names.
pub fn load(file: &Path) -> Result<Config, ConfigErrors> {
    weir_config::load(file, &read, &env)
}

/// Reads as [`load`] does, and returns what could be parsed beside the mistakes.
pub fn load_as_far(file: &Path) -> (Config, Option<ConfigErrors>) {
    weir_config::load_lenient(file, &read, &env)
}

/// Reads as [`load`] does, and returns the file's text too.
pub(crate) fn load_text(file: &Path) -> Result<(String, Config), ConfigErrors> {
    load_text_with(file, &Edits::default())
}

/// Reads as [`load_text`] does, and applies changes to the content of the file.
pub(crate) fn load_text_with(file: &Path, edits: &Edits) -> Result<(String, Config), ConfigErrors> {
    let text = RefCell::new(String::new());
    let read = |path: &Path| {
        let read = read(path)?;
        if path == file {
            text.borrow_mut().clone_from(&read);
        }
        Ok(read)
    };
    let config = weir_config::load_with(file, &read, &env, edits)?;
    Ok((text.into_inner(), config))
}

/// The configuration of the file if it had this text, with changes applied.
pub(crate) fn load_changed(file: &Path, text: &str, edits: &Edits) -> Result<Config, ConfigErrors> {
    load_replaced(file, &[(file, text)], edits)
}

/// The configuration of the file if these files had these texts, with changes applied.
pub(crate) fn load_replaced(file: &Path, texts: &[(&Path, &str)], edits: &Edits) -> Result<Config, ConfigErrors> {
    let text = |path: &Path| texts.iter().find(|(known, _)| *known == path).map(|(_, text)| (*text).to_owned());
    weir_config::load_with(file, &|path| text(path).map_or_else(|| read(path), Ok), &env, edits)
}

/// What a node's configuration is made of.
#[derive(Clone, Copy)]
pub(crate) struct NodeTexts<'a> {
    /// Its own file's.
    pub(crate) own: &'a str,
    /// That of the cluster's nodes.
    pub(crate) shared: &'a str,
}

/// The configuration of a node's file, with the text that a cluster's nodes share, its secrets in the clear, and both
/// texts merged. An error, also one about valid settings that can't be served, is one line.
pub(crate) fn load_merged(file: &Path, texts: NodeTexts<'_>, edits: &Edits) -> Result<(String, Config), StoreError> {
    let text = weir_config::merge(texts.own, texts.shared).ok_or(StoreError::NotToml)?;
    let config = load_for_node(file, &text, edits)?;
    Ok((text, without_shared(config, texts.own)))
}

/// The configuration of a node's file alone, after the end of a shared one. A file without pools is an error: the node
/// would serve nobody.
pub fn load_own(file: &Path, own: &str, edits: &Edits) -> Result<(String, Config), StoreError> {
    let config = load_for_node(file, own, edits)?;
    if config.pools.is_empty() && config.fallback.is_none() {
        return Err(StoreError::NoPools(file.to_owned()));
    }
    Ok((own.to_owned(), config))
}

fn load_for_node(file: &Path, text: &str, edits: &Edits) -> Result<Config, StoreError> {
    // A line of a merged text is in no file; the message has the key.
    let config = load_changed(file, text, edits).map_err(|all| StoreError::Mistake(Box::new(all.first().clone())))?;
    let findings = weir_config::review(&config, &facts());
    let unfit = findings.into_iter().find(|finding| finding.severity == Severity::Error);
    unfit.map_or(Ok(config), |finding| Err(StoreError::Unfit(Box::new(finding))))
}

/// A configuration whose secrets are not those of the node's own file does not have them from there.
fn without_shared(mut config: Config, own: &str) -> Config {
    if weir_config::node_part(own).is_none_or(|own| weir_config::find_plain_secret(&own).is_none()) {
        let source = config.source.clone();
        config.password_files.retain(|file| *file != source);
    }
    config
}

/// Reads as [`load_as_far`] does, if the file had this text. `anywhere`: variables of the environment may be missing,
/// since the configuration is for other processes.
pub fn load_text_as_far(file: &Path, text: &str, anywhere: bool) -> (Config, Option<ConfigErrors>) {
    let read = |path: &Path| if path == file { Ok(text.to_owned()) } else { read(path) };
    let env = |name: &str| env(name).or_else(|| anywhere.then(|| "-".to_owned()));
    weir_config::load_lenient(file, &read, &env)
}

/// The text of a file, which must be a regular file in UTF-8.
pub fn read(path: &Path) -> io::Result<String> {
    let unfit = |why: String| io::Error::new(ErrorKind::InvalidData, why);
    let bytes = if path == Path::new(STDIN) { read_stdin()? } else { weir_runtime::read_ordinary(path, MAX_FILE)? };
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
        return Err(unfit("it is UTF-16: save it as UTF-8".to_owned()));
    }
    if let Some(at) = bytes.iter().position(|byte| *byte == 0) {
        return Err(unfit(format!("line {} holds a zero byte: save it as plain text, in UTF-8", line_of(&bytes, at))));
    }
    let text = String::from_utf8(bytes);
    text.map_err(|error| {
        let line = line_of(error.as_bytes(), error.utf8_error().valid_up_to());
        unfit(format!("line {line} is no text in UTF-8: save it as UTF-8"))
    })
}

fn read_stdin() -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    io::stdin().lock().take(MAX_FILE + 1).read_to_end(&mut bytes)?;
    let fits = bytes.len() as u64 <= MAX_FILE;
    fits.then_some(bytes).ok_or_else(|| io::Error::new(ErrorKind::InvalidData, "it is too long for a configuration"))
}

fn line_of(bytes: &[u8], at: usize) -> usize {
    1 + bytes[..at].iter().filter(|byte| **byte == b'\n').count()
}

fn env(name: &str) -> Option<String> {
    std::env::var(name).ok().or_else(|| if name == HOST_NAME { host_name() } else { None })
}

/// The name of this machine, or of the container.
fn host_name() -> Option<String> {
    let name = rustix::system::uname().nodename().to_str().ok()?.to_owned();
    Some(name).filter(|name| !name.is_empty())
}

/// The limits of this machine; the hard limit of descriptors, since serving raises the soft one to it.
pub fn facts() -> HostLimits {
    let (_, descriptors) = weir_runtime::descriptors();
    HostLimits { descriptors, cores: std::thread::available_parallelism().map_or(1, usize::from) }
}
