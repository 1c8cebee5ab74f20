//! The conformance suite of stores: one case per promise of [the port](logue_harness::store).
//!
//! A case receives an empty store and returns the first violation. The suite does not depend on the
//! medium and contains no runtime: implementers of a store run it in the tests of their crate. Those
//! tests add the properties of the medium, such as durability of confirmed writes after a crash.
//!
//! ```
//! use logue_harness::store::MemoryStore;
//! use logue_store::conformance;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), conformance::CaseFailure> {
//! conformance::check(MemoryStore::new).await
//! # }
//! ```
//!
//! Tests of a store that requires asynchronous preparation iterate over [`cases`]. [`compare`] runs
//! a script of arbitrary operations on a store and on
//! [`MemoryStore`](logue_harness::store::MemoryStore), for tests that generate scripts.

mod audit;
mod fixtures;
mod inbox;
mod lease;
mod script;
mod session;
mod suspension;
mod text;
mod transfer;
mod turn;

use std::fmt::Debug;
use std::sync::Arc;

use logue_harness::BoxFuture;
use logue_harness::store::{SharedStore, Store, StoreError};

pub use script::compare;

/// A promise of the port that a store did not keep.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ContractViolation {
    /// An operation failed that should have succeeded.
    #[error("an operation failed: {0}")]
    Failed(#[from] StoreError),
    /// A result differs from the promised one.
    #[error("{what}: found {found}, expected {expected}")]
    Promise {
        /// The value that was checked.
        what: String,
        /// The actual value.
        found: String,
        /// The promised value.
        expected: String,
    },
}

/// A case that failed.
#[derive(Debug, thiserror::Error)]
#[error("{case}: {violation}")]
pub struct CaseFailure {
    /// The name of the case.
    pub case: &'static str,
    /// The violation.
    #[source]
    pub violation: ContractViolation,
}

/// The result of a case.
type Checked = Result<(), ContractViolation>;

/// A promise of the port, with its check.
#[derive(Clone, Copy, Debug)]
pub struct ConformanceCase {
    name: &'static str,
    run: fn(SharedStore) -> BoxFuture<'static, Checked>,
}

impl ConformanceCase {
    /// Returns the name: the group and the promise.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Checks the promise on an empty store, and that the store is sound afterwards.
    ///
    /// # Errors
    /// Returns [`CaseFailure`] with the first violation.
    pub async fn run(&self, store: SharedStore) -> Result<(), CaseFailure> {
        let checked = async {
            (self.run)(Arc::clone(&store)).await?;
            fixtures::sound(&*store).await.map(drop)
        };
        checked.await.map_err(|violation| CaseFailure {
            case: self.name,
            violation,
        })
    }
}

/// Runs all cases, each on an empty store that `make` returns.
///
/// # Errors
/// Returns [`CaseFailure`] for the first case that fails.
pub async fn check<S: Store + 'static>(make: impl Fn() -> S) -> Result<(), CaseFailure> {
    for case in cases() {
        case.run(Arc::new(make())).await?;
    }
    Ok(())
}

macro_rules! cases {
    ($($group:ident :: $case:ident),* $(,)?) => {
        &[$(ConformanceCase {
            name: concat!(stringify!($group), "::", stringify!($case)),
            run: |store| Box::pin($group::$case(store)),
        }),*]
    };
}

/// Returns all cases.
pub const fn cases() -> &'static [ConformanceCase] {
    cases![
        inbox::entries_keep_their_order,
        inbox::a_key_is_put_once,
        inbox::a_key_is_bound_to_its_hash,
        inbox::a_settled_entry_is_retried_once,
        inbox::a_turn_that_goes_on_keeps_its_invocation,
        suspension::a_failed_resume_may_keep_its_suspension,
        inbox::a_key_is_of_its_session,
        inbox::only_created_at_is_refused_in_another_session,
        inbox::a_waiting_entry_is_cancelled_when_it_is_claimed,
        inbox::only_if_idle_is_refused_while_another_waits_or_runs,
        inbox::only_after_is_refused_when_the_session_has_continued,
        inbox::cancel_reaches_the_running_entry_only,
        inbox::an_entry_can_cancel_the_one_that_runs,
        inbox::an_empty_id_is_refused,
        inbox::an_id_has_a_maximum_length,
        lease::one_owner_at_a_time,
        lease::an_owner_gets_a_new_epoch,
        lease::a_lease_is_valid_for_its_owner_only,
        lease::an_acquisition_is_of_its_holder,
        lease::a_lease_of_an_owner_that_is_gone_is_taken_over,
        lease::times_of_different_clocks_are_not_compared,
        lease::a_lease_that_is_over_can_be_renewed,
        lease::a_lease_that_was_taken_over_does_nothing,
        lease::messages_are_appended_by_the_latest_lease_and_its_turn_only,
        lease::a_lease_that_was_given_back_does_nothing,
        lease::a_deleted_session_leaves_no_valid_lease,
        lease::a_distant_end_is_kept,
        turn::a_turn_goes_from_the_inbox_into_the_history,
        turn::a_turn_is_begun_in_one_step,
        turn::a_broken_turn_is_begun_again,
        turn::the_end_of_a_turn_gives_the_session_back,
        turn::a_conflict_leaves_nothing,
        turn::another_invocation_changes_nothing,
        turn::a_broken_turn_is_found_with_its_notes,
        turn::a_turn_that_went_on_after_a_signal_is_found_again,
        turn::a_requeued_entry_is_as_new,
        turn::a_failed_turn_leaves_its_words_and_its_journal,
        turn::a_save_in_the_middle_settles_nothing,
        turn::outcomes_are_read_from_a_cursor,
        turn::fields_are_set_one_by_one,
        suspension::a_signal_is_consumed_once,
        suspension::signals_at_the_same_time_are_one,
        suspension::a_signal_waits_behind_others,
        suspension::a_second_wait_replaces_the_first,
        suspension::an_id_has_one_turn_that_waits,
        suspension::suspensions_are_listed_as_they_came,
        suspension::an_unknown_signal_changes_nothing,
        session::sessions_do_not_touch_each_other,
        session::labels_lie_beside_the_state,
        session::a_label_is_set_once,
        session::a_bound_label_is_set_on_no_other_session,
        session::a_fork_is_a_session_of_its_own,
        session::a_deleted_session_is_gone,
        session::sessions_are_listed_by_their_last_change,
        session::sessions_with_pending_entries_are_listed,
        session::a_sound_store_has_no_faults,
        audit::records_stay_in_their_order,
        audit::records_go_with_their_session_only,
        text::odd_ids_are_kept_apart,
        text::bodies_come_back_as_they_were,
        text::a_huge_body_is_kept,
        text::what_does_not_exist_is_empty,
        transfer::a_record_arrives_as_it_was,
        transfer::the_hash_covers_each_part,
        transfer::a_record_with_another_hash_leaves_nothing,
        transfer::a_moved_session_is_not_continued,
        transfer::a_changed_session_is_not_moved,
        transfer::an_arriving_session_is_not_continued,
        transfer::another_session_is_not_replaced,
        transfer::an_arriving_session_is_replaced,
        transfer::a_session_comes_back,
        transfer::a_waiting_invocation_has_one_session,
        transfer::an_unknown_session_has_no_record,
        transfer::arbitrary_sessions_arrive_as_they_were,
        script::arbitrary_operations_are_answered_as_in_memory,
    ]
}

/// Compares what was found with what was promised.
#[expect(
    clippy::needless_pass_by_value,
    reason = "callers mostly build both values at the call"
)]
fn same<T: PartialEq + Debug>(what: &str, found: T, expected: T) -> Checked {
    if found == expected {
        return Ok(());
    }
    Err(ContractViolation::Promise {
        what: what.to_owned(),
        found: shortened(&found),
        expected: shortened(&expected),
    })
}

/// Formats a value, cut after 2000 characters.
fn shortened(value: &impl Debug) -> String {
    let text = format!("{value:?}");
    match text.char_indices().nth(2000) {
        Some((end, _)) => format!("{} …", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

/// Checks that an operation was refused, by the name of the error.
fn refused<T: Debug>(what: &str, result: Result<T, StoreError>, expected: &'static str) -> Checked {
    match result {
        Ok(value) => Err(ContractViolation::Promise {
            what: what.to_owned(),
            found: shortened(&value),
            expected: expected.to_owned(),
        }),
        Err(error) => same(what, category(&error), expected),
    }
}

/// The name of an error.
const fn category(error: &StoreError) -> &'static str {
    match error {
        StoreError::Fenced { .. } => "fenced",
        StoreError::Conflict { .. } => "conflict",
        StoreError::NotFound { .. } => "not found",
        StoreError::IdTooLong { .. } => "id too long",
        StoreError::Exists { .. } => "exists",
        StoreError::Moved { .. } => "moved",
        StoreError::Arriving { .. } => "arriving",
        StoreError::Damaged(_) => "damaged",
        StoreError::Newer { .. } => "newer",
        StoreError::Unavailable { .. } => "unavailable",
        _ => "other",
    }
}
