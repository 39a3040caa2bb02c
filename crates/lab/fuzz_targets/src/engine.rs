//! Target for the overview of several hosts, with all processing of a metrics server's answers.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;

use ::metrics::Url;
use ::metrics::fleet::{Glance, Loudest, Steps, glance, guest_lines, lines};
use model::{GuestField as G, HostField as H, Over};

use crate::input::texts;

const FROM_MS: i64 = 1_795_266_000_000;
const TO_MS: i64 = FROM_MS + 3_600_000;
const STEPS: Steps = Steps { from_ms: FROM_MS, to_ms: TO_MS, step_ms: 60_000 };
/// Maximum number of guests that are requested.
const MOST: usize = 3;
/// Maximum length of a query with its names.
const QUESTION_MAX: u64 = 1 << 20;

/// Answers of the metrics server, returned in this order to any queries. The number counts the
/// answers already returned.
static ANSWERS: Mutex<(Vec<Vec<u8>>, usize)> = Mutex::new((Vec::new(), 0));
/// Lock that lets one input run at a time.
static ENGINE: Mutex<()> = Mutex::new(());

/// Queries a metrics server that returns the texts of the input as answers, in this order. The
/// first byte selects the guests. The results must contain only the requested hosts, guests and
/// times.
pub(crate) fn fleet_answers(data: &[u8]) {
    let Some((first, rest)) = data.split_first() else { return };
    let Some(url) = engine() else { return };
    let _alone = ENGINE.lock().unwrap_or_else(PoisonError::into_inner);
    let answers: Vec<Vec<u8>> = texts(rest).map(<[u8]>::to_vec).collect();
    *ANSWERS.lock().unwrap_or_else(PoisonError::into_inner) = (answers, 0);
    let of_each = first & 1 == 1;
    let asked = Glance {
        from_ms: FROM_MS,
        to_ms: TO_MS,
        hosts: vec![H::User, H::Available],
        together: vec![G::VcpuRun],
        loudest: Loudest {
            most: MOST,
            of_each,
            by: vec![G::VcpuRun, G::Private],
            like: if first & 2 == 2 { "a".into() } else { String::new() },
            fields: vec![G::VcpuRun, G::Private],
        },
    };
    match glance(url, &asked) {
        Ok(fleet) => {
            let loudest: usize = fleet.hosts.values().map(|host| host.loudest.len()).sum();
            assert!(loudest <= MOST * if of_each { fleet.hosts.len() } else { 1 });
            for host in fleet.hosts.values() {
                assert!(0 <= host.first_ms && host.first_ms <= host.last_ms, "{host:?}");
                assert!(host.last_ms <= TO_MS, "{host:?}");
                assert!(host.spacing_ms() >= 0, "{host:?}");
                let covered_ms = host.over.covered_ms;
                assert!(host.loudest.iter().all(|(_, over)| over.covered_ms <= covered_ms));
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    if let Ok(found) = lines(url, STEPS, &["a", "b"], &[H::User, H::Available]) {
        assert!(found.keys().all(|host| ["a", "b"].contains(&host.as_str())));
        found.values().for_each(|steps| check(steps));
    }
    if let Ok(found) = guest_lines(url, STEPS, "a", &[G::VcpuRun, G::Private]) {
        found.values().for_each(|steps| check(steps));
    }
}

fn check<F: model::Field>(steps: &[Over<F>]) {
    assert_eq!(steps.len(), 60);
    assert!(steps.iter().all(|over| [0, 60_000].contains(&over.covered_ms)));
}

/// Returns the address of a local metrics server; `None` if this machine does not let it listen.
fn engine() -> Option<&'static Url> {
    static URL: OnceLock<Option<Url>> = OnceLock::new();
    let begin = || {
        let listener = TcpListener::bind("127.0.0.1:0").ok()?;
        let address = listener.local_addr().ok()?;
        thread::spawn(move || listener.incoming().flatten().for_each(serve));
        Url::parse(&format!("http://{address}")).ok()
    };
    URL.get_or_init(begin).as_ref()
}

/// Sends the next answer. If no answer is left, closes the client's connection.
fn serve(stream: TcpStream) {
    let mut heard = BufReader::new((&stream).take(QUESTION_MAX));
    let mut length = 0;
    let mut line = String::new();
    while heard.read_line(&mut line).is_ok_and(|count| count > 2) {
        let number = line.strip_prefix("Content-Length: ");
        length = number.and_then(|number| number.trim().parse().ok()).unwrap_or(length);
        line.clear();
    }
    let mut body = vec![0; length];
    if heard.read_exact(&mut body).is_err() {
        return;
    }
    let answer = {
        let mut answers = ANSWERS.lock().unwrap_or_else(PoisonError::into_inner);
        let (all, given) = &mut *answers;
        *given += 1;
        all.get((*given - 1) % all.len().max(1)).cloned().unwrap_or_default()
    };
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", answer.len());
    let _ = (&stream).write_all(&[head.as_bytes(), &answer].concat());
}
