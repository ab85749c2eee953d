//! The command to drain (`weir drain`): it comes over the socket where processes take over, and is believed from the same
//! users. Whoever gave it may wait for the process's end, which closes the connection.

use std::io::{self, ErrorKind, Read};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use super::import::{self, NoOldProcess};
use super::process::OtherProcess;
use super::wire::{self, Kind};

/// How long the process may take to end when it has closed all its clients.
const ENDING: Duration = Duration::from_secs(5);

/// A process that has received the command to drain.
#[derive(Debug)]
pub struct DrainingProcess {
    stream: UnixStream,
    pid: u32,
    process: OtherProcess,
}

impl DrainingProcess {
    /// Has the process that serves at this socket drain. `user`: the one that it may have switched to.
    ///
    /// # Errors
    /// There is no such process, or it does not know the command.
    pub fn begin(path: &Path, user: Option<&str>) -> Result<DrainingProcess, NoOldProcess> {
        let stream = import::connect(path, user)?;
        match DrainingProcess::command(stream) {
            Ok(draining) => Ok(draining),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                Err(NoOldProcess::Refused("an older version, which can't drain: send it TERM".to_owned()))
            }
            Err(error) => Err(NoOldProcess::Refused(format!("{}: {error}", path.display()))),
        }
    }

    fn command(stream: UnixStream) -> io::Result<DrainingProcess> {
        stream.set_read_timeout(Some(import::ANSWER_TIMEOUT))?;
        wire::send(&stream, Kind::Drain, b"", &[])?;
        let answer = wire::receive(&stream)?;
        let pid = answer.bytes.as_slice().try_into().map(u32::from_be_bytes);
        match pid {
            Ok(pid) if answer.kind == Kind::Drain => {
                Ok(DrainingProcess { stream, pid, process: OtherProcess::new(pid) })
            }
            _ => Err(ErrorKind::InvalidData.into()),
        }
    }

    /// The process's id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Waits for the process's end.
    ///
    /// # Errors
    /// The connection to it can't be read.
    pub fn wait(mut self) -> io::Result<()> {
        self.stream.set_read_timeout(None)?;
        match self.stream.read(&mut [0]) {
            // A process that is killed resets the connection.
            Err(error) if error.kind() != ErrorKind::ConnectionReset => Err(error),
            _ => {
                // The connection is closed when all clients are, shortly before.
                self.process.ends_within(ENDING);
                Ok(())
            }
        }
    }
}
