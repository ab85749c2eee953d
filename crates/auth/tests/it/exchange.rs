//! The two SCRAM roles against each other, and each against arbitrary and damaged messages.

use proptest::prelude::*;
use proptest::sample::select;

use weir_auth::{
    MAX_MESSAGE, ScramClient, ScramError, ScramExpectFinal, ScramExpectVerdict, ScramKeys, ScramNeedKeys, ScramOffer,
    ScramServer, ScramVerifier, Secret, md5_verify, plain_verify, salt_password, verify_cleartext,
};

/// All states and messages of one exchange.
struct Exchange {
    client: ScramClient,
    client_first: Vec<u8>,
    server: ScramServer,
    verifier: ScramVerifier,
    expect_final: ScramExpectFinal,
    server_first: Vec<u8>,
    need_keys: ScramNeedKeys,
    verdict: ScramExpectVerdict,
    client_final: Vec<u8>,
}

impl Exchange {
    /// A client with the password `given` logs in to a server that stores `stored`, up to the client's last message,
    /// over a connection with this binding.
    fn run(
        [given, stored]: [&str; 2],
        salt: &[u8],
        iterations: u32,
        nonces: [[u8; 18]; 2],
        binding: Option<&[u8]>,
    ) -> Exchange {
        let salted = salt_password(stored, salt, iterations);
        let verifier = ScramVerifier::from_salted(&salted, salt.to_vec(), iterations);
        let offer = ScramOffer::new(nonces[1], binding);
        let offered = offer.mechanisms().iter().map(|name| name.as_bytes());
        let (mechanism, client, client_first) = ScramClient::choose(nonces[0], offered, binding).unwrap();
        assert_eq!(mechanism.ends_with("-PLUS"), binding.is_some());
        let server = offer.choose(mechanism.as_bytes()).unwrap();
        let (expect_final, server_first) = server.clone().first(&client_first, verifier.clone(), false).unwrap();
        let need_keys = client.clone().server_first(&server_first).unwrap();
        assert_eq!((&need_keys.salt[..], need_keys.iterations), (salt, iterations));
        let salted = salt_password(given, &need_keys.salt, need_keys.iterations);
        let (verdict, client_final) = need_keys.clone().answer(&ScramKeys::from_salted(&salted));
        Exchange {
            client,
            client_first,
            server,
            verifier,
            expect_final,
            server_first,
            need_keys,
            verdict,
            client_final,
        }
    }

    fn example(binding: Option<&[u8]>) -> Exchange {
        Exchange::run(["pencil"; 2], b"salt", 2, [[1; 18], [2; 18]], binding)
    }
}

/// Connections without and with encryption.
const BINDINGS: [Option<&[u8]>; 2] = [None, Some(&[0xAB; 32])];

/// A valid message with one byte replaced, removed or added, or cut short.
fn damage(message: &[u8], at: prop::sample::Index, byte: u8, how: u8) -> Vec<u8> {
    let mut message = message.to_vec();
    let at = at.index(message.len());
    match how % 4 {
        0 => message[at] = byte,
        1 => drop(message.remove(at)),
        2 => message.insert(at, byte),
        _ => message.truncate(at),
    }
    message
}

proptest! {
    #[test]
    fn the_right_password_logs_in_and_teaches_keys_for_the_next_server(
        password in "\\PC{1,20}", salt in prop::collection::vec(any::<u8>(), 1..40), iterations in 1..20u32,
        nonces in any::<[[u8; 18]; 2]>(), binding in select(&BINDINGS),
    ) {
        let login = Exchange::run([&password, &password], &salt, iterations, nonces, binding);
        let (keys, server_final) = login.expect_final.finish(&login.client_final).unwrap();
        prop_assert_eq!(login.verdict.finish(&server_final), Ok(()));
        prop_assert!(keys.matches(&login.verifier));

        let (second, client_final) = login.need_keys.answer(&keys);
        prop_assert_eq!(&client_final, &login.client_final);
        prop_assert_eq!(second.finish(&server_final), Ok(()));
    }

    #[test]
    fn a_wrong_password_does_not_log_in(
        given in "[a-z]{1,20}", stored in "[A-Z]{1,20}", nonces in any::<[[u8; 18]; 2]>(), binding in select(&BINDINGS),
    ) {
        let login = Exchange::run([&given, &stored], b"salt", 2, nonces, binding);
        prop_assert_eq!(login.expect_final.finish(&login.client_final).unwrap_err(), ScramError::WrongPassword);
    }

    #[test]
    fn a_damaged_client_first_never_ends_in_a_login(
        at in any::<prop::sample::Index>(), byte: u8, how: u8, binding in select(&BINDINGS),
    ) {
        let login = Exchange::example(binding);
        let message = damage(&login.client_first, at, byte, how);
        prop_assume!(message != login.client_first);
        if let Ok((state, _)) = login.server.first(&message, login.verifier, false) {
            prop_assert!(state.finish(&login.client_final).is_err());
        }
    }

    #[test]
    fn a_damaged_client_final_never_ends_in_a_login(
        at in any::<prop::sample::Index>(), byte: u8, how: u8, binding in select(&BINDINGS),
    ) {
        let login = Exchange::example(binding);
        let message = damage(&login.client_final, at, byte, how);
        prop_assume!(message != login.client_final);
        prop_assert!(login.expect_final.finish(&message).is_err());
    }

    #[test]
    fn a_damaged_server_first_never_ends_in_a_login(
        at in any::<prop::sample::Index>(), byte: u8, how: u8, binding in select(&BINDINGS),
    ) {
        let login = Exchange::example(binding);
        let message = damage(&login.server_first, at, byte, how);
        prop_assume!(message != login.server_first);
        if let Ok(need) = login.client.server_first(&message) {
            // At most a few digits can be added to the count of 2, by one byte.
            prop_assert!(need.iterations < 100);
            let keys = ScramKeys::from_salted(&salt_password("pencil", &need.salt, need.iterations));
            let (_, client_final) = need.answer(&keys);
            prop_assert!(login.expect_final.finish(&client_final).is_err());
        }
    }

    #[test]
    fn a_damaged_server_final_is_not_believed(
        at in any::<prop::sample::Index>(), byte: u8, how: u8, binding in select(&BINDINGS),
    ) {
        let login = Exchange::example(binding);
        let (_, server_final) = login.expect_final.finish(&login.client_final).unwrap();
        let message = damage(&server_final, at, byte, how);
        prop_assume!(message != server_final);
        prop_assert!(login.verdict.finish(&message).is_err());
    }

    #[test]
    fn arbitrary_bytes_never_panic_and_never_log_in(
        bytes in prop::collection::vec(any::<u8>(), 0..MAX_MESSAGE + 2), binding in select(&BINDINGS),
    ) {
        let login = Exchange::example(binding);
        let _ = login.server.first(&bytes, login.verifier.clone(), false);
        prop_assert!(login.expect_final.finish(&bytes).is_err());
        prop_assert!(login.client.server_first(&bytes).is_err());
        prop_assert!(login.verdict.finish(&bytes).is_err());
        prop_assert!(!md5_verify("2c40bba0e389adbb6b179346ada91424", [0; 4], &bytes));
        prop_assert!(!plain_verify("pencil", &bytes));
        prop_assert!(!verify_cleartext(&Secret::Scram(login.verifier), "user", &bytes));
    }

    #[test]
    fn text_that_looks_like_a_message_never_panics(
        text in "([npyracsivem]{0,2}[=,]{0,2}[a-zA-Z0-9+/=é\\x00]{0,6}){0,8}", binding in select(&BINDINGS),
    ) {
        let login = Exchange::example(binding);
        let _ = login.server.first(text.as_bytes(), login.verifier, false);
        prop_assert!(login.expect_final.finish(text.as_bytes()).is_err());
        prop_assert!(login.client.server_first(text.as_bytes()).is_err());
        prop_assert!(login.verdict.finish(text.as_bytes()).is_err());
    }

    #[test]
    fn any_secret_is_read_or_refused_and_a_verifier_is_written_as_it_was_read(
        text in "(md5|SCRAM-SHA-256\\$|)[0-9a-fA-F:$+/=]{0,60}",
    ) {
        match Secret::parse(&text) {
            Ok(Secret::Scram(verifier)) => prop_assert_eq!(ScramVerifier::parse(&verifier.to_string()), Ok(verifier)),
            Ok(Secret::Plain(password)) => prop_assert_eq!(&*password, text.as_str()),
            Ok(Secret::Md5(hex)) => prop_assert_eq!(hex.len(), 32),
            Err(_) => prop_assert!(text.starts_with("SCRAM-SHA-256$")),
        }
    }
}
