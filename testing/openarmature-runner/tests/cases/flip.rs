//! A case with a changed expectation must fail: every expectation of each case, in every way.

use openarmature_runner::mutate_folder;

#[test]
fn a_changed_expectation_fails() {
    let all = mutate_folder(&super::folder()).unwrap();
    println!("{} noticed, weaker: {:?}", all.noticed, all.weaker);
    assert_eq!(all.survivors, Vec::<String>::new());
    assert!(all.noticed > 2_000, "only {} changes", all.noticed);
}
