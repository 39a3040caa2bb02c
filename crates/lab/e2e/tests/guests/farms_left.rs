//! Leftovers of a farm after a kill and after a normal end. Another farm or manager that starts or
//! ends at the same time may remove these leftovers first.

use e2e::farms::{Farm, Up, are_gone};
use std::path::PathBuf;
use std::process::Command;

/// Signals that can be caught leave nothing. SIGKILL leaves no process, but a directory of sockets
/// that the next start removes.
#[test]
fn any_signal_leaves_nothing_behind() {
    let mut of_the_killed: Option<PathBuf> = None;
    for signal in ["KILL", "TERM", "INT"] {
        let mut up = Up::start("--guests 2 --idle", || e2e::share(2));
        up.until("two guests run", |up| up.qemus().len() == 2);
        let (qemus, run_dir) = (up.qemus(), up.run_dir());
        if let Some(left) = of_the_killed.take() {
            assert!(!left.exists(), "{} was not removed", left.display());
        }
        up.signal(signal);
        let status = up.child.wait().expect("its end");
        assert_eq!(status.success(), signal != "KILL", "{signal}");
        up.nothing_is_left(&qemus);
        if signal == "KILL" {
            of_the_killed = Some(run_dir);
        } else {
            assert!(!run_dir.exists(), "{signal}: {}", run_dir.display());
        }
        let shown = up.output();
        assert!(signal == "KILL" || shown.contains("GUEST    STATE"), "{shown}");
        assert_eq!(signal != "KILL", shown.ends_with("2 guests ended\n"), "{shown}");
    }
}

/// SIGKILL leaves no process, but a directory that the next command removes.
#[test]
fn a_killed_farm_takes_its_guests_with_it() {
    let farm = Farm::new("killed", "[[class]]\nname = 'a'\n", e2e::share(1));
    farm.succeed(&["up", &farm.file(), "--detach"]);
    let (service, guests) = farm.processes();
    let run_dir = farm.run_dir(service);
    let kill = Command::new("kill").args(["-9", &service.to_string()]).status().expect("it runs");
    assert!(kill.success());
    are_gone(&guests);
    are_gone(&[service]);
    let down = farm.run(&["down", &farm.name]);
    assert!(!down.status.success(), "nothing ran any more");
    assert!(!run_dir.exists(), "{}", run_dir.display());
}
