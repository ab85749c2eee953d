//! Servers that break the protocol: their client is told so, nobody hangs, and Weir lives.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use weir_pglocal::client::Connection;
use weir_pgwire::{put_back, put_front};
use weir_tests::{Batch, Mode, Setup, Site, until_quiet, users};

/// AuthenticationOk, a few parameters, a key, and ReadyForQuery.
fn welcome() -> Vec<u8> {
    let mut bytes = b"R\0\0\0\x08\0\0\0\0".to_vec();
    for (name, value) in [("client_encoding", "UTF8"), ("server_version", "15.0"), ("DateStyle", "ISO, MDY")] {
        put_back::parameter_status(&mut bytes, name, value);
    }
    put_back::backend_key_data(&mut bytes, 7, &[1, 2, 3, 4]);
    put_back::ready(&mut bytes, b'I');
    bytes
}

/// Serves each connection: answers the startup packet with one text and whatever follows with another, then waits.
fn serve(listener: TcpListener, login: Vec<u8>, answer: Vec<u8>) {
    for socket in listener.incoming() {
        let (login, answer) = (login.clone(), answer.clone());
        let Ok(socket) = socket else { return };
        thread::spawn(move || {
            let _ = converse(socket, &login, &answer);
        });
    }
}

fn converse(mut socket: TcpStream, login: &[u8], answer: &[u8]) -> std::io::Result<()> {
    let mut buffer = [0; 4096];
    if socket.read(&mut buffer)? == 8 {
        // A request for TLS.
        socket.write_all(b"N")?;
        let _ = socket.read(&mut buffer)?;
    }
    socket.write_all(login)?;
    while socket.read(&mut buffer)? > 0 {
        if answer.is_empty() {
            return Ok(());
        }
        socket.write_all(answer)?;
    }
    Ok(())
}

/// What a client of such a server is told.
fn told(name: &str, login: Vec<u8>, answer: Vec<u8>) -> Vec<String> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    // The thread ends with the process.
    thread::spawn(move || serve(listener, login, answer));
    let more = format!(
        "[pools.hostile]\nhost = \"127.0.0.1\"\nport = {port}\nuser = \"x\"\npassword = \"y\"\n\
         server_connect_timeout = \"1s\"\nserver_login_retry = \"100ms\"\nquery_wait_timeout = \"8s\"\n\
         query_timeout = \"3s\"\n"
    );
    let site = Site::with(Setup::new(Mode::Transaction).auth("trust").more(&more), Mode::Transaction);
    let mut client = Connection::open(&site.weir().params(users::APP.name, "hostile")).unwrap();
    let mut packet = Vec::new();
    put_front::startup(&mut packet, &[("user", users::APP.name), ("database", "hostile")], 0);
    client.send_bytes(&packet).unwrap();
    let _ = client.send_bytes(Batch::new().query("SELECT 1").bytes());
    let story = until_quiet(&mut client, Duration::from_secs(20));
    // The neighbours have noticed nothing.
    assert_eq!(site.connect().value("SELECT 'fine'").unwrap().as_deref(), Some("fine"), "{name}");
    site.weir().ask_nothing_at_end();
    assert!(site.weir().exited().is_none(), "{name}");
    assert!(!site.weir().log().contains("panicked"), "{name}: {}", site.weir().log());
    story
}

fn error(fields: &[(u8, &str)]) -> Vec<u8> {
    let mut body = Vec::new();
    for (code, text) in fields {
        body.push(*code);
        body.extend_from_slice(text.as_bytes());
        body.push(0);
    }
    body.push(0);
    let length = u32::try_from(body.len() + 4).unwrap();
    [b"E".as_slice(), &length.to_be_bytes(), &body].concat()
}

#[test]
fn an_error_without_some_of_its_fields_is_told_all_the_same() {
    // CVE-2026-6666: a server's error without SQLSTATE crashes the pooler.
    let whole = [(b'S', "FATAL"), (b'V', "FATAL"), (b'C', "57P03"), (b'M', "not now")];
    for missing in 0..=whole.len() {
        let fields: Vec<_> = whole.iter().enumerate().filter(|(i, _)| *i != missing).map(|(_, field)| *field).collect();
        for (login, answer) in [(error(&fields), Vec::new()), (welcome(), error(&fields))] {
            let story = told(&format!("without field {missing}"), login, answer);
            assert!(story.iter().any(|line| line.starts_with("Error")), "without field {missing}: {story:?}");
        }
    }
}

#[test]
fn an_answer_that_no_request_explains_reaches_nobody() {
    let mut ready_twice = Vec::new();
    put_back::command_complete(&mut ready_twice, "SELECT 1");
    put_back::ready(&mut ready_twice, b'I');
    put_back::ready(&mut ready_twice, b'I');
    let stray: [(&str, Vec<u8>); 5] = [
        ("a length of 0", b"D\0\0\0\0".to_vec()),
        ("a negative length", b"D\xff\xff\xff\xff".to_vec()),
        ("an unknown message", b"y\0\0\0\x04".to_vec()),
        ("an unknown state", b"Z\0\0\0\x05X".to_vec()),
        ("ParseComplete", b"1\0\0\0\x04".to_vec()),
    ];
    for (name, answer) in stray {
        let story = told(name, welcome(), answer);
        assert!(story.iter().any(|line| line.starts_with("Error 08006")), "{name}: {story:?}");
        assert_eq!(story.last().unwrap(), "Closed", "{name}");
    }
    // More answers than questions: the client has its own, the server is not used again.
    let story = told("two Readies", welcome(), ready_twice);
    assert!(story.iter().filter(|line| *line == "Ready I").count() <= 2, "{story:?}");
}

#[test]
fn a_login_that_goes_wrong_is_an_error_in_time() {
    let other = error(&[(b'S', "FATAL"), (b'C', "28000"), (b'M', "no")]);
    let logins: [(&str, Vec<u8>); 9] = [
        ("silence", Vec::new()),
        ("an error", other),
        ("garbage", b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()),
        ("a query's answer", b"C\0\0\0\x0dSELECT 1\0".to_vec()),
        ("an unknown method", b"R\0\0\0\x08\0\0\0\x07".to_vec()),
        ("a broken SASL list", b"R\0\0\0\x0a\0\0\0\x0aSC".to_vec()),
        ("SASL's end before its beginning", b"R\0\0\0\x0c\0\0\0\x0cv=xx".to_vec()),
        ("no key and no parameter", b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I".to_vec()),
        ("a transaction from the start", b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05T".to_vec()),
    ];
    for (name, login) in logins {
        let story = told(name, login, Vec::new());
        assert!(story.iter().any(|line| line.starts_with("Error")), "{name}: {story:?}");
        assert_eq!(story.last().unwrap(), "Closed", "{name}: {story:?}");
    }
}
