//! Connection strings of an ini: `key=value` pairs between spaces, values in single quotes where they hold spaces, a
//! quote within doubled (PgBouncer's documentation, "Section \[databases\]").
//!
//! Errors never contain a value, since one of them is a password.

/// Splits a connection string into its pairs, in their order.
///
/// # Errors
///
/// The error, as the end of a sentence that begins with its location.
pub(crate) fn pairs(text: &str) -> Result<Vec<(String, String)>, String> {
    let mut pairs: Vec<(String, String)> = Vec::new();
    let mut rest = skip(text);
    while !rest.is_empty() {
        let after = || match pairs.last() {
            Some((key, _)) if known(key) => format!(" after {key}"),
            _ => String::new(),
        };
        let end = rest.find(['=', ' ', '\t']).unwrap_or(rest.len());
        let (key, behind) = rest.split_at(end);
        let Some(behind) = skip(behind).strip_prefix('=').filter(|_| !key.is_empty()) else {
            return Err(format!("syntax error in connection string{}: key=value expected", after()));
        };
        let (value, behind) = value(skip(behind)).ok_or_else(|| {
            let key = if known(key) { key } else { "a key" };
            format!("syntax error in connection string: {key} has no value, or its quote is not closed")
        })?;
        pairs.push((key.to_owned(), value));
        rest = skip(behind);
    }
    Ok(pairs)
}

/// Whether a word is certainly a key, and not a part of a password without quotes.
fn known(key: &str) -> bool {
    crate::settings::all().any(|s| s.ini_database.contains(&key) || s.ini_user == Some(key))
}

fn skip(text: &str) -> &str {
    text.trim_start_matches([' ', '\t'])
}

/// Splits a value off the front; an empty one is an error.
fn value(text: &str) -> Option<(String, &str)> {
    let Some(mut rest) = text.strip_prefix('\'') else {
        let end = text.find([' ', '\t']).unwrap_or(text.len());
        let (value, behind) = text.split_at(end);
        return (!value.is_empty()).then(|| (value.to_owned(), behind));
    };
    let mut value = String::new();
    loop {
        let (part, behind) = rest.split_once('\'')?;
        value.push_str(part);
        let Some(doubled) = behind.strip_prefix('\'') else {
            return (!value.is_empty()).then_some((value, behind));
        };
        value.push('\'');
        rest = doubled;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<(String, String)> {
        pairs(text).unwrap_or_else(|e| panic!("{e}"))
    }

    #[test]
    fn pairs_are_read_as_pgbouncer_reads_them() {
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(read(" host=a  port = 5 "), [pair("host", "a"), pair("port", "5")]);
        assert_eq!(read("connect_query='SELECT ''x'' ; --#'"), [pair("connect_query", "SELECT 'x' ; --#")]);
        assert_eq!(read("password=a=b'c user='d e'"), [pair("password", "a=b'c"), pair("user", "d e")]);
        assert_eq!(read(""), []);
        assert_eq!(read("host='a'port=1"), [pair("host", "a"), pair("port", "1")]);
    }

    #[test]
    fn what_is_no_pair_is_refused_without_being_repeated() {
        for text in ["hush", "=hush", "password=", "password=''", "password='hush", "password=a hush", "hush = "] {
            let error = pairs(text).unwrap_err();
            assert!(!error.contains("hush"), "{error}");
        }
        assert_eq!(
            pairs("password=a b").unwrap_err(),
            "syntax error in connection string after password: key=value expected"
        );
    }
}
