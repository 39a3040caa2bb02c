//! Responses to strangers, to pages of other sites, and to clients that only keep connections open.

use crate::browser::{read, start, start_slow};
use std::io::{ErrorKind, Read, Write};
use std::time::Duration;

#[test]
fn page_is_hidden_without_a_valid_unused_token() {
    let server = start(true);
    let paths = [
        "/",
        "/guest/web1",
        "/decisions",
        "/reports",
        "/report/MAIN",
        "/report/MAIN.csv",
        "/tune",
        "/farms",
        "/about",
        "/events",
        "/nowhere",
    ];
    for path in paths {
        let answer = server.get(path, "");
        assert_eq!(answer.status, 401, "{path}");
        assert!(answer.body.contains("Sign in") && !answer.body.contains("web1"), "{path}");
    }
    let token = server.token();
    let wrong: String = token.chars().rev().collect();
    assert_eq!(server.get(&format!("/?token={wrong}"), "").status, 401);
    assert_eq!(server.get(&format!("/?token={token}"), "").status, 303);
    let again = server.get(&format!("/?token={token}"), "");
    assert_eq!(again.status, 401);
    assert!(again.body.contains("each token opens the pages once"), "{}", again.body);
    let cookie = format!("Cookie: pinhead-session-{}={token}\r\n", server.address.port());
    assert_eq!(server.get("/", &cookie).status, 401, "a token is no session");
}

#[test]
fn finding2_08_used_token_is_not_replaced() {
    let server = start(false);
    let cookie = server.enter();
    assert_eq!(server.get("/about", &cookie).status, 200);
    server.tells_no_more();
}

#[test]
fn token_guesser_is_limited_and_token_holder_is_not() {
    let server = start(false);
    let host = server.address;
    // The requests are sent at the same time. On a slow machine, requests one by one would stay
    // below the limit.
    let at_once = || {
        let mut tries: Vec<_> = (0..30).map(|_| server.connect()).collect();
        for (number, stream) in tries.iter_mut().enumerate() {
            let ask = format!("GET /?token={number} HTTP/1.1\r\nHost: {host}\r\n\r\n");
            stream.write_all(ask.as_bytes()).expect("it is taken");
        }
        tries.iter_mut().map(|stream| read(stream).status).collect::<Vec<u16>>()
    };
    let statuses: Vec<u16> = (0..10).flat_map(|_| at_once()).collect();
    assert!(statuses.contains(&429) && !statuses.contains(&303), "{statuses:?}");
    // Pages of other sites can send requests through the visitor's browser, for instance as
    // pictures.
    let picture = "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors\r\n";
    for _ in 0..100 {
        assert_eq!(server.get("/x.png", picture).status, 403);
    }
    let token = server.token();
    let ask = format!("HEAD /?token={token} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    assert!(
        [401, 429].contains(&server.raw(&ask).status),
        "checking a link does not use up its token"
    );
    let entered = server.get(&format!("/?token={token}"), "");
    assert_eq!(entered.status, 303);
    let cookie = entered.heads["set-cookie"].split(';').next().unwrap().to_owned();
    // Another server with this host name may have set cookies before.
    let name = cookie.split('=').next().unwrap();
    let many = format!("Cookie: {name}=a; {name}=b; {name}=c; {name}=d; {name}=e; {cookie}\r\n");
    assert_eq!(server.get("/about", &many).status, 200);
    let seen = server.get(&format!("/about?last=1h&token={token}"), &many);
    assert_eq!((seen.status, seen.heads["location"].as_str()), (303, "/about?last=1h"));
}

#[test]
fn strangers_lose_their_connections_and_visitors_do_not() {
    let server = start(false);
    let cookie = server.enter();
    let ask = |path: &str, cookie: &str| {
        let mut stream = server.connect();
        let host = server.address;
        let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{cookie}\r\n");
        stream.write_all(request.as_bytes()).expect("it is taken");
        stream
    };
    // The server keeps only connections with a session open.
    let answer = read(&mut ask("/about", ""));
    assert_eq!((answer.status, answer.heads["connection"].as_str()), (401, "close"));
    let mut known = ask("/events", &cookie);
    // Waits until data arrive, or reads the data that have arrived.
    let mut listen = |is_waiting: bool| {
        let mut bytes = [0; 4_096];
        known.set_nonblocking(!is_waiting).expect("a socket");
        loop {
            match known.read(&mut bytes) {
                Ok(0) => panic!("the connection was closed"),
                Ok(_) if is_waiting => return,
                Ok(_) => {}
                Err(error) => return assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
        }
    };
    listen(true);
    let held: Vec<_> = (0..1_200).map(|_| server.connect()).collect();
    // A connection with a session keeps its place. The visitor gets a second place when the
    // strangers' time is over.
    assert_eq!(server.get_in_the_end("/about", &cookie).status, 200);
    // Buffered data do not prove that the connection is still open.
    listen(false);
    listen(true);
    drop(held);
}

#[test]
fn a_foreign_name_for_this_machine_is_refused() {
    let server = start(false);
    let cookie = server.enter();
    let ask = |host: &str| {
        server
            .raw(&format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{cookie}\r\n"))
            .status
    };
    let port = server.address.port();
    assert_eq!(ask(&format!("evil.example:{port}")), 421);
    assert_eq!(ask(&format!("127.0.0.1:{}", port ^ 1)), 421);
    assert_eq!(ask(&format!("localhost:{port}")), 200);
    let none = server.raw(&format!("GET / HTTP/1.1\r\nConnection: close\r\n{cookie}\r\n"));
    assert_eq!(none.status, 421);
}

#[test]
fn another_sites_page_changes_and_reads_nothing() {
    let server = start(true);
    let cookie = server.enter();
    let page = server.get("/guest/web1", &cookie).body;
    let key =
        page.split("name=\"form_key\" value=\"").nth(1).and_then(|rest| rest.split('"').next());
    let key = key.expect("a form").to_owned();
    let (own, form) = (server.address, format!("form_key={key}&what=shares&value=7"));
    let send = |heads: &str, form: &str| {
        server.post("/guest/web1/set", &format!("{cookie}{heads}"), form).status
    };
    assert_eq!(send("Origin: http://evil.example\r\n", &form), 403);
    assert_eq!(send("Origin: null\r\n", &form), 403);
    assert_eq!(send("Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n", &form), 403);
    assert_eq!(send("", &form), 403, "a request without a site changes nothing");
    let own = format!("Origin: http://{own}\r\n");
    assert_eq!(send(&own, "form_key=0&what=shares&value=7"), 403, "the form belongs to no session");
    assert_eq!(send(&own, "what=shares&value=7"), 422);
    assert!(server.orders.lock().unwrap().is_empty(), "the manager got no change");
    let script = format!(
        "{cookie}Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: cors\r\n\
         Origin: http://evil.example\r\n"
    );
    assert_eq!(server.get("/report/MAIN.json", &script).status, 403);
    assert_eq!(send(&own, &form), 303, "our own form");
    assert_eq!(server.orders.lock().unwrap().len(), 1);
}

#[test]
fn markup_in_names_is_escaped() {
    let server = start(false);
    let cookie = server.enter();
    for path in ["/", "/guest/%3Cscript%3Ealert(1)%3C%2Fscript%3E", "/report/GUEST1", "/about"] {
        let answer = server.get(path, &cookie);
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        assert!(!answer.body.contains("<script>alert"), "{path}");
        assert!(!answer.body.contains("<b>trouble") && !answer.body.contains("host<1>"), "{path}");
        let policy = &answer.heads["content-security-policy"];
        assert!(policy.starts_with("default-src 'self'"), "{policy}");
        assert!(!answer.body.contains(" style="), "{path}: a style that the policy refuses");
        assert_eq!(answer.heads["x-content-type-options"], "nosniff");
        assert_eq!(answer.heads["cache-control"], "no-store");
    }
    assert!(server.get("/", &cookie).body.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
    let reflected = server.get("/guest/%3Cimg%20src%3Dx%3E", &cookie);
    assert_eq!(reflected.status, 404);
    assert!(!reflected.body.contains("<img"), "{}", reflected.body);
    let filter = server.get("/?filter=%22%3E%3Cimg%20src%3Dx%3E&sort=%22%3E%3Cimg%3E", &cookie);
    assert!(!filter.body.contains("<img"), "{}", filter.body);
}

#[test]
fn paths_of_files_lead_to_no_page() {
    let server = start(false);
    let cookie = server.enter();
    for path in [
        "/assets/../../etc/passwd",
        "/assets/..%2F..%2Fetc%2Fpasswd",
        "/assets/%2Fetc%2Fpasswd",
        "/report/..%2F..%2Fetc%2Fpasswd",
        "/guest/..%2F..%2Fetc%2Fpasswd",
        "//evil.example/",
    ] {
        let answer = server.get(path, &cookie);
        assert_eq!(answer.status, 404, "{path}");
        assert!(!answer.body.contains("root:"), "{path}");
    }
    assert_eq!(server.get("/assets/app.css", "").status, 200, "strangers get the style as well");
}

#[test]
fn ranges_of_ten_years_and_other_invalid_values_are_refused() {
    let server = start(false);
    let cookie = server.enter();
    let said = |path: &str| {
        let answer = server.get(path, &cookie);
        assert_eq!(answer.status, 400, "{path}: {}", answer.body);
        answer.body
    };
    for path in ["/", "/guest/web1", "/report/MAIN", "/report/MAIN.csv"] {
        let body = said(&format!("{path}?from=2016-01-01&to=2026-01-01"));
        assert!(body.contains("at most a year"), "{body}");
    }
    assert!(said("/?last=forever").contains("Invalid time span"));
    assert!(said("/report/MAIN?top=1000000000").contains("1 to 10000"));
    assert!(said("/report/MAIN?by=nobody").contains("guest, class or host"));
    assert_eq!(server.get("/report/NONE", &cookie).status, 404);
    let long = format!("/?filter={}", "x".repeat(40_000));
    assert!([400, 414, 431, 0].contains(&server.get(&long, &cookie).status));
    let form = "x".repeat(10_000);
    let origin = format!("{cookie}Origin: http://{}\r\n", server.address);
    assert_eq!(server.post("/guest/web1/set", &origin, &form).status, 413);
}

#[test]
fn idle_connections_are_closed_and_others_are_served() {
    let server = start(false);
    let cookie = server.enter();
    // More clients connect than can be served at once, and some of the clients send a few bytes.
    let mut idle: Vec<_> = (0..1_000).map(|_| server.connect()).collect();
    let mut slow: Vec<_> = idle.drain(..20).collect();
    for stream in &mut slow {
        stream.write_all(b"GET / HTTP/1.1\r\nHost: 127").expect("it is taken");
    }
    // The server closes these connections, and then serves all other clients.
    let answer = server.get_in_the_end("/about", &cookie);
    assert_eq!(answer.status, 200);
    for stream in &mut slow {
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        assert!(!String::from_utf8_lossy(&rest).contains(" 200 "), "a request that never ended");
    }
    drop(idle);
    assert_eq!(server.get_in_the_end("/about", &cookie).status, 200);
    let mut stream = server.connect();
    stream.write_all(b"NONSENSE\r\n\r\n").expect("it is taken");
    assert_eq!(read(&mut stream).status, 400);
}

#[test]
fn a_client_that_disconnects_costs_no_more_than_another() {
    let (server, reads, open) = start_slow();
    let cookie = server.enter();
    // Each client requests slow work and leaves.
    for number in 0..6 {
        let mut stream = server.connect();
        let host = server.address;
        let ask = format!("GET /report/MAIN HTTP/1.1\r\nHost: {host}\r\n{cookie}\r\n");
        stream.write_all(ask.as_bytes()).expect("it is taken");
        // The request runs if a reader is free. There are two readers.
        reads.until(number.min(1) + 1);
        drop(stream);
        // When the server responds to another request, it has noticed the closed connection.
        assert_eq!(server.get("/assets/app.css", "").status, 200);
    }
    assert_eq!(reads.most(), 2);
    drop(open);
    assert_eq!(server.get("/report/MAIN", &cookie).status, 200);
    assert_eq!(reads.most(), 2);
}
