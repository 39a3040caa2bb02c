//! Parked guests under KVM. Only their clock is affected, and their daemon sets the clock.

use e2e::kvm_host::{FILLED_MIB, KvmHost, LV1};

/// Maximum error of a guest's clock after its daemon has set the clock, in seconds.
const CLOCK_S: f64 = 1.0;
/// Command that sets the host's clock forward by an hour.
const HOUR: &str = "date -s \"$(date -d '+1 hour')\"";

/// Command that prints the host's uptime in seconds.
const UPTIME: &str = "cut -d ' ' -f 1 /proc/uptime";

/// Returns a shell line that succeeds if the process of a guest is stopped. A farm stops the QEMU
/// of a parked guest.
fn stopped(guest: &str) -> String {
    format!("grep -q '^State:.T' /proc/$(pgrep -f guest={guest},)/status")
}

fn seconds(text: &str) -> Vec<f64> {
    text.lines().filter_map(|line| line.split_whitespace().next_back()?.parse().ok()).collect()
}

/// Reads the clock of a farm's guest until a read takes less than half a second. Returns the
/// maximum error of the clock.
fn clock_error_s(host: &mut KvmHost, guest: &str) -> f64 {
    let look = format!(
        "date +%s.%N; pinhead exec {guest} -- sh -c \"busybox adjtimex\" | \
         awk '/sec:/ {{ n[i++] = $2 }} END {{ printf \"%d.%06d\\n\", n[0], n[1] }}'; date +%s.%N"
    );
    let mut best = f64::INFINITY;
    for _ in 0..10 {
        let text = host.sh(&look);
        let [before, guest, after] = seconds(&text)[..] else { panic!("{text}") };
        let error = (guest - before).abs().max((guest - after).abs());
        println!("clock {guest} within {before} to {after}");
        best = best.min(error);
        if best <= CLOCK_S {
            break;
        }
    }
    best
}

/// Starts nginx with TLS and a new key in a guest, and begins a client's session with nginx. The
/// client sends the contents of /srv/tls.in, and writes the responses to /srv/tls.log.
fn begin_tls(host: &mut KvmHost) {
    host.sh("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 \
         -subj /CN=web -keyout /srv/key.pem -out /srv/cert.pem 2> /dev/null; \
         cat /srv/key.pem /srv/cert.pem > /srv/tls.pem");
    host.write(
        "/srv/tls.conf",
        "user nobody nogroup; pid /run/tls.pid; error_log stderr crit;\n\
         events { worker_connections 32; }\n\
         http { access_log off; client_body_temp_path /run/tls-body;\n\
         proxy_temp_path /run/tls-proxy; fastcgi_temp_path /run/tls-fastcgi;\n\
         uwsgi_temp_path /run/tls-uwsgi; scgi_temp_path /run/tls-scgi;\n\
         server { listen 443 ssl; ssl_certificate /run/tls.pem;\n\
         ssl_certificate_key /run/tls.pem; root /var/www; } }\n",
    );
    for file in ["tls.pem", "tls.conf"] {
        let text = format!("$(base64 -w 0 /srv/{file})");
        host.sh(&format!(
            "pinhead exec web1 -- sh -c \"echo {text} | busybox base64 -d > /run/{file}\""
        ));
    }
    host.sh("pinhead exec web1 -- sh -c 'nginx -c /run/tls.conf < /dev/null > /run/tls.log 2>&1'");
    host.sh("mkfifo /srv/tls.in");
    host.spawn("hold", "exec sleep 100000 > /srv/tls.in");
    host.spawn("tls", "exec openssl s_client -quiet -connect 127.0.0.1:8443 < /srv/tls.in");
}

/// Requests a page in the TLS session, and waits until the session has received this many
/// responses.
fn ask_tls(host: &mut KvmHost, answers: u32) {
    host.sh("printf 'GET /page.html HTTP/1.1\\r\\nHost: web\\r\\n\\r\\n' > /srv/tls.in");
    host.until(&format!("[ $(grep -a -o 'HTTP/1.1 200' /srv/tls.log | wc -l) = {answers} ]"));
}

/// A parked guest of a farm wakes for its clients. A TLS session survives an hour in which the
/// guest is parked. The guest's clock is right afterwards.
///
/// The hour is simulated: the host's clock is set forward while the guest is parked. The guest's
/// clock is then an hour late until its daemon sets the clock. This test covers neither cron nor an
/// hour in which the guest's time stamp counter runs. An idle guest needs so much CPU time here
/// that its farm never parks it without a request.
#[test]
fn parked_guest_wakes_for_clients_with_its_clock() {
    let mut host = KvmHost::installed();
    host.sh(&format!("virsh -q destroy {LV1}"));
    host.write(
        "/srv/farm.toml",
        "[[class]]\nname = \"web\"\nimage = \"web\"\nmemory = \"128 MiB\"\n\
         park_with_connections = true\n\
         ports = [{ guest = 80, host = 8080 }, { guest = 443, host = 8443, probe = \"none\" }]\n",
    );
    host.spawn("up", "pinhead up --no-manager /srv/farm.toml");
    host.until("pinhead exec web1 -- true");
    assert!(!host.sh("cat /srv/up.log").contains("emulat"), "it runs on KVM");

    // A parked guest executes nothing, and its session stays open.
    begin_tls(&mut host);
    ask_tls(&mut host, 1);
    host.until("pinhead park web1");
    host.until(&stopped("web1"));
    let ticks = host.guest_ticks("web1");
    host.sh("sleep 15");
    assert_eq!(host.guest_ticks("web1"), ticks, "guest time of a parked guest");
    host.sh(&stopped("web1"));
    // A client's first packet wakes the guest.
    let page = host.sh("curl -s -S -m 60 http://127.0.0.1:8080/page.html | wc -c");
    assert_eq!(page.trim(), "27648", "the page that wakes it");
    ask_tls(&mut host, 2);

    // The guest stays parked for an hour of the host's clock.
    host.until("pinhead park web1");
    host.until(&stopped("web1"));
    host.sh(HOUR);
    ask_tls(&mut host, 3);
    let error = clock_error_s(&mut host, "web1");
    println!("the clock is wrong by {error:.3} s at most");
    assert!(error <= CLOCK_S, "{error} s");
    let bad = "soft lockup|detected stall|arking clocksource|blocked for more than";
    let (_, log) = host.run(&format!("pinhead exec web1 -- dmesg | grep -E '{bad}'"));
    assert!(log.is_empty(), "{log}");
    ask_tls(&mut host, 4);
    host.is_sound();
}

/// Waits for the next number that a domain prints on its console. Returns the number, and the
/// output of a command line that the host's shell runs directly afterwards.
fn says(host: &mut KvmHost, word: &str, here: &str) -> (f64, f64) {
    let file = format!("/srv/{LV1}.console");
    let line = format!(
        "n=$(grep -c ^{word} {file}); \
         while [ $(grep -c ^{word} {file}) = $n ]; do sleep 0.1; done; \
         grep ^{word} {file} | tail -n 1; {here}"
    );
    let text = host.sh(&line);
    let [guest, here] = seconds(&text)[..] else { panic!("{text}") };
    (guest, here)
}

/// Returns the huge pages behind a guest's memory, in MiB.
fn huge_mib(host: &mut KvmHost) -> u64 {
    let line = "awk '/^AnonHugePages/ { print int($2 / 1024) }'";
    host.number(&format!("{line} /proc/$(pgrep -f guest={LV1},)/smaps_rollup"))
}

/// A parked domain does not run. libvirt reports the domain as paused only while it is parked, even
/// if the manager ends. Page-out splits the domain's huge pages, and the kernel rebuilds them when
/// the pages return. The domain's data is intact, its kvm-clock does not count the parked time, and
/// its daemon sets its clock. The hour is simulated, as in the test of a farm's guest.
#[test]
fn parked_domain_of_libvirt_stands_still_and_runs_again() {
    let mut host = KvmHost::installed();
    host.has_swap();
    // By default the kernel searches for huge pages every 10 s, in 16 MiB of addresses.
    let khugepaged = "/sys/kernel/mm/transparent_hugepage/khugepaged";
    host.sh(&format!(
        "cd {khugepaged} && echo 100 > scan_sleep_millisecs && echo 65536 > pages_to_scan"
    ));
    host.has_numbers(LV1);
    let sum = host.sum(LV1);
    let before = huge_mib(&mut host);
    let then = says(&mut host, "uptime", UPTIME);
    assert!(host.guest_ticks(LV1) > 0, "the guest has run");
    host.until(&format!("pinhead park {LV1}"));
    let state = format!("virsh domstate {LV1}");
    assert_eq!(host.sh(&state).trim(), "paused");
    let ticks = host.guest_ticks(LV1);
    host.sh("sleep 15");
    assert_eq!(host.guest_ticks(LV1), ticks, "guest time of a parked domain");
    host.until(&format!("pinhead ps | grep -E '^{LV1} +parked '"));
    host.until(&format!(
        "awk '/^VmSwap/ {{ exit $2 < 24000 }}' /proc/$(pgrep -f guest={LV1},)/status"
    ));
    let parked = huge_mib(&mut host);
    host.sh(HOUR);
    host.sh(&format!("pinhead wake {LV1}"));
    assert_eq!(host.sh(&state).trim(), "running");
    let woken = huge_mib(&mut host);

    // The first value may have been printed before the guest was parked, so only the second value
    // counts.
    says(&mut host, "clock", "date +%s.%N");
    let (guest, here) = says(&mut host, "clock", "date +%s.%N");
    println!("its clock says {guest}, the host's {here} a moment later");
    assert!((guest - here).abs() <= CLOCK_S, "{guest} in the guest, {here} on the host");
    let now = says(&mut host, "uptime", UPTIME);
    let (guest_s, host_s) = (now.0 - then.0, now.1 - then.1);
    println!("{host_s:.1} s on the host were {guest_s:.1} s in the guest");
    assert!(guest_s + 14.0 <= host_s, "{guest_s} s in the guest, {host_s} s on the host");
    host.sh(&format!("grep -x -a 'kvm-clock.*' /srv/{LV1}.console"));

    assert_eq!(host.sum(LV1), sum, "its data");
    println!("huge pages: {before} MiB, {parked} MiB parked, {woken} MiB woken");
    assert!(parked * 4 <= before, "{before} MiB and then {parked} MiB in huge pages");
    let line = format!("awk '/^AnonHugePages/ {{ exit $2 < {} }}'", (woken + FILLED_MIB / 4) << 10);
    host.until(&format!("{line} /proc/$(pgrep -f guest={LV1},)/smaps_rollup"));
    println!("and {} MiB a while after", huge_mib(&mut host));

    // The manager's end resumes the domain.
    host.until(&format!("pinhead park {LV1}"));
    assert_eq!(host.sh(&state).trim(), "paused");
    host.sh("systemctl stop pinhead-host");
    host.until(&format!("{state} | grep -x running"));
    assert_eq!(host.sum(LV1), sum, "its data");
    host.is_sound();
}
