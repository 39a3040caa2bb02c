//! PostgreSQL of a farm: its password is distributed to the guests, and it refuses clients without
//! the password.

#![allow(clippy::unwrap_used, reason = "clippy.toml allows it in tests, not in their helpers")]

use e2e::PATIENCE;
use e2e::farms::{Farm, text};
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use vm::Deadline;

const DB_PORT: u16 = 27300;
const APP_PORT: u16 = 27301;
const FILE: &str = "/run/pinhead/database-password";

fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Returns PostgreSQL's first response to a user over the forwarded port: the type byte, and the
/// text.
fn first_answer(user: &str) -> (u8, String) {
    let words = format!("user\0{user}\0database\0pinhead\0\0");
    let mut message = u32::try_from(words.len() + 8).unwrap().to_be_bytes().to_vec();
    message.extend([0, 3, 0, 0]);
    message.extend(words.as_bytes());
    let mut stream = connect(DB_PORT);
    stream.write_all(&message).unwrap();
    let mut head = [0; 5];
    stream.read_exact(&mut head).unwrap();
    let length = u32::from_be_bytes(head[1..].try_into().unwrap()) as usize;
    let mut body = vec![0; length - 4];
    stream.read_exact(&mut body).unwrap();
    (head[0], String::from_utf8_lossy(&body).into_owned())
}

/// Returns the application's page. The page is built from the database.
fn app_page() -> String {
    let mut stream = connect(APP_PORT);
    stream.write_all(b"GET /app HTTP/1.0\r\n\r\n").unwrap();
    let mut page = Vec::new();
    // A rebooting guest breaks the connection.
    let _ = stream.read_to_end(&mut page);
    text(&page)
}

/// Python program that queries the database. The password is given as an expression.
const ASK: [&str; 9] = [
    "import psycopg2, sys",
    "try:",
    " session = psycopg2.connect(host=\"db\", dbname=\"pinhead\", user=\"pinhead\",",
    "                            password=eval(sys.argv[1]), connect_timeout=60)",
    " cursor = session.cursor()",
    " cursor.execute(\"SELECT count(*) FROM pgbench_accounts\")",
    " print(\"accounts\", cursor.fetchone()[0])",
    "except psycopg2.Error as error:",
    " print(\"refused\", str(error).strip())",
];

/// Queries the database from a guest with this password, and returns the output.
fn ask_from(farm: &Farm, guest: &str, password: &str) -> String {
    let lines = ASK.map(|line| format!("'{line}'")).join(" ");
    let script = format!("printf '%s\\n' {lines} > /run/ask.py; python3 /run/ask.py '{password}'");
    let told = farm.succeed(&["exec", &farm.guest(guest), "--", "sh", "-c", &script]);
    println!("{guest} asks with {password}: {}", told.trim());
    told
}

#[test]
fn finding_02_the_database_refuses_without_its_password() {
    let farm = Farm::new(
        "database",
        "[[class]]\nname = 'db'\nimage = 'debian-postgres'\nmemory = '160 MiB'\n\
         ports = [{ guest = 5432, host = 27300 }]\n\
         [[class]]\nname = 'app'\nimage = 'debian-app'\nmemory = '192 MiB'\n\
         args = ['pinhead.db=db:5432']\nlinks = [{ to = 'db', port = 5432 }]\n\
         ports = [{ guest = 8000, host = 27301 }]\n",
        e2e::alone(),
    );
    farm.succeed(&["up", &farm.file(), "--detach"]);

    // Any user of the host may connect to the forwarded port.
    for user in ["postgres", "pinhead"] {
        let (letter, words) = first_answer(user);
        println!("the host asks as {user}: {} {words:?}", char::from(letter));
        match user {
            "postgres" => assert_eq!(letter, b'E', "the superuser is refused: {words}"),
            _ => assert!(letter == b'R' && words.contains("SCRAM-SHA-256"), "{words}"),
        }
    }
    let shown = |guest: &str, line: &str| {
        farm.succeed(&["exec", &farm.guest(guest), "--", "sh", "-c", line]).trim().to_owned()
    };
    let password = shown("app1", &format!("cat {FILE}"));
    assert_eq!(password.len(), 32, "{password}");
    for wrong in ["None", "\"wrong\"", "\"\""] {
        assert!(ask_from(&farm, "app1", wrong).starts_with("refused"), "{wrong}");
    }
    let own = format!("open(\"{FILE}\").read().strip()");
    assert_eq!(ask_from(&farm, "app1", &own).trim(), "accounts 200000");
    let page = app_page();
    assert!(page.contains("<td>account</td>"), "{page}");

    // Only the application can read the password in its guest, and no command line contains the
    // password.
    let stat = format!("stat -c '%a %U' {FILE}");
    assert_eq!(shown("app1", &stat), "600 www-data");
    assert_eq!(shown("db1", &stat), "600 root");
    let nobody = format!("setpriv --reuid=65534 --regid=65534 --clear-groups cat {FILE} 2>&1; :");
    assert!(shown("app1", &nobody).contains("Permission denied"));
    // The pattern comes from a file, so that the command line of the search does not match the
    // pattern.
    let search = format!("cat /proc/[0-9]*/cmdline /proc/cmdline | grep -a -c -f {FILE}; :");
    for guest in ["app1", "db1"] {
        assert_eq!(shown(guest, &search), "0", "{guest}");
    }
    for process in fs::read_dir("/proc").unwrap().flatten() {
        let words = fs::read(process.path().join("cmdline")).unwrap_or_default();
        assert!(!text(&words).contains(&password), "{}", process.path().display());
    }

    // The table was vacuumed when the image was made. Otherwise each guest would vacuum the table
    // in its first minutes.
    let rows = "SELECT n_mod_since_analyze < 100 AND n_ins_since_vacuum = 0 \
                FROM pg_stat_user_tables WHERE relname = 'pgbench_accounts'";
    let is_rested = format!(
        "PGPASSWORD=$(cat {FILE}) /usr/lib/postgresql/*/bin/psql -h 127.0.0.1 -U pinhead \
         -At -c \"{rows}\" pinhead"
    );
    assert_eq!(shown("db1", &is_rested), "t");

    // A guest receives the password again after a restart.
    let _ = farm.run(&["exec", &farm.guest("app1"), "--", "sh", "-c", "reboot -f; sleep 600"]);
    let clock = Deadline::after(PATIENCE);
    while !app_page().contains("<td>account</td>") {
        assert!(clock.remaining().is_some(), "the guest has no password: {}", app_page());
    }
}
