//! The shared files of credentials and of settings (AWS CLI user guide: "Configuration and credential file settings").

use std::path::PathBuf;

use super::credentials::Credentials;
use crate::outside::Outside;

/// The credentials of a profile; `None` if no profile was named, and the usual one has none.
///
/// # Errors
/// A file can't be read, or the profile that was named has no keys.
pub(super) fn credentials(outside: &Outside, profile: Option<&str>) -> Result<Option<Credentials>, String> {
    let named = name(outside, profile);
    let name = named.as_deref().unwrap_or("default");
    for (file, section) in places(outside, name) {
        let Some(text) = outside.text(&file)? else { continue };
        let get = |key| value(&text, &section, key);
        if let (Some(key), Some(secret)) = (get("aws_access_key_id"), get("aws_secret_access_key")) {
            let from = format!("profile {name} in {}", file.display());
            return Ok(Some(Credentials { key, secret, session: get("aws_session_token"), expires: None, from }));
        }
    }
    if named.is_none() {
        return Ok(None);
    }
    let files: Vec<String> = places(outside, name).into_iter().map(|(file, _)| file.display().to_string()).collect();
    let files = files.join(" or ");
    Err(format!(
        "profile {name} has no aws_access_key_id and aws_secret_access_key in {files}; \
         roles, single sign-on and programs of profiles are not supported"
    ))
}

/// The region of a profile.
pub(super) fn region(outside: &Outside, profile: Option<&str>) -> Option<String> {
    let name = name(outside, profile).unwrap_or_else(|| "default".to_owned());
    let mut places = places(outside, &name).into_iter();
    places.find_map(|(file, section)| value(&outside.text(&file).ok()??, &section, "region"))
}

fn name(outside: &Outside, profile: Option<&str>) -> Option<String> {
    profile.map(str::to_owned).or_else(|| outside.variable("AWS_PROFILE"))
}

/// The files, and the profile's section in each.
fn places(outside: &Outside, name: &str) -> Vec<(PathBuf, String)> {
    let home = outside.variable("HOME").map(PathBuf::from);
    let file = |variable, usual: &str| {
        outside.variable(variable).map(PathBuf::from).or_else(|| Some(home.as_ref()?.join(".aws").join(usual)))
    };
    let of_settings = if name == "default" { name.to_owned() } else { format!("profile {name}") };
    let both = [
        (file("AWS_SHARED_CREDENTIALS_FILE", "credentials"), name.to_owned()),
        (file("AWS_CONFIG_FILE", "config"), of_settings),
    ];
    both.into_iter().filter_map(|(file, section)| Some((file?, section))).collect()
}

/// The value of a key in a section.
fn value(text: &str, section: &str, key: &str) -> Option<String> {
    let mut inside = false;
    for line in text.lines() {
        let written = line.trim();
        if let Some(title) = written.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            inside = title.0.trim() == section;
        } else if inside
            && !line.starts_with([' ', '\t', '#', ';'])
            && let Some((name, value)) = written.split_once('=')
            && name.trim().eq_ignore_ascii_case(key)
        {
            return Some(value.trim().to_owned()).filter(|value| !value.is_empty());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_counts_in_its_own_section_only() {
        let text = "# keys\n[default]\naws_access_key_id = A\nregion=eu-west-1\ns3 =\n  region = x\n\n\
                    [db]\nAWS_ACCESS_KEY_ID=B\n";
        assert_eq!(value(text, "default", "aws_access_key_id").as_deref(), Some("A"));
        assert_eq!(value(text, "db", "aws_access_key_id").as_deref(), Some("B"));
        assert_eq!(value(text, "db", "region"), None);
        assert_eq!(value(text, "default", "s3"), None);
        assert_eq!(value(text, "other", "region"), None);
    }
}
