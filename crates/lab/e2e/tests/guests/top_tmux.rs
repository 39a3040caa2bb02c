//! `pinhead top` in a real terminal, next to a manager with a real guest, and on a recording of an
//! earlier version.

use e2e::manager::{Manager, Place, Size, wait_until};
use e2e::terminal::Terminal;
use e2e::{Host, Plan};
use std::path::Path;
use std::time::Duration;
use vm::Scratch;

const SMALL: (u16, u16) = (80, 24);
/// Escape sequence for dark text on a light background, as tmux reports it.
const INVERSE: &str = "\u{1b}[7m";

fn is_skipped() -> bool {
    let is_skipped = !e2e::is_there("tmux");
    if is_skipped {
        e2e::skipped_without("tmux");
    }
    is_skipped
}

/// A copy of a recording of version 1. A copy is needed, because a reader may write an index next
/// to a file.
struct Recording(Scratch);

impl Recording {
    fn new() -> Recording {
        let dir = e2e::scratch("top");
        let data = "../../monitor/store/tests/data/records-v1";
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join(data);
        for file in std::fs::read_dir(data).expect("the recording") {
            let path = file.expect("a file").path();
            let to = dir.join(path.file_name().expect("a name"));
            std::fs::copy(path, to).expect("copied");
        }
        Recording(dir)
    }

    fn path(&self) -> &str {
        self.0.path().to_str().expect("a path")
    }
}

fn head(screen: &str) -> &str {
    screen.lines().next().unwrap_or_default()
}

#[test]
fn keys_move_through_the_past() {
    if is_skipped() {
        return;
    }
    let recording = Recording::new();
    let command = [e2e::program(), "top", "--replay", recording.path(), "--at", "2026-11-21 14:59"];
    let terminal = Terminal::start(SMALL, &[("TZ", "UTC")], &command);
    let screen = terminal.until_shown("replay  2026-11-21 14:59:00 [1:overview]");
    assert!(screen.contains("+1 min   [ ] a step   { } ten"), "{screen}");
    assert!(terminal.painted().contains(INVERSE), "its first line stands out");
    terminal.types("2");
    let screen = terminal.until_shown("[2:guests]");
    assert!(screen.contains("web1") && screen.contains("grüße\u{fffd}"), "{screen}");
    terminal.types("]");
    terminal.until_shown("2026-11-21 15:00:00");
    terminal.types("}");
    terminal.until_shown("the recording ends here");
    terminal.types("[");
    let screen = terminal.until_shown("2026-11-21 14:59:00");
    assert!(screen.contains("[2:guests]"), "the screen stays: {screen}");
    // Only the last minute of the preceding quarter of an hour is recorded.
    terminal.types("{");
    terminal.until_shown("Nothing was recorded at this time");
    terminal.types("{");
    terminal.until_shown("the recording begins here");
    terminal.types("}]]]]");
    terminal.until_shown("2026-11-21 14:59:00");
    // One guest is selected, and values that were not recorded are shown as such.
    terminal.types("/web");
    terminal.presses("Enter");
    terminal.until("the filter", |screen| !screen.contains("grüße") && screen.contains(">web1"));
    terminal.presses("Enter");
    let screen = terminal.until_shown("GUEST    web1");
    assert!(screen.contains("a recording has only the sum of all virtual CPUs"), "{screen}");
    assert!(screen.contains("WAITS %") && screen.contains("MEMORY"), "{screen}");
    terminal.presses("Escape");
    terminal.types("4");
    terminal.until_shown("no journal next to this recording");
    terminal.types("3");
    terminal.until_shown("MEMORY OF THE HOST");
    terminal.types("?");
    terminal.until_shown("in a recording: one step back");
    terminal.types("x");
    terminal.until_shown("MEMORY OF THE HOST");
    terminal.resize((120, 40));
    terminal.until("the foot on the last line", |screen| {
        screen.lines().nth(39).is_some_and(|line| line.starts_with("+1 min"))
    });
    terminal.types("q");
    assert_eq!(terminal.end(), 0);
}

#[test]
fn without_colour_nothing_is_painted_and_mistakes_are_reported() {
    if is_skipped() {
        return;
    }
    let recording = Recording::new();
    let words = ["top", "--replay", recording.path()];
    let command = [[e2e::program()].as_slice(), &words].concat();
    for (environment, more) in [(vec![("NO_COLOR", "1")], vec![]), (vec![], vec!["--no-color"])] {
        let terminal = Terminal::start(SMALL, &environment, &[&command[..], &more].concat());
        terminal.until_shown("replay  2026-11-21 15:0");
        assert!(!terminal.painted().contains('\u{1b}'), "{:?}", terminal.painted());
    }
    // tmux loses the output of a program that ends at once, so a shell remains.
    let nowhere = vec![e2e::program(), "top", "--replay", "/nowhere/at/all"];
    let with = |more: [&'static str; 2]| [&command[..], more.as_slice()].concat();
    for (words, message) in [
        // The date is in the past, because a time without a date means today.
        (with(["--at", "2020-01-02 10:00"]), "Nothing is recorded at 2020-01-02 10:00:00"),
        (with(["--at", "noon"]), "Invalid time \"noon\": use 14:03"),
        (with(["--step", "90"]), "a multiple of 60 seconds"),
        (nowhere, "There is no /nowhere/at/all: name a directory of recordings"),
    ] {
        let mut shell = vec!["sh", "-c", "\"$@\"; echo it ended with $?; exec cat", "sh"];
        shell.extend(words);
        let terminal = Terminal::start((160, 24), &[("TZ", "UTC")], &shell);
        let screen = terminal.until_shown("it ended with 2");
        assert!(screen.contains(message), "{screen}");
    }
}

#[test]
fn live_view_shows_guests_and_decisions_in_a_terminal() {
    if is_skipped() {
        return;
    }
    let place = Place::new();
    let plan = Plan { cpus: 2, memory_mib: 192, ..Plan::holding(place.dir()) };
    let host = Host::start(&[plan]);
    let mut guest = host.guest(0);
    guest.until("the guest has settled", e2e::PATIENCE, |status| status.settled);
    guest.sh("(while :; do :; done) > /dev/null 2>&1 &");
    host.yield_to_manager();
    let size = Size::with_free(&host, 1, 512);
    let manager = Manager::start(&place, &place.settings(&size, ""));
    manager.knows(1);

    let socket = place.socket();
    let socket = socket.to_str().expect("a path");
    let terminal =
        Terminal::start(SMALL, &[("TZ", "UTC")], &[e2e::program(), "top", "--socket", socket]);
    let screen = terminal.until_shown("Guests   1: 1 running");
    assert!(screen.contains("[1:overview]") && screen.contains("CPU      "), "{screen}");
    let then = head(&screen).to_owned();
    terminal.until("the next second", |screen| head(screen) != then);

    terminal.types("2");
    terminal.until("a busy guest", |screen| {
        let row = screen.lines().find(|line| line.starts_with(">g1")).unwrap_or_default();
        row.split_whitespace().nth(2).and_then(|cpu| cpu.parse::<f64>().ok()) > Some(5.0)
    });
    terminal.types("s");
    terminal.until_shown("*STL%");
    terminal.types("r");
    terminal.until_shown("^STL%");
    terminal.types("/other");
    terminal.presses("Enter");
    terminal.until_shown("no guest matches the filter");
    terminal.presses("Escape");
    terminal.until_shown(">g1");

    // Keys act on the marked guest: they show its decisions, and fix its size until the next key.
    terminal.types("w");
    terminal.until_shown("pinhead  decisions about g1");
    terminal.presses("Escape");
    terminal.until_shown("i pin");
    terminal.types("i");
    terminal.until_shown("Fix the memory of g1 at: ");
    terminal.presses("Enter");
    terminal.until_shown("g1: pinned to ");
    terminal.types("k");
    terminal.until_shown("i unpin");
    terminal.types("i");
    terminal.until_shown("g1: managed, min ");
    terminal.types("k");

    // The guest has two virtual CPUs, and one of them is busy.
    terminal.presses("Enter");
    terminal.until_shown("GUEST    g1");
    terminal.until("a virtual CPU that runs", |screen| {
        let line = screen.lines().find(|line| line.starts_with("run+stl%")).unwrap_or_default();
        let runs = line.split_whitespace().filter_map(|word| word.split_once('+')?.0.parse().ok());
        runs.fold(0.0, f64::max) > 5.0
    });
    let screen = terminal.screen();
    assert!(screen.contains("2 vCPUs") && screen.contains("daemon"), "{screen}");
    // The manager records nothing, so it does not request tasks from the daemons.
    assert!(screen.contains("two reports are needed") || screen.contains("WAKER"), "{screen}");

    // A frozen screen does not change until it is resumed.
    terminal.types(" ");
    let frozen = head(&terminal.until_shown("FROZEN")).to_owned();
    let moved = wait_until(Duration::from_secs(3), || head(&terminal.screen()) != frozen);
    assert!(moved.is_none(), "{frozen}\n{}", terminal.screen());
    terminal.types(" ");
    terminal.until("the screen is resumed", |screen| !head(screen).contains("FROZEN"));

    // A decision is shown as it happens.
    terminal.types("4");
    terminal.until_shown("ACTION, AND REASON");
    manager.succeed(&["set", "g1", "pin", "160 MiB"]);
    terminal.until("the inputs of decisions", |screen| {
        let of_it = |line: &str| line.contains(" g1 ") && line.contains("160");
        screen.lines().skip(2).any(of_it)
    });
    terminal.types("3");
    terminal.until_shown("MEMORY OF THE HOST");

    // After the manager's end, an error is shown and the last known values stay.
    drop(manager);
    terminal.until("trouble", |screen| screen.lines().last().is_some_and(|l| l.starts_with('!')));
    terminal.types("q");
    assert_eq!(terminal.end(), 0);
}
