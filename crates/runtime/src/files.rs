//! Reads files that an operator configured: whole, with a limit, and without blocking on a pipe.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::Path;

/// The paths of pipes from a shell: the only files that need not be regular ones.
const PIPES: [&str; 3] = ["/dev/fd/", "/dev/stdin", "/proc/self/fd/"];

/// The content of a file, `most` bytes at most; blocks on the disk. A named pipe could block for ever, and a device
/// could be endless: both are refused.
pub fn read_ordinary(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let unfit = |why: String| Err(io::Error::new(ErrorKind::InvalidData, why));
    let piped = path.to_str().is_some_and(|name| PIPES.iter().any(|pipe| name.starts_with(pipe)));
    let about = fs::metadata(path)?;
    if about.is_dir() {
        return unfit("it is a folder".to_owned());
    }
    if !about.is_file() && !piped {
        return unfit("it is no ordinary file".to_owned());
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return unfit(format!("it is larger than {} MiB", most >> 20));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_end_is_refused() {
        let refused = |path: &str| read_ordinary(Path::new(path), 1 << 20).unwrap_err().to_string();
        assert_eq!(refused("/dev/zero"), "it is no ordinary file");
        assert_eq!(refused("/"), "it is a folder");
        let this = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/files.rs");
        assert!(read_ordinary(&this, 1 << 20).unwrap().starts_with(b"//! "));
        assert_eq!(read_ordinary(&this, 10).unwrap_err().to_string(), "it is larger than 0 MiB");
    }
}
