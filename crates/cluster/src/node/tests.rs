//! What is reclaimed of a lost node.

use super::*;

#[test]
fn of_a_lost_node_with_two_processes_no_connection_is_taken_for_its_floor() {
    let now = Time::from_micros(1);
    let mut node = Node::new("one", 1, Timing::default(), &BTreeMap::new(), now);
    let mut pool = Pool::new(Budget { size: 4, floor: 1 }, now);
    let entry = Entry { share: 3, floor: 1, wait: None };
    pool.record.set("other", entry);
    node.pools.insert("app".to_owned(), pool);
    let lost = Lost { pool: "app".to_owned(), node: "other".to_owned(), revision: 5 };
    for (upgrading, spared, shares) in [(false, 1, [1, 1, 2, 3]), (true, 0, [1, 2, 3, 3])] {
        let member = Member { upgrading, fenced: true, ..Member::default() };
        node.members.read(now, vec![("other".to_owned(), 5, member)]);
        assert_eq!(
            node.ending(&lost).floor,
            spared,
            "one process has these itself; of two, the other one may have the floor"
        );
        let left = [0, 1, 2, 3].map(|left| node.kept_share("other", entry, left));
        assert_eq!(left, shares, "upgrading: {upgrading}");
    }
    node.lost.insert(lost.clone());
    assert!(!node.ended(&lost, 2), "nothing can be taken: one process has two, and the other one the floor");
    assert!(node.ended(&lost, 1));
}
