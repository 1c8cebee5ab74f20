//! The persistent list against a plain vector.

use logue_graph::List;
use proptest::prelude::*;
use serde_json::{Value, json};

fn numbers(range: std::ops::Range<usize>) -> List {
    range.map(|n| json!(n)).collect()
}

fn plain(list: &List) -> Vec<Value> {
    list.iter().cloned().collect()
}

#[test]
fn it_grows_over_every_edge_of_its_tree() {
    // A tail holds 32, one level of branches 1024 more, two 32768 more.
    let mut list = List::new();
    for length in 0..34_000 {
        assert_eq!(list.len(), length);
        assert_eq!(
            list.last(),
            length.checked_sub(1).map(|n| json!(n)).as_ref()
        );
        list.push(json!(length));
        assert_eq!(list.get(length / 2), Some(&json!(length / 2)));
        assert_eq!(list.get(length + 1), None);
    }
    assert!(list.iter().enumerate().all(|(n, item)| *item == json!(n)));
    assert_eq!(list, numbers(0..34_000));
}

#[test]
fn a_clone_shares_every_item_and_does_not_change() {
    for length in [0, 1, 31, 32, 33, 64, 1_023, 1_056, 1_057, 32_800] {
        let old = numbers(0..length);
        let mut new = old.clone();
        new.extend((0..100).map(|n| json!(n)));
        assert_eq!((old.len(), new.len()), (length, length + 100));
        let shared = |index| match (old.get(index), new.get(index)) {
            (Some(old), Some(new)) => std::ptr::eq(old, new),
            _ => false,
        };
        assert!((0..length).all(shared), "{length}");
        assert_eq!(old, numbers(0..length));
    }
}

#[test]
fn its_tail_is_reached_from_either_end() {
    let list = numbers(0..10_000);
    let tail: Vec<_> = list.iter().skip(9_998).cloned().collect();
    assert_eq!(tail, [json!(9_998), json!(9_999)]);
    assert_eq!(list.iter().nth(10_001), None);
    assert_eq!(list.iter().nth(usize::MAX), None);
    assert_eq!(
        list.iter().rev().take(2).cloned().collect::<Vec<_>>(),
        [json!(9_999), json!(9_998)]
    );
    assert_eq!(list.iter().len(), 10_000);
    let mut ends = list.iter();
    while ends.next().is_some() && ends.next_back().is_some() {}
    assert_eq!((ends.next(), ends.next_back(), ends.len()), (None, None, 0));
}

#[test]
fn an_item_outlives_its_list() {
    let item = numbers(0..100).get_shared(50).unwrap();
    assert_eq!(*item, json!(50));
    let mut other = List::new();
    other.push(item.clone());
    assert!(std::ptr::eq(item.as_ref(), other.get(0).unwrap()));
    assert_eq!(other.to_json(), json!([50]));
    assert_eq!(format!("{other:?}"), "[Number(50)]");
}

proptest! {
    /// Versions of a list grow from one another in any order, and each stays what it was.
    #[test]
    fn versions_do_not_disturb_each_other(growth in prop::collection::vec((any::<prop::sample::Index>(), 0_usize..80), 1..40)) {
        let mut versions = vec![(List::new(), Vec::new())];
        for (from, count) in growth {
            let (mut list, mut model) = from.get(&versions).clone();
            for _ in 0..count {
                let item = json!([versions.len(), model.len()]);
                list.push(item.clone());
                model.push(item);
            }
            versions.push((list, model));
        }
        for (list, model) in &versions {
            prop_assert_eq!(&plain(list), model);
            prop_assert_eq!(list, &List::from(model.clone()));
        }
    }
}
