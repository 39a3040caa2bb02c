//! Errors of `pinhead fleet`, with the remedy in each message.

use std::process::Command;

fn wrong(args: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_pinhead")).arg("fleet").args(args).output();
    let output = output.expect("it runs");
    assert!(!output.status.success(), "{args:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn impossible_fleet_question_is_refused_with_remedy() {
    // This port needs a privilege, so no process listens at the port.
    let nobody = "http://127.0.0.1:1";
    for last in ["30s", "8d"] {
        let error = wrong(&["--from", nobody, "--last", last]);
        assert!(error.contains("--last must be one minute to seven days"), "{error}");
    }
    let error = wrong(&["--from", nobody]);
    assert!(error.contains(nobody) && error.contains("connect"), "{error}");
    let error = wrong(&["--from", "localhost"]);
    assert!(error.contains("use http://HOST:PORT/PATH"), "{error}");
}
