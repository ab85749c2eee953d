//! Files with secrets that every user of the machine can read or change.
//!
//! Only a warning: file modes are the operator's decision, and a machine may have no other users.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use weir_config::Config;

/// A warning for each such file that the configuration was read from or refers to.
pub fn warnings(config: &Config) -> Vec<String> {
    config.secret_files().into_iter().filter_map(|(path, what)| warning(&path, what)).collect()
}

fn warning(path: &Path, what: Option<&str>) -> Option<String> {
    // A missing file is reported by its reader.
    let mode = fs::metadata(path).ok()?.permissions().mode() & 0o7777;
    let can = match (mode & 0o002 != 0, mode & 0o004 != 0, what) {
        (true, _, _) => "changed",
        (false, true, Some(_)) => "read",
        _ => return None,
    };
    let path = path.display();
    let holds = what.map(|what| format!(" holds {what}, and")).unwrap_or_default();
    Some(format!("{path}{holds} can be {can} by everybody on this machine (mode {mode:04o}): chmod 600 {path}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_can_read_or_change_is_named_with_a_way_out() {
        let path = std::env::temp_dir().join(format!("weir-exposed-{}", std::process::id()));
        fs::write(&path, "x").unwrap();
        let text = |mode, what| {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            warning(&path, what).map(|text| text.replace(&path.display().to_string(), "FILE"))
        };
        let read = "FILE holds passwords, and can be read by everybody on this machine (mode 0644): chmod 600 FILE";
        assert_eq!(text(0o644, Some("passwords")).as_deref(), Some(read));
        let changed = "FILE can be changed by everybody on this machine (mode 0666): chmod 600 FILE";
        assert_eq!(text(0o666, None).as_deref(), Some(changed));
        for mode in [0o600, 0o640, 0o660, 0o400] {
            assert_eq!((text(mode, Some("passwords")), text(mode, None)), (None, None), "{mode:o}");
        }
        assert_eq!(text(0o644, None), None, "nothing secret is in it");
        fs::remove_file(&path).unwrap();
        assert_eq!(warning(&path, Some("passwords")), None);
    }
}
