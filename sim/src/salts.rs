//! Salted passwords, remembered: the same password, salt and rounds give the same result, and PBKDF2 is what a login
//! costs most. Nothing else of a login is left out.

use std::cell::RefCell;
use std::collections::HashMap;

use weir_auth::ScramVerifier;

type Salted = [u8; 32];

/// A password, a salt and a number of rounds.
type Recipe = (String, Vec<u8>, u32);

/// More than this are forgotten together.
const MOST: usize = 4_096;

thread_local! {
    static SALTED: RefCell<HashMap<Recipe, Salted>> = RefCell::default();
    static VERIFIERS: RefCell<HashMap<String, ScramVerifier>> = RefCell::default();
}

/// What [`weir_auth::salt_password`] says.
pub(crate) fn salted(password: &str, salt: &[u8], iterations: u32) -> Salted {
    SALTED.with_borrow_mut(|known| {
        if known.len() >= MOST {
            known.clear();
        }
        *known
            .entry((password.to_owned(), salt.to_vec(), iterations))
            .or_insert_with(|| weir_auth::salt_password(password, salt, iterations))
    })
}

/// A user's verifier, made by `make` the first time.
pub(crate) fn verifier(user: &str, make: impl FnOnce() -> ScramVerifier) -> ScramVerifier {
    VERIFIERS.with_borrow_mut(|known| match known.get(user) {
        Some(verifier) => verifier.clone(),
        None => {
            let verifier = make();
            known.insert(user.to_owned(), verifier.clone());
            verifier
        }
    })
}
