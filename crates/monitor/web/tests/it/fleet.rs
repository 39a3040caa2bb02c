//! Several hosts that push to one metrics server.

use crate::browser::start_fleet;
use crate::guests::GUESTS;

#[test]
fn silent_hosts_come_first_and_each_leads_to_its_own_page() {
    let server = start_fleet();
    let cookie = server.enter();
    let page = server.get("/", &cookie);
    assert_eq!(page.status, 200, "{}", page.body);
    let body = page.body;
    assert!(body.contains("Overview of 3 hosts"), "{body}");
    let place = |text: &str| body.find(text).unwrap_or_else(|| panic!("no {text}: {body}"));
    assert!(place("three &amp; last") < place("host=one"));
    assert!(body.contains("Silent hosts: 1.") && body.contains("silent since 2026-11-21 11:"));
    assert_eq!(body.matches(">live<").count(), 2);
    // The table shows guests of all hosts, each with its host. Only the busiest of all 300 guests
    // are shown.
    assert!(body.contains(&format!("{} more guests follow", 3 * GUESTS - 249)), "{body}");
    assert!(place("/guest/web99?last=1h&amp;host=") > 0);

    // One of several hosts has the same page as a single host. The page's links keep the host.
    let one = server.get("/?host=three%20%26%20last", &cookie).body;
    assert!(one.contains("Overview of three &amp; last"), "{one}");
    assert!(one.contains("/report") && one.contains("host=three%20%26%20last"), "{one}");
    assert!(one.contains("data-keep=\"&amp;host=three%20%26%20last\""), "{one}");
    assert!(!one.contains("is not known"), "a missing manager is no error on these pages: {one}");
    assert!(!one.contains("host=one") && !one.contains("data-events"), "{one}");
    let guest = server.get("/guest/web7?host=two", &cookie);
    assert_eq!(guest.status, 200);
    assert!(guest.body.contains("/report/GUEST1?last=1h&amp;host=two&amp;guest=web7"));
    let report = server.get("/report/GUEST1.csv?host=two", &cookie).body;
    assert!(report.contains("two,") && !report.contains("one,"), "{report}");
}
