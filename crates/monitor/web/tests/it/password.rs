//! Login with a password, and TLS.

use crate::browser::{Response, Server, read, start, start_guarded};
use crate::socket::Dir;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::sync::Arc;
use web::{Certificate, Settings};

pub const PASSWORD: &str = "correct horse";
/// A key that does not belong to the certificate.
const OTHER_KEY: &str = "\
-----BEGIN PRIVATE KEY-----\n\
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgHg/ze9COK7de0j4s\n\
YbndSl95+HPWCPV8OGUJsFa/1MShRANCAARc0fxtQF2cW9aHnpa4FpstcGxyYmBs\n\
Q2nJbSLnKRnrk3bONhcdYCyTOPb2bVmvOmOxWXSTYp+qth4yUpwxB7p+\n\
-----END PRIVATE KEY-----\n";

pub fn guarded(dir: &Dir, certificate: Option<Certificate>) -> Server {
    let path = dir.0.join("password");
    web::write_password(&path, PASSWORD).expect("it is written");
    start_guarded(&path, certificate)
}

pub fn cookie_of(answer: &Response) -> String {
    assert_eq!(answer.status, 303, "{answer:?}");
    let cookie = answer.heads["set-cookie"].split(';').next().expect("a cookie");
    format!("Cookie: {cookie}\r\n")
}

#[test]
fn password_opens_requested_page_and_wrong_one_does_not() {
    let dir = Dir::new("password");
    let server = guarded(&dir, None);
    let own = format!("Origin: http://{}\r\n", server.address);
    let log_in = |form: &str| server.post("/login", &own, form);
    let asked = server.get("/report/MAIN?last=6h", "");
    assert_eq!(asked.status, 401);
    assert!(asked.body.contains("value=\"/report/MAIN?last=6h\""), "{}", asked.body);
    let wrong = log_in("password=correct+house&to=%2Freports");
    assert_eq!(wrong.status, 403);
    assert!(wrong.body.contains("The password is wrong"), "{}", wrong.body);
    let right = log_in("password=correct+horse&to=%2Freports");
    assert_eq!(right.heads["location"], "/reports");
    let cookie = cookie_of(&right);
    assert_eq!(server.get("/reports", &cookie).status, 200);
    for (to, leads) in [("http://evil.example/x", "/"), ("//evil.example/x", "/evil.example/x")] {
        let to = to.replace('/', "%2F").replace(':', "%3A");
        let answer = log_in(&format!("password=correct+horse&to={to}"));
        assert_eq!(answer.heads["location"], leads, "never another host");
    }
    // The requests are from a page of another site, and from a form of another session.
    let foreign = "Origin: http://evil.example\r\n";
    assert_eq!(server.post("/login", foreign, "password=correct+horse").status, 403);
    let out = |form: &str| server.post("/logout", &format!("{own}{cookie}"), form);
    assert_eq!(out("form_key=").status, 403);
    let about = server.get("/about", &cookie).body;
    let key = about.split("name=\"form_key\" value=\"").nth(1).and_then(|rest| rest.get(..64));
    assert_eq!(out(&format!("form_key={}", key.expect("a form"))).status, 303);
    assert_eq!(server.get("/reports", &cookie).status, 401, "the session has ended");
}

#[test]
fn tries_of_passwords_are_limited() {
    let dir = Dir::new("tries");
    let server = guarded(&dir, None);
    let own = format!("Origin: http://{}\r\n", server.address);
    let tried: Vec<u16> = (0..8)
        .map(|number| server.post("/login", &own, &format!("password=wrong-{number}")).status)
        .collect();
    let compared = tried.iter().filter(|status| **status == 403).count();
    // A machine that needs ten seconds for these tries would allow one more.
    assert!((5..8).contains(&compared) && tried.contains(&429), "{tried:?}");
    let right = server.post("/login", &own, "password=correct+horse");
    assert_eq!(right.status, 429, "even the right password is refused then");
}

#[test]
fn finding2_08_server_with_a_password_accepts_no_token() {
    let dir = Dir::new("no-token");
    let server = guarded(&dir, None);
    assert_eq!(server.first, format!("http://{}/", server.address));
    for token in ["", "0", &"0".repeat(64)] {
        assert_eq!(server.get(&format!("/?token={token}"), "").status, 401);
    }
    server.tells_no_more();
}

#[test]
fn pages_without_a_password_refuse_every_password() {
    let server = start(false);
    let own = format!("Origin: http://{}\r\n", server.address);
    let answer = server.post("/login", &own, "password=");
    assert_eq!(answer.status, 403);
    assert!(!server.get("/", "").body.contains("type=\"password\""));
}

fn fixture(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/fixtures").join(name)
}

/// Returns the certificate with a key file that only its owner may read.
fn certificate(dir: &Dir) -> Certificate {
    let key = dir.0.join("localhost.key");
    fs::copy(fixture("localhost.key"), &key).expect("a copy");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).expect("it is ours");
    Certificate { chain: fixture("localhost.crt"), key }
}

/// Returns the reason why the pages are not served with this password and this certificate.
fn refusal(password_file: Option<&Path>, certificate: Option<Certificate>) -> String {
    let password_file = password_file.map(Path::to_owned);
    let settings = Settings { password_file, certificate, ..crate::browser::settings() };
    web::serve(settings).expect_err("a refusal").to_string()
}

#[test]
fn finding2_14_key_that_others_may_read_is_refused() {
    let dir = Dir::new("open-key");
    let certificate = certificate(&dir);
    for mode in [0o644, 0o640, 0o602] {
        let open = fs::Permissions::from_mode(mode);
        fs::set_permissions(&certificate.key, open).expect("it is ours");
        let why = refusal(None, Some(certificate.clone()));
        assert!(why.contains("localhost.key cannot be used"), "{why}");
        assert!(why.contains(&format!("mode is {mode:o}")) && why.contains("chmod 600"), "{why}");
    }
}

#[test]
fn finding2_14_secret_of_another_user_is_refused() {
    let dir = Dir::new("foreign");
    let (password, certificate) = (dir.0.join("password"), certificate(&dir));
    web::write_password(&password, PASSWORD).expect("it is written");
    for file in [&password, &certificate.key] {
        // Only root may change the owner of a file.
        if chown(file, Some(65_534), None).is_err() {
            return;
        }
    }
    let of_password = refusal(Some(&password), None);
    assert!(of_password.contains("it belongs to user 65534"), "{of_password}");
    let of_key = refusal(None, Some(certificate));
    assert!(of_key.contains("it belongs to user 65534"), "{of_key}");
}

/// Returns the response for a browser that trusts the certificate.
fn by_tls(server: &Server, request: &str) -> Response {
    let mut roots = RootCertStore::empty();
    let own = CertificateDer::from_pem_file(fixture("localhost.crt")).expect("a certificate");
    roots.add(own).expect("it is one");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("127.0.0.1").expect("a name");
    let client = ClientConnection::new(Arc::new(config), name).expect("a client");
    let mut stream: StreamOwned<ClientConnection, TcpStream> =
        StreamOwned::new(client, server.connect());
    stream.write_all(request.as_bytes()).expect("it is taken");
    read(&mut stream)
}

#[test]
fn tls_uses_the_given_certificate() {
    let dir = Dir::new("tls");
    let server = guarded(&dir, Some(certificate(&dir)));
    let host = server.address;
    assert_eq!(server.first, format!("https://{host}/"));
    let get = |path: &str, more: &str| {
        let heads = format!("Host: {host}\r\nConnection: close\r\n{more}");
        by_tls(&server, &format!("GET {path} HTTP/1.1\r\n{heads}\r\n"))
    };
    assert_eq!(get("/reports", "").status, 401);
    let form = "password=correct+horse&to=%2Freports";
    let answer = by_tls(
        &server,
        &format!(
            "POST /login HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\
             Origin: https://{host}\r\nContent-Type: application/x-www-form-urlencoded\r\n\
             Content-Length: {}\r\n\r\n{form}",
            form.len()
        ),
    );
    let cookie = cookie_of(&answer);
    assert!(answer.heads["set-cookie"].ends_with("; Secure"), "{answer:?}");
    assert_eq!(get("/reports", &cookie).status, 200);
    // Without TLS there is no response at all.
    let plain = server.get("/reports", &cookie);
    assert!(plain.status == 0 && !plain.body.contains("GUEST1"), "{plain:?}");
}

#[test]
fn public_address_or_wrong_certificate_is_refused() {
    let dir = Dir::new("refused");
    let path = dir.0.join("password");
    web::write_password(&path, PASSWORD).expect("it is written");
    let wrong = |listen: &str, password: bool, certificate: Option<Certificate>| {
        let settings = Settings {
            listen: web::Listen::parse(listen).expect("a place"),
            certificate,
            password_file: password.then(|| path.clone()),
            ..crate::browser::settings()
        };
        web::serve(settings).expect_err("a refusal").to_string()
    };
    let good = || certificate(&dir);
    let bare = wrong("0.0.0.0:0", false, None);
    assert!(bare.contains("a password file and a certificate for TLS are missing"), "{bare}");
    let no_password = wrong("0.0.0.0:0", false, Some(good()));
    assert!(no_password.contains("a password file is missing"), "{no_password}");
    let nameless = wrong("0.0.0.0:0", true, Some(good()));
    assert!(nameless.contains("--name"), "{nameless}");
    let chain = dir.0.join("localhost.crt");
    fs::copy(good().chain, &chain).expect("a copy");
    fs::set_permissions(&chain, fs::Permissions::from_mode(0o600)).expect("it is ours");
    let turned = Certificate { chain: good().key, key: chain };
    let turned = wrong("127.0.0.1:0", false, Some(turned));
    assert!(turned.contains("localhost.key cannot be used"), "{turned}");
    let another = dir.0.join("another.key");
    fs::write(&another, OTHER_KEY).expect("a file");
    fs::set_permissions(&another, fs::Permissions::from_mode(0o600)).expect("it is ours");
    let another =
        wrong("127.0.0.1:0", false, Some(Certificate { chain: good().chain, key: another }));
    assert!(another.contains("another.key is the key of this certificate"), "{another}");
    let missing = Certificate { chain: good().chain, key: dir.0.join("none") };
    let missing = wrong("127.0.0.1:0", false, Some(missing));
    assert!(missing.contains("/none cannot be used"), "{missing}");
    let plain = dir.0.join("plain");
    fs::write(&plain, PASSWORD).expect("a file");
    let error = refusal(Some(&plain), None);
    assert!(error.contains("/plain cannot be used"), "{error}");
}
