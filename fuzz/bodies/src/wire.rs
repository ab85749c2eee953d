//! PostgreSQL's messages, the first packet, the PROXY header: read, cut, and written again.

use weir_pgwire::startup::{self, First};
use weir_pgwire::tag::{back, front};
use weir_pgwire::{AuthRequest, HEAD, Head, backend, frontend, proxy, put_back, put_front};
use weir_session::ParamTable;
use weir_session::startup::{self as session_startup, EncryptionRequests, FirstPacket, OtherParams};

/// Inputs up to this length are cut after every byte; longer inputs in fewer places.
const EVERY_CUT: usize = 300;

/// Whole messages of a client: a parsed message is written again as it was.
pub(crate) fn frontend_messages(data: &[u8]) {
    each(data, |message, tag, body| {
        let mut again = Vec::new();
        match tag {
            front::PARSE => {
                frontend::parse(body).into_iter().for_each(|p| put_front::parse(&mut again, p.name, p.rest))
            }
            front::BIND => bind(body, &mut again),
            front::DESCRIBE | front::CLOSE => {
                frontend::named(body).into_iter().for_each(|n| put_front::named(&mut again, tag, n.of, n.name));
            }
            front::QUERY => frontend::query(body).into_iter().for_each(|text| put_front::query(&mut again, text)),
            front::PASSWORD => password(body, &mut again),
            front::SYNC if body.is_empty() => put_front::sync(&mut again),
            front::FLUSH if body.is_empty() => put_front::flush(&mut again),
            front::TERMINATE if body.is_empty() => put_front::terminate(&mut again),
            front::COPY_DONE if body.is_empty() => put_front::copy_done(&mut again),
            front::COPY_DATA => put_front::copy_data(&mut again, body),
            _ => {}
        }
        assert!(again.is_empty() || again == message, "the written message differs from the parsed one");
    });
}

fn bind(body: &[u8], again: &mut Vec<u8>) {
    let head = frontend::bind_head(body).expect("a prefix can't be invalid");
    let seen = head.map(|h| (h.portal, h.statement, h.rest_at));
    cuts(body, |cut| match frontend::bind_head(cut).expect("a prefix can't be invalid") {
        Some(early) => assert_eq!(Some((early.portal, early.statement, early.rest_at)), seen),
        None => assert!(head.is_none_or(|h| cut.len() < h.rest_at)),
    });
    if let Some(head) = head {
        put_front::bind_head(again, head.portal, head.statement, body.len() - head.rest_at);
        again.extend_from_slice(&body[head.rest_at..]);
    }
}

fn password(body: &[u8], again: &mut Vec<u8>) {
    let _ = frontend::password(body).map(|text| put_front::password(again, text));
    let Ok(initial) = frontend::sasl_initial(body) else { return };
    let mut sasl = Vec::new();
    put_front::sasl_initial(&mut sasl, initial.mechanism, initial.data.unwrap_or_default());
    assert!(initial.data.is_none() || sasl[HEAD..] == *body);
}

/// Whole messages of a server: whatever can be read is written again as it was.
pub(crate) fn backend_messages(data: &[u8]) {
    each(data, |message, tag, body| {
        let mut again = Vec::new();
        match tag {
            back::AUTHENTICATION => authentication(body, &mut again),
            back::PARAMETER_STATUS => {
                let _ = backend::parameter_status(body).map(|(n, v)| put_back::parameter_status(&mut again, n, v));
            }
            back::BACKEND_KEY_DATA => {
                let _ = backend::backend_key(body).map(|(pid, key)| put_back::backend_key_data(&mut again, pid, key));
            }
            back::READY => {
                let _ = backend::ready(body).map(|status| put_back::ready(&mut again, status.as_byte()));
            }
            back::COMMAND_COMPLETE => {
                let _ = backend::command_tag(body).map(|tag| put_back::command_complete(&mut again, tag));
            }
            back::NOTIFICATION => {
                let _ = backend::notification(body)
                    .map(|n| put_back::notification(&mut again, n.pid, n.channel, n.payload));
            }
            back::DATA_ROW => {
                let _ = backend::data_row(body).map(|values| put_back::data_row_of(&mut again, values));
            }
            back::FUNCTION_RESULT => {
                let _ = backend::function_result(body).map(|result| put_back::function_result(&mut again, result));
            }
            back::ERROR | back::NOTICE => error(body),
            _ => other(tag, body),
        }
        assert!(again.is_empty() || again == message, "the written message differs from the parsed one");
    });
}

fn authentication(body: &[u8], again: &mut Vec<u8>) {
    match backend::authentication(body) {
        Ok(AuthRequest::Ok) => put_back::auth_ok(again),
        Ok(AuthRequest::Cleartext) => put_back::auth_cleartext(again),
        Ok(AuthRequest::Md5(salt)) => put_back::auth_md5(again, salt),
        Ok(AuthRequest::SaslContinue(data)) => put_back::auth_sasl_continue(again, data),
        Ok(AuthRequest::SaslFinal(data)) => put_back::auth_sasl_final(again, data),
        Ok(AuthRequest::Sasl(names)) => assert!(names.count() <= body.len()),
        Ok(AuthRequest::Unsupported(_)) | Err(_) => {}
    }
}

fn error(body: &[u8]) {
    let Ok(view) = backend::error_fields(body) else { return };
    assert!(view.fields().count() <= body.len());
    for (code, text) in view.fields() {
        assert!(code != 0 && !text.contains(&0));
        assert!(view.get(code).is_some());
    }
    let _ = (view.severity(), view.sqlstate(), view.message());
}

fn other(tag: u8, body: &[u8]) {
    match tag {
        back::NEGOTIATE => {
            let count = backend::negotiate(body).map(|n| n.unrecognised.count());
            assert!(count.is_ok_and(|count| count <= body.len()) || count.is_err());
        }
        back::ROW_DESCRIPTION => {
            let _ = backend::row_description(body).map(Iterator::count);
        }
        back::PARAMETER_DESCRIPTION => {
            let _ = backend::parameter_description(body).map(|types| assert_eq!(types.len() % 4, 0));
        }
        _ => {}
    }
}

/// The first packet: a cut changes nothing, and its request is parsed or refused.
pub(crate) fn first_packet(data: &[u8]) {
    let whole = startup::first(data);
    cuts(data, |cut| match startup::first(cut) {
        Ok(None) => assert!(!matches!(whole, Ok(Some((_, used))) if used <= cut.len())),
        early => assert_eq!(early, whole, "an early result stays the same with more bytes"),
    });
    match whole {
        Ok(Some((First::Cancel { pid, key }, used))) => {
            let mut again = Vec::new();
            put_front::cancel_request(&mut again, pid, key);
            assert_eq!(again, &data[..used]);
        }
        Ok(Some((First::Startup(packet), used))) => {
            let params: Vec<_> = packet.params().collect();
            let mut again = Vec::new();
            put_front::startup(&mut again, &params, packet.minor);
            assert_eq!(again, &data[..used]);
        }
        _ => {}
    }
    let table = ParamTable::new(["x.y"]);
    for asking in [EncryptionRequests::Allowed, EncryptionRequests::Exhausted, EncryptionRequests::Encrypted] {
        let FirstPacket::Startup { request, used } = session_startup::read(data, asking) else { continue };
        assert!(used <= data.len() && !request.user.is_empty() && !request.database.is_empty());
        for ignored in [&[][..], &["options".to_owned()], &["extra_float_digits".to_owned()]] {
            for others in [OtherParams::Refuse, OtherParams::Ignore, OtherParams::Set] {
                let Ok(wanted) = request.wanted(&table, ignored, others) else { continue };
                // Parameters become part of our own query: their values may need only doubled quotes.
                assert!(table.iter(&wanted).all(|(_, value)| value.bytes().all(|b| (b' '..=b'~').contains(&b))));
            }
        }
        request.write_negotiation(&mut Vec::new());
    }
}

/// The `options` of a first packet.
pub(crate) fn startup_options(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let Ok(settings) = startup::options(&text) else { return };
    assert!(settings.iter().all(|(name, _)| !name.is_empty() && !name.contains(['-', '='])));
    // Written again with every character escaped, the options mean the same.
    let escaped = |text: &str| text.chars().flat_map(|c| ['\\', c]).collect::<String>();
    let again: Vec<String> = settings.iter().map(|(n, v)| format!("-c {}={}", escaped(n), escaped(v))).collect();
    assert_eq!(startup::options(&again.join(" ")), Ok(settings));
}

/// A PROXY header: bounded, and a cut changes nothing.
pub(crate) fn proxy_header(data: &[u8]) {
    let whole = proxy::header(data);
    match whole {
        Ok(Some((_, used))) => {
            assert!(used <= data.len() && used <= proxy::MAX_V2);
            assert_eq!(proxy::header(&data[..used]), whole, "what follows does not matter");
        }
        Ok(None) => assert!(data.len() < proxy::MAX_V2, "a header is bounded"),
        Err(_) => {}
    }
    cuts(data, |cut| match proxy::header(cut) {
        Ok(None) => assert!(!matches!(whole, Ok(Some((_, used))) if used <= cut.len())),
        early => assert_eq!(early, whole, "an early result stays the same with more bytes"),
    });
}

/// Calls `see` with each whole message: all of it, its tag, its body. A head that is cut is skipped.
fn each(mut data: &[u8], mut see: impl FnMut(&[u8], u8, &[u8])) {
    while let Ok(Some(head)) = Head::parse(data) {
        (0..HEAD).for_each(|end| assert_eq!(Head::parse(&data[..end]), Ok(None)));
        let Some((message, rest)) = data.split_at_checked(head.total()) else { return };
        see(message, head.tag, &message[HEAD..]);
        data = rest;
    }
}

/// Calls `see` with beginnings of `data`.
fn cuts<'d>(data: &'d [u8], mut see: impl FnMut(&'d [u8])) {
    let step = data.len() / EVERY_CUT + 1;
    (0..data.len()).step_by(step).for_each(|end| see(&data[..end]));
}
