//! Reads files that an operator configured: whole, with a limit, and without blocking on a pipe.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::fcntl::OFlag;

/// The paths of pipes from a shell: the only files that need not be regular ones.
const PIPES: [&str; 3] = ["/dev/fd/", "/dev/stdin", "/proc/self/fd/"];

/// The content of a file, `most` bytes at most; blocks on the disk. A named pipe could block for ever, and a device
/// could be endless: both are refused. Of a file that is too large nothing is read.
///
/// # Errors
/// The file can't be read, or is none of those.
pub fn read_ordinary(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let too_large = || unfit(format!("it is larger than {} MiB", most >> 20));
    let mut bytes = Vec::new();
    if is_pipe_of_shell(path) {
        File::open(path)?.take(most + 1).read_to_end(&mut bytes)?;
    } else {
        // Opening a device may have an effect, and a file may be replaced by a pipe before it is open.
        is_ordinary(&fs::metadata(path)?)?;
        let file = OpenOptions::new().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path)?;
        let about = file.metadata()?;
        is_ordinary(&about)?;
        if about.len() > most {
            return Err(too_large());
        }
        file.take(most + 1).read_to_end(&mut bytes)?;
    }
    if bytes.len() as u64 > most { Err(too_large()) } else { Ok(bytes) }
}

/// The content of a file of text, `most` bytes at most; refuses what `read_ordinary` refuses, and text that is not
/// UTF-8.
///
/// # Errors
/// As `read_ordinary`, or it is not UTF-8.
pub fn read_text(path: &Path, most: u64) -> io::Result<String> {
    String::from_utf8(read_ordinary(path, most)?).map_err(|_| unfit("it is no text in UTF-8".to_owned()))
}

fn is_pipe_of_shell(path: &Path) -> bool {
    path.to_str().is_some_and(|name| PIPES.iter().any(|pipe| name.starts_with(pipe)))
}

fn is_ordinary(about: &Metadata) -> io::Result<()> {
    if about.is_dir() {
        return Err(unfit("it is a folder".to_owned()));
    }
    if about.is_file() { Ok(()) } else { Err(unfit("not a regular file".to_owned())) }
}

fn unfit(why: String) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_file_that_is_too_large_nothing_is_read() {
        let path = std::env::temp_dir().join(format!("weir-sparse-{}", std::process::id()));
        // As large as this, no memory would hold it.
        File::create(&path).unwrap().set_len(1 << 42).unwrap();
        let refused = read_ordinary(&path, 1 << 41).unwrap_err();
        fs::remove_file(&path).unwrap();
        assert_eq!(refused.to_string(), "it is larger than 2097152 MiB");
    }

    #[test]
    fn what_has_no_end_is_refused() {
        let refused = |path: &str| read_ordinary(Path::new(path), 1 << 20).unwrap_err().to_string();
        assert_eq!(refused("/dev/zero"), "not a regular file");
        assert_eq!(refused("/"), "it is a folder");
        let path = std::env::temp_dir().join(format!("weir-file-{}", std::process::id()));
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(refused(path.to_str().unwrap()), "not a regular file");
        fs::remove_file(&path).unwrap();
        let this = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/files.rs");
        assert!(read_ordinary(&this, 1 << 20).unwrap().starts_with(b"//! "));
        assert_eq!(read_ordinary(&this, 10).unwrap_err().to_string(), "it is larger than 0 MiB");
    }
}
