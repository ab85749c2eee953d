//! Tokens of AWS RDS (IAM database authentication): a signature over host, port and user, made here; no service is
//! asked for it. It is valid for 15 minutes, and no longer than the credentials that it is made with.
//!
//! Credentials are looked for where the AWS CLI looks, in its order: the environment, a web identity, the shared files,
//! a container's endpoint, the instance's metadata service. Those that a service has answered are kept until shortly
//! before they expire.

mod chain;
mod containers;
mod credentials;
mod identity;
mod instance;
mod profiles;
mod signature;

use std::time::Duration;

use weir_base::Target;

use crate::cache::{Cache, Made};
use crate::outside::Outside;

pub(crate) use credentials::Credentials;

use chain::Wanted;

/// How long a token is valid (the RDS user guide: 15 minutes).
const VALID: Duration = Duration::from_secs(900);

/// Credentials by profile.
pub(crate) type Kept = Cache<Option<String>, Credentials>;

/// The token for a user at a server, and where it comes from. `was_refused`: credentials that are kept are not used
/// again.
///
/// # Errors
/// No credentials were found, or no region.
pub(crate) fn token(
    outside: &Outside,
    kept: &Kept,
    (user, target): (&str, &Target),
    (region, profile): (Option<&str>, Option<&str>),
    was_refused: bool,
) -> Result<Made<(String, String)>, String> {
    let wanted = Wanted::new(outside, profile);
    let host = target.host.to_string();
    let region = region.map(str::to_owned).or_else(|| region_of(&host)).or_else(|| wanted.region());
    let region = region.ok_or_else(|| {
        format!("the region of {host} is not known: write \"region=…\" in password_source, or set AWS_REGION")
    })?;
    let found = match wanted.local()? {
        Some(credentials) => credentials,
        None => {
            let make = |_| wanted.remote(&region);
            kept.get(|| outside.now(), &profile.map(str::to_owned), |_| was_refused, make)?.value
        }
    };
    let at = outside.now();
    let left = match found.expires {
        None => VALID,
        Some(seconds) => at.until(seconds).ok_or_else(|| found.expired(at))?.min(VALID),
    };
    let password = signature::connect_url((&host, target.port), user, &region, &found, at.seconds());
    let until = at.after(left).text();
    let about = format!(
        "aws-iam: signed for {region} at {} by this machine's clock, valid until {until}, with credentials from {}",
        at.text(),
        found.from
    );
    Ok(Made::expiring((password, about), at, left))
}

/// The region in the name of an endpoint of RDS, as in `mydb.abc123.eu-central-1.rds.amazonaws.com`.
fn region_of(host: &str) -> Option<String> {
    let host = host.to_ascii_lowercase();
    let rest = host.strip_suffix(".cn").unwrap_or(&host).strip_suffix(".rds.amazonaws.com")?;
    rest.rsplit('.').next().filter(|region| region.contains('-')).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_region_is_in_the_name_of_an_endpoint() {
        for (host, region) in [
            ("mydb.abc123.eu-central-1.rds.amazonaws.com", Some("eu-central-1")),
            ("a.proxy-abc.us-gov-west-1.RDS.amazonaws.com", Some("us-gov-west-1")),
            ("mydb.abc123.cn-north-1.rds.amazonaws.com.cn", Some("cn-north-1")),
            ("db.example.com", None),
            ("rds.amazonaws.com", None),
        ] {
            assert_eq!(region_of(host).as_deref(), region, "{host}");
        }
    }
}
