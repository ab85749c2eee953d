//! The last bytes of a connection, by epoll and by io_uring: what was sent before a close is received, whatever the
//! other end is sending at that time.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::thread;

use weir_base::Time;
use weir_config::{SocketIo, SslMode};
use weir_engine::port::Input;
use weir_runtime::{Running, RuntimeOptions, start};

use crate::certs::*;
use crate::common::*;
use crate::tls::{Secure, Site, encrypted, site};

const BOTH: [SocketIo; 2] = [SocketIo::Epoll, SocketIo::IoUring];
const LAST: &[u8] = b"an error, then";
/// More than sockets hold, and less than is read from one that is closed.
const LONG: usize = 12 << 20;

/// How a handler that refuses its clients does it.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Way {
    /// The handler refuses at the first bytes.
    AtOnce,
    /// The handler refuses after it had stopped reading the client.
    Paused,
    /// The error is sent in an earlier turn than the client is closed.
    Later,
}

fn refusing(io: SocketIo, way: Way) -> Running {
    let handler = move |_| {
        let mut refused = None;
        script(move |now, input, io| {
            match input {
                Input::Accepted { conn, .. } if way == Way::Paused => {
                    io.pause(conn);
                    refused = Some(conn);
                    return now + weir_base::Span::from_millis(30);
                }
                Input::Bytes { conn, .. } if way == Way::Later && refused.is_none() => {
                    refused = Some(conn);
                    io.send(conn, LAST);
                }
                Input::Bytes { conn, .. } if way == Way::Later => io.close_after_error(conn),
                Input::Bytes { conn, .. } => {
                    io.send(conn, LAST);
                    io.close(conn);
                }
                Input::Tick => {
                    if let Some(conn) = refused.take() {
                        io.send(conn, LAST);
                        io.close(conn);
                    }
                }
                _ => {}
            }
            Time::NEVER
        })
    };
    start(RuntimeOptions { io, ..plan(1) }, handler).unwrap()
}

#[test]
fn a_client_that_sends_much_while_it_is_refused_can_send_all_of_it_and_reads_why() {
    for io in BOTH {
        for way in [Way::AtOnce, Way::Paused, Way::Later] {
            let running = refusing(io, way);
            let mut stream = client(&running);
            let sent = stream.write_all(&vec![b'x'; LONG]);
            assert!(sent.is_ok(), "{io:?}, {way:?}: {sent:?}");
            let mut answer = Vec::new();
            let read = stream.read_to_end(&mut answer);
            assert!(read.is_ok() && answer == LAST, "{io:?}, {way:?}: {read:?}, {answer:?}");
        }
    }
}

#[test]
fn a_client_that_sends_without_end_is_not_read_for_ever() {
    for io in BOTH {
        let running = refusing(io, Way::AtOnce);
        let mut stream = client(&running);
        let piece = vec![b'x'; 1 << 20];
        let sent = (0..1000).take_while(|_| stream.write_all(&piece).is_ok()).count();
        assert!((12..100).contains(&sent), "{io:?}: {sent} MiB");
    }
}

#[test]
fn a_long_answer_before_a_close_arrives_while_the_client_sends() {
    for io in BOTH {
        let handler = |_| {
            script(|_, input, io| {
                if let Input::Bytes { conn, .. } = input {
                    io.send(conn, &pattern(0, LONG));
                    io.close(conn);
                }
                Time::NEVER
            })
        };
        let running = start(RuntimeOptions { io, ..plan(1) }, handler).unwrap();
        let mut stream = client(&running);
        // The client sends everything before it reads anything.
        stream.write_all(&vec![b'x'; LONG]).unwrap();
        assert!(read(&mut stream, LONG) == pattern(0, LONG), "{io:?}");
        assert_eq!(stream.read(&mut [0]).unwrap(), 0, "{io:?}");
    }
}

#[test]
fn a_client_that_ends_its_side_gets_the_rest_of_its_answer() {
    for io in BOTH {
        let handler = |_| {
            script(|_, input, io| {
                if let Input::Bytes { conn, .. } = input {
                    io.send(conn, &pattern(0, LONG));
                }
                Time::NEVER
            })
        };
        let running = start(RuntimeOptions { io, ..plan(1) }, handler).unwrap();
        let mut stream = client(&running);
        stream.write_all(b"!").unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        assert!(read(&mut stream, LONG) == pattern(0, LONG), "{io:?}");
        assert_eq!(stream.read(&mut [0]).unwrap(), 0, "{io:?}");
    }
}

fn serve_secure(site: &Site, io: SocketIo) -> Running {
    let mut secure = Some(Secure::new().0);
    start(RuntimeOptions { io, ..site.plan(1) }, move |_| secure.take().unwrap()).unwrap()
}

#[test]
fn a_client_whose_handshake_fails_reads_the_alert() {
    let mut site = site();
    site.trust();
    site.config.tls.client.mode = SslMode::VerifyFull;
    let stranger = Authority::new("another authority").sign("anna", &[], Holds::Now);
    let expired = site.authority.sign("anna", &[], Holds::NoMore);
    for io in BOTH {
        let running = serve_secure(&site, io);
        let cases = [
            (site.client_config(), "CertificateRequired"),
            (site.client_config_with(stranger.clone()), "UnknownCA"),
            (site.client_config_with(expired.clone()), "CertificateExpired"),
        ];
        for (config, alert) in cases {
            let mut stream = encrypted(config, client(&running));
            // The client's side of the handshake is over: it sends, and reads how that was received.
            let _ = stream.write_all(&vec![b'x'; 1 << 20]);
            let error = stream.read_to_end(&mut Vec::new()).expect_err("it is refused").to_string();
            assert!(error.contains(alert), "{io:?}: {error} instead of {alert}");
        }
        // No handshake at all.
        let mut stream = client(&running);
        stream.write_all(b"\x16\x03\x01\x00\x05\xff\x00\x00\x01\x00").unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        assert!(matches!(answer[..], [0x15, 3, _, 0, 2, 2, _]), "{io:?}: {answer:?}");
    }
}

#[test]
fn garbage_within_an_encrypted_connection_is_answered_by_an_alert() {
    let site = site();
    for io in BOTH {
        let running = serve_secure(&site, io);
        let mut stream = encrypted(site.client_config(), client(&running));
        stream.write_all(b"hello").unwrap();
        read(&mut stream, 5);
        stream.sock.write_all(&[&[0x17, 3, 3, 0, 20][..], &[7; 20], &vec![b'x'; 1 << 20]].concat()).unwrap();
        let error = stream.read_to_end(&mut Vec::new()).expect_err("it is closed").to_string();
        assert!(error.contains("BadRecordMac"), "{io:?}: {error}");
    }
}

#[test]
fn many_that_are_refused_at_once_all_read_why() {
    for io in BOTH {
        let running = refusing(io, Way::AtOnce);
        let at = address(&running);
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(move || {
                    for _ in 0..100 {
                        let mut stream = connect(at);
                        stream.write_all(b"!").unwrap();
                        let mut answer = Vec::new();
                        stream.read_to_end(&mut answer).unwrap();
                        assert_eq!(answer, LAST, "{io:?}");
                    }
                });
            }
        });
    }
}

#[test]
fn what_was_sent_before_the_end_of_the_process_arrives() {
    for io in BOTH {
        for closes in [true, false] {
            let handler = move |_| {
                script(move |_, input, io| {
                    if let Input::Bytes { conn, .. } = input {
                        let length = if closes { LONG } else { LAST.len() };
                        io.send(conn, &pattern(0, length));
                        if closes {
                            io.close(conn);
                        }
                        io.exit(0);
                    }
                    Time::NEVER
                })
            };
            let running = start(RuntimeOptions { io, ..plan(1) }, handler).unwrap();
            let mut stream = client(&running);
            stream.write_all(b"!").unwrap();
            let length = if closes { LONG } else { LAST.len() };
            assert!(read(&mut stream, length) == pattern(0, length), "{io:?}");
            assert_eq!(stream.read(&mut [0]).unwrap(), 0, "{io:?}");
        }
    }
}
