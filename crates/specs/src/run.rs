//! One model with one set of rules, and what checking it came to.

use stateright::{Checker, Expectation, HasDiscoveries, Model};
use std::fmt::Debug;
use std::hash::Hash;
use std::time::Duration;

/// A model to be checked.
pub struct Run {
    /// The model.
    pub model: &'static str,
    /// What is wrong with the rules; `None` if they are the right ones.
    pub wrong: Option<Wrong>,
    /// How far it is looked.
    pub bounds: String,
    check: Box<dyn Fn() -> Outcome + Send + Sync>,
}

/// A wrong rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// Where it comes from.
    pub ticket: &'static str,
    /// What it does.
    pub what: &'static str,
}

/// What was found.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Different states looked at.
    pub states: usize,
    /// How long it took.
    pub took: Duration,
    /// The property that does not hold, and the shortest way there.
    pub broken: Option<(&'static str, Vec<String>)>,
    /// Situations that must come about in a model that is worth anything, and did not.
    pub missed: Vec<&'static str>,
}

impl Run {
    /// Checks `model` breadth first, on one thread: the states until something breaks are the same each time.
    pub(crate) fn new<M>(name: &'static str, wrong: Option<Wrong>, bounds: String, model: M) -> Self
    where
        M: Model + Clone + Send + Sync + 'static,
        M::State: Hash + Clone + Debug + PartialEq + Send + Sync + 'static,
        M::Action: Debug + Clone + PartialEq + Send + Sync + 'static,
    {
        let check = Box::new(move || check(model.clone()));
        Self { model: name, wrong, bounds, check }
    }

    /// Looks at every state, or at all up to the first that breaks a property.
    #[must_use]
    pub fn check(&self) -> Outcome {
        (self.check)()
    }
}

impl Outcome {
    /// Whether this is what the rules promise: right ones hold and are not idle, wrong ones are caught.
    #[must_use]
    pub fn is_as_it_should(&self, wrong: Option<Wrong>) -> bool {
        match wrong {
            Some(_) => self.broken.is_some(),
            None => self.broken.is_none() && self.missed.is_empty(),
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "says how long it took; nothing depends on it")]
fn check<M>(model: M) -> Outcome
where
    M: Model + Send + Sync + 'static,
    M::State: Hash + Clone + Debug + PartialEq + Send + Sync + 'static,
    M::Action: Debug + Clone + PartialEq + Send + Sync + 'static,
{
    let started = std::time::Instant::now();
    let checker =
        model.checker().threads(1).finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    let mut outcome = Outcome {
        states: checker.unique_state_count(),
        took: started.elapsed(),
        broken: None,
        missed: Vec::new(),
    };
    for property in checker.model().properties() {
        let discovery = checker.discovery(property.name);
        match (property.expectation, discovery) {
            (Expectation::Sometimes, None) => outcome.missed.push(property.name),
            (Expectation::Sometimes, Some(_)) | (_, None) => {}
            (_, Some(path)) => {
                let steps = path.into_actions().iter().map(|step| format!("{step:?}")).collect();
                outcome.broken = Some((property.name, steps));
            }
        }
    }
    outcome
}
