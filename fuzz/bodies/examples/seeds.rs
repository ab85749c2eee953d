//! Writes seeds into `fuzz/corpus`: real files and conversations, from which a fuzzer continues. Existing files stay.
//!
//! Run it for a new target, then `make fuzz TARGET=…`, then minimise its corpus as CONTRIBUTING.md says.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use weir_pgwire::{ErrorFields, Of, ResultColumn, ResultColumnType, put_back, put_front};

fn main() -> io::Result<()> {
    texts()?;
    messages()?;
    exchanges()?;
    conversations()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn write(target: &str, name: &str, bytes: &[u8]) -> io::Result<()> {
    let folder = root().join("fuzz/corpus").join(target);
    fs::create_dir_all(&folder)?;
    fs::write(folder.join(format!("seed-{name}")), bytes)
}

/// Writes each item of a list to a numbered file.
fn all<'b>(target: &str, items: impl IntoIterator<Item = &'b [u8]>) -> io::Result<()> {
    items.into_iter().enumerate().try_for_each(|(at, item)| write(target, &format!("{at:02}"), item))
}

fn lines(target: &str, text: &str) -> io::Result<()> {
    all(target, text.lines().map(|line| line.trim().as_bytes()))
}

/// Settings files and HBA files, as operators write them.
fn texts() -> io::Result<()> {
    for folder in ["tests/pgbouncer/samples", "crates/config/tests/samples"] {
        for entry in fs::read_dir(root().join(folder))? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let target = if name.ends_with(".ini") { "ini" } else { "hba" };
            let text = fs::read_to_string(&path)?;
            // The target knows these names for the files that they refer to.
            let text = text.replace("/etc/pgbouncer/", "").replace("userlist.txt", "users.txt");
            write(target, &name, text.as_bytes())?;
        }
    }
    write("ini", "whole", WHOLE_INI.as_bytes())?;
    write("toml", "whole", WHOLE_TOML.as_bytes())?;
    let settings = include_str!("../../../docs/settings.md");
    for (at, block) in settings.split("```").skip(1).step_by(2).enumerate() {
        write("toml", &format!("page-{at}"), block.trim_start_matches("toml").as_bytes())?;
    }
    lines("hba", HBA)?;
    lines("ident", "m system user\n\"a b\" \"c\" all\nm /^x$ y\nm a b # c\nm a +b\ninclude x\nm a\\\nm \"a\"\"b\" c")?;
    lines(
        "userlist",
        "\"u\" \"p\"\n\"a\"\"b\" \"md501234567890123456789012345678901\" x\n; c\n# d\n\"\" \"x\"\n\"u\" \"\"",
    )?;
    lines("secret", SECRETS)?;
    lines("connstr", CONNECTIONS)?;
    lines("ciphers", CIPHERS)?;
    lines("console", COMMANDS)?;
    lines("sql", STATEMENTS)?;
    lines("fingerprint", VALUES)?;
    lines("tags", "SET\nLISTEN\nPREPARE\nDECLARE CURSOR\nCREATE TABLE\nCREATE TABLE AS\nSELECT INTO\nSELECT 1\nBEGIN")?;
    lines("options", "-c geqo=off\n--search-path=a,b\n-cx=\\ y -c z=\\\\\n-d 5\n-c a=\\")?;
    all("set", [&b"\x05tlsv1.3"[..], b"\x0010", b"\x0a-1", b"\x115s", b"\x1e*", b"\x20require", b"\x30HIGH:!aNULL"])?;
    let resolver: [&[u8]; 2] = [
        b"\x02dbnameserver 10.0.0.1\nsearch a.example b.example\noptions ndots:2 timeout:9 attempts:1\n",
        b"\x0aDb.Example.10.0.0.1 db.example db # x\nnameserver [::1]:5353\ndomain x\n",
    ];
    all("resolver", resolver)
}

fn message(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut buffer = Vec::new();
    write(&mut buffer);
    buffer
}

/// One message of each kind, and a few of them in a row.
fn messages() -> io::Result<()> {
    let front = [
        message(|b| put_front::query(b, "select 1")),
        message(|b| put_front::parse_text(b, b"s", "select $1", &[23, 25])),
        message(|b| put_front::bind(b, b"p", b"s", &[Some(b"x"), None, Some(b"")])),
        message(|b| put_front::describe(b, Of::Statement, b"s")),
        message(|b| put_front::close(b, Of::Portal, b"p")),
        message(|b| put_front::execute(b, b"p", 10)),
        message(|b| put_front::function_call(b, 1, &[Some(b"x"), None])),
        message(|b| put_front::copy_fail(b, "no")),
        message(|b| put_front::copy_data(b, b"1\t2\n")),
        message(|b| put_front::password(b, b"secret")),
        message(|b| put_front::sasl_initial(b, "SCRAM-SHA-256", b"n,,n=,r=abc")),
        [message(put_front::sync), message(put_front::flush), message(put_front::copy_done)].concat(),
        message(put_front::terminate),
    ];
    all("frontend", front.iter().map(Vec::as_slice))?;
    let column = ResultColumn { name: "x", kind: ResultColumnType::Text };
    let fields =
        ErrorFields { severity: "ERROR", sqlstate: "42601", message: "syntax error", detail: Some("d"), hint: None };
    let back = [
        message(|b| put_back::row_description(b, &[column, column])),
        message(|b| put_back::data_row(b, &[Some(b"1"), None])),
        message(|b| put_back::error(b, &fields)),
        message(|b| put_back::parameter_status(b, "TimeZone", "UTC")),
        message(|b| put_back::notification(b, 7, "c", "p")),
        message(|b| put_back::parameter_description(b, &[23])),
        message(|b| put_back::copy_in(b, 2)),
        message(|b| put_back::function_result(b, Some(b"7"))),
        message(|b| put_back::negotiate(b, 2, &[b"_pq_.x"])),
        message(|b| put_back::auth_sasl(b, &["SCRAM-SHA-256-PLUS", "SCRAM-SHA-256"])),
        message(|b| put_back::auth_md5(b, [1, 2, 3, 4])),
        message(|b| put_back::backend_key_data(b, 7, &[1, 2, 3, 4])),
        [message(|b| put_back::command_complete(b, "SELECT 1")), message(|b| put_back::ready(b, b'I'))].concat(),
    ];
    all("backend", back.iter().map(Vec::as_slice))?;
    let startup = [
        message(|b| put_front::startup(b, &[("user", "u"), ("database", "d"), ("options", "-c geqo=off")], 0)),
        message(|b| put_front::startup(b, &[("user", "u"), ("_pq_.x", "1"), ("TimeZone", "UTC")], 9)),
        message(put_front::ssl_request),
        message(put_front::gss_request),
        message(|b| put_front::cancel_request(b, 7, &[1, 2, 3, 4])),
        vec![0x16, 3, 1, 0, 5],
    ];
    all("startup", startup.iter().map(Vec::as_slice))?;
    let v2 = b"\r\n\r\n\0\r\nQUIT\n";
    let proxy = [
        b"PROXY TCP4 10.0.0.1 10.0.0.2 5000 6432\r\nrest".to_vec(),
        b"PROXY TCP6 ::1 ::2 5000 6432\r\n".to_vec(),
        b"PROXY UNKNOWN anything\r\n".to_vec(),
        [&v2[..], b"\x21\x11\0\x0c\x0a\0\0\x01\x0a\0\0\x02\x13\x88\x19\x20"].concat(),
        [&v2[..], b"\x20\0\0\0"].concat(),
        [&v2[..], b"\x21\x21\0\x27", &[1; 36], b"\x03\0\0"].concat(),
    ];
    all("proxy", proxy.iter().map(Vec::as_slice))
}

/// Logins, lookups, answers.
fn exchanges() -> io::Result<()> {
    let zero = [0u8; 40];
    for target in ["scram_server", "scram_client", "passwords"] {
        let seeds =
            [[&[1, 1, 0][..], &zero].concat(), [&[0, 0, 0][..], &zero].concat(), vec![1, 0, 0, 3, 9, 2, 3, 5, 1]];
        all(target, seeds.iter().map(Vec::as_slice))?;
    }
    all("passwords", [&b"\x06secret\x06secret"[..], b"\x01a\x01b", b"\x23md5012345678901234567890123456789012\x01a"])?;
    let bearers = [
        &b"n,,\x01auth=Bearer a.b-c_~+/1==\x01\x01"[..],
        b"y,,\x01host=h\x01port=5432\x01auth=bearer  a\x01\x01",
        b"n,,\x01auth=\x01\x01",
        b"n,a=u,\x01auth=Basic a\x01\x01",
    ];
    all("bearer", bearers)?;
    let initial = message(|b| put_front::sasl_initial(b, "SCRAM-SHA-256", b"n,,n=,r=abc"));
    let login =
        [&[3, 0, 0, initial.len() as u8 - 5][..], &initial[5..], b"\0\x20c=biws,r=abc,p=AAAAAAAAAAAAAAAA"].concat();
    all("client_login", [&login[..], b"\0\0\0\x07secret\0", b"\x01\0\0\x24md501234567890123456789012345678901\0"])?;
    let welcome = [
        message(put_back::auth_ok),
        message(|b| put_back::parameter_status(b, "TimeZone", "UTC")),
        message(|b| put_back::backend_key_data(b, 7, &[1, 2, 3, 4])),
        message(|b| put_back::ready(b, b'I')),
    ]
    .concat();
    let asks = [
        message(put_back::auth_cleartext),
        message(|b| put_back::auth_md5(b, [1; 4])),
        message(|b| put_back::auth_sasl(b, &["SCRAM-SHA-256"])),
        Vec::new(),
    ];
    let continues = message(|b| put_back::auth_sasl_continue(b, b"r=AgICAgICAgICAgICAgICAgICx,s=c2FsdA==,i=4096"));
    let seeds = asks.map(|ask| [&[15, 199][..], &ask, &continues, &welcome].concat());
    all("server_login", seeds.iter().map(Vec::as_slice))?;
    let row = message(|b| put_back::data_row(b, &[Some(b"u"), Some(b"SCRAM-SHA-256$1:x")]));
    let answer = [
        message(put_back::parse_complete),
        message(put_back::bind_complete),
        message(|b| put_back::row_description(b, &[ResultColumn { name: "x", kind: ResultColumnType::Text }; 2])),
        row,
        message(|b| put_back::command_complete(b, "SELECT 1")),
        message(|b| put_back::ready(b, b'I')),
    ]
    .concat();
    all(
        "auth_query",
        [&[&[9, 99, 0][..], &answer].concat()[..], b"\x05\x09\x06\x00\x01\x02\x03\x01u\x01p\x05\x06\x00"],
    )?;
    let dns = b"\x00\x01\x00\x00\x00\x02\xc0\x0c\0\x05\0\x01\0\0\0\x1e\0\x03\x01x\0\xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04\x0a\0\0\x01";
    all("dns", [&dns[..], b"\x01\x01\x00\x03\x00\x01\xc0\x0c\0\x1c\0\x01\0\0\0\x3c\0\x10aaaaaaaaaaaaaaaa"])?;
    let name = [&[0x30, 13, 0x31, 11, 0x30, 9, 6, 3, 0x55, 4, 3, 0x0c, 2][..], b"ab"].concat();
    let dates = [&[0x30, 30, 0x17, 13][..], b"240101000000Z", &[0x17, 13], b"340101000000Z"].concat();
    let algorithm = [0x30, 10, 6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2];
    let key = [&[0x30, 6][..], &[0x30, 0, 3, 2, 0, 1]].concat();
    let fields = [&[0xa0, 3, 2, 1, 2, 2, 1, 1][..], &algorithm, &name, &dates, &name, &key].concat();
    let body = [&[0x30, fields.len() as u8][..], &fields, &algorithm, &[3, 2, 0, 1]].concat();
    let certificate = [&[0x30, body.len() as u8][..], &body].concat();
    all("certificate", [&certificate[..], &body])?;
    all(
        "frozen",
        [
            &b"\x1f\x01\x07\x01\0\0\x01\x01a\x0bselect 1\0\0\0\x01\x0bselect 2\0\0\0\0\0"[..],
            b"\0\x01\x01\0\0\0\0\0\x01\x01",
        ],
    )
}

/// Tapes for the targets that read decisions. Each tape begins with a usual sequence.
fn conversations() -> io::Result<()> {
    // A client asks, is served, its server is released, another client asks.
    let session = [0u8, 0, 0, 0, 0, 12, 20, 0, 0, 0, 0, 20, 11, 0, 22, 1, 0, 0, 13, 20, 0, 20, 11, 11, 22];
    let extended =
        [0u8, 0, 0, 3, 1, 0, 0, 5, 1, 0, 9, 0, 0, 11, 12, 20, 0, 0, 0, 0, 20, 0, 6, 11, 0, 20, 11, 11, 0, 0, 22];
    let copy = [0u8, 0, 0, 0, 3, 0, 12, 20, 5, 5, 5, 5, 0, 14, 3, 1, 2, 3, 0, 13, 1, 12, 20, 8, 8, 11, 11];
    all("session", [&session[..], &extended, &copy])?;
    let engine =
        [0u8, 0, 15, 12, 6, 15, 12, 0, 0, 0, 0, 6, 10, 0, 0, 8, 11, 0, 12, 64, 0, 1, 0, 70, 10, 0, 3, 9, 11, 0, 12];
    let many = [
        1u8, 0, 15, 12, 0, 3, 1, 0, 0, 0, 5, 1, 0, 9, 0, 0, 11, 6, 10, 0, 0, 0, 0, 0, 12, 10, 11, 11, 11, 11, 11, 12,
        16, 2,
    ];
    all("engine", [&engine[..], &many])?;
    let split = [0u8, 9, 3, 99, 5, 0, 0, 3, 1, 0, 0, 5, 1, 9, 0, 11, 0, 4, 1, 2, 3, 4, 5, b'Z', 0, 0, 0, 5, b'I'];
    all("split", [&split[..], &[1, 3, 3, 3, 11, 0, 0, 7, 0, 1, 8, 0, 1, 11, 12, 11, 0, 0]])
}

const WHOLE_INI: &str = "[databases]
app = host=db port=5432 dbname=app user=u password='a b' pool_size=5 pool_mode=session connect_query='SELECT 1'
two = host=a,b port=1,2 load_balance_hosts=disable target_session_attrs=standby
* = host=/run/x auth_user=asker
[users]
u = pool_mode=statement max_user_connections=5 query_timeout=2
[peers]
1 = host=x port=2
[pgbouncer]
listen_addr = 127.0.0.1,::1
listen_port = 6432
unix_socket_dir = /tmp
auth_type = hba
auth_file = users.txt
auth_hba_file = hba.conf
auth_ident_file = ident.conf
admin_users = a, b
pool_mode = transaction
default_pool_size = 20
server_reset_query = DISCARD ALL
server_lifetime = 3600
query_wait_timeout = 1.5
server_tls_sslmode = require
server_tls_ciphers = HIGH:!aNULL
client_tls_protocols = secure
log_connections = 0
ignore_startup_parameters = extra_float_digits,options
%include other.ini
";

const WHOLE_TOML: &str = "[general]
mode = \"session\"
workers = 2
on_dirty = \"reset\"
[listen]
address = [\"127.0.0.1\", \"::1\"]
port = 6432
unix_socket_dir = \"/run/weir\"
[auth]
type = \"scram-sha-256\"
file = \"users.txt\"
[limits]
size = 10
query_timeout = \"5s\"
[pools.app]
host = \"db\"
user = \"u\"
password_env = \"SECRET\"
[pools.\"odd name\"]
host = [\"a\", \"b\"]
port = [1, 2]
password_file = \"password\"
[pools.\"*\"]
host = \"/run/x\"
[users.u]
mode = \"statement\"
";

const HBA: &str = "local all all peer
host all all 127.0.0.1/32 md5
hostssl \"a b\",c +d 10.0.0.0 255.0.0.0 cert map=m
hostnossl all all ::/0 reject
host sameuser @names 0.0.0.0/0 scram-sha-256
host all all all trust # comment
host replication all samehost md5";

const SECRETS: &str = "secret
md501234567890123456789012345678901
md5ABCDEF67890123456789012345678901
SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=
SCRAM-SHA-256$0:x$y:z";

const CONNECTIONS: &str = "host=db port=5432 dbname=x user=u password='it''s'
host=a,b port=1,2 pool_mode=session pool_size=3
host=/run/x client_encoding=UTF8 timezone='Europe/Berlin' application_name=a
pool_mode=statement max_user_connections=5 query_timeout=2 reserve_pool_size=1
host = 'x' auth_query='SELECT $1' auth_user=asker connect_query='SET x = ''y'''
hots=x
host='x";

const CIPHERS: &str = "default
HIGH:!aNULL:+ECDHE:-AES128:@STRENGTH
ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-CHACHA20-POLY1305
ECDHE+AESGCM:kRSA+AES,SUITEB128
TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256";

const COMMANDS: &str = "SHOW POOLS;
show stats_totals
PAUSE \"test pool\"
RESUME
KILL_CLIENT 12
SET default_pool_size = 5;
SET log_connections TO 'off'
SET timezone = 'UTC'
/* a /* b */ c */ SHOW -- x
SHUTDOWN WAIT_FOR_SERVERS
WAIT_CLOSE app
DISABLE app";

const STATEMENTS: &str = "set local a = 1
set a = 'x;y'
SET TRANSACTION ISOLATION LEVEL SERIALIZABLE
deallocate prepare \"A b\"
deallocate all; select 1
DISCARD ALL
declare c cursor for select ';'
declare c no scroll cursor with hold for select 1
create or replace temp view v as select 1
prepare p (int) as select $1
/* a /* b */ */ ; -- x
select $q$;$q$, E'\\';', U&'x' ";

const VALUES: &str = "select 'value1', \"name\" from t where a = 12345 -- value2
select e'val\\'ue1' , $tag$ value2 $tag$, u&'value3', b'1', $1
set app.token = 'value1'; alter role joe password 'value2'
insert into t values (1, 'value1'), (2, 'value2')
select 'val\\' value1', /* a /* value2 */ */ -1.5e-7
copy t from stdin;";
