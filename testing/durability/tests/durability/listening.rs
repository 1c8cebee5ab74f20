//! Listeners follow the turns of another process.

use std::time::Duration;

use crate::player::Place;

const LEASE: Duration = Duration::from_secs(5);

#[test]
fn a_turn_of_another_process_is_heard_within_a_second() {
    let place = Place::new();
    let mut worker = place.player(LEASE);
    worker.tell("send s one wait one");
    worker.wait_for("told one suspended");
    worker.tell("send s two wait two");
    worker.wait_for("told two suspended");

    let mut listener = place.player(LEASE);
    listener.tell("listen s 30000");
    listener.wait_for("listening s");
    worker.tell("signal sig-one yes");
    worker.wait_for("told sig-one completed");
    let said = listener.says("heard completed resumed yes", Duration::from_secs(1));
    assert!(said, "{:?}", listener.heard());
    // A turn that did not resume is its sender's alone, and each is heard once.
    worker.tell("send s three plain three");
    worker.wait_for("told three");
    worker.tell("signal sig-two no");
    worker.wait_for("told sig-two completed");
    let said = listener.says("heard completed resumed no", Duration::from_secs(1));
    assert!(said, "{:?}", listener.heard());
    let heard = listener.heard();
    let heard: Vec<_> = heard
        .iter()
        .filter(|line| line.starts_with("heard"))
        .collect();
    assert_eq!(
        heard,
        ["heard completed resumed yes", "heard completed resumed no"]
    );
}
