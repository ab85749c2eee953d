//! The server's spelling of values that can be written in many ways (PostgreSQL documentation, "Character Set Support"
//! and "Locale and Formatting"). A server reports a parameter in its own spelling, so a client that has requested
//! `utf-8` gets `UTF8`, at its login too, and no SET is needed for what is the same.

/// A value as the server spells it, where that is known without the server; otherwise as it was given.
pub(crate) fn of_server(name: &str, value: &str) -> Option<&'static str> {
    if name.eq_ignore_ascii_case("client_encoding") {
        encoding(value)
    } else if name.eq_ignore_ascii_case("standard_conforming_strings") {
        flag(value)
    } else {
        None
    }
}

/// A DateStyle as the server spells it whose own is `server`: what `given` does not say is the server's. `None` where
/// it is not understood.
pub(crate) fn date_style(given: &str, server: &str) -> Option<String> {
    let (mut style, mut order) = server.split_once(", ")?;
    let mut ordered = false;
    for word in given.split(',').map(|word| word.trim().to_ascii_lowercase()) {
        match &*word {
            "iso" => style = "ISO",
            "sql" => style = "SQL",
            "german" => {
                style = "German";
                order = if ordered { order } else { "DMY" };
            }
            "ymd" => order = "YMD",
            "dmy" => order = "DMY",
            "mdy" | "us" => order = "MDY",
            _ if word.starts_with("postgres") => style = "Postgres",
            _ if word.starts_with("euro") => order = "DMY",
            _ if word.starts_with("noneuro") => order = "MDY",
            _ => return None,
        }
        ordered |= !matches!(&*word, "iso" | "sql" | "german") && !word.starts_with("postgres");
    }
    Some(format!("{style}, {order}"))
}

/// A DateStyle that was given behind another one: what the later one does not say is the earlier one's, as a server
/// takes over each of its settings in turn (`check_DateStyle` in `variable.c`).
pub(crate) fn date_style_behind(before: &str, given: &str) -> String {
    let words = |list: &str| list.split(',').map(|word| word.trim().to_ascii_lowercase()).collect::<Vec<_>>();
    let is_style = |word: &str| matches!(word, "iso" | "sql" | "german") || word.starts_with("postgres");
    let styles = |words: &[String]| words.iter().any(|word| is_style(word));
    // One of the styles has an order, unless that is given.
    let german = |words: &[String]| words.iter().any(|word| word == "german");
    let ordered = |words: &[String]| words.iter().any(|word| !is_style(word));
    let (before, given) = (words(before), words(given));
    let (style, order) = (styles(&given), ordered(&given) || german(&given));
    let mut both: Vec<&str> = Vec::new();
    both.extend(before.iter().filter(|word| if is_style(word) { !style } else { !order }).map(|word| &**word));
    if style && !order && german(&before) && !ordered(&before) {
        both.push("dmy");
    }
    both.extend(given.iter().map(|word| &**word));
    both.join(", ")
}

/// The server's names of encodings. Case and everything but letters and digits do not count.
const ENCODINGS: [&str; 42] = [
    "SQL_ASCII",
    "EUC_JP",
    "EUC_CN",
    "EUC_KR",
    "EUC_TW",
    "EUC_JIS_2004",
    "UTF8",
    "MULE_INTERNAL",
    "LATIN1",
    "LATIN2",
    "LATIN3",
    "LATIN4",
    "LATIN5",
    "LATIN6",
    "LATIN7",
    "LATIN8",
    "LATIN9",
    "LATIN10",
    "WIN1256",
    "WIN1258",
    "WIN866",
    "WIN874",
    "KOI8R",
    "WIN1251",
    "WIN1252",
    "ISO_8859_5",
    "ISO_8859_6",
    "ISO_8859_7",
    "ISO_8859_8",
    "WIN1250",
    "WIN1253",
    "WIN1254",
    "WIN1255",
    "WIN1257",
    "KOI8U",
    "SJIS",
    "BIG5",
    "GBK",
    "UHC",
    "GB18030",
    "JOHAB",
    "SHIFT_JIS_2004",
];

/// Other names of encodings.
const ALIASES: [(&str, &str); 38] = [
    ("unicode", "UTF8"),
    ("iso88591", "LATIN1"),
    ("iso88592", "LATIN2"),
    ("iso88593", "LATIN3"),
    ("iso88594", "LATIN4"),
    ("iso88599", "LATIN5"),
    ("iso885910", "LATIN6"),
    ("iso885913", "LATIN7"),
    ("iso885914", "LATIN8"),
    ("iso885915", "LATIN9"),
    ("iso885916", "LATIN10"),
    ("koi8", "KOI8R"),
    ("abc", "WIN1258"),
    ("tcvn", "WIN1258"),
    ("tcvn5712", "WIN1258"),
    ("vscii", "WIN1258"),
    ("alt", "WIN866"),
    ("win", "WIN1251"),
    ("mskanji", "SJIS"),
    ("shiftjis", "SJIS"),
    ("windows866", "WIN866"),
    ("windows874", "WIN874"),
    ("windows932", "SJIS"),
    ("windows936", "GBK"),
    ("windows949", "UHC"),
    ("windows950", "BIG5"),
    ("windows1250", "WIN1250"),
    ("windows1251", "WIN1251"),
    ("windows1252", "WIN1252"),
    ("windows1253", "WIN1253"),
    ("windows1254", "WIN1254"),
    ("windows1255", "WIN1255"),
    ("windows1256", "WIN1256"),
    ("windows1257", "WIN1257"),
    ("windows1258", "WIN1258"),
    ("win932", "SJIS"),
    ("win936", "GBK"),
    ("win949", "UHC"),
];

fn encoding(value: &str) -> Option<&'static str> {
    let letters = |name: &str| -> String {
        name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
    };
    let wanted = letters(value);
    let alias = ALIASES.iter().find(|(alias, _)| *alias == wanted).map(|(_, name)| *name);
    alias.or_else(|| ENCODINGS.into_iter().find(|name| letters(name) == wanted))
}

/// As PostgreSQL reads a boolean: any beginning of these words that no other has.
fn flag(value: &str) -> Option<&'static str> {
    let value = value.trim().to_ascii_lowercase();
    let begins = |words: [&str; 2]| !value.is_empty() && words.iter().any(|word| word.starts_with(&value));
    match &*value {
        "on" | "1" => Some("on"),
        "off" | "of" | "0" => Some("off"),
        _ if begins(["true", "yes"]) => Some("on"),
        _ if begins(["false", "no"]) => Some("off"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_encoding_has_one_name_however_it_is_written() {
        for (given, name) in [
            ("utf-8", "UTF8"),
            ("UTF8", "UTF8"),
            ("'unicode'", "UTF8"),
            ("latin-1", "LATIN1"),
            ("ISO 8859-15", "LATIN9"),
            ("iso_8859_5", "ISO_8859_5"),
            ("sql_ascii", "SQL_ASCII"),
            ("Windows-1252", "WIN1252"),
            ("euc-jis-2004", "EUC_JIS_2004"),
        ] {
            assert_eq!(of_server("CLIENT_encoding", given), Some(name), "{given}");
        }
        assert_eq!(of_server("client_encoding", "klingon"), None);
        assert_eq!(of_server("client_encoding", ""), None);
    }

    #[test]
    fn a_date_style_is_completed_by_the_servers() {
        for (given, spelled) in [
            ("iso", "ISO, MDY"),
            ("SQL,dmy", "SQL, DMY"),
            ("dmy", "ISO, DMY"),
            ("german", "German, DMY"),
            ("ymd, german", "German, YMD"),
            ("PostgreSQL, European", "Postgres, DMY"),
            ("US", "ISO, MDY"),
        ] {
            assert_eq!(date_style(given, "ISO, MDY").as_deref(), Some(spelled), "{given}");
        }
        assert_eq!(date_style("default", "ISO, MDY"), None);
        assert_eq!(date_style("iso", "unknown"), None);
    }

    #[test]
    fn a_flag_is_on_or_off() {
        for given in ["on", "ON", "1", "t", "true", "y"] {
            assert_eq!(of_server("standard_conforming_strings", given), Some("on"), "{given}");
        }
        for given in ["off", "0", "f", "No"] {
            assert_eq!(of_server("standard_conforming_strings", given), Some("off"), "{given}");
        }
        assert_eq!(of_server("standard_conforming_strings", "o"), None);
        assert_eq!(of_server("application_name", "utf-8"), None);
    }
}
