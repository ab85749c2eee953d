//! `weir top --cluster`: the nodes of a running Weir's cluster, and who has how much of each pool, from `GET
//! /api/v1/cluster`.

use std::path::Path;

use serde_json::Value;
use weir_base::Printable;
use weir_terminal::columns;

use crate::events::Stream;
use crate::milliseconds::time;

/// Where the figures come from, and how many pools are shown.
pub(crate) struct Cluster {
    stream: Stream,
    most: usize,
}

impl Cluster {
    /// At most so many pools of the API at `base`: those that lack the most connections.
    pub(crate) fn new(base: &str, ca_file: Option<&Path>, most: u16) -> Result<Cluster, String> {
        let url = format!("{}/api/v1/cluster", base.trim_end_matches('/'));
        Stream::new(&url, ca_file).map(|stream| Cluster { stream, most: most.into() })
    }

    /// The cluster at this moment, as lines of at most this width.
    pub(crate) fn lines(&self, width: usize) -> Result<Vec<String>, String> {
        let answer: Value = serde_json::from_reader(self.stream.open()?).map_err(|error| error.to_string())?;
        Ok(lines(&answer, self.most).into_iter().map(|line| line.chars().take(width).collect()).collect())
    }
}

/// An answer as lines: whose view it is, a table of nodes, and one of pools, each with its sum first.
fn lines(answer: &Value, most: usize) -> Vec<String> {
    let (cluster, node) = (text(answer, "cluster"), text(answer, "node"));
    if cluster.is_empty() {
        return vec!["this Weir shares no pools with others: set [cluster] etcd".to_owned()];
    }
    let mut lines =
        vec![format!("cluster {cluster} as {node} sees it: {}", text(answer, "member_state")), String::new()];
    lines.extend(nodes(answer));
    lines.push(String::new());
    lines.extend(pools(answer, most));
    lines
}

fn nodes(answer: &Value) -> Vec<String> {
    let titles = ["node", "state", "version", "config", "share", "shortfall", "heartbeat", "why not the newest config"];
    let mut rows = vec![titles.map(str::to_owned).to_vec()];
    let newest = list(answer, "nodes").iter().map(|node| number(node, "config_revision")).max().unwrap_or(0);
    rows.extend(list(answer, "nodes").iter().map(|node| {
        let (name, revision) = (text(node, "name"), number(node, "config_revision"));
        let of_node = |share: &&Value| text(share, "node") == name;
        let shares = || list(answer, "pools").iter().flat_map(|pool| list(pool, "shares")).filter(of_node);
        let sum = |key| shares().map(|share| number(share, key)).sum::<u64>().to_string();
        let why = match text(node, "config_refused") {
            why if why.is_empty() && revision < newest => format!("not adopted yet: revision {newest}"),
            why => why,
        };
        let config = if revision == 0 { "own file".to_owned() } else { revision.to_string() };
        let heartbeat = time(node["heartbeat_unchanged_seconds"].as_f64().map(|seconds| seconds * 1e3));
        vec![
            name.clone(),
            text(node, "state"),
            text(node, "version"),
            config,
            sum("share"),
            sum("shortfall"),
            heartbeat,
            why,
        ]
    }));
    columns(&rows, &[3, 4, 5, 6])
}

/// The pools that lack the most first; a line for the sum of each, then one for each node.
fn pools(answer: &Value, most: usize) -> Vec<String> {
    let titles = ["pool", "node", "budget", "share", "floor", "shortfall", "oldest wait"];
    let mut rows = vec![titles.map(str::to_owned).to_vec()];
    let mut pools: Vec<&Value> = list(answer, "pools").iter().collect();
    pools.sort_by_key(|pool| std::cmp::Reverse(sum(pool, "shortfall")));
    for pool in pools.iter().take(most) {
        let shares = list(pool, "shares");
        let sums = ["share", "floor", "shortfall"].map(|key| sum(pool, key).to_string());
        let oldest = shares.iter().filter_map(|share| share["oldest_wait_seconds"].as_f64()).fold(0.0, f64::max);
        let head = [text(pool, "name"), "(all)".to_owned(), number(pool, "budget").to_string()];
        rows.push(head.into_iter().chain(sums).chain([time(Some(oldest * 1e3))]).collect());
        rows.extend(shares.iter().map(|share| {
            let figures = ["share", "floor", "shortfall"].map(|key| number(share, key).to_string());
            let oldest = time(share["oldest_wait_seconds"].as_f64().map(|seconds| seconds * 1e3));
            let head = [String::new(), text(share, "node"), String::new()];
            head.into_iter().chain(figures).chain([oldest]).collect()
        }));
    }
    let mut lines = columns(&rows, &[2, 3, 4, 5, 6]);
    if pools.len() > most {
        lines.push(format!("… and {} more pools; --pools shows more", pools.len() - most));
    }
    lines
}

fn sum(pool: &Value, key: &str) -> u64 {
    list(pool, "shares").iter().map(|share| number(share, key)).sum()
}

fn list<'a>(of: &'a Value, key: &str) -> &'a [Value] {
    of[key].as_array().map_or(&[], Vec::as_slice)
}

fn text(of: &Value, key: &str) -> String {
    Printable(of[key].as_str().unwrap_or_default()).to_string()
}

fn number(of: &Value, key: &str) -> u64 {
    of[key].as_u64().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(name: &str, config: u64, refused: &str) -> Value {
        json!({"name": name, "version": "1.0", "state": "member", "config_revision": config, "config_refused": refused,
            "heartbeat_unchanged_seconds": 0.0})
    }

    fn share(node: &str, share: u32, shortfall: u32, oldest: f64) -> Value {
        json!({"node": node, "share": share, "floor": 1, "shortfall": shortfall, "oldest_wait_seconds": oldest})
    }

    #[test]
    fn a_cluster_is_its_nodes_and_its_pools_those_that_lack_the_most_first() {
        let pool = |name: &str, shares: Vec<Value>| json!({"name": name, "budget": 12, "shares": shares});
        let pools = [
            pool("fine", vec![share("a", 4, 0, 0.0)]),
            pool("app", vec![share("a", 8, 2, 2.5), share("b", 4, 1, 1.0)]),
            pool("rest", vec![]),
        ];
        let nodes = [node("a", 9, ""), node("b", 7, "revision 9: no file\u{1b}[2J"), node("c", 7, "")];
        let answer = json!({"cluster": "demo", "node": "a", "member_state": "member", "nodes": nodes, "pools": pools});
        let lines = lines(&answer, 2);
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ");
        assert_eq!(lines[0], "cluster demo as a sees it: member");
        assert_eq!(words(&lines[3]), "a member 1.0 9 12 2 0");
        assert!(words(&lines[4]).starts_with("b member 1.0 7 4 1 0 revision 9: no file"), "{lines:#?}");
        assert!(words(&lines[5]).ends_with("not adopted yet: revision 9"), "{lines:#?}");
        assert_eq!(words(&lines[8]), "app (all) 12 12 2 3 2.5 s");
        assert_eq!(words(&lines[10]), "b 4 1 1 1.0 s");
        assert_eq!(words(&lines[11]), "fine (all) 12 4 1 0 0");
        assert_eq!(lines[13], "… and 1 more pools; --pools shows more");
        assert!(!lines.concat().contains('\u{1b}'));
    }

    #[test]
    fn without_a_cluster_a_line_says_what_to_set() {
        let none = json!({"cluster": "", "node": "", "member_state": "", "nodes": [], "pools": []});
        assert_eq!(lines(&none, 20), ["this Weir shares no pools with others: set [cluster] etcd"]);
    }
}
