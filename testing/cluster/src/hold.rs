//! Answers that stay incomplete until a test lets them continue.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use testkit::{Gate, Reply, end_of_stream, text_delta};

/// A message whose answer waits for the test, piece by piece.
pub(crate) const HOLD: &str = "hold ";

/// The held answers of a model, in the order of their requests. Cloning shares them.
#[derive(Clone, Debug, Default)]
pub struct HeldAnswers {
    shared: Arc<(Mutex<Vec<Gate>>, Condvar)>,
}

impl HeldAnswers {
    /// Returns the reply to the next request: `early-N `, `middle-N `, `late-N ` and the end, each after a
    /// permit.
    pub(crate) fn reply(&self) -> Reply {
        let (gates, changed) = &*self.shared;
        let mut gates = gates.lock().unwrap_or_else(PoisonError::into_inner);
        let (number, gate) = (gates.len(), Gate::new());
        gates.push(gate.clone());
        changed.notify_all();
        let piece = |text: &str| text_delta(&format!("{text}-{number} "));
        let pieces = [piece("early"), piece("middle"), piece("late")];
        let mut all = vec![Vec::new()];
        all.extend(pieces);
        all.push(end_of_stream());
        Reply::Gated(all, gate)
    }

    /// Waits for a request, by its number from 0; returns whether it came in time.
    pub fn wait(&self, number: usize, most: Duration) -> bool {
        let (gates, changed) = &*self.shared;
        let gates = gates.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = changed.wait_timeout_while(gates, most, |gates| gates.len() <= number);
        waited.is_ok_and(|(gates, _)| gates.len() > number)
    }

    /// Sends the next piece of an answer.
    pub fn send_piece(&self, number: usize) {
        let (gates, _) = &*self.shared;
        let gates = gates.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(gate) = gates.get(number) {
            gate.open();
        }
    }

    /// Lets an answer continue to its end.
    pub fn release(&self, number: usize) {
        for _ in 0..4 {
            self.send_piece(number);
        }
    }
}
