//! Blocking TLS to a server: for `weir check --connect`, and the test of a pool before it is made.
//!
//! With the same rules as the pools' own connections, and the files as they are at that moment.

use std::io::{self, Read, Write};

use rustls::{ClientConnection, StreamOwned};
use weir_base::Host;
use weir_config::Config;
use weir_engine::port::Secured;

use super::contexts::Contexts;
use super::reason::{With, in_words};
use super::step::{SessionRole, secured, server_name};

/// The TLS contexts for servers, from a configuration's files.
#[derive(Debug)]
pub struct ServerTls(Contexts);

impl ServerTls {
    /// Reads the files that a configuration names for connections to servers.
    ///
    /// # Errors
    ///
    /// One line with the file or the setting, and what to do.
    pub fn load(config: &Config) -> Result<ServerTls, String> {
        Ok(ServerTls(Contexts::to_servers(config)?))
    }

    /// Performs a handshake over a socket as `config` requires, and returns what it has shown. The server has agreed to
    /// TLS, unless the handshake is the first thing that it gets (`direct`). Blocks.
    ///
    /// # Errors
    ///
    /// An error of the socket or of the handshake, or a certificate that `config` does not accept.
    pub fn connect<S: Read + Write>(
        &self,
        config: &Config,
        host: &Host,
        mut socket: S,
    ) -> io::Result<(StreamOwned<ClientConnection, S>, Secured)> {
        let (mode, direct) = (config.tls.server.mode, config.tls.server.direct);
        let context =
            self.0.connect(mode, direct).ok_or_else(|| io::Error::other("there is no encryption to servers"))?;
        let name = server_name(host, mode).map_err(io::Error::other)?;
        let mut connection =
            ClientConnection::new(context, name).map_err(|error| in_words(io::Error::other(error), With::Server))?;
        while connection.is_handshaking() {
            connection.complete_io(&mut socket).map_err(|error| in_words(error, With::Server))?;
        }
        let shown = secured(&connection, &SessionRole::Connected { mode });
        Ok((StreamOwned::new(connection, socket), shown))
    }
}
