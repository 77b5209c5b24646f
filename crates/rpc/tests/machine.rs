//! The bookkeeping without I/O: each request is answered exactly once, notifications never, an array once and whole.

#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use tieline_rpc::Id;
use tieline_rpc::machine::{Machine, Place, Ticket};

fn answer(machine: &mut Machine<()>, ticket: Ticket) -> Option<String> {
    let id = ticket.id.to_string();
    let mut out = Vec::new();
    machine
        .answer(ticket, &mut out, |out| out.extend_from_slice(id.as_bytes()))
        .then(|| String::from_utf8(out).unwrap())
}

#[test]
fn calls_are_settled_once_and_ids_count_up() {
    let mut machine = Machine::new(10);
    assert_eq!((machine.call('a'), machine.call('b'), machine.call('c')), (1, 2, 3));
    assert_eq!(machine.answered(&Id::Int(2)), Some('b'));
    assert_eq!(machine.answered(&Id::Int(2)), None);
    for unknown in [Id::Int(0), Id::Int(-1), Id::Int(9), Id::Text("\"1\"".into()), Id::Text("null".into())] {
        assert_eq!(machine.answered(&unknown), None, "V1-RPC-12");
    }
    let mut left = machine.abandon();
    left.sort_unstable();
    assert_eq!(left, ['a', 'c']);
}

#[test]
fn v1_cancel_13_only_open_requests_with_that_id() {
    let mut machine = Machine::<()>::new(10);
    let one = machine.admit(Id::Int(1), Place::Alone).unwrap();
    let two = machine.admit(Id::Text("\"1\"".into()), Place::Alone).unwrap();
    let three = machine.admit(Id::Int(3), Place::Alone).unwrap();
    let (cancel_one, cancel_two) = (machine.cancel(&one), machine.cancel(&two));
    machine.withdraw(&Id::Int(7));
    assert!(!cancel_one.is_cancelled());
    machine.withdraw(&Id::Int(1));
    assert!(cancel_one.is_cancelled() && !cancel_two.is_cancelled());
    machine.withdraw(&Id::Int(3));
    assert!(machine.cancel(&three).is_cancelled(), "also for who asks only later");
    assert_eq!(answer(&mut machine, one).as_deref(), Some("1"), "V1-CANCEL-11: still answered once");
}

#[test]
fn too_many_open_requests_are_turned_away() {
    let mut machine = Machine::<()>::new(1);
    let first = machine.admit(Id::Int(1), Place::Alone).unwrap();
    let turned_away = machine.admit(Id::Int(2), Place::Alone).unwrap_err();
    assert_eq!(answer(&mut machine, turned_away).as_deref(), Some("2"));
    assert_eq!(answer(&mut machine, first).as_deref(), Some("1"));
    assert!(machine.admit(Id::Int(3), Place::Alone).is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

    /// Random batches and single requests, answered in random order, sealed at a random time.
    #[test]
    fn everything_is_answered_exactly_once(
        batches in prop::collection::vec(0..6usize, 0..5),
        singles in 0..6usize,
        order in any::<u64>(),
    ) {
        let mut machine = Machine::<()>::new(1000);
        let mut tickets = Vec::new();
        let mut next = 0;
        let mut seals = Vec::new();
        let mut expected = Vec::new();
        for entries in batches {
            let batch = machine.open_batch();
            let ids: Vec<String> = (0..entries).map(|_| {
                next += 1;
                let place = machine.slot(batch);
                tickets.push(machine.admit(Id::Int(next), place).unwrap());
                next.to_string()
            }).collect();
            seals.push(batch);
            if !ids.is_empty() { expected.push(format!("[{}]", ids.join(","))); }
        }
        for _ in 0..singles {
            next += 1;
            tickets.push(machine.admit(Id::Int(next), Place::Alone).unwrap());
            expected.push(next.to_string());
        }
        // A cheap shuffle that is the same for the same seed.
        let mut seed = order | 1;
        let mut random = move |n: usize| { seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1); (seed >> 33) as usize % n };
        let mut sent = Vec::new();
        while !tickets.is_empty() || !seals.is_empty() {
            let pick = random(tickets.len() + seals.len());
            if pick < tickets.len() {
                sent.extend(answer(&mut machine, tickets.swap_remove(pick)));
            } else {
                let mut out = Vec::new();
                let batch = seals.swap_remove(pick - tickets.len());
                if machine.seal(batch, &mut out) { sent.push(String::from_utf8(out).unwrap()); }
            }
        }
        sent.sort();
        expected.sort();
        prop_assert_eq!(sent, expected);
        prop_assert_eq!(machine.open_requests(), 0);
    }
}
