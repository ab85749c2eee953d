//! The places where credentials are looked for, in the order of the AWS CLI.

use std::time::{Duration, Instant};

use super::credentials::Credentials;
use super::{containers, identity, instance, profiles};
use crate::ask::{LIMIT, Service};
use crate::cache::{Made, UNLIMITED};
use crate::outside::Outside;

/// After how long credentials without an end are asked for again.
const RENEWED: Duration = Duration::from_secs(300);

/// Credentials that are wanted.
pub(super) struct Wanted<'a> {
    outside: &'a Outside,
    profile: Option<&'a str>,
    until: Instant,
}

impl<'a> Wanted<'a> {
    pub(super) fn new(outside: &'a Outside, profile: Option<&'a str>) -> Wanted<'a> {
        Wanted { outside, profile, until: Instant::now() + LIMIT }
    }

    /// The region that the environment or the profile names.
    pub(super) fn region(&self) -> Option<String> {
        let variable = |name| self.outside.variable(name);
        variable("AWS_REGION")
            .or_else(|| variable("AWS_DEFAULT_REGION"))
            .or_else(|| profiles::region(self.outside, self.profile))
    }

    /// Credentials of the environment, or of the shared files: read for each token, as they cost little.
    ///
    /// # Errors
    /// A profile that is named has none, or a file can't be read.
    pub(super) fn local(&self) -> Result<Option<Credentials>, String> {
        let variable = |name| self.outside.variable(name);
        if self.profile.is_none()
            && let (Some(key), Some(secret)) = (variable("AWS_ACCESS_KEY_ID"), variable("AWS_SECRET_ACCESS_KEY"))
        {
            let session = variable("AWS_SESSION_TOKEN");
            return Ok(Some(Credentials { key, secret, session, expires: None, from: "the environment".to_owned() }));
        }
        if self.profile.is_none() && identity::is_there(self.outside) {
            return Ok(None);
        }
        profiles::credentials(self.outside, self.profile)
    }

    /// Credentials that a service makes.
    ///
    /// # Errors
    /// Why there are none.
    pub(super) fn remote(&self, region: &str) -> Result<Made<Credentials>, String> {
        let at = self.outside.now();
        let service = |name| Service { name, send: &self.outside.send, until: self.until };
        let found = if identity::is_there(self.outside) {
            identity::credentials(self.outside, &service("AWS STS"), region)?
        } else if containers::is_there(self.outside) {
            containers::credentials(self.outside, &service("the container's endpoint"))?
        } else {
            instance::credentials(self.outside, &service("the instance's metadata service"))?
        };
        match found.expires {
            None => Ok(Made::renewed(found, at, RENEWED, UNLIMITED)),
            Some(end) => match at.until(end) {
                Some(left) => Ok(Made::expiring(found, at, left)),
                None => Err(found.expired(at)),
            },
        }
    }
}
