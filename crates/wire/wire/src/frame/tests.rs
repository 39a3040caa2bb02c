//! Frames of all messages: whole, cut and broken.

use super::*;
use crate::file::File;
use crate::identity::{Addresses, Identity};
use crate::memory::Memory;
use crate::processes::{Processes, Scan, Task, TaskKind, Totals};
use crate::system::System;
use crate::table::{ToGuest, ToHost};
use crate::to_guest::{AskAlarm, AtHost, Capture, Grant, Sample, Welcome};
use crate::to_host::{
    Alarm, CameFrom, Chunk, Hello, Identified, PoolKind, PoolRequest, Pressure, Status,
};
use crate::{MAX_CHUNK, MAX_TEXT};

/// The frames of version 1, as the first release wrote them, because daemons and hosts of any age
/// must understand each other.
const VERSION_1: &str = include_str!("version-1.txt");

fn from_guest() -> Vec<ToHost> {
    let n = |n: u64| Some(n * 0x0101);
    vec![
        ToHost::Hello(Hello {
            boot_id: std::array::from_fn(|at| at as u8),
            cpus_present: 4,
            update_ms: 1000,
            pool: PoolKind::Host,
            reply: true,
            version: "0.1.0".into(),
        }),
        ToHost::Status(Status {
            sequence: 1,
            cpus_online: 2,
            cpus_present: 3,
            pool_pages: 4,
            mem_total_kib: 5,
            mem_free_kib: 6,
            mem_available_kib: 7,
            busy_ticks: 8,
            idle_ticks: 9,
            steal_ticks: 10,
            plugs: 11,
            unplugs: 12,
            grows: 13,
            shrinks: 14,
            settled: true,
            reason: "HOTUNPLUG: one CPU less".into(),
        }),
        ToHost::PoolRequest(PoolRequest { sequence: 1, pages: 4096 }),
        ToHost::Need(Pressure::Memory),
        ToHost::Chunk(Chunk {
            sequence: 9,
            file: File::Vmstat,
            offset: 4096,
            last: true,
            bytes: b"pswpin 1\n".to_vec(),
        }),
        ToHost::Bye,
        ToHost::Memory(Memory {
            sequence: 5,
            uptime_ms: 86_400_000,
            total_kib: n(1),
            free_kib: n(2),
            available_kib: n(3),
            cached_kib: n(4),
            active_file_kib: n(5),
            inactive_file_kib: n(6),
            anon_kib: n(7),
            swap_total_kib: n(8),
            swap_free_kib: n(9),
            swap_in_pages: n(10),
            swap_out_pages: n(11),
            refault_file: n(12),
            refault_anon: n(13),
            stalls: n(14),
            oom_kills: n(15),
            major_faults: n(16),
            psi_some_us: n(17),
            psi_full_us: None,
        }),
        ToHost::Processes(Processes {
            sequence: 6,
            previous: 5,
            part: 1,
            last: true,
            totals: Totals {
                uptime_ms: n(1),
                dispatches: n(2),
                run_ns: n(3),
                context_switches: n(4),
                forks: n(5),
                interrupts: n(6),
                soft_interrupts: n(7),
                timers: n(8),
                busy_ticks: n(9),
                interrupt_ticks: n(10),
                steal_ticks: n(11),
                tasks: n(12),
                cpus: n(13),
                rest_dispatches: n(14),
                scan_us: None,
            },
            tasks: vec![Task {
                tid: 2,
                pid: 1,
                kind: TaskKind::Thread,
                state: b'S',
                name: "init".into(),
                wchan: "ep_poll".into(),
                start_ticks: n(1),
                user_ticks: n(2),
                system_ticks: n(3),
                child_user_ticks: n(4),
                child_system_ticks: n(5),
                run_ns: n(6),
                dispatches: n(7),
                run_before_ns: n(8),
                dispatches_before: n(9),
                resident_kib: n(10),
                major_faults: n(11),
                threads: None,
            }],
        }),
        ToHost::System(System {
            sequence: 6,
            load_1_permille: n(1),
            load_5_permille: n(2),
            load_15_permille: n(3),
            running: n(4),
            blocked: n(5),
            root_total_kib: n(6),
            root_available_kib: n(7),
            received_bytes: n(8),
            received_packets: n(9),
            sent_bytes: n(10),
            sent_packets: None,
        }),
        ToHost::Identified(Identified { refusal: "no".into() }),
        ToHost::Alarm(Alarm { sequence: 7, in_ms: n(90_000) }),
        ToHost::CameFrom(CameFrom { host: "a".into() }),
    ]
}

fn from_host() -> Vec<ToGuest> {
    vec![
        ToGuest::Welcome(Welcome { memory_pages: 65_536, grants: true, paces: false }),
        ToGuest::Grant(Grant { sequence: 1, pages: 4000, reason: "floor".into() }),
        ToGuest::Look,
        ToGuest::Capture(Capture { sequence: 9, file: File::Vmstat }),
        ToGuest::Sample(Sample { sequence: 5 }),
        ToGuest::Clock(std::time::Duration::from_millis(1_800_000_000_001)),
        ToGuest::Scan(Scan { sequence: 6, top: 20 }),
        ToGuest::Identify(Identity {
            name: "g7".into(),
            uuid: [1; 16],
            boot_id: [2; 16],
            addresses: Some(Addresses { mac: [0x52, 0x54, 0, 1, 0, 7], ip: [10, 1, 0, 7].into() }),
            seed: [3; 32],
            clock: std::time::Duration::from_millis(1_800_000_000_001),
        }),
        ToGuest::AskAlarm(AskAlarm { sequence: 7 }),
        ToGuest::AtHost(AtHost { name: "a".into() }),
    ]
}

/// Returns these messages, and a message that is full of beginnings of frames.
fn talk() -> Vec<ToHost> {
    let (sequence, offset, bytes) = (9, 4096, vec![0x9D; MAX_CHUNK]);
    let chunk = Chunk { sequence, file: File::Vmstat, offset, last: true, bytes };
    let mut all = from_guest();
    all.insert(3, ToHost::Chunk(chunk));
    all
}

fn stream<M: Message>(messages: &[M]) -> Vec<u8> {
    let mut bytes = Vec::new();
    messages.iter().for_each(|message| encode(message, &mut bytes));
    bytes
}

/// Returns the golden file's lines for these messages: names as in the table, and frames.
fn lines<M: Message>(messages: &[M]) -> Vec<String> {
    let line = |message: &M| {
        let row = M::ROWS.iter().find(|row| row.kind == message.kind()).unwrap();
        let mut frame = Vec::new();
        encode(message, &mut frame);
        let hex: String = frame.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{} {hex}", row.name)
    };
    messages.iter().map(line).collect()
}

#[test]
fn the_bytes_are_those_of_the_first_release() {
    let ours = [lines(&from_guest()), lines(&from_host())].concat();
    assert_eq!(ours, VERSION_1.lines().collect::<Vec<_>>());
    assert_eq!(ours.len(), ToHost::ROWS.len() + ToGuest::ROWS.len(), "each message once");
}

#[test]
fn each_end_knows_the_others_messages_and_not_its_own() {
    let rows = || ToHost::ROWS.iter().chain(ToGuest::ROWS);
    let kinds: std::collections::BTreeSet<u8> = rows().map(|row| row.kind).collect();
    assert_eq!(kinds.len(), rows().count(), "a kind has two messages");
    let mut decoder = Decoder::new();
    assert_eq!(decode::<ToGuest>(&mut decoder, &stream(&from_host())), from_host());
    assert_eq!(decode(&mut decoder, &stream(&from_guest())), []);
    let frames = from_guest().len() as u64;
    assert_eq!(decoder.dropped(), Dropped { bytes: 0, frames });
}

fn decode<M: Message>(decoder: &mut Decoder<M>, bytes: &[u8]) -> Vec<M> {
    decoder.feed(bytes);
    std::iter::from_fn(|| decoder.next()).collect()
}

#[test]
fn the_checksum_is_the_common_one() {
    assert_eq!(!crc32(!0, b"123456789"), 0xCBF4_3926);
}

#[test]
fn encoded_messages_are_decoded_in_pieces_of_any_size() {
    for size in [1, 2, 7, 100, 10_000] {
        let mut decoder = Decoder::<ToHost>::new();
        let mut seen = Vec::new();
        for piece in stream(&talk()).chunks(size) {
            seen.extend(decode(&mut decoder, piece));
        }
        assert_eq!(seen, talk(), "pieces of {size}");
        assert_eq!(decoder.dropped(), Dropped::default());
    }
}

#[test]
fn a_stream_that_starts_in_the_middle_is_found_again() {
    let bytes = stream(&talk());
    for start in 1..bytes.len() {
        let mut decoder = Decoder::<ToHost>::new();
        let seen = decode(&mut decoder, &bytes[start..]);
        let whole = talk();
        assert!(whole.ends_with(&seen), "start {start}");
        assert!(seen.len() < whole.len());
    }
}

#[test]
fn a_flipped_bit_costs_one_frame() {
    let bytes = stream(&talk());
    for at in 0..bytes.len() {
        let mut broken = bytes.clone();
        broken[at] ^= 1;
        let mut decoder = Decoder::<ToHost>::new();
        let seen = decode(&mut decoder, &broken);
        assert_eq!(seen.len(), talk().len() - 1, "byte {at}");
        assert!(seen.iter().all(|m| talk().contains(m)), "byte {at}");
    }
}

#[test]
fn garbage_is_counted_and_not_kept() {
    let mut decoder = Decoder::<ToHost>::new();
    for _ in 0..1000 {
        assert_eq!(decode(&mut decoder, &[0x9D; 4096]), []);
        assert!(decoder.buffered_bytes() <= 2_572);
    }
    assert!(decoder.dropped().bytes > 4_000_000);
    let seen = decode(&mut decoder, &stream(&talk()));
    assert_eq!(seen, talk());
}

/// Returns a valid header for a body of this length.
fn header(length: u16) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&[ToHost::ROWS[0].kind, VERSION]);
    bytes.extend_from_slice(&length.to_be_bytes());
    let check = header_check(&bytes);
    bytes.extend_from_slice(&check.to_be_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes
}

#[test]
fn decoder_keeps_2572_bytes_at_most_of_an_endless_body() {
    let mut decoder = Decoder::<ToHost>::new();
    let mut most = 0;
    for _ in 0..200 {
        // The longest body without its last byte, and then another frame.
        let frame = [header(2_560), vec![b'x'; 2_559]].concat();
        for piece in frame.chunks(700).chain([&frame[..]]) {
            assert_eq!(decode(&mut decoder, piece), []);
            most = most.max(decoder.buffered_bytes());
        }
    }
    assert_eq!(most, 2_571, "one byte of a frame is still to come");
    // The vector has grown to the size of a frame and a piece, not to the size of all input.
    assert!(decoder.buffer.capacity() <= 16_384, "{}", decoder.buffer.capacity());
    // A longer body is invalid, even with a correct header.
    let mut decoder = Decoder::<ToHost>::new();
    for length in [2_561, 30_000, u16::MAX] {
        assert_eq!(decode(&mut decoder, &[header(length), vec![b'x'; 4_096]].concat()), []);
        assert!(decoder.buffered_bytes() < 12, "{length}: {}", decoder.buffered_bytes());
    }
}

#[test]
fn texts_are_cut_at_a_character() {
    let reason = "ü".repeat(MAX_TEXT);
    let mut bytes = Vec::new();
    encode(&ToGuest::Grant(Grant { sequence: 0, pages: 0, reason }), &mut bytes);
    match decode(&mut Decoder::<ToGuest>::new(), &bytes).pop() {
        Some(ToGuest::Grant(grant)) => assert_eq!(grant.reason.len(), 200),
        other => panic!("{other:?}"),
    }
}
