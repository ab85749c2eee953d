//! The decisions about pools that move, with workers that answer what a test says.

use weir_base::Host;

use super::*;

const LIMITS: MoveLimits = MoveLimits { leave: Span::from_secs(1), switch: Span::from_secs(30) };
const BY: (WorkerId, u64) = (WorkerId(1), 77);

fn host(name: &str) -> Target {
    Target { host: Host::parse(name), port: 5432 }
}

fn at(millis: u64) -> Time {
    Time::START + Span::from_millis(millis)
}

fn leave(to: &str, holds: bool) -> Order {
    Order::Step(PrimaryStep::Leave { to: host(to), holds })
}

fn settle(to: Option<&str>) -> Order {
    Order::Step(PrimaryStep::Settle(to.map(host)))
}

/// Worker 0's part, with workers that answer what the test says.
struct World {
    seats: Seats,
    pool: Arc<str>,
    last: u64,
}

impl World {
    fn new() -> World {
        World { seats: Seats::default(), pool: "app".into(), last: 0 }
    }

    /// A world whose pool writes to `a` since the beginning.
    fn at_a() -> World {
        let mut world = World::new();
        world.found("a", at(0));
        world.answer(1, at(0));
        world.answer(1, at(0));
        world
    }

    fn number(&mut self, orders: Vec<Order>) -> Vec<Order> {
        for order in &orders {
            if let Order::Step(step) = order {
                self.last += 1;
                self.seats.ordered(&self.pool, step, self.last);
            }
        }
        orders
    }

    fn found(&mut self, at: &str, now: Time) -> Vec<Order> {
        let orders = self.seats.found(&self.pool, &host(at), LIMITS, now);
        self.number(orders)
    }

    fn lost(&mut self, at: &str) -> Vec<Order> {
        let orders = self.seats.lost(&self.pool, &host(at), "why");
        self.number(orders)
    }

    fn switch(&mut self, to: &str, now: Time) -> Vec<Order> {
        let orders = self.seats.switch(&self.pool, &host(to), BY, LIMITS, now);
        self.number(orders)
    }

    /// All workers answer the last order; so many of them have the pool.
    fn answer(&mut self, pools: u32, now: Time) -> Vec<Order> {
        let waits = PrimaryWaits { pools, clients: 3, longest: Span::from_millis(1_400) };
        let orders = self.seats.answered(self.last, waits, now).map(|(_, orders)| orders).unwrap_or_default();
        self.number(orders)
    }

    fn host(&self) -> Option<String> {
        self.seats.records(|at| at.micros()).first().and_then(|record| record.host.clone())
    }
}

#[test]
fn a_pool_goes_on_at_another_host_once_all_workers_have_left_the_first() {
    let mut world = World::at_a();
    assert_eq!(world.found("a", at(10_000)), [settle(Some("a"))], "who asks gets the answer");
    assert_eq!(world.found("b", at(10_000)), [leave("b", false)]);
    assert_eq!(world.found("b", at(10_001)), [], "once");
    assert_eq!(world.found("a", at(10_001)), [], "and to one host");
    assert_eq!(world.host().as_deref(), Some("a:5432"));
    assert_eq!(world.answer(1, at(10_100)), [settle(Some("b"))]);
    let said = "app: primary moved from a:5432 to b:5432; 3 clients waited, longest 1.4 s";
    assert_eq!(world.answer(1, at(10_200)), [Order::Say(said.into())]);
    let record = &world.seats.records(|at| at.micros())[0];
    assert_eq!((record.from.as_deref(), record.moves), (Some("a:5432"), 1));
}

#[test]
fn those_who_do_not_leave_in_time_are_cut_off_once() {
    let mut world = World::at_a();
    world.found("b", at(10_000));
    assert_eq!(world.seats.next_due(), at(11_000));
    assert!(world.seats.due(at(10_999)).is_empty());
    assert_eq!(world.seats.due(at(11_000)), [("app".into(), Order::Step(PrimaryStep::Cut))]);
    assert!(world.seats.due(at(20_000)).is_empty());
}

#[test]
fn two_hosts_that_take_writes_do_not_make_the_pool_go_to_and_fro() {
    let mut world = World::at_a();
    world.found("b", at(10_000));
    world.answer(1, at(10_000));
    assert_eq!(world.found("a", at(10_001)), [settle(Some("b"))], "before it has arrived");
    world.last -= 1;
    world.answer(1, at(10_000));
    assert_eq!(world.found("a", at(14_999)), [settle(Some("b"))]);
    assert_eq!(world.found("a", at(15_000)), [leave("a", false)]);
}

#[test]
fn a_host_that_takes_no_writes_is_left_at_once_and_may_be_found_again() {
    let mut world = World::at_a();
    assert!(world.lost("b").is_empty(), "the pool is not there");
    let orders = world.lost("a");
    assert_eq!(orders[1..], [Order::Step(PrimaryStep::Abandon(host("a")))]);
    assert!(world.lost("a").is_empty(), "once");
    assert_eq!(world.host(), None);
    world.found("a", at(100));
    assert_eq!(world.answer(1, at(100)), [settle(Some("a"))]);
    assert_eq!(world.answer(1, at(100)), [], "it has not moved");
    world.lost("a");
    world.found("b", at(200));
    world.answer(1, at(200));
    assert_eq!(world.answer(1, at(200)).len(), 1, "{:?}", world.host());
}

#[test]
fn an_operator_moves_a_pool_and_has_the_answer_when_it_is_there() {
    let mut world = World::at_a();
    assert_eq!(world.switch("a", at(0)), [Order::Answer(BY, Ok(()))]);
    assert_eq!(world.switch("b", at(0))[1..], [leave("b", true)]);
    assert!(matches!(&world.switch("a", at(0))[..], [Order::Answer(_, Err(CommandError::SwitchFailed(_)))]));
    assert_eq!(world.found("a", at(1)), [], "it is left for good");
    assert_eq!(world.answer(1, at(2)), [Order::Step(PrimaryStep::Look(host("b")))]);
    assert_eq!(world.answer(1, at(3)), [], "it is looked at until it takes writes");
    assert_eq!(world.found("b", at(4)), [settle(Some("b"))]);
    let orders = world.answer(1, at(5));
    assert_eq!(orders[1..], [Order::Answer(BY, Ok(()))]);
}

#[test]
fn a_pool_that_nobody_uses_moves_at_once() {
    let mut world = World::at_a();
    world.switch("b", at(0));
    world.answer(0, at(0));
    assert_eq!(world.answer(0, at(0)), [settle(Some("b"))]);
}

#[test]
fn a_move_that_takes_too_long_or_is_withdrawn_ends_where_the_pool_was() {
    for stages in 0..2 {
        let mut world = World::at_a();
        world.switch("b", at(0));
        (0..stages).for_each(|_| _ = world.answer(1, at(0)));
        assert!(world.seats.withdrawn(5).is_none());
        let (_, orders) = world.seats.withdrawn(BY.1).expect("it was under way");
        assert_eq!(orders, [settle(Some("a"))]);
        assert!(world.seats.withdrawn(BY.1).is_none());
        world.switch("b", at(0));
        (0..stages).for_each(|_| _ = world.answer(1, at(0)));
        let due = world.seats.due(at(30_000));
        assert_eq!(due[0], ("app".into(), settle(Some("a"))));
        assert!(matches!(&due[1].1, Order::Answer(BY, Err(CommandError::SwitchFailed(_)))));
        assert_eq!(world.host().as_deref(), Some("a:5432"));
    }
}
