//! Builds the messages that a client sends, and prints the replies.

use std::fmt::Write as _;
use std::time::Duration;

use weir_pgclient::{Connection, Error, Frame};
use weir_pgwire::{Of, backend, put_front, tag};

/// The messages that a client sends at once.
#[derive(Clone, Debug, Default)]
pub struct Batch(Vec<u8>);

impl Batch {
    /// An empty batch.
    pub fn new() -> Self {
        Batch::default()
    }

    /// Every kind of message that a driver pipelines, about 300 bytes, with a transaction and a COPY into the table
    /// `cut`, which has one integer column: for clients that are cut off within the batch.
    pub fn to_be_cut() -> Batch {
        Batch::new()
            .parse("s", "SELECT $1::int")
            .describe_statement("s")
            .bind("", "s", &["1"])
            .execute("", 0)
            .flush()
            .query("BEGIN")
            .run("INSERT INTO cut VALUES ($1)", &["2"])
            .sync()
            .query("COMMIT; COPY cut FROM STDIN")
            .copy_data("3\n")
            .copy_done()
            .close_statement("s")
            .sync()
            .terminate()
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn put(mut self, write: impl FnOnce(&mut Vec<u8>)) -> Self {
        write(&mut self.0);
        self
    }

    /// Bytes as they are.
    #[must_use]
    pub fn raw(self, bytes: &[u8]) -> Self {
        self.put(|buffer| buffer.extend_from_slice(bytes))
    }

    /// Query.
    #[must_use]
    pub fn query(self, sql: &str) -> Self {
        self.put(|buffer| put_front::query(buffer, sql))
    }

    /// Parse, all types left to the server.
    #[must_use]
    pub fn parse(self, name: &str, sql: &str) -> Self {
        self.put(|buffer| put_front::parse_text(buffer, name.as_bytes(), sql, &[]))
    }

    /// Parse with types.
    #[must_use]
    pub fn parse_typed(self, name: &str, sql: &str, types: &[u32]) -> Self {
        self.put(|buffer| put_front::parse_text(buffer, name.as_bytes(), sql, types))
    }

    /// Bind with values as text.
    #[must_use]
    pub fn bind(self, portal: &str, statement: &str, values: &[&str]) -> Self {
        let values: Vec<_> = values.iter().map(|value| Some(value.as_bytes())).collect();
        self.put(|buffer| put_front::bind(buffer, portal.as_bytes(), statement.as_bytes(), &values))
    }

    /// Describe of a statement.
    #[must_use]
    pub fn describe_statement(self, name: &str) -> Self {
        self.put(|buffer| put_front::describe(buffer, Of::Statement, name.as_bytes()))
    }

    /// Describe of a portal.
    #[must_use]
    pub fn describe_portal(self, name: &str) -> Self {
        self.put(|buffer| put_front::describe(buffer, Of::Portal, name.as_bytes()))
    }

    /// Execute of a portal; 0 rows are all rows.
    #[must_use]
    pub fn execute(self, portal: &str, max_rows: i32) -> Self {
        self.put(|buffer| put_front::execute(buffer, portal.as_bytes(), max_rows))
    }

    /// Close of a statement.
    #[must_use]
    pub fn close_statement(self, name: &str) -> Self {
        self.put(|buffer| put_front::close(buffer, Of::Statement, name.as_bytes()))
    }

    /// Close of a portal.
    #[must_use]
    pub fn close_portal(self, name: &str) -> Self {
        self.put(|buffer| put_front::close(buffer, Of::Portal, name.as_bytes()))
    }

    /// Sync.
    #[must_use]
    pub fn sync(self) -> Self {
        self.put(put_front::sync)
    }

    /// Flush.
    #[must_use]
    pub fn flush(self) -> Self {
        self.put(put_front::flush)
    }

    /// CopyData.
    #[must_use]
    pub fn copy_data(self, data: &str) -> Self {
        self.put(|buffer| put_front::copy_data(buffer, data.as_bytes()))
    }

    /// CopyDone.
    #[must_use]
    pub fn copy_done(self) -> Self {
        self.put(put_front::copy_done)
    }

    /// CopyFail.
    #[must_use]
    pub fn copy_fail(self, reason: &str) -> Self {
        self.put(|buffer| put_front::copy_fail(buffer, reason))
    }

    /// FunctionCall with arguments as text.
    #[must_use]
    pub fn function(self, oid: u32, arguments: &[&str]) -> Self {
        let arguments: Vec<_> = arguments.iter().map(|value| Some(value.as_bytes())).collect();
        self.put(|buffer| put_front::function_call(buffer, oid, &arguments))
    }

    /// Terminate.
    #[must_use]
    pub fn terminate(self) -> Self {
        self.put(put_front::terminate)
    }

    /// Parse, Bind, Describe and Execute: what most drivers send for a query with parameters.
    #[must_use]
    pub fn run(self, sql: &str, values: &[&str]) -> Self {
        self.parse("", sql).bind("", "", values).describe_portal("").execute("", 0)
    }
}

/// Sends a batch and reads `ready` ReadyForQuery, or up to the error that closes the connection.
#[track_caller]
pub fn ask(connection: &mut Connection, batch: &Batch, ready: usize) -> Vec<String> {
    connection.send_bytes(batch.bytes()).unwrap_or_else(|error| panic!("send: {error}"));
    lines_of(&read_until_ready(connection, ready))
}

/// Reads up to and including this many ReadyForQuery.
///
/// # Panics
///
/// With the messages so far, when the connection ends or nothing more arrives.
#[track_caller]
pub fn read_until_ready(connection: &mut Connection, count: usize) -> Vec<Frame> {
    let mut frames = Vec::new();
    let mut seen = 0;
    while seen < count {
        match connection.read_frame(Duration::from_secs(30)) {
            Ok(frame) => {
                seen += usize::from(frame.tag == tag::back::READY);
                frames.push(frame);
            }
            Err(error) => panic!("{error} after {:?}", lines_of(&frames)),
        }
    }
    frames
}

/// Reads until nothing has arrived for a while, or the connection has ended; the end is shown as `Closed`.
pub fn until_quiet(connection: &mut Connection, quiet: Duration) -> Vec<String> {
    let mut transcript = Vec::new();
    loop {
        match connection.read_frame(quiet) {
            Ok(frame) => transcript.push(line_of(&frame)),
            Err(Error::Timeout) => return transcript,
            Err(_) => {
                transcript.push("Closed".to_owned());
                return transcript;
            }
        }
    }
}

/// Several messages, one line each.
pub fn lines_of(frames: &[Frame]) -> Vec<String> {
    frames.iter().map(line_of).collect()
}

/// A message from the server as a line: `Row 1,NULL`, `Complete SELECT 1`, `Ready I`.
pub fn line_of(frame: &Frame) -> String {
    let body = frame.body.as_slice();
    let text = match frame.tag {
        tag::back::PARSE_COMPLETE => Some("ParseComplete".to_owned()),
        tag::back::BIND_COMPLETE => Some("BindComplete".to_owned()),
        tag::back::CLOSE_COMPLETE => Some("CloseComplete".to_owned()),
        tag::back::NO_DATA => Some("NoData".to_owned()),
        tag::back::PORTAL_SUSPENDED => Some("Suspended".to_owned()),
        tag::back::EMPTY_QUERY => Some("Empty".to_owned()),
        tag::back::COPY_DONE => Some("CopyDone".to_owned()),
        tag::back::COPY_IN => Some("CopyIn".to_owned()),
        tag::back::COPY_OUT => Some("CopyOut".to_owned()),
        tag::back::COPY_DATA => Some(format!("Data {}", body_text(body).trim_end())),
        tag::back::COMMAND_COMPLETE => {
            backend::command_tag(body).ok().map(|tag| format!("Complete {}", body_text(tag)))
        }
        tag::back::READY => backend::ready(body).ok().map(|state| format!("Ready {}", char::from(state.as_byte()))),
        tag::back::DATA_ROW => row(body),
        tag::back::ROW_DESCRIPTION => backend::row_description(body).ok().map(|columns| {
            let names: Vec<_> = columns.map(|column| body_text(column.name)).collect();
            format!("Columns {}", names.join(","))
        }),
        tag::back::ERROR => report("Error", body),
        tag::back::NOTICE => report("Notice", body),
        tag::back::PARAMETER_STATUS => {
            backend::parameter_status(body).ok().map(|(k, v)| format!("Parameter {}={}", body_text(k), body_text(v)))
        }
        tag::back::NOTIFICATION => backend::notification(body)
            .ok()
            .map(|n| format!("Notify {} {}", body_text(n.channel), body_text(n.payload))),
        tag::back::FUNCTION_RESULT => {
            let value = backend::function_result(body).ok();
            value.map(|value| format!("Result {}", value.map_or("NULL".to_owned(), body_text)))
        }
        tag::back::PARAMETER_DESCRIPTION => backend::parameter_description(body).ok().map(|types| {
            let types =
                types.chunks_exact(4).map(|oid| u32::from_be_bytes([oid[0], oid[1], oid[2], oid[3]]).to_string());
            format!("Types {}", types.collect::<Vec<_>>().join(","))
        }),
        _ => None,
    };
    text.unwrap_or_else(|| format!("{:?} {}", char::from(frame.tag), body.escape_ascii()))
}

fn row(body: &[u8]) -> Option<String> {
    let mut line = "Row ".to_owned();
    for (index, value) in backend::data_row(body).ok()?.enumerate() {
        let comma = if index > 0 { "," } else { "" };
        let _ = write!(line, "{comma}{}", value.map_or("NULL".to_owned(), body_text));
    }
    Some(line)
}

fn report(what: &str, body: &[u8]) -> Option<String> {
    let view = backend::error_fields(body).ok()?;
    let field = |bytes: Option<&[u8]>| bytes.map(body_text).unwrap_or_default();
    Some(format!("{what} {} {}", field(view.sqlstate()), field(view.message())))
}

/// Bytes as text.
pub fn body_text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
