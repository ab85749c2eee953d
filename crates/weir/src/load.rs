//! A configuration from the disk: gives the reader of settings its files and environment.

use std::cell::RefCell;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::Path;

use weir_config::{Config, Edits, Facts, Mistakes};

/// A longer file is no configuration.
const LONGEST: u64 = 256 << 20;
/// Where a shell puts what it pipes to a program: the only files that need not be ordinary ones.
const PIPES: [&str; 3] = ["/dev/fd/", "/dev/stdin", "/proc/self/fd/"];

/// Reads a configuration and the files it names.
pub(crate) fn load(file: &Path) -> Result<Config, Mistakes> {
    weir_config::load(file, &read, &env)
}

/// The same, with what could be understood in spite of mistakes.
pub(crate) fn load_as_far(file: &Path) -> (Config, Option<Mistakes>) {
    weir_config::read_as_far(file, &read, &env)
}

/// The same, with the text of the file.
pub(crate) fn load_text(file: &Path) -> Result<(String, Config), Mistakes> {
    load_text_with(file, &Edits::default())
}

/// The same, with changes laid over what the file says.
pub(crate) fn load_text_with(file: &Path, edits: &Edits) -> Result<(String, Config), Mistakes> {
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

/// The configuration that the file would be with this text, with changes laid over it.
pub(crate) fn load_changed(file: &Path, text: &str, edits: &Edits) -> Result<Config, Mistakes> {
    let read = |path: &Path| if path == file { Ok(text.to_owned()) } else { read(path) };
    weir_config::load_with(file, &read, &env, edits)
}

/// The text of a file, which must be one that ends, and text. Never waits for another process.
pub(crate) fn read(path: &Path) -> io::Result<String> {
    let unfit = |why: String| io::Error::new(ErrorKind::InvalidData, why);
    let piped = path.to_str().is_some_and(|name| PIPES.iter().any(|pipe| name.starts_with(pipe)));
    let about = fs::metadata(path)?;
    if about.is_dir() {
        return Err(unfit("it is a folder".to_owned()));
    }
    if !about.is_file() && !piped {
        return Err(unfit("it is no ordinary file".to_owned()));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(LONGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LONGEST {
        return Err(unfit(format!("it is larger than {} MiB", LONGEST >> 20)));
    }
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

fn line_of(bytes: &[u8], at: usize) -> usize {
    1 + bytes[..at].iter().filter(|byte| **byte == b'\n').count()
}

fn env(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// What this machine allows; the hard limit of descriptors, because serving raises the soft one to it.
pub(crate) fn facts() -> Facts {
    let (_, descriptors) = weir_runtime::descriptors();
    Facts { descriptors, cores: std::thread::available_parallelism().map_or(1, usize::from) }
}
