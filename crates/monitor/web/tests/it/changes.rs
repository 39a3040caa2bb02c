//! Changes from the pages.

use crate::browser::start;

#[test]
fn changes_are_refused_unless_allowed() {
    let server = start(false);
    let cookie = server.enter();
    let page = server.get("/guest/web1", &cookie).body;
    assert!(!page.contains("form_key"), "no form is offered");
    let heads = format!("{cookie}Origin: http://{}\r\n", server.address);
    let answer = server.post("/guest/web1/set", &heads, "form_key=x&what=shares&value=7");
    assert_eq!(answer.status, 403);
    assert!(answer.body.contains("--allow-changes"), "{}", answer.body);
    assert!(server.orders.lock().unwrap().is_empty());
}

#[test]
fn allowed_change_reaches_manager_and_refusal_reaches_page() {
    let server = start(true);
    let cookie = server.enter();
    let heads = format!("{cookie}Origin: http://{}\r\n", server.address);
    let page = server.get("/guest/web1", &cookie).body;
    let key =
        page.split("name=\"form_key\" value=\"").nth(1).and_then(|rest| rest.split('"').next());
    let key = key.expect("a form");
    // The next page shows the result once.
    let set = |guest: &str, rest: &str| {
        let path = format!("/guest/{guest}/set");
        let done = server.post(&path, &heads, &format!("form_key={key}&{rest}"));
        assert_eq!((done.status, done.heads["location"].clone()), (303, format!("/guest/{guest}")));
        let page = server.get(&done.heads["location"], &cookie);
        assert!(!server.get(&done.heads["location"], &cookie).body.contains("hanged: "));
        page
    };
    let done = set("web1", "what=max&value=128+MiB");
    assert_eq!(done.status, 200);
    assert!(
        done.body.contains("Changed: managed") && done.body.contains("7 shares"),
        "{}",
        done.body
    );
    let refused = set("web7", "what=release&value=");
    assert!(
        refused.body.contains("Not changed: User 990 may only read from this manager"),
        "{}",
        refused.body
    );
    let wrong = set("web1", "what=max&value=much").body;
    assert!(wrong.contains("Not changed: `max` must be a size, not &quot;much&quot;"), "{wrong}");
    let reserve = |mib: &str, hold: &str| {
        server.post("/reserve", &heads, &format!("form_key={key}&mib={mib}&hold_s={hold}"))
    };
    for (mib, hold, told) in [
        ("512", "60", "512 MiB are reserved for 60 s"),
        ("1G", "10m", "1024 MiB are reserved for 600 s"),
    ] {
        let room = server.get(&reserve(mib, hold).heads["location"], &cookie).body;
        assert!(room.contains(told), "{room}");
    }
    assert_eq!(reserve("0", "60").status, 400);
    let orders = server.orders.lock().unwrap().clone();
    assert_eq!(orders.len(), 4, "{orders:?}");
    assert!(orders[0].starts_with("web1 Max(") && orders[2] == "reserve 512", "{orders:?}");
}
