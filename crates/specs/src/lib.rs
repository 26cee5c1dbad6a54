//! The rules of replication and of the controller as models: every state that they can reach within stated bounds is
//! looked at. Each rule has a wrong variant, one that a broker once had or nearly had; a model that does not catch it
//! would prove nothing.
//!
//! Non-obvious:
//! - The product's own functions are used where they are pure and public (`replication::truncation`). A rule that is
//!   stated here instead names the product's code that has it.
//! - What is said to hold is said of outcomes (a committed record is lost), not of the rule that was broken.
//! - Bounds are small so that all of it ends; what needs more crashes, records or elections is for the simulator.

pub mod controller;
mod members;
pub mod reassignment;
pub mod replication;
pub mod run;
pub mod table;

use run::Run;

/// All models under the right rules and under each wrong one.
#[must_use]
pub fn runs() -> Vec<Run> {
    [replication::runs(), controller::runs(), reassignment::runs()].into_iter().flatten().collect()
}
