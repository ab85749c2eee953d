//! Typed fields of a configuration, and how their values are shown and written as TOML.

use std::net::IpAddr;
use std::path::PathBuf;

use weir_auth::{Method, RequireAuth};
use weir_base::{OnDirty, PoolMode, Span, StateKinds};

use crate::kind::Kind;
use crate::model::{
    Balance, ListenBy, LogFormat, Network, OnServerDown, SessionAttrs, SocketIo, Spread, SslMode, TlsProtocols,
    UntrackedParameters, WatchFiles,
};
use crate::units;

/// PgBouncer's text for an empty query; an empty setting turns the query off.
pub(crate) const EMPTY_QUERY: &str = "<empty>";

/// The word for a number that Weir chooses.
pub(crate) const AUTO: &str = "auto";

/// A typed field, to fill or to show.
pub(crate) enum FieldMut<'a> {
    U8(&'a mut u8),
    U16(&'a mut u16),
    /// 0: `auto`.
    CountOrAuto(&'a mut u16),
    U32(&'a mut u32),
    U64(&'a mut u64),
    Span(&'a mut Span),
    /// Seconds since 1970; 0: none.
    Moment(&'a mut u64),
    /// A time in milliseconds in an ini.
    Millis(&'a mut Span),
    Flag(&'a mut bool),
    Text(&'a mut Option<String>),
    /// Text that may be empty.
    Line(&'a mut String),
    /// Text that may hold a password, and is shown to nobody.
    Concealed(&'a mut Option<String>),
    /// A query that may be empty, or none.
    Query(&'a mut Option<String>),
    Path(&'a mut Option<PathBuf>),
    Names(&'a mut Vec<String>),
    Addresses(&'a mut Vec<IpAddr>),
    Networks(&'a mut Vec<Network>),
    Ports(&'a mut Vec<u16>),
    Method(&'a mut Method),
    PoolMode(&'a mut PoolMode),
    OnDirty(&'a mut OnDirty),
    StateKinds(&'a mut StateKinds),
    OnServerDown(&'a mut OnServerDown),
    ListenBy(&'a mut ListenBy),
    Balance(&'a mut Balance),
    Spread(&'a mut Spread),
    Untracked(&'a mut UntrackedParameters),
    SessionAttrs(&'a mut SessionAttrs),
    SslMode(&'a mut SslMode),
    RequireAuth(&'a mut RequireAuth),
    Protocols(&'a mut TlsProtocols),
    LogFormat(&'a mut LogFormat),
    SocketIo(&'a mut SocketIo),
    WatchFiles(&'a mut WatchFiles),
    MaybeU32(&'a mut Option<u32>),
    MaybeSpan(&'a mut Option<Span>),
    MaybeMode(&'a mut Option<PoolMode>),
    /// The text of a setting without effect.
    Inert(&'a mut String),
}

impl FieldMut<'_> {
    /// The value as SHOW CONFIG prints it: seconds, 0 and 1, lists with commas, as PgBouncer does.
    pub(crate) fn show(&self) -> String {
        match self {
            FieldMut::U8(v) => v.to_string(),
            FieldMut::CountOrAuto(0) => AUTO.to_owned(),
            FieldMut::U16(v) | FieldMut::CountOrAuto(v) => v.to_string(),
            FieldMut::U32(v) => v.to_string(),
            FieldMut::U64(v) => v.to_string(),
            FieldMut::Span(v) => units::seconds(**v),
            FieldMut::Moment(v) => units::moment_text(**v),
            FieldMut::Millis(v) => (v.micros() / 1_000).to_string(),
            FieldMut::Flag(v) => u8::from(**v).to_string(),
            FieldMut::Concealed(None) => String::new(),
            FieldMut::Concealed(Some(_)) => "***".to_owned(),
            FieldMut::Text(v) => v.as_deref().unwrap_or_default().to_owned(),
            FieldMut::Line(v) | FieldMut::Inert(v) => (*v).clone(),
            FieldMut::Query(v) => match v.as_deref() {
                None => String::new(),
                Some("") => EMPTY_QUERY.to_owned(),
                Some(query) => query.to_owned(),
            },
            FieldMut::Path(v) => v.as_ref().map(|path| path.display().to_string()).unwrap_or_default(),
            FieldMut::Names(v) => v.join(","),
            FieldMut::Addresses(v) => joined(v),
            FieldMut::Networks(v) => joined(v),
            FieldMut::Ports(v) => joined(v),
            FieldMut::Method(v) => v.to_string(),
            FieldMut::PoolMode(v) => v.to_string(),
            FieldMut::OnDirty(v) => v.to_string(),
            FieldMut::StateKinds(v) => v.to_string(),
            FieldMut::OnServerDown(v) => v.to_string(),
            FieldMut::ListenBy(v) => v.to_string(),
            FieldMut::Balance(v) => v.to_string(),
            FieldMut::Spread(v) => v.to_string(),
            FieldMut::Untracked(v) => v.to_string(),
            FieldMut::SessionAttrs(v) => v.to_string(),
            FieldMut::SslMode(v) => v.to_string(),
            FieldMut::RequireAuth(v) => v.to_string(),
            FieldMut::Protocols(v) => v.to_string(),
            FieldMut::LogFormat(v) => v.to_string(),
            FieldMut::SocketIo(v) => v.to_string(),
            FieldMut::WatchFiles(v) => v.to_string(),
            FieldMut::MaybeU32(v) => v.map(|v| v.to_string()).unwrap_or_default(),
            FieldMut::MaybeSpan(v) => v.map(units::seconds).unwrap_or_default(),
            FieldMut::MaybeMode(v) => v.map(|v| v.to_string()).unwrap_or_default(),
        }
    }

    /// The value as TOML; `None` if the field is unset.
    pub(crate) fn toml(&self, kind: Kind) -> Option<String> {
        let quoted = |text: &str| toml_edit::Value::from(text).to_string();
        let list = |items: Vec<String>| format!("[{}]", items.join(", "));
        Some(match self {
            FieldMut::CountOrAuto(0) => quoted(AUTO),
            FieldMut::U8(_) | FieldMut::U16(_) | FieldMut::CountOrAuto(_) | FieldMut::MaybeU32(Some(_)) => self.show(),
            FieldMut::U32(v) if kind == Kind::Permissions => format!("\"{v:04o}\""),
            FieldMut::U64(v) if matches!(kind, Kind::Size { .. }) => quoted(&units::brief_size(**v)),
            FieldMut::U32(_) | FieldMut::U64(_) => self.show(),
            FieldMut::Span(v) | FieldMut::Millis(v) => time(**v),
            FieldMut::MaybeSpan(Some(v)) => time(*v),
            FieldMut::Flag(v) => v.to_string(),
            FieldMut::MaybeU32(None) | FieldMut::MaybeSpan(None) | FieldMut::MaybeMode(None) => return None,
            FieldMut::Moment(0) | FieldMut::Text(None) | FieldMut::Concealed(None) | FieldMut::Path(None) => {
                return None;
            }
            FieldMut::Concealed(Some(v)) => quoted(v),
            FieldMut::Names(v) => list(v.iter().map(|name| quoted(name)).collect()),
            FieldMut::StateKinds(v) => list(v.names().map(quoted).collect()),
            FieldMut::Addresses(v) => list(v.iter().map(|ip| quoted(&ip.to_string())).collect()),
            FieldMut::Networks(v) => list(v.iter().map(|network| quoted(&network.to_string())).collect()),
            FieldMut::Ports(v) => match v.as_slice() {
                [port] => port.to_string(),
                ports => list(ports.iter().map(u16::to_string).collect()),
            },
            _ => quoted(&self.show()),
        })
    }
}

fn joined<T: ToString>(items: &[T]) -> String {
    items.iter().map(T::to_string).collect::<Vec<_>>().join(",")
}

fn time(span: Span) -> String {
    let text = units::brief(span);
    if span.is_zero() { text } else { format!("\"{text}\"") }
}
