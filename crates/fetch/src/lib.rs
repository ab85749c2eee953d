//! What comes from outside of the process in one piece: files that an operator names, and answers to HTTP requests.
//! Both have a limit on their bytes, and requests one on their time.
//!
//! Must not know what a file or a request says, nor when it is due. Everything here blocks.
//!
//! - `files`: files. `request`: a request and its answer, as values. `send`: the client, and the authorities that it
//!   trusts.

mod files;
mod request;
mod send;

pub use files::{read_ordinary, read_text};
pub use request::{HttpAnswer, HttpMethod, HttpRequest, SendHttp};
pub use send::{read_authorities, sender, tls, trusted};
