//! Every experiment, for a moment each, against real servers: all steps have results, claims get verdicts, the report
//! is written, and nothing is left behind.

mod place;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use weir_pglocal::free_port;

use place::{Place, needed, wait};

/// A smoke run takes about a minute and a half on a quiet machine.
const TIMEOUT: Duration = Duration::from_secs(600);

#[test]
fn every_experiment_runs_to_its_end_and_leaves_a_report() {
    let Some(weir) = needed(&[]) else { return };
    let place = Place::new();
    let mut lab = place.lab(&["all", "--smoke"], &weir);
    let status = wait(&mut lab, TIMEOUT).unwrap_or_else(|| panic!("it does not end\n{}", place.said()));
    assert!(status.success(), "{}", place.said());
    let folder = &place.runs()[0];
    let read = |file: &str| fs::read_to_string(folder.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
    let report: Value = serde_json::from_str(&read("report.json")).expect("a report is JSON");
    let experiments = report["experiments"].as_array().expect("a list of experiments");
    let ids: Vec<_> = experiments.iter().filter_map(|experiment| experiment["id"].as_str()).collect();
    assert_eq!(ids, ["products", "pgbench", "reconnect", "node", "size"]);
    for experiment in experiments {
        whole(experiment);
        assert!(read("report.html").contains(experiment["title"].as_str().expect("a title")));
    }
    panel_shows(&weir, &place, folder);
    // The report lists missing programs; a failed step is a bug.
    let outcomes: Value = serde_json::from_str(&read("run.json")).expect("a journal is JSON");
    let steps = outcomes["outcomes"].as_object().expect("experiments").values().filter_map(Value::as_object).flatten();
    let failed: Vec<_> = steps.filter(|(_, outcome)| outcome.get("failed").is_some()).collect();
    assert!(failed.is_empty(), "{failed:#?}");
    assert!(place.folders().is_empty() && place.processes().is_empty(), "{:?}", place.processes());
}

/// Weir's control plane lists the report with its verdicts, and serves its page unchanged.
fn panel_shows(weir: &Path, place: &Place, report: &Path) {
    let [port, web] = [(); 2].map(|()| free_port().expect("a free port"));
    let file = place.working_folder().join("weir.toml");
    let text = format!(
        "[listen]\naddress = \"127.0.0.1\"\nport = {port}\n[auth]\ntype = \"trust\"\n[auth.users]\nann = \"\"\n\
         [web]\naddress = \"127.0.0.1\"\nport = {web}\nlab = \"weir-lab\"\n[pools.app]\nhost = \"127.0.0.1\"\n"
    );
    fs::write(&file, text).expect("a file in our folder");
    let mut weir = Command::new(weir).arg("serve").arg(&file).stderr(Stdio::piped()).spawn().expect("weir starts");
    let ready = BufReader::new(weir.stderr.take().expect("piped")).lines().map_while(Result::ok);
    let said: Vec<String> = ready.take_while(|line| !line.contains(": ready on")).collect();
    let get = |path: &str| {
        let answer = ureq::get(format!("http://127.0.0.1:{web}{path}")).call();
        answer.and_then(|mut answer| answer.body_mut().read_to_string()).map_err(|error| format!("{path}: {error}"))
    };
    let name = report.file_name().and_then(|name| name.to_str()).expect("a plain name");
    let (list, page) = (get("/api/v1/lab"), get(&format!("/lab/{name}/report.html")));
    let _ = weir.kill();
    let _ = weir.wait();
    let list: Value = serde_json::from_str(&list.unwrap_or_else(|error| panic!("{error}: {said:?}"))).expect("JSON");
    assert_eq!(list["reports"][0]["name"], name);
    assert_eq!(list["reports"][0]["experiments"].as_array().map(Vec::len), Some(5), "{list}");
    let verdicts = &list["reports"][0]["experiments"][1]["verdicts"];
    assert!(["held", "not_held", "open"].iter().any(|word| verdicts[word].as_u64() > Some(0)), "{verdicts}");
    assert_eq!(page.expect("a page"), fs::read_to_string(report.join("report.html")).expect("a file"));
}

/// An experiment has results, or lists its missing programs.
fn whole(experiment: &Value) {
    let has = |name: &str| experiment[name].as_array().is_some_and(|list| !list.is_empty());
    let id = &experiment["id"];
    assert!(has("tables") && has("claims"), "{id} tells nothing");
    assert!(has("charts") || has("missing"), "{id} draws nothing, and lacks nothing");
    for missing in experiment["missing"].as_array().expect("a list") {
        println!("{id}: {} is missing: {}", missing["what"], missing["get"]);
    }
    let raws = experiment["commands"].as_array().expect("a list");
    assert!(!raws.is_empty() || has("missing"), "{id} ran nothing");
}
