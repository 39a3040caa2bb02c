//! Decisions, and nothing else: pure steps from readings to actions.
//!
//! [`guest`] is the step that runs in every guest, where rules on the guest's own counters plug and
//! unplug its CPUs and its memory. [`steady`] tries a rules file against a model of a guest under
//! steady load, to find rules that plug and unplug in turn. [`arbiter`] runs on the host and moves
//! memory between guests. [`rivals`] are other managers' rules for the same task, for comparison.
//! [`ksm`] and [`pageout`] drive features of the host's kernel that need no help from a guest.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod arbiter;
pub mod guest;
pub mod ksm;
pub mod pageout;
pub mod rivals;
pub mod steady;
