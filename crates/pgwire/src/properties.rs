//! Properties that hold for every input: no panic, no dependence on how input was split, and written messages read back
//! unchanged.

use proptest::collection::vec;
use proptest::prelude::*;

use crate::frontend::{self, Of};
use crate::startup::First;
use crate::tag::{back, front};
use crate::{
    AuthRequest, ErrorFields, HEAD, Head, SqlHead, TxStatus, backend, proxy, put_back, put_front, sql, startup,
};

/// A string that the protocol can represent: without NUL.
fn name() -> impl Strategy<Value = Vec<u8>> {
    vec(1..=255u8, 0..20)
}

fn values() -> impl Strategy<Value = Vec<Option<Vec<u8>>>> {
    vec(proptest::option::of(vec(any::<u8>(), 0..20)), 0..6)
}

fn of() -> impl Strategy<Value = Of> {
    prop_oneof![Just(Of::Statement), Just(Of::Portal)]
}

/// Bytes that are likely to mean something to a lexer.
fn sql_soup() -> impl Strategy<Value = Vec<u8>> {
    let piece = proptest::sample::select(vec![
        "set",
        "local",
        "deallocate",
        "all",
        "prepare",
        "declare",
        "c",
        "cursor",
        "with",
        "hold",
        "for",
        "create",
        "temp",
        "or",
        "discard",
        " ",
        " ",
        "'",
        "\"",
        "$",
        "$q$",
        "$1",
        "\\",
        "--",
        "\n",
        "/*",
        "*/",
        ";",
        "(",
        ".",
        "=",
        "pg_temp",
        "\u{fc}",
    ]);
    vec(piece, 0..30).prop_map(|pieces| pieces.concat().into_bytes())
}

fn borrowed(values: &[Option<Vec<u8>>]) -> Vec<Option<&[u8]>> {
    values.iter().map(Option::as_deref).collect()
}

/// The body of the one message in `buf`, whose tag must be this.
fn body(buf: &[u8], tag: u8) -> &[u8] {
    let head = Head::parse(buf).unwrap().unwrap();
    assert_eq!((head.tag, head.total()), (tag, buf.len()));
    &buf[HEAD..]
}

/// Asserts that every proper prefix gives `None`.
fn incremental<'a, T: PartialEq + std::fmt::Debug>(
    bytes: &'a [u8],
    needed: usize,
    read: impl Fn(&'a [u8]) -> Option<T>,
) {
    let whole = read(bytes);
    for end in 0..=bytes.len() {
        let got = read(&bytes[..end]);
        if end < needed {
            assert_eq!(got, None, "{end}");
        } else {
            assert_eq!(got, whole, "{end}");
        }
    }
}

fn read_everything(bytes: &[u8]) {
    let _ = Head::parse(bytes);
    let _ = frontend::parse(bytes);
    let _ = frontend::bind_head(bytes);
    let _ = frontend::named(bytes);
    let _ = frontend::query(bytes);
    let _ = frontend::sasl_initial(bytes);
    if let Ok(Some((First::Startup(startup), _))) = startup::first(bytes) {
        assert!(startup.params().count() <= bytes.len());
    }
    if let Ok(view) = backend::error_fields(bytes) {
        let _ = (view.fields().count(), view.severity(), view.sqlstate(), view.message());
    }
    let _ = backend::parameter_status(bytes);
    let _ = backend::backend_key(bytes);
    if let Ok(AuthRequest::Sasl(names)) = backend::authentication(bytes) {
        assert!(names.count() <= bytes.len());
    }
    let _ = backend::ready(bytes);
    let _ = backend::command_tag(bytes).map(sql::left_by_tag);
    let _ = backend::negotiate(bytes).map(|negotiate| negotiate.unrecognised.count());
    let _ = backend::notification(bytes);
    let _ = backend::data_row(bytes).map(Iterator::count);
    let _ = backend::row_description(bytes).map(Iterator::count);
    let _ = backend::parameter_description(bytes);
    let _ = backend::function_result(bytes);
    let _ = (sql::head(bytes), sql::head_of_prefix(bytes));
}

proptest! {
    #[test]
    fn no_bytes_make_a_reader_panic(bytes in vec(prop_oneof![Just(0u8), 0..16u8, any::<u8>()], 0..300)) {
        read_everything(&bytes);
    }

    #[test]
    fn no_first_packet_makes_a_reader_panic(code in 80_877_101..80_877_106u32, rest in vec(0..3u8, 0..40)) {
        for code in [code, 3 << 16, 2 << 16] {
            let mut bytes = (8 + rest.len() as u32).to_be_bytes().to_vec();
            bytes.extend_from_slice(&code.to_be_bytes());
            bytes.extend_from_slice(&rest);
            read_everything(&bytes);
        }
    }

    #[test]
    fn no_balancers_header_makes_a_reader_panic(
        start in proptest::sample::select(vec![&b"PROXY TCP4 "[..], b"PROXY ", b"\r\n\r\n\0\r\nQUIT\n", b"\r\n"]),
        rest in vec(prop_oneof![any::<u8>(), 0x10..0x32u8, Just(0), Just(b' '), Just(b'1'), Just(b'\r')], 0..150),
    ) {
        let bytes = [start, &rest].concat();
        let whole = proxy::header(&bytes);
        if let Ok(Some((_, used))) = whole {
            prop_assert!(used <= bytes.len());
        }
        for cut in 0..bytes.len() {
            match proxy::header(&bytes[..cut]) {
                Ok(None) => {}
                // A result from a prefix stays the same with more bytes.
                early => prop_assert_eq!(&early, &whole),
            }
        }
    }

    #[test]
    fn no_options_make_the_reader_panic(text in "[-c= a\\\\\\PC]{0,40}") {
        if let Ok(settings) = startup::options(&text) {
            prop_assert!(settings.iter().all(|(name, _)| !name.is_empty() && !name.contains('-')));
        }
    }

    #[test]
    fn a_head_says_nothing_until_it_is_whole(tag: u8, length in 4..1000u32, more in vec(any::<u8>(), 0..20)) {
        let bytes = [&[tag][..], &length.to_be_bytes(), &more].concat();
        incremental(&bytes, HEAD, |bytes| Head::parse(bytes).unwrap());
    }

    #[test]
    fn a_first_packet_says_nothing_until_it_is_whole(
        user in name().prop_filter("a name", |name| !name.is_empty()),
        value in name(),
        minor: u16,
        more in vec(any::<u8>(), 0..20),
    ) {
        let mut bytes = Vec::new();
        put_front::startup(&mut bytes, &[(&user, &value)], minor);
        let whole = bytes.len();
        bytes.extend_from_slice(&more);
        incremental(&bytes, whole, |bytes| startup::first(bytes).unwrap());
        let Ok(Some((First::Startup(startup), consumed))) = startup::first(&bytes) else { panic!("no startup") };
        prop_assert_eq!((consumed, startup.minor), (whole, minor));
        prop_assert_eq!(startup.params().collect::<Vec<_>>(), [(&user[..], &value[..])]);
    }

    #[test]
    fn a_cancel_request_reads_back(pid: u32, key in vec(any::<u8>(), 4..=256)) {
        let mut bytes = Vec::new();
        put_front::cancel_request(&mut bytes, pid, &key);
        incremental(&bytes, bytes.len(), |bytes| startup::first(bytes).unwrap());
        prop_assert_eq!(startup::first(&bytes), Ok(Some((First::Cancel { pid, key: &key }, bytes.len()))));
    }

    #[test]
    fn a_bind_s_names_read_back_and_it_can_be_cut(portal in name(), statement in name(), values in values()) {
        let mut buf = Vec::new();
        put_front::bind(&mut buf, &portal, &statement, &borrowed(&values));
        let body = body(&buf, front::BIND);
        incremental(body, portal.len() + statement.len() + 2, |bytes| frontend::bind_head(bytes).unwrap());
        let head = frontend::bind_head(body).unwrap().unwrap();
        prop_assert_eq!((head.portal, head.statement), (&portal[..], &statement[..]));
    }

    #[test]
    fn a_parse_reads_back_under_another_name(
        name in name(), text in name(), types in vec(any::<u32>(), 0..9), other in name(),
    ) {
        let mut buf = Vec::new();
        put_front::parse_text(&mut buf, &name, &text, &types);
        let parse = frontend::parse(body(&buf, front::PARSE)).unwrap();
        prop_assert_eq!((parse.name, parse.text), (&name[..], &text[..]));
        prop_assert_eq!(parse.types, types.iter().flat_map(|oid| oid.to_be_bytes()).collect::<Vec<_>>());

        let mut renamed = Vec::new();
        put_front::parse(&mut renamed, &other, parse.rest);
        let again = frontend::parse(body(&renamed, front::PARSE)).unwrap();
        prop_assert_eq!((again.name, again.rest), (&other[..], parse.rest));
    }

    #[test]
    fn the_small_frontend_messages_read_back(
        of in of(), name in name(), text in name(),
    ) {
        let mut buf = Vec::new();
        put_front::describe(&mut buf, of, &name);
        prop_assert_eq!(frontend::named(body(&buf, front::DESCRIBE)), Ok(frontend::Named { of, name: &name }));
        buf.clear();
        put_front::close(&mut buf, of, &name);
        prop_assert_eq!(frontend::named(body(&buf, front::CLOSE)), Ok(frontend::Named { of, name: &name }));
        buf.clear();
        put_front::query(&mut buf, &text);
        prop_assert_eq!(frontend::query(body(&buf, front::QUERY)), Ok(&text[..]));
        buf.clear();
        put_front::password(&mut buf, &text);
        prop_assert_eq!(frontend::password(body(&buf, front::PASSWORD)), Ok(&text[..]));
        buf.clear();
        put_front::sasl_initial(&mut buf, &name, &text);
        let initial = frontend::SaslInitial { mechanism: &name, data: Some(&text) };
        prop_assert_eq!(frontend::sasl_initial(body(&buf, front::PASSWORD)), Ok(initial));
    }

    #[test]
    fn an_error_reads_back(
        severity in "[A-Z]{1,8}",
        sqlstate in "[0-9A-Z]{5}",
        message in "[^\0]{0,30}",
        detail in proptest::option::of("[^\0]{0,30}"),
    ) {
        let fields = ErrorFields {
            severity: &severity, sqlstate: &sqlstate, message: &message, detail: detail.as_deref(), hint: None,
        };
        let mut buf = Vec::new();
        put_back::error(&mut buf, &fields);
        let view = backend::error_fields(body(&buf, back::ERROR)).unwrap();
        prop_assert_eq!(view.severity(), Some(severity.as_bytes()));
        prop_assert_eq!(view.sqlstate(), Some(sqlstate.as_bytes()));
        prop_assert_eq!(view.message(), Some(message.as_bytes()));
        prop_assert_eq!(view.get(b'D'), detail.as_ref().map(|text| text.as_bytes()));
        prop_assert_eq!(view.get(b'H'), None);
    }

    #[test]
    fn the_small_backend_messages_read_back(
        name in name(), value in name(), pid: u32, values in values(), columns in 0..9u16,
    ) {
        let mut buf = Vec::new();
        put_back::parameter_status(&mut buf, &name, &value);
        prop_assert_eq!(backend::parameter_status(body(&buf, back::PARAMETER_STATUS)), Ok((&name[..], &value[..])));
        buf.clear();
        put_back::command_complete(&mut buf, &name);
        prop_assert_eq!(backend::command_tag(body(&buf, back::COMMAND_COMPLETE)), Ok(&name[..]));
        buf.clear();
        put_back::notification(&mut buf, pid, &name, &value);
        let notification = backend::Notification { pid, channel: &name, payload: &value };
        prop_assert_eq!(backend::notification(body(&buf, back::NOTIFICATION)), Ok(notification));
        buf.clear();
        put_back::data_row(&mut buf, &borrowed(&values));
        let row = backend::data_row(body(&buf, back::DATA_ROW)).unwrap();
        prop_assert_eq!(row.collect::<Vec<_>>(), borrowed(&values));
        buf.clear();
        put_back::copy_in(&mut buf, columns);
        prop_assert_eq!(body(&buf, back::COPY_IN).len(), 3 + 2 * usize::from(columns));
        buf.clear();
        put_back::function_result(&mut buf, Some(&value));
        prop_assert_eq!(backend::function_result(body(&buf, back::FUNCTION_RESULT)), Ok(Some(&value[..])));
    }

    #[test]
    fn the_login_s_messages_read_back(
        key in vec(any::<u8>(), 4..=256), pid: u32, salt: [u8; 4], data in name(), minor in 0..9u32,
    ) {
        let mut buf = Vec::new();
        put_back::backend_key_data(&mut buf, pid, &key);
        prop_assert_eq!(backend::backend_key(body(&buf, back::BACKEND_KEY_DATA)), Ok((pid, &key[..])));
        buf.clear();
        put_back::auth_md5(&mut buf, salt);
        prop_assert_eq!(backend::authentication(body(&buf, back::AUTHENTICATION)), Ok(AuthRequest::Md5(salt)));
        buf.clear();
        put_back::auth_sasl_continue(&mut buf, &data);
        prop_assert_eq!(backend::authentication(body(&buf, back::AUTHENTICATION)), Ok(AuthRequest::SaslContinue(&data)));
        buf.clear();
        put_back::auth_sasl(&mut buf, &["SCRAM-SHA-256", ""]);
        let auth = backend::authentication(body(&buf, back::AUTHENTICATION));
        let Ok(AuthRequest::Sasl(names)) = auth else { panic!("{auth:?}") };
        prop_assert_eq!(names.collect::<Vec<_>>(), [b"SCRAM-SHA-256"]);
        buf.clear();
        put_back::negotiate(&mut buf, minor, &[b"_pq_.x", b"_pq_.y"]);
        let negotiate = backend::negotiate(body(&buf, back::NEGOTIATE)).unwrap();
        prop_assert_eq!(u32::from(negotiate.minor), minor);
        prop_assert_eq!(negotiate.unrecognised.collect::<Vec<_>>(), [b"_pq_.x", b"_pq_.y"]);
        buf.clear();
        put_back::ready(&mut buf, TxStatus::Failed.as_byte());
        prop_assert_eq!(backend::ready(body(&buf, back::READY)), Ok(TxStatus::Failed));
    }

    #[test]
    fn a_statement_after_the_first_is_never_vouched_for(
        start in proptest::sample::select(vec!["set local a ", "deallocate ", "discard all ", "declare c cursor for "]),
        soup in sql_soup(),
        second in "[a-z]{1,5} [a-z]{1,5}",
    ) {
        let first = [start.as_bytes(), &soup].concat();
        let two = [&first[..], b";", second.as_bytes()].concat();
        // Where a comment may reach over the semicolon, the second is no statement.
        let comment = first.windows(2).any(|pair| pair == b"--" || pair == b"/*");
        if !comment && vouches(&sql::head(&first)) {
            prop_assert!(!vouches(&sql::head(&two)), "{:?}", String::from_utf8_lossy(&two));
        }
    }
}

/// Whether a session may rely on the text being one statement.
fn vouches(head: &SqlHead<'_>) -> bool {
    matches!(
        head,
        SqlHead::SetLocal | SqlHead::Deallocate(_) | SqlHead::DiscardAll | SqlHead::DeclareCursor { hold: false }
    )
}
