//! A directory that a PostgreSQL asks whether a password is right (`ldap` in pg_hba.conf): simple binds of LDAP, and
//! nothing else (RFC 4511, section 4.2). So several tokens of a user can be valid at once, each until its own end, as
//! those of clouds are.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

/// Serves until the process ends; returns its port. `accepts`: whether a password is right now.
pub(super) fn start(accepts: impl Fn(&str) -> bool + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let accepts = Arc::new(accepts);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let accepts = accepts.clone();
            // A client that goes away ends its thread.
            thread::spawn(move || serve(stream, &*accepts));
        }
    });
    port
}

fn serve(mut stream: TcpStream, accepts: &dyn Fn(&str) -> bool) -> Option<()> {
    const BIND: u8 = 0x60;
    const SIMPLE: u8 = 0x80;
    const INVALID_CREDENTIALS: u8 = 49;
    loop {
        let message = value(&mut stream, 0x30)?;
        let mut rest = &message[..];
        let id = value(&mut rest, 0x02)?;
        if rest.first() != Some(&BIND) {
            return None;
        }
        let bind = value(&mut rest, BIND)?;
        let mut rest = &bind[..];
        let (_version, _name) = (value(&mut rest, 0x02)?, value(&mut rest, 0x04)?);
        let password = String::from_utf8(value(&mut rest, SIMPLE)?).ok()?;
        let code = if accepts(&password) { 0 } else { INVALID_CREDENTIALS };
        let answer = [&[0x02, u8::try_from(id.len()).ok()?][..], &id, &[0x61, 7, 0x0a, 1, code, 4, 0, 4, 0]].concat();
        let head = [0x30, u8::try_from(answer.len()).ok()?];
        stream.write_all(&[&head[..], &answer].concat()).ok()?;
    }
}

/// The content of the next element, which has this tag.
fn value(from: &mut impl Read, tag: u8) -> Option<Vec<u8>> {
    let mut byte = || {
        let mut byte = [0];
        from.read_exact(&mut byte).ok().map(|()| byte[0])
    };
    if byte()? != tag {
        return None;
    }
    let length = match byte()? {
        short @ 0..0x80 => usize::from(short),
        long => (0..long & 0x7f).try_fold(0, |length, _| Some(length << 8 | usize::from(byte()?)))?,
    };
    let mut value = vec![0; length.min(1 << 20)];
    from.read_exact(&mut value).ok()?;
    Some(value)
}
