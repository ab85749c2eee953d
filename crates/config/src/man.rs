//! The manual page weir.toml(5), generated from the table of settings.

use std::fmt::Write;

use crate::reference;
use crate::table::{Section, Setting};

/// The manual page of all settings, in roff's macros `man`, for this version of the program.
pub fn reference_roff(version: &str) -> String {
    let mut page = format!(
        ".TH WEIR.TOML 5 \"\" \"weir {}\"\n.SH NAME\nweir.toml \\- the configuration of weir(1)\n.SH DESCRIPTION\n",
        escape_roff(version)
    );
    for paragraph in reference::DESCRIPTION {
        let _ = writeln!(page, ".PP\n{}", from_markdown(paragraph));
    }
    for section in Section::ALL {
        let _ = writeln!(page, ".SH {}\n{}", escape_roff(&section.title()), from_markdown(reference::purpose(section)));
        for setting in crate::settings::all().filter(|setting| setting.section == section) {
            page.push_str(&entry(setting));
        }
    }
    page.push_str(".SH \"SEE ALSO\"\n.BR weir (1),\n.BR weir\\-check (1)\n");
    page
}

fn entry(setting: &Setting) -> String {
    let shape = reference::value(setting.kind);
    let default = reference::default(setting, setting.default);
    let default = if setting.default.is_empty() { String::new() } else { format!(", default {default}") };
    let when = reference::when(setting);
    let ini = reference::ini(setting);
    let ini = if ini == "—" { String::new() } else { format!(" In a pgbouncer.ini: {ini}.") };
    let text = format!("{}{} (*{when}*){ini}", setting.doc, reference::also(setting));
    format!(
        ".TP\n\\fB{}\\fR = {}\n{}\n",
        escape_roff(setting.name),
        from_markdown(&format!("{shape}{default}")),
        from_markdown(&text)
    )
}

/// Text for roff: without requests and escapes.
pub fn escape_roff(text: &str) -> String {
    let escaped = text.replace('\\', "\\e").replace('-', "\\-");
    let lines =
        escaped.lines().map(|line| if line.starts_with(['.', '\'']) { format!("\\&{line}") } else { line.into() });
    lines.collect::<Vec<_>>().join("\n")
}

/// A paragraph of Markdown: code becomes bold, emphasis italic, and a link its text.
fn from_markdown(text: &str) -> String {
    let mut out = String::new();
    let mut rest = escape_roff(text);
    while let Some(at) = rest.find(['`', '*', '[']) {
        let mark = &rest[at..=at];
        let (before, after) = (&rest[..at], &rest[at + 1..]);
        out.push_str(before);
        let taken = match mark {
            "[" => after.split_once("](").and_then(|(shown, link)| Some((shown, link.split_once(')')?.1))),
            mark => after.split_once(mark),
        };
        let Some((inner, behind)) = taken.filter(|(inner, _)| !inner.is_empty() && !inner.contains('\n')) else {
            out.push_str(mark);
            rest = after.to_owned();
            continue;
        };
        match mark {
            "`" => out.push_str(&format!("\\fB{inner}\\fR")),
            "*" => out.push_str(&format!("\\fI{}\\fR", inner.replace('`', ""))),
            _ => out.push_str(inner),
        }
        rest = behind.to_owned();
    }
    out.push_str(&rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markdown_becomes_roff() {
        assert_eq!(from_markdown("`a-b` and *c*, [d](e.md#f)"), "\\fBa\\-b\\fR and \\fIc\\fR, d");
        assert_eq!(from_markdown("[pools.NAME] has 2 * 3"), "[pools.NAME] has 2 * 3");
        assert_eq!(escape_roff(".x\n'y\n\\z"), "\\&.x\n\\&'y\n\\ez");
    }

    #[test]
    fn every_setting_has_its_entry() {
        let page = reference_roff("1");
        for section in Section::ALL {
            assert!(page.contains(&format!(".SH {}\n", escape_roff(&section.title()))), "{section:?}");
            for setting in crate::settings::all().filter(|setting| setting.section == section) {
                assert!(page.contains(&format!("\\fB{}\\fR = ", setting.name)), "{}", setting.name);
            }
        }
        let requests = page.lines().filter(|line| line.starts_with('.')).map(|line| line.split(' ').next().unwrap());
        let unknown: Vec<_> = requests.filter(|name| ![".TH", ".SH", ".PP", ".TP", ".BR"].contains(name)).collect();
        assert_eq!(unknown, [""; 0]);
    }
}
