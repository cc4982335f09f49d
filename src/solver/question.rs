//! A question to the solver as one value.

use std::borrow::Cow;

use crate::model::host::Host;
use crate::model::request::{Preferences, Request};

/// What is solved: a request, the machine that it is for, and the versions that are kept where they fit.
///
/// "What if" is the same question after an [`Edit`](super::Edit): nothing else changes a request to solve it again.
#[derive(Debug, Clone, PartialEq)]
pub struct Question<'q> {
    /// The machine.
    pub host: Cow<'q, Host>,
    /// The request.
    pub request: Cow<'q, Request>,
    /// Preferred versions, from an earlier lock.
    pub preferences: Cow<'q, Preferences>,
}

impl<'q> Question<'q> {
    /// A question about values of the caller.
    pub fn new(host: &'q Host, request: &'q Request, preferences: &'q Preferences) -> Question<'q> {
        Question {
            host: Cow::Borrowed(host),
            request: Cow::Borrowed(request),
            preferences: Cow::Borrowed(preferences),
        }
    }

    /// The same question, borrowed from this one.
    pub fn by_ref(&self) -> Question<'_> {
        Question::new(&self.host, &self.request, &self.preferences)
    }

    /// The same question about another request.
    pub fn with_request<'r>(&'r self, request: &'r Request) -> Question<'r> {
        Question::new(&self.host, request, &self.preferences)
    }

    /// The same question, independent of the caller's values.
    pub fn into_owned(self) -> Question<'static> {
        Question {
            host: Cow::Owned(self.host.into_owned()),
            request: Cow::Owned(self.request.into_owned()),
            preferences: Cow::Owned(self.preferences.into_owned()),
        }
    }
}
