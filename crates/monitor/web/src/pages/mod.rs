//! The pages, one file each. A page depends only on its arguments. No state is kept between
//! requests.

mod about;
mod changes;
mod columns;
mod decisions;
mod events;
mod farms;
mod fleet;
mod guest;
mod layout;
mod login;
mod overview;
mod report;
mod sort;
mod tune;

pub(crate) use about::about;
pub(crate) use changes::{SetForm, change, reserve, set};
pub(crate) use decisions::decisions;
pub(crate) use events::events;
pub(crate) use farms::farms;
pub(crate) use guest::guest;
pub(crate) use layout::{fault, html_response, not_so, nowhere, stranger};
pub(crate) use login::{login, logout};
pub(crate) use overview::overview;
pub(crate) use report::{report, reports};
pub(crate) use tune::tune;
