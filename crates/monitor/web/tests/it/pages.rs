//! Contents of the pages.

use crate::browser::{Server, start, start_recorded, start_silent};
use crate::guests::GUESTS;
use std::io::{Read, Write};
use std::sync::atomic::Ordering;

/// Returns the text of a cell in a guest's row.
fn cell(body: &str, guest: &str, column: &str) -> String {
    let row = body.split("<tr ").find(|row| row.contains(&format!("href=\"/guest/{guest}?")));
    let row = row.unwrap_or_else(|| panic!("no row of {guest}"));
    let after = row.split(&format!("data-c=\"{column}\">")).nth(1).expect("a cell");
    after.split('<').next().expect("a text").to_owned()
}

fn page(server: &Server, path: &str, cookie: &str) -> String {
    let answer = server.get(path, cookie);
    assert_eq!(answer.status, 200, "{path}: {}", answer.body);
    answer.body
}

#[test]
fn overview_has_every_guest_busiest_first() {
    let server = start(false);
    let cookie = server.enter();
    let body = page(&server, "/", &cookie);
    assert_eq!(body.matches("data-key=").count(), GUESTS);
    // Guest n uses n + 1 thousandths of a CPU, so the last guest is the busiest.
    assert_eq!(cell(&body, "web99", "cpu_percent"), "10.0");
    let place = |guest: usize| body.find(&format!("data-key=\"{guest}\"")).expect("a row");
    assert!(place(99) < place(50) && place(50) < place(1));
    assert_eq!(cell(&body, "web99", "state"), "asleep");
    assert_eq!(cell(&body, "web9", "actual_mib"), "73");
    assert_eq!(cell(&body, "web9", "own_psi_some_percent"), "-");
    assert!(body.contains("data-events=\"/events\""), "it is live");
    let sorted = page(&server, "/?sort=name&filter=web1", &cookie);
    assert_eq!(sorted.matches("data-key=").count(), 11);
    assert!(sorted.find("/guest/web1?") < sorted.find("/guest/web10?"));
    for sort in ["name", "state"] {
        let sorted = page(&server, &format!("/?sort={sort}"), &cookie);
        assert!(sorted.find("/guest/web2?") < sorted.find("/guest/web10?"), "{sort}");
    }
    let by_class = page(&server, "/?filter=db", &cookie);
    assert_eq!(by_class.matches("data-key=").count(), GUESTS / 2);
}

#[test]
fn budget_is_shown_on_the_page_and_in_its_events() {
    let server = start(false);
    let cookie = server.enter();
    let named = "Budget 480 MiB, 7 free in it; host 24576 MiB, 12288 available";
    let body = page(&server, "/", &cookie);
    assert!(body.contains(&format!("<span data-now=\"budget\">{named}</span>")), "{body}");
    let mut stream = server.connect();
    let ask = format!("GET /events HTTP/1.1\r\nHost: {}\r\n{cookie}\r\n", server.address);
    stream.write_all(ask.as_bytes()).expect("it is taken");
    let (mut text, mut bytes) = (String::new(), [0; 4_096]);
    while !text.contains(&format!("\"budget\":\"{named}\"")) {
        let count = stream.read(&mut bytes).expect("news");
        assert!(count > 0, "the news have ended: {text}");
        text.push_str(&String::from_utf8_lossy(&bytes[..count]));
    }
}

#[test]
fn page_without_live_data_shows_the_reason_once() {
    let server = start_silent();
    let cookie = server.enter();
    for path in ["/", "/guest/web9"] {
        let body = page(&server, path, &cookie);
        assert_eq!(body.matches("There is no manager to query").count(), 1, "{body}");
        assert!(body.contains("role=\"status\">Not live</span>"), "{body}");
    }
    let live = start(false);
    let body = page(&live, "/", &live.enter());
    assert!(body.contains("role=\"status\" hidden") && body.contains(">Live</span>"), "{body}");
}

#[test]
fn live_data_and_recordings_share_a_page() {
    let server = start(false);
    let cookie = server.enter();
    let now = page(&server, "/guest/web9", &cookie);
    assert!(now.contains("data-events=\"/events?guest=web9\"") && now.contains(">running<"));
    let past =
        page(&server, "/guest/web9?from=2026-11-21T10:00:00Z&to=2026-11-21T11:00:00Z", &cookie);
    assert!(!past.contains("data-events") && past.contains("Recorded"));
    for body in [&now, &past] {
        assert!(body.contains("Memory, MiB: limit, actual, used, on the host"));
        assert!(body.contains("/report/STATE?"), "a guest's page links to its reports");
        assert!(body.contains("data-place=\"/guest/web9\""));
    }
    // Each minute of a chart links to its own page.
    assert!(past.contains("/guest/web9?from=2026-11-21T10:05:00Z&amp;to=2026-11-21T10:06:00Z"));
    let minute =
        page(&server, "/guest/web9?from=2026-11-21T10:05:00Z&to=2026-11-21T10:06:00Z", &cookie);
    assert!(minute.contains(
        "/report/PROC?from=2026-11-21T10:05:00Z&amp;to=2026-11-21T10:06:00Z&amp;guest=web9"
    ));
}

#[test]
fn live_values_are_shown_without_recordings() {
    let server = start(false);
    let cookie = server.enter();
    // The generated recordings begin on 2026-11-21, so the days before have no data.
    let body = page(&server, "/?last=300d", &cookie);
    assert!(body.contains("There are no recordings in /var/lib/pinhead/recordings"));
    assert_eq!(body.matches("data-key=").count(), GUESTS);
    let past = server.get("/?from=2026-01-01&to=2026-01-02", &cookie);
    assert_eq!(past.status, 503);
    assert!(past.body.contains("There are no recordings"));
}

#[test]
fn every_report_is_a_page_and_csv_and_json() {
    let server = start(false);
    let cookie = server.enter();
    for report in reports::REPORTS {
        let time = "from=2026-11-21T10:00:00Z&to=2026-11-21T10:10:00Z";
        let body = page(&server, &format!("/report/{}?{time}", report.name), &cookie);
        assert!(body.contains(&base::html::escaped(report.title)), "{}", report.name);
        let csv = server.get(&format!("/report/{}.csv?{time}", report.name), &cookie);
        assert_eq!(
            (csv.status, csv.heads["content-type"].as_str()),
            (200, "text/csv; charset=utf-8")
        );
        let json = server.get(&format!("/report/{}.json?{time}", report.name), &cookie);
        serde_json::from_str::<serde_json::Value>(&json.body).unwrap_or_else(|e| panic!("{e}"));
    }
    let list = page(&server, "/reports", &cookie);
    assert!(reports::REPORTS.iter().all(|report| list.contains(report.name)));
    // The old name of a report leads to the first of the two reports that replaced it.
    assert!(
        page(&server, "/report/ESAUSR2?from=2026-11-21T10:00:00Z&to=2026-11-21T10:10:00Z", &cookie)
            .contains("GUEST")
    );
}

#[test]
fn report_of_what_is_not_recorded_is_missing_with_the_reason() {
    let server = start(false);
    let cookie = server.enter();
    let time = "from=2026-11-21T10:00:00Z&to=2026-11-21T10:10:00Z";
    let missing = |query: &str| {
        for form in ["", ".csv", ".json"] {
            let path = format!("/report/GUEST1{form}?{time}&{query}");
            assert_eq!(server.get(&path, &cookie).status, 404, "{path}");
        }
        server.get(&format!("/report/GUEST1?{time}&{query}"), &cookie).body
    };
    let body = missing("class=nosuch");
    assert!(body.contains("No guest's name or class matches nosuch."), "{body}");
    let body = missing("guest=web");
    assert!(body.contains("No guest is called web. Similar names: web"), "a class: {body}");
    assert!(missing("guest=web*").contains("No guest is called web*."), "a name is no pattern");
    let both = server.get(&format!("/report/GUEST1?{time}&guest=web7&class=db"), &cookie);
    assert_eq!(both.status, 400, "{both:?}");
    // The form and the links keep the guest.
    let body = page(&server, &format!("/report/GUEST1?{time}&guest=web7&top=9"), &cookie);
    assert!(body.contains("<input name=\"guest\" value=\"web7\">"), "{body}");
    assert!(body.contains("/report/GUEST1.csv?") && body.contains("&amp;guest=web7&amp;top=9"));
    assert!(body.contains(">web7<") && !body.contains(">web70<"), "{body}");
}

#[test]
fn page_is_small_and_viewers_share_manager_requests() {
    let server = start(false);
    let cookie = server.enter();
    let squeezed = format!("{cookie}Accept-Encoding: gzip\r\n");
    let sizes: Vec<usize> = ["/", "/assets/app.css", "/assets/app.js"]
        .into_iter()
        .map(|path| {
            let answer = server.get(path, &squeezed);
            assert_eq!(answer.heads["content-encoding"], "gzip", "{path}");
            answer.heads["content-length"].parse().expect("a length")
        })
        .collect();
    println!("compressed: page {}, style {}, script {} bytes", sizes[0], sizes[1], sizes[2]);
    assert!(sizes.iter().sum::<usize>() <= 100_000, "{sizes:?}");
    // Ten viewers cause no more requests to the manager than one.
    let before = server.asked.load(Ordering::Relaxed);
    let mut watchers: Vec<_> = (0..10)
        .map(|_| {
            let mut stream = server.connect();
            let host = server.address;
            let ask = format!("GET /events HTTP/1.1\r\nHost: {host}\r\n{cookie}\r\n");
            stream.write_all(ask.as_bytes()).expect("it is taken");
            stream
        })
        .collect();
    for stream in &mut watchers {
        let (mut text, mut bytes) = (String::new(), [0; 4_096]);
        while text.matches("data: ").count() < 3 {
            let count = stream.read(&mut bytes).expect("news");
            assert!(count > 0, "the news have ended: {text}");
            text.push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
        let first = text.find("\"9\":{").expect("the first event contains all values");
        assert!(
            !text[first..].split("data: ").nth(1).is_some_and(|next| next.contains("\"9\":{")),
            "later events contain only changed values"
        );
    }
    let asked = server.asked.load(Ordering::Relaxed) - before;
    assert!((2..=10).contains(&asked), "{asked} requests for ten viewers in three seconds");
}

#[test]
fn a_page_of_many_guests_shows_the_busiest_and_links_to_all() {
    let server = start_recorded(300);
    let cookie = server.enter();
    let body = page(&server, "/", &cookie);
    let rows = |body: &str| body.matches("data-names=").count();
    assert_eq!(rows(&body), 250);
    assert!(body.contains("/guest/web299?") && !body.contains("/guest/web1?"), "{body}");
    assert!(body.contains("50 more guests follow") && !body.contains("data-whole"), "{body}");
    let all = page(&server, "/?rows=all", &cookie);
    assert_eq!(rows(&all), 300);
    assert!(all.contains("data-whole") && !all.contains(" more guests follow"), "{all}");
}

#[test]
fn single_guest_is_counted_in_the_singular() {
    for (guests, words) in [(1, ">1 guest<"), (251, "1 more guest follows in this order")] {
        let server = start_recorded(guests);
        let body = page(&server, "/", &server.enter());
        assert!(body.contains(words), "{guests}: {body}");
    }
}

#[test]
fn suggested_commands_fit_the_sources_of_the_guests() {
    let server = start(false);
    let body = page(&server, "/tune", &server.enter());
    let has = |part: &str| assert!(body.contains(part), "{part}: {body}");
    has("<code>virsh setmaxmem --domain web5 512M --config ");
    has("<code># memory = &quot;512 MiB&quot; for web1 in FARM.toml, ");
}

#[test]
fn a_farm_shows_the_progress_of_its_start_and_its_guests() {
    let server = start(false);
    let body = page(&server, "/farms", &server.enter());
    assert!(body.contains("<h2>example</h2>") && body.contains("1 of 3 have answered"), "{body}");
    assert!(body.contains("process 7"));
    let row = |name: &str| {
        let row = body.split("<tr>").find(|row| row.contains(name));
        row.unwrap_or_else(|| panic!("no row of {name}")).to_owned()
    };
    let web1 = row(">web1<");
    assert!(web1.contains("href=\"/guest/web1\"") && web1.contains(">up<"), "{web1}");
    assert!(web1.contains("10.1.0.1, 127.0.0.1:18000 is 80") && web1.contains(">0.2<"), "{web1}");
    assert!(row("&lt;b&gt;x").contains(">starting<"), "the name is escaped");
    assert!(row(">web2<").contains("ended: QEMU ended"));
    assert!(
        body.contains("A farm does not respond: other: it hangs"),
        "a farm that hangs is shown"
    );
    assert!(body.contains("data-again=\"5\""), "it is kept up to date");
    let other = start_recorded(3);
    assert_eq!(other.get("/farms", &other.enter()).status, 404, "the pages are of another host");
}
