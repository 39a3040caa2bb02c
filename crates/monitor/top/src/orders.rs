//! Actions on the marked guest. The caller of this crate carries the actions out like the commands
//! with the same names.
//!
//! A thread carries an action out, so that the screens stay usable while a guest is parked. The
//! console needs the terminal for itself, so it runs in place of the screens.

use crate::error::Trouble;
use manager::control::GuestRow;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

/// An action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Attach the terminal to the guest's console.
    Console,
    /// Show the console's log.
    Logs,
    /// Show the decisions about the guest, with their reasons.
    Why,
    /// Stop the guest, and page out its memory.
    Park,
    /// Resume the guest.
    Wake,
    /// Fix the guest's memory at a size in the notation of `pinhead set`.
    Pin(String),
    /// Let the manager decide about the guest again.
    Manage,
}

impl Action {
    /// Returns the action in progress, as a verb.
    fn doing(&self) -> &'static str {
        match self {
            Action::Console => "opening the console of",
            Action::Logs => "reading the log of",
            Action::Why => "reading the decisions about",
            Action::Park => "parking",
            Action::Wake => "waking",
            Action::Pin(_) => "pinning",
            Action::Manage => "unpinning",
        }
    }
}

/// The guest of an action. Its texts come from outside, so escape them before display.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// Name of the guest.
    pub name: String,
    /// UUID, or the path of the guest's monitor if there is no UUID. May be empty.
    pub uuid: String,
    /// Path of the guest's monitor, or name of the source that found the guest.
    pub source: String,
}

impl Target {
    pub(super) fn of(row: &GuestRow) -> Target {
        Target { name: row.name.clone(), uuid: row.uuid.clone(), source: row.source.clone() }
    }
}

/// An action on a guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// Action to carry out.
    pub action: Action,
    /// Guest of the action.
    pub guest: Target,
}

/// Function that carries out an action, and returns the text of its result.
pub type Acts = Arc<dyn Fn(&Order) -> Result<String, Trouble> + Send + Sync>;

/// Result of an action: its text, or the error.
pub(super) type Outcome = Result<String, String>;

/// Actions in progress, one at a time.
pub(super) struct Orders {
    acts: Acts,
    sender: Sender<(Order, Outcome)>,
    results: Receiver<(Order, Outcome)>,
    waker: UnixStream,
    theirs: UnixStream,
    busy: Option<String>,
}

impl Orders {
    pub(super) fn new(acts: Acts) -> std::io::Result<Orders> {
        let (sender, results) = channel();
        let (waker, theirs) = UnixStream::pair()?;
        waker.set_nonblocking(true)?;
        Ok(Orders { acts, sender, results, waker, theirs, busy: None })
    }

    /// Carries out an action in this thread.
    pub(super) fn run(&self, order: &Order) -> Outcome {
        (self.acts)(order).map_err(|error| base::chain(&*error))
    }

    /// Starts an action in a thread. Returns a remark for the user.
    pub(super) fn start(&mut self, order: Order) -> String {
        if let Some(busy) = &self.busy {
            return format!("Still {busy}: try again when this action has ended");
        }
        let busy = format!("{} {}", order.action.doing(), order.guest.name);
        let (acts, sender) = (Arc::clone(&self.acts), self.sender.clone());
        let started = self.theirs.try_clone().and_then(|mut waker| {
            let work = move || {
                let outcome = acts(&order).map_err(|error| base::chain(&*error));
                // If the screens are gone, the result is not needed.
                let _ = sender.send((order, outcome)).map(|()| waker.write_all(&[0]));
            };
            std::thread::Builder::new().name("order".to_owned()).spawn(work)
        });
        match started {
            Ok(_) => {
                let remark = format!("{busy} ...");
                self.busy = Some(busy);
                remark
            }
            Err(error) => format!("! Cannot start a thread for {busy}: {error}"),
        }
    }

    /// Returns a descriptor that is readable when an action has ended.
    pub(super) fn waker(&self) -> BorrowedFd<'_> {
        self.waker.as_fd()
    }

    /// Returns the result of an action that has ended.
    pub(super) fn ended(&mut self) -> Option<(Order, Outcome)> {
        // The channel counts the results. This read only clears the waker.
        let _ = self.waker.read(&mut [0; 16]);
        let ended = self.results.try_recv().ok()?;
        self.busy = None;
        Some(ended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    #[test]
    fn second_action_is_refused_while_one_runs() {
        let (begin, entered) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
        let (theirs, theirs_entered) = (Arc::clone(&begin), Arc::clone(&entered));
        let acts: Acts = Arc::new(move |order: &Order| {
            theirs_entered.wait();
            theirs.wait();
            match order.action {
                Action::Park => Ok(format!("{}: parked", order.guest.name)),
                _ => Err("it has no console".into()),
            }
        });
        let mut orders = Orders::new(acts).unwrap();
        let target = Target { name: "web1".into(), ..Target::default() };
        let order = |action| Order { action, guest: target.clone() };
        assert_eq!(orders.start(order(Action::Park)), "parking web1 ...");
        entered.wait();
        assert!(orders.ended().is_none());
        let refused = orders.start(order(Action::Logs));
        assert_eq!(refused, "Still parking web1: try again when this action has ended");
        begin.wait();
        let ended = |orders: &mut Orders| {
            let fd = [rustix::event::PollFd::new(&orders.waker, rustix::event::PollFlags::IN)];
            rustix::event::poll(&mut { fd }, None).unwrap();
            orders.ended().unwrap()
        };
        assert_eq!(ended(&mut orders), (order(Action::Park), Ok("web1: parked".into())));
        assert_eq!(orders.start(order(Action::Logs)), "reading the log of web1 ...");
        entered.wait();
        begin.wait();
        let error = Err("it has no console".to_owned());
        assert_eq!(ended(&mut orders), (order(Action::Logs), error));
    }
}
