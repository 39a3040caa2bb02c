//! Tests of the source against fake QEMUs, in one thread and with a fake clock.

mod hostile;
mod life;
mod qemu;
mod strangers;

use std::path::PathBuf;

use qemu::Qemu;

use super::*;
use crate::{Found, ProcessId};
use procfs::testing::Tree;

/// A source for a directory of sockets, and its events.
struct World {
    tree: Tree,
    source: QmpSource,
    now_ms: u64,
    events: Vec<Event>,
}

impl World {
    fn new() -> World {
        let tree = Tree::create();
        tree.file("run/README", "");
        let pattern = format!("{}/run/*.qmp", tree.path().display());
        let root = tree.path().to_path_buf();
        let source = QmpSource::under(root, &[pattern], Trust::default(), IdSource::new()).unwrap();
        World { tree, source, now_ms: 1_000, events: Vec::new() }
    }

    fn socket(&self, name: &str) -> PathBuf {
        self.tree.path().join(format!("run/{name}.qmp"))
    }

    /// Uses this process as QEMU's, because the kernel reports no other process on these sockets.
    fn process(&self, start_ticks: u64) {
        let own = std::process::id();
        self.tree.process(own, "qemu", 'S', start_ticks);
        self.tree.file(&format!("proc/{own}/task/71/schedstat"), "");
    }

    /// Advances the time, and runs a turn that tries every connection.
    fn turn(&mut self, passed_ms: u64) {
        self.now_ms += passed_ms;
        self.source.turn(None, self.now_ms, &mut self.events);
    }

    /// Exchanges messages until both sides have sent theirs.
    fn talk(&mut self, qemu: &mut Qemu) {
        for _ in 0..20 {
            self.turn(0);
            qemu.serve();
        }
        self.turn(0);
    }

    /// Returns the events since the last call.
    fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// Starts a fake QEMU, and returns it with its guest as found.
    fn found(&mut self, name: &str) -> (Qemu, Id, Found) {
        let qemu = Qemu::bind(&self.socket(name));
        self.found_as(qemu)
    }

    /// Does the same as `found`, for a QEMU that listens already.
    fn found_as(&mut self, mut qemu: Qemu) -> (Qemu, Id, Found) {
        self.turn(SCAN_MS);
        self.turn(0);
        qemu.accept();
        qemu.greet();
        self.talk(&mut qemu);
        let mut events = self.take_events();
        let Some(Event::Found(id, found)) = events.pop() else { panic!("{events:?}") };
        assert_eq!(events, []);
        (qemu, id, *found)
    }
}

#[test]
fn guest_that_is_left_out_is_counted_as_one() {
    let crowd = Crowd { chosen: 64, left_out: 1, is_connected: true };
    let told = left_out(&Glob::new("/run/*.qmp").unwrap(), Owner(1), &crowd);
    assert!(told.contains(". Left out: 1 guest."), "{told}");
}
