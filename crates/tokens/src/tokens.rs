//! Which service makes the token of a source, and the tokens that count.

use std::sync::Arc;

use weir_base::Target;
use weir_config::{TokenService, TokenSource};

use crate::cache::{Cache, Found, Made};
use crate::outside::Outside;
use crate::{aws, azure, google, vault};

/// A token. No `Debug`: it is secret.
#[derive(Clone)]
pub struct Token {
    /// The token.
    pub password: Arc<str>,
    /// Where it comes from, and when it is valid: no secret.
    pub about: Arc<str>,
}

/// See the head of the crate. One for a process.
#[derive(Default)]
pub struct Tokens {
    outside: Outside,
    tokens: Cache<(TokenSource, Option<Target>), Token>,
    credentials: aws::Kept,
    logins: vault::Logins,
}

impl Tokens {
    /// Tokens of this environment.
    pub fn new(outside: Outside) -> Tokens {
        Tokens { outside, ..Tokens::default() }
    }

    /// A token for a login at a server: one that counts, or a new one; none that is the `refused` one. Blocks for ten
    /// seconds at most, and while another caller wants the same one.
    ///
    /// # Errors
    /// The service, and why there is none: no secret.
    pub fn get(&self, source: &TokenSource, target: &Target, refused: Option<&str>) -> Result<Found<Token>, String> {
        let key = (source.clone(), Some(target.clone()).filter(|_| source.service.is_by_host()));
        let is_refused = |token: &Token| refused == Some(&*token.password);
        let name = source.service.name();
        let found = self.tokens.get(
            || self.outside.now(),
            &key,
            is_refused,
            |was_refused| self.make(source, target, was_refused),
        );
        let found = found.map_err(|why| format!("{name}: {why}"))?;
        let overdue = found.overdue.map(|why| format!("{name}: {why}; the present token counts until it expires"));
        Ok(Found { overdue, ..found })
    }

    fn make(&self, source: &TokenSource, target: &Target, was_refused: bool) -> Result<Made<Token>, String> {
        let outside = &self.outside;
        let made = match &source.service {
            TokenService::Aws { region, profile } => {
                let whom = (&*source.user, target);
                let options = (region.as_deref(), profile.as_deref());
                aws::token(outside, &self.credentials, whom, options, was_refused)?
            }
            TokenService::Azure { client_id, resource } => {
                azure::token(outside, client_id.as_deref(), resource.as_deref())?
            }
            TokenService::Google { account } => google::token(outside, account.as_deref())?,
            TokenService::Vault(vault) => vault::password(outside, &self.logins, &source.user, vault)?,
        };
        let Made { value: (password, about), at, due, counts } = made;
        Ok(Made { value: Token { password: password.into(), about: about.into() }, at, due, counts })
    }
}
