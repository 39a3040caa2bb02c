//! Tests with hostile responses of a server.

use metrics::Url;
use metrics::fleet::{Steps, lines};
use model::HostField;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};

/// Starts a server that sends this response to every request.
fn engine(body: String) -> Url {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a client");
            let mut heard = Vec::new();
            // The request ends with a time in whole seconds: 60.000.
            while !heard.ends_with(b"00") {
                let mut buffer = [0; 4096];
                let count = stream.read(&mut buffer).expect("a request");
                heard.extend_from_slice(&buffer[..count]);
            }
            let answer = format!("HTTP/1.1 200 OK\r\n\r\n{body}");
            stream.write_all(answer.as_bytes()).expect("a reader");
        }
    });
    Url::parse(&format!("http://{address}")).expect("an address")
}

fn answer(hosts: impl Iterator<Item = String>) -> String {
    let series = hosts.map(|host| {
        format!(r#"{{"metric":{{"host":"{host}"}},"value":[60,"1"],"values":[[60,"1"]]}}"#)
    });
    let series: Vec<String> = series.collect();
    format!(r#"{{"status":"success","data":{{"result":[{}]}}}}"#, series.join(","))
}

#[test]
fn finding2_05_hosts_that_were_not_requested_are_dropped() {
    let url = engine(answer((0..1_000).map(|host| host.to_string())));
    let steps = Steps { from_ms: 0, to_ms: 60_000, step_ms: 60_000 };
    let found = lines(&url, steps, &["7", "none"], &[HostField::Cpus]).expect("an answer");
    assert_eq!(found.keys().collect::<Vec<_>>(), ["7"]);
    assert_eq!(found["7"][0].get(HostField::Cpus), Some(1));
}
