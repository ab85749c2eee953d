//! Fingerprints: what they fold, and a search for values that survive.

use super::*;

#[test]
fn queries_that_differ_in_values_have_one_fingerprint() {
    let table = [
        ("SELECT * FROM t WHERE id = 42", "select * from t where id = ?"),
        ("select  *\nfrom t where id=7 -- seven", "select * from t where id = ?"),
        ("select * from t where id = $1;", "select * from t where id = ?"),
        ("select * from t where id = -7.5e-3", "select * from t where id = ?"),
        ("select * from t where id = .5", "select * from t where id = ?"),
        ("SELECT f(1, 'two', $$three$$)", "select f(?)"),
        ("UPDATE a SET b = 0x1F, c = 1.5e3 WHERE d IN (1, 2, 3)", "update a set b = ?, c = ? where d in (?)"),
        ("UPDATE a SET b = $2, c = null WHERE d IN ($3,$4)", "update a set b = ?, c = ? where d in (?)"),
        ("SELECT a.b::int FROM \"My T\" a WHERE c >= $1", "select a.b::int from \"My T\" a where c >= ?"),
        ("INSERT INTO t VALUES (1, 'a'), (2, 'b')", "insert into t values (?)"),
        ("INSERT INTO t VALUES (1, now(), -2), (3, now(), 4),(5,now(),6)", "insert into t values (?, now(), ?)"),
        ("/* app */ BEGIN; SELECT 1;;", "begin; select ?"),
        ("SELECT count (*), a - 1, a -- x\n FROM t", "select count(*), a - ?, a from t"),
        ("select E'a\\'b', U&'d\\0061t', B'101', X'1F', N'x' 'y'", "select ?"),
        ("select '\\d+' || x where a is not null and b = true", "select ? || x where a is not null and b = ?"),
        ("select j ->> 'a' ? 'b' from \"T\".\"c\"", "select j ->> ? ? ? from \"T\".\"c\""),
        ("a <= -1 and b !=2", "a <= ? and b != ?"),
        ("select /* a /* nested */ b */ 1", "select ?"),
        ("select 'don''t', $a$ $b$ ' $a$ from t", "select ? from t"),
    ];
    for (text, wanted) in table {
        assert_eq!(fingerprint(text.as_bytes(), 1000), wanted, "{text}");
    }
}

#[test]
fn no_value_is_shown_whatever_the_text() {
    for text in [
        "ALTER USER joe PASSWORD 'secret'",
        "ALTER USER joe WITH ENCRYPTED PASSWORD secret",
        "alter role joe password \"secret\"",
        "CREATE USER MAPPING FOR joe SERVER s OPTIONS (user 'x', password secret)",
        "CREATE SUBSCRIPTION s CONNECTION secret",
        "SELECT 'it''s secret', E'\\'secret'",
        "SELECT 'a\\' secret'",
        "SELECT 'a\\'' secret'",
        "SELECT 'a\\\\\\' secret'",
        "SELECT $tag$ secret $tag$, $x$ secret",
        "SELECT $x secret",
        "SELECT $x$ $y$ secret $y$",
        "SELECT 1 /* secret */ -- secret",
        "SELECT 1 /* secret /* */ secret",
        "SET app.token = secret",
        "set session app.token to secret, secret",
        "SET app.token = \"secret\"",
        "ALTER ROLE joe SET app.token = secret; SELECT 1",
        "create function f() returns int set app.token = secret as 'x'",
        "BEGIN; SET LOCAL app.token TO secret",
        "SELECT 'cut secre secret",
        "SELECT \"cut secre secret",
        "SELECT U&'secret', B'1' 'secret'",
        "COPY t FROM stdin;\n1\tsecret\n\\.",
        "COPY t FROM STDIN WITH (FORMAT csv); secret",
        "SELECT \\secret",
        "SELECT \0secret",
        "SELECT secret_0123456789_0123456789_0123456789_0123456789_0123456789_0123456789",
        "SELECT \"secret_0123456789_0123456789_0123456789_0123456789_0123456789_0123456789_0123456789_0123456789_0123456789_\"",
        "SELECT \"se\ncret\nsecret\"",
        "DO $$ BEGIN PERFORM 'secret'; END $$",
        "SELECT e'\\\\' , 'secret'",
        "SELECT 'a'\n'secret'",
        "SELECT 12secret, 0xsecret, 1e5secret",
        "select 1$$ secret $$",
        "select -2.$a$ 'x' secret $a$, 1e5$$ secret $$",
        "select $1$$ secret $$",
    ] {
        assert!(
            !fingerprint(text.as_bytes(), 1000).contains("secre"),
            "{text}: {}",
            fingerprint(text.as_bytes(), 1000)
        );
    }
    let bytes = b"SELECT secret\xff, '\xff secret\\', \"secret\xc3\"";
    assert!(!fingerprint(bytes, 1000).contains("secre"));
}

#[test]
fn a_fingerprint_is_bounded() {
    let text = format!("select {}", "é, ".repeat(5000));
    assert!(fingerprint(text.as_bytes(), 100).len() <= 100 + REST.len());
    assert_eq!(fingerprint(b"", 10), "");
    assert_eq!(fingerprint(b"\xff\xfe(", 10).chars().filter(|c| *c == '(').count(), 1);
    let million = format!("select * from t where a in ({}) and secret", "1,".repeat(500_000));
    assert_eq!(fingerprint(million.as_bytes(), 1000), "select * from t where a in (?, …");
    let deep = format!("{}1{}", "(".repeat(1000), ")".repeat(1000));
    assert!(fingerprint(deep.as_bytes(), 1000).len() <= 1000 + REST.len());
}

/// Literals in every form, with a value that nothing else contains.
const LITERALS: [&str; 16] = [
    "'V'",
    "'V''V'",
    "E'V\\'V'",
    "e'\\\\V'",
    "$$V$$",
    "$t$ $$ V ' $t$",
    "U&'V'",
    "B'V'",
    "x'V'",
    "N'V'",
    "77V",
    "1.V",
    "'\\d V'",
    "'V\n\nV'",
    "'V' 'V'",
    "$a1$V$a$V$a1$",
];

/// What may be around them.
const AROUND: [&str; 24] = [
    " ",
    ",",
    "(",
    ")",
    "=",
    "select ",
    "from t ",
    " -- V'\n",
    "/* V ' /* $$ */ \" */",
    "\"a'b\"",
    "::text",
    ";",
    "+-",
    "where x in (",
    " and ",
    "$1",
    "\t\n",
    " set ",
    " null ",
    "[",
    "]",
    ".",
    "\u{e9}t\u{e9}",
    "values (",
];

#[test]
fn no_literal_survives_in_a_hundred_thousand_texts() {
    let mut seed = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = |most: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % most
    };
    for _ in 0..100_000 {
        let mut text = String::new();
        for _ in 0..=next(12) {
            if next(3) == 0 {
                // A letter before it would make another prefix of it.
                text.push(' ');
                text.push_str(LITERALS[next(LITERALS.len())]);
                text.push(' ');
            } else {
                text.push_str(AROUND[next(AROUND.len())]);
            }
        }
        let text = text.replace('V', "SECRET");
        let cut = text.char_indices().nth(next(60)).map_or(text.len(), |(at, _)| at);
        for text in [&*text, &text[..cut]] {
            let shown = fingerprint(text.as_bytes(), 200);
            assert!(!shown.to_ascii_lowercase().contains("sec"), "{text:?}: {shown}");
        }
    }
}
