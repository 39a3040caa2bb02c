//! Experiments that cannot begin.

use std::process::Command;

#[test]
fn a_case_that_there_is_not_is_refused_and_leaves_no_result() {
    let out = std::env::temp_dir().join(format!("pinhead-no-case-{}", std::process::id()));
    let output = Command::new(env!("CARGO_BIN_EXE_pinhead-lab"))
        .args(["experiment", "cmm", "--case", "claim: everything", "--out"])
        .arg(&out)
        .output()
        .expect("the program runs");
    let said = String::from_utf8_lossy(&output.stderr);
    let is_left = out.exists();
    let _ = std::fs::remove_dir_all(&out);
    assert!(!output.status.success(), "{said}");
    assert!(said.contains("There is no case \"claim: everything\"; the cases are"), "{said}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "", "nothing was measured");
    assert!(!is_left, "a result was written");
}
