//! A synthetic z/VM with Linux guests. Its monitor data have the format that MONWRITE writes.
//!
//! The data are built byte by byte, from the documentation of the records and the file. The code of
//! the reader is not used, so a mistake of the reader is not repeated here. The real values of the
//! system are in [`Truth`].

use base::Rng;

const PAGE: usize = 4_096;
/// TOD clock at the beginning of 1970.
const EPOCH: u64 = 0x7d91_048b_ca00_0000;
/// Clock units in a millisecond.
const PER_MS: u64 = 4_096_000;
/// Start of the monitor's segment.
const SEGMENT: u32 = 0x0800_0000;

/// The real values of a guest at the end of an interval.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Truth {
    /// Name.
    pub name: String,
    /// CPU time in milliseconds, with and without CP's work for the guest.
    pub total_ms: u64,
    pub virtual_ms: u64,
    /// Resident pages of its storage, and CP's projection of its working set.
    pub resident: u32,
    pub working_set: u32,
    /// Page waits.
    pub page_waits: u32,
    /// Free memory of its Linux, in KiB.
    pub free_kib: u64,
    /// Busy ticks of its CPU.
    pub busy_ticks: u32,
    /// Bytes received by its network.
    pub received: u64,
    /// CPU time of its processes, all of one name, in hundredths of a second.
    pub process_time: u64,
    /// CPU time of its second CPU in milliseconds, if it has a second CPU. It is recorded in every
    /// second interval.
    pub second_ms: u64,
    /// Busy ticks, and all ticks, of its CPU before the last start of its Linux.
    booted: (u32, u32),
}

/// Guests with special events: number of the guest, and interval of the event.
pub const HAS_SECOND_CPU: usize = 0;
pub const STARTS_AGAIN: (usize, u32) = (1, 40);
pub const LOGS_OFF: (usize, u32) = (3, 60);
/// Interval in which a long-running process of each guest ends.
pub const ENDS: u32 = 50;
/// CPU time of the process that ends, in hundredths of a second.
const OLD_TIME: u64 = 100_000;

/// A z/VM system.
#[derive(Clone, Debug)]
pub struct System {
    rng: Rng,
    /// Guests, with their values so far.
    pub guests: Vec<Truth>,
    /// Number of processes of each guest.
    pub tasks: u32,
    intervals: u32,
    /// Address of the next frame.
    at: u32,
}

/// Length of an interval.
pub const INTERVAL_MS: i64 = 60_000;

struct Bytes(Vec<u8>);

impl Bytes {
    fn zeroes(length: usize) -> Bytes {
        Bytes(vec![0; length])
    }

    fn put(&mut self, at: usize, value: &[u8]) -> &mut Bytes {
        self.0[at..at + value.len()].copy_from_slice(value);
        self
    }

    fn word(&mut self, at: usize, value: u32) -> &mut Bytes {
        self.put(at, &value.to_be_bytes())
    }

    fn long(&mut self, at: usize, value: u64) -> &mut Bytes {
        self.put(at, &value.to_be_bytes())
    }
}

/// Returns a name in EBCDIC: capital letters and digits, padded with blanks.
fn name(text: &str) -> [u8; 8] {
    let mut field = [0x40; 8];
    for (place, letter) in field.iter_mut().zip(text.bytes()) {
        *place = match letter {
            b'A'..=b'I' => letter - b'A' + 0xc1,
            b'J'..=b'R' => letter - b'J' + 0xd1,
            b'S'..=b'Z' => letter - b'S' + 0xe2,
            b'0'..=b'9' => letter - b'0' + 0xf0,
            _ => 0x40,
        };
    }
    field
}

/// Returns a record of a domain with this length and its head filled in.
fn record(domain: u8, number: u16, tod: u64, length: usize) -> Bytes {
    let mut bytes = Bytes::zeroes(length);
    bytes.put(0, &(length as u16).to_be_bytes());
    bytes.put(4, &[domain]).put(6, &number.to_be_bytes()).long(8, tod);
    bytes
}

/// Returns an application's record: 52 bytes, then its data.
fn application(tod: u64, user: &[u8; 8], product: &[u8; 16], data: &[u8]) -> Vec<u8> {
    let mut bytes = record(10, 2, tod, 52 + data.len());
    bytes.put(20, &52_u16.to_be_bytes()).put(22, &(data.len() as u16).to_be_bytes());
    bytes.put(24, user).put(32, product).put(52, data);
    bytes.0
}

/// Returns a product id: LINUXKRNL, a record's number, 2601, and 00 or 01.
fn kernel(number: u8, last: u8) -> [u8; 16] {
    let mut product = [
        0xd3, 0xc9, 0xd5, 0xe4, 0xe7, 0xd2, 0xd9, 0xd5, 0xd3, 0, 0xf2, 0xf6, 0xf0, 0xf1, 0xf0, 0xf0,
    ];
    (product[9], product[15]) = (number, last);
    product
}

impl System {
    /// Creates a system with this many guests, each with this many processes.
    pub fn new(seed: u64, guests: usize, tasks: u32) -> System {
        let guest = |number: usize| Truth { name: format!("LINUX{number:03}"), ..Truth::default() };
        System {
            rng: Rng::new(seed),
            guests: (0..guests).map(guest).collect(),
            tasks,
            intervals: 0,
            at: SEGMENT,
        }
    }

    /// Returns the bytes that the end of an interval adds to a file. `begin_ms` is the start of the
    /// first interval.
    pub fn interval(&mut self, begin_ms: i64) -> Vec<u8> {
        self.intervals += 1;
        let ms = begin_ms + i64::from(self.intervals) * INTERVAL_MS;
        let tod = EPOCH + ms.unsigned_abs() * PER_MS;
        let mut records = vec![self.processor(tod), self.storage(tod)];
        for number in 0..self.guests.len() {
            if number == LOGS_OFF.0 && self.intervals >= LOGS_OFF.1 {
                if self.intervals == LOGS_OFF.1 {
                    let mut bytes = record(4, 2, tod, 180);
                    bytes.put(20, &name(&self.guests[number].name));
                    records.push(bytes.0);
                }
                continue;
            }
            if (number, self.intervals) == STARTS_AGAIN {
                let guest = &mut self.guests[number];
                guest.booted = (guest.busy_ticks, (self.intervals - 1) * 6_000);
            }
            self.work(number);
            self.guest(number, tod, &mut records);
        }
        records.push(record(1, 11, tod, 20).0);
        self.pages(&records)
    }

    fn processor(&mut self, tod: u64) -> Vec<u8> {
        let seconds = u64::from(self.intervals) * 60;
        let mut bytes = record(0, 2, tod, 96);
        // Users get half of the time, and a tenth of this half is CP's work for them. The system
        // itself gets a twentieth of the time.
        bytes.long(24, seconds * 450 * PER_MS).long(32, seconds * 500 * PER_MS);
        bytes.long(40, seconds * 50 * PER_MS).long(68, seconds * 450 * PER_MS);
        bytes.0
    }

    fn storage(&mut self, tod: u64) -> Vec<u8> {
        let mut bytes = record(0, 3, tod, 116);
        bytes.word(48, 1 << 20).word(52, 1 << 18);
        bytes.0
    }

    /// Advances a guest's values by a minute of work.
    fn work(&mut self, number: usize) {
        let rng = &mut self.rng;
        let guest = &mut self.guests[number];
        let busy_ms = rng.within(100, 30_000);
        guest.virtual_ms += busy_ms;
        guest.total_ms += busy_ms + busy_ms / 10;
        guest.resident = rng.within(10_000, 60_000) as u32;
        guest.working_set = guest.resident / 2;
        guest.page_waits += rng.within(0, 50) as u32;
        guest.free_kib = rng.within(1_000, 100_000);
        guest.busy_ticks = guest.busy_ticks.wrapping_add((busy_ms / 10) as u32);
        guest.received += rng.within(0, 1_000_000);
        guest.process_time += busy_ms / 10;
        if number == HAS_SECOND_CPU {
            guest.second_ms += 1_000;
        }
    }

    fn guest(&self, number: usize, tod: u64, records: &mut Vec<Vec<u8>>) {
        let guest = &self.guests[number];
        let user = name(&guest.name);
        let mut bytes = record(4, 9, tod, 360);
        bytes.put(20, &user).long(32, guest.total_ms * PER_MS).long(40, guest.virtual_ms * PER_MS);
        bytes.word(64, guest.resident).word(72, guest.working_set).word(100, guest.page_waits);
        records.push(bytes.0);
        if number == HAS_SECOND_CPU && self.intervals.is_multiple_of(2) {
            let mut bytes = record(4, 9, tod, 360);
            bytes.put(20, &user).put(28, &1_u16.to_be_bytes());
            bytes.long(32, guest.second_ms * PER_MS).word(64, guest.resident);
            records.push(bytes.0);
        }

        let mut memory = Bytes::zeroes(144);
        memory.word(8, self.intervals).word(12, self.intervals);
        memory.long(56, 512_000).long(64, guest.free_kib);
        records.push(application(tod, &user, &kernel(1, 0xf0), &memory.0));

        let mut os = Bytes::zeroes(52 + 36);
        os.word(8, self.intervals).word(12, self.intervals);
        os.word(16, 1).word(20, 36).word(24, 52).word(36, 1 << 10);
        let (busy, all) = guest.booted;
        let busy = guest.busy_ticks - busy;
        os.word(52, busy).word(52 + 12, self.intervals * 6_000 - all - busy);
        records.push(application(tod, &user, &kernel(2, 0xf1), &os.0));

        let mut network = Bytes::zeroes(96);
        network.word(8, self.intervals).word(12, self.intervals).long(40, guest.received);
        records.push(application(tod, &user, &kernel(3, 0xf0), &network.0));

        for task in 0..self.tasks {
            let mut task_record = self.task(guest, &user, task, tod);
            if task == 1 && self.intervals > ENDS {
                if self.intervals > ENDS + 1 {
                    continue;
                }
                // The last record of an ended process has the number 1 in place of 2.
                task_record[7] = 1;
            }
            records.push(task_record);
        }
    }

    /// Returns a process record, as the daemon in the guest writes it. Only the CPU time of the
    /// first process grows.
    fn task(&self, guest: &Truth, user: &[u8; 8], number: u32, tod: u64) -> Vec<u8> {
        let mut data = Bytes::zeroes(512);
        data.long(0, (tod - EPOCH) / PER_MS / 1_000);
        // Six texts: the fifth is the command, and all others are empty.
        let texts = [0, 0, 0, 0, 0, 0, 0, 0, 0, 5, b'h', b't', b't', b'p', b'd', 0, 0];
        let length = 111 + texts.len();
        data.put(8, &(length as u16).to_be_bytes()).put(10, &12_u16.to_be_bytes());
        data.word(12, number + 1);
        let time = match number {
            0 => guest.process_time,
            1 => OLD_TIME,
            _ => 0,
        };
        data.long(12 + 26, time).long(12 + 58, 4_000);
        data.put(12 + 111, &texts);
        // LNXAPPL, application 2, record 1, and an even number for each process.
        let mut product = [0xd3, 0xd5, 0xe7, 0xc1, 0xd7, 0xd7, 0xd3, 0, 2, 1, 0, 0, 0, 0, 0, 0];
        let [high, low] = ((number * 2) as u16).to_be_bytes();
        (product[14], product[15]) = (high, low);
        application(tod, user, &product, &data.0)
    }

    /// Puts records into frames, and adds the control pages that list the frames.
    fn pages(&mut self, records: &[Vec<u8>]) -> Vec<u8> {
        let mut frames: Vec<Vec<u8>> = vec![Vec::new()];
        for record in records {
            let last = frames.len() - 1;
            // Twenty bytes are left for the record that ends a frame.
            if frames[last].len() + record.len() + 20 > PAGE {
                let end = self::record(1, 13, 0, 20).0;
                frames[last].extend(end);
                frames.push(Vec::new());
            }
            frames.last_mut().expect("one at least").extend(record);
        }
        let mut file = Vec::new();
        for some in frames.chunks(338) {
            let control = file.len();
            file.resize(control + PAGE, 0);
            for (number, frame) in some.iter().enumerate() {
                let entry = control + 40 + number * 12;
                let last = self.at + frame.len() as u32 - 1;
                file[entry..entry + 4].copy_from_slice(&[0xe2, 0xff, 0xff, 0]);
                file[entry + 4..entry + 8].copy_from_slice(&self.at.to_be_bytes());
                file[entry + 8..entry + 12].copy_from_slice(&last.to_be_bytes());
                self.at = SEGMENT + (self.at - SEGMENT + PAGE as u32) % (64 << 20);
                let at = file.len();
                file.extend(frame);
                file.resize(at + PAGE, 0);
            }
        }
        file
    }
}
