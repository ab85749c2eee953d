//! One link without an engine: a client, a server, what they share, and what was written to both.

use std::ops::{Deref, DerefMut, Range};
use std::sync::Arc;

use weir_base::PoolMode;
use weir_pgwire::{ErrorFields, HEAD, Head, Of, put_back, put_front};

use crate::from_client::{self, ClientOutcome};
use crate::from_server::{self, ServerOutcome, Violated};
use crate::{CancelKey, Client, Executed, Out, OwnContext, Server, StatementId, StatementWatch, StopReason};

/// The process ids of the server, and the one that its client received.
pub(crate) const SERVER_PID: u32 = 77;
pub(crate) const CLIENT_PID: u32 = 0x0100_0001;

/// A link, and everything that was written to its ends since it was last looked at.
pub(crate) struct Link {
    pub(crate) client: Client,
    pub(crate) server: Option<Server>,
    pub(crate) own: OwnContext,
    /// What statements are counted by, if they are.
    pub(crate) watch: Option<Watch>,
    pub(crate) to_client: Vec<u8>,
    pub(crate) to_server: Vec<u8>,
}

/// What its sessions share, and the rules of its pool.
impl Deref for Link {
    type Target = OwnContext;

    fn deref(&self) -> &OwnContext {
        &self.own
    }
}

impl DerefMut for Link {
    fn deref_mut(&mut self) -> &mut OwnContext {
        &mut self.own
    }
}

/// Texts and what was executed of them, as they are.
#[derive(Default)]
pub(crate) struct Watch {
    texts: Vec<String>,
    /// The text, the rows, and whether it failed.
    pub(crate) executed: Vec<(String, u64, bool)>,
    /// Texts of EXECUTE, and what each counts as.
    pub(crate) executes: Vec<(String, String)>,
    /// How many requests ended with a ROLLBACK.
    pub(crate) rolled_back: u64,
    pub(crate) bytes: u64,
}

impl StatementWatch for Watch {
    fn id_of(&mut self, text: &[u8]) -> StatementId {
        self.texts.push(String::from_utf8_lossy(text).into_owned());
        StatementId(self.texts.len() as u32)
    }

    fn executes(&mut self, text: &[u8], prepared: StatementId) {
        let counts_as = self.texts[prepared.0 as usize - 1].clone();
        self.executes.push((String::from_utf8_lossy(text).into_owned(), counts_as));
    }

    fn executed(&mut self, what: Executed) {
        self.rolled_back += u64::from(what.rolled_back);
        self.executed.push((self.texts[what.statement.0 as usize - 1].clone(), what.rows, what.failed));
        self.bytes += what.bytes;
    }
}

struct Recorder<'a> {
    input: &'a [u8],
    client: &'a mut Vec<u8>,
    server: &'a mut Vec<u8>,
}

impl Out for Recorder<'_> {
    fn client_range(&mut self, range: Range<usize>) {
        self.client.extend_from_slice(&self.input[range]);
    }
    fn client(&mut self, bytes: &[u8]) {
        self.client.extend_from_slice(bytes);
    }
    fn server_range(&mut self, range: Range<usize>) {
        self.server.extend_from_slice(&self.input[range]);
    }
    fn server(&mut self, bytes: &[u8]) {
        self.server.extend_from_slice(bytes);
    }
}

/// The memory of all statements, unless a test says otherwise.
const MEMORY: u64 = 64 << 20;

impl Link {
    /// A client of a pool in `mode`, linked to a fresh server that has the same parameters.
    pub(crate) fn new(mode: PoolMode) -> Link {
        let own = OwnContext { client_pid: CLIENT_PID, ..OwnContext::new(MEMORY) };
        let shared = Arc::new(own.params.unknown());
        Link {
            client: Client::new(1, mode, shared.clone()),
            server: Some(Server::new(shared, CancelKey { pid: SERVER_PID, ..CancelKey::default() })),
            own,
            watch: None,
            to_client: Vec::new(),
            to_server: Vec::new(),
        }
    }

    pub(crate) fn transaction() -> Link {
        Link::new(PoolMode::Transaction)
    }

    /// The client sends; returns how far it got.
    pub(crate) fn feed_client(&mut self, input: &[u8]) -> ClientOutcome {
        let mut out = Recorder { input, client: &mut self.to_client, server: &mut self.to_server };
        let mut ctx = self.own.context();
        ctx.watch = self.watch.as_mut().map(|watch| watch as &mut dyn StatementWatch);
        from_client::feed(&mut self.client, self.server.as_mut(), input, &mut ctx, &mut out)
    }

    /// The server sends, to its client if it has one.
    pub(crate) fn feed_server(&mut self, input: &[u8], linked: bool) -> Result<ServerOutcome, Violated> {
        let mut out = Recorder { input, client: &mut self.to_client, server: &mut self.to_server };
        let mut ctx = self.own.context();
        ctx.watch = self.watch.as_mut().map(|watch| watch as &mut dyn StatementWatch);
        let client = linked.then_some(&mut self.client);
        from_server::feed(self.server.as_mut().expect("a server"), client, input, &mut ctx, &mut out)
    }

    /// The client sends messages, and all of them are taken. Returns what the server was sent.
    pub(crate) fn ask(&mut self, messages: &[Vec<u8>]) -> Vec<u8> {
        let input = messages.concat();
        assert_eq!(self.feed_client(&input), ClientOutcome { used: input.len(), stop: StopReason::EndOfInput });
        std::mem::take(&mut self.to_server)
    }

    /// The client sends messages and is stopped, none of its last one taken. Returns why.
    pub(crate) fn stopped(&mut self, messages: &[Vec<u8>]) -> StopReason {
        self.feed_client(&messages.concat()).stop
    }

    /// The server answers as it should. Returns what the client was sent.
    pub(crate) fn tell(&mut self, messages: &[Vec<u8>]) -> Vec<u8> {
        self.outcome_of(messages);
        std::mem::take(&mut self.to_client)
    }

    /// The server answers as it should. Returns the result.
    pub(crate) fn outcome_of(&mut self, messages: &[Vec<u8>]) -> ServerOutcome {
        self.feed_server(&messages.concat(), true).expect("every answer was requested")
    }

    pub(crate) fn server(&mut self) -> &mut Server {
        self.server.as_mut().expect("a server")
    }

    /// Whether the client has a statement by this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.client.statements.as_ref().is_some_and(|s| s.get(name.as_bytes()).is_some())
    }

    /// The client's statement `name` is prepared, here and on the server.
    pub(crate) fn prepared(&mut self, name: &str, text: &str) -> Vec<u8> {
        let sent = self.ask(&[parse(name, text), sync()]);
        assert_eq!(self.tell(&[parsed(), ready()]), [parsed(), ready()].concat());
        names(&sent).remove(0)
    }
}

/// The tags of whole messages.
pub(crate) fn tags(bytes: &[u8]) -> String {
    each(bytes).iter().map(|message| char::from(message[0])).collect()
}

/// Whole messages, one by one.
pub(crate) fn each(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    while let Some(head) = Head::parse(bytes).expect("good heads") {
        all.push(bytes[..head.total()].to_vec());
        bytes = &bytes[head.total()..];
    }
    assert!(bytes.is_empty(), "a message is cut: {bytes:?}");
    all
}

/// The names in Parse, Bind (the statement's), Describe and Close.
pub(crate) fn names(bytes: &[u8]) -> Vec<Vec<u8>> {
    let text = |body: &[u8]| body.split(|b| *b == 0).next().unwrap_or_default().to_vec();
    let name = |message: &Vec<u8>| match message[0] {
        b'P' => Some(text(&message[HEAD..])),
        b'B' => Some(text(&message[HEAD + text(&message[HEAD..]).len() + 1..])),
        b'C' | b'D' => Some(text(&message[HEAD + 1..])),
        _ => None,
    };
    each(bytes).iter().filter_map(name).collect()
}

fn message(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut buffer = Vec::new();
    write(&mut buffer);
    buffer
}

pub(crate) fn query(text: &str) -> Vec<u8> {
    message(|b| put_front::query(b, text))
}
pub(crate) fn parse(name: &str, text: &str) -> Vec<u8> {
    message(|b| put_front::parse_text(b, name.as_bytes(), text, &[]))
}
pub(crate) fn bind(name: &str) -> Vec<u8> {
    bind_to("", name)
}
pub(crate) fn bind_to(portal: &str, name: &str) -> Vec<u8> {
    message(|b| put_front::bind(b, portal.as_bytes(), name.as_bytes(), &[Some(b"value")]))
}
pub(crate) fn describe(name: &str) -> Vec<u8> {
    message(|b| put_front::describe(b, Of::Statement, name.as_bytes()))
}
pub(crate) fn describe_portal() -> Vec<u8> {
    message(|b| put_front::describe(b, Of::Portal, b""))
}
pub(crate) fn close(name: &str) -> Vec<u8> {
    message(|b| put_front::close(b, Of::Statement, name.as_bytes()))
}
pub(crate) fn execute() -> Vec<u8> {
    execute_of("")
}
pub(crate) fn execute_of(portal: &str) -> Vec<u8> {
    message(|b| put_front::execute(b, portal.as_bytes(), 0))
}
pub(crate) fn sync() -> Vec<u8> {
    message(put_front::sync)
}
pub(crate) fn flush() -> Vec<u8> {
    message(put_front::flush)
}
pub(crate) fn copy_data(data: &[u8]) -> Vec<u8> {
    message(|b| put_front::copy_data(b, data))
}
pub(crate) fn copy_done() -> Vec<u8> {
    message(put_front::copy_done)
}
pub(crate) fn function_call() -> Vec<u8> {
    message(|b| put_front::function_call(b, 1, &[]))
}

pub(crate) fn parsed() -> Vec<u8> {
    message(put_back::parse_complete)
}
pub(crate) fn bound() -> Vec<u8> {
    message(put_back::bind_complete)
}
pub(crate) fn closed() -> Vec<u8> {
    message(put_back::close_complete)
}
pub(crate) fn complete(tag: &str) -> Vec<u8> {
    message(|b| put_back::command_complete(b, tag))
}
pub(crate) fn ready() -> Vec<u8> {
    ready_in(b'I')
}
pub(crate) fn ready_in(status: u8) -> Vec<u8> {
    message(|b| put_back::ready(b, status))
}
pub(crate) fn parameter(name: &str, value: &str) -> Vec<u8> {
    message(|b| put_back::parameter_status(b, name, value))
}
pub(crate) fn error(sqlstate: &str, text: &str) -> Vec<u8> {
    message(|b| put_back::error(b, &fields("ERROR", sqlstate, text)))
}
pub(crate) fn fatal(sqlstate: &str, text: &str) -> Vec<u8> {
    message(|b| put_back::error(b, &fields("FATAL", sqlstate, text)))
}
pub(crate) fn notice(text: &str) -> Vec<u8> {
    message(|b| put_back::notice(b, &fields("NOTICE", "00000", text)))
}
pub(crate) fn row(value: &str) -> Vec<u8> {
    message(|b| put_back::data_row(b, &[Some(value.as_bytes())]))
}
pub(crate) fn copy_in() -> Vec<u8> {
    message(|b| put_back::copy_in(b, 1))
}

fn fields<'a>(severity: &'a str, sqlstate: &'a str, message: &'a str) -> ErrorFields<'a> {
    ErrorFields { severity, sqlstate, message, detail: None, hint: None }
}
pub(crate) fn parameter_types() -> Vec<u8> {
    let mut types = Vec::new();
    weir_pgwire::put_back::parameter_description(&mut types, &[23]);
    types
}

pub(crate) fn row_kind() -> Vec<u8> {
    let mut kind = Vec::new();
    let column = weir_pgwire::ResultColumn { name: "x", kind: weir_pgwire::ResultColumnType::Text };
    weir_pgwire::put_back::row_description(&mut kind, &[column]);
    kind
}
