//! Rounds of the team with pauses, nesting, several callers and panics.

use super::*;
use std::sync::atomic::AtomicUsize;

#[test]
fn every_item_is_worked_on_once_in_thousands_of_rounds() {
    for round in 0..4000 {
        let mut items = vec![0_u32; round % 50];
        for_each(items.iter_mut().enumerate(), |(i, item)| {
            *item += i as u32 + 1;
        });
        assert!(items.iter().enumerate().all(|(i, x)| *x == i as u32 + 1));
        if round % 997 == 0 {
            // Members fall asleep and are woken.
            thread::sleep(2 * LINGER);
        }
    }
}

#[test]
fn rounds_of_several_threads_and_rounds_within_rounds_are_whole() {
    let sums = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..200 {
                    for_each(0..10_usize, |i| {
                        for_each(0..i, |_| {
                            sums.fetch_add(1, Ordering::Relaxed);
                        });
                    });
                }
            });
        }
    });
    assert_eq!(sums.into_inner(), 4 * 200 * 45);
}

#[test]
fn results_stand_in_the_order_of_the_items() {
    let squares = map(0..1000_usize, |i| i * i);
    assert!(squares.iter().enumerate().all(|(i, x)| *x == i * i));
    let begun = AtomicUsize::new(0);
    let begin = || begun.fetch_add(1, Ordering::Relaxed);
    for_each_with(0..100, begin, |_, _| ());
    assert!((1..=rayon::current_num_threads()).contains(&begun.into_inner()));
}

#[test]
fn a_panic_reaches_the_caller_and_the_next_round_is_whole() {
    for _ in 0..20 {
        let round = || for_each(0..64, |i| assert!(i != 40, "the fortieth"));
        assert!(catch_unwind(round).is_err());
        assert_eq!(map(0..10, |i| i + 1).iter().sum::<i32>(), 55);
    }
    for _ in 0..200 {
        let round = || for_each(0..64, |i| panic!("item {i}"));
        let panic = catch_unwind(round).unwrap_err();
        assert!(panic.downcast_ref::<String>().unwrap().starts_with("item "));
        assert_eq!(map(0..10, |i| i + 1).iter().sum::<i32>(), 55);
    }
}

#[test]
fn one_item_or_none_needs_no_team() {
    for_each(std::iter::empty::<u8>(), |_| panic!("nothing to do"));
    assert_eq!(map(0..1, |i| i), [0]);
}
