//! A fake host for tests: a program in place of ssh that sends prepared answers in order.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use virtrpc::{Call, Client, Domain};

/// Sends the content of a file, and reads until its input ends.
const HOST: &str = "cat \"$0\"; exec cat > /dev/null";
/// Virtual CPUs of each domain, and its memory.
pub(crate) const VCPUS: u32 = 2;
pub(crate) const MEMORY_MIB: u64 = 256;

/// The answers of a host. The file is removed when this value is dropped.
pub(crate) struct FakeHost {
    file: PathBuf,
    client: Client,
    answers: Vec<u8>,
}

fn words(list: &[u32]) -> Vec<u8> {
    list.iter().flat_map(|word| word.to_be_bytes()).collect()
}

fn text(text: &str) -> Vec<u8> {
    let mut bytes = [&words(&[text.len() as u32]), text.as_bytes()].concat();
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

pub(crate) fn domains() -> [Domain; 2] {
    [1, 2].map(|id| Domain { name: format!("g{id}"), uuid: [id; 16], id: id.into() })
}

fn encoded(domain: &Domain) -> Vec<u8> {
    [text(&domain.name), domain.uuid.to_vec(), words(&[domain.id.cast_unsigned()])].concat()
}

impl FakeHost {
    /// Creates a host that has answered the greeting.
    pub(crate) fn new() -> FakeHost {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("pinhead-fake-host-{}-{number}", std::process::id());
        let file = std::env::temp_dir().join(name);
        let mut host = FakeHost { file, client: Client::new(), answers: Vec::new() };
        host.answer(Call::AuthList, words(&[1, 0]));
        host.answer(Call::Open { uri: "qemu:///system".into(), is_read_only: true }, Vec::new());
        host
    }

    /// Adds the answers to the calls for all domains together.
    pub(crate) fn looks(mut self) -> FakeHost {
        self.answer(
            Call::NodeInfo,
            [vec![0; 128], words(&[0, 1 << 20, 4, 0, 0, 0, 0, 0])].concat(),
        );
        self.answer(Call::NodeCpuStats { count: 0 }, words(&[0, 0]));
        self.answer(Call::NodeMemoryStats { count: 0 }, words(&[0, 0]));
        let list = domains().map(|domain| encoded(&domain)).concat();
        self.answer(Call::ListActive, [words(&[2]), list, words(&[2])].concat());
        let stats = domains().map(|domain| [encoded(&domain), words(&[0])].concat()).concat();
        self.answer(Call::Stats(domains().into()), [words(&[2]), stats].concat());
        self
    }

    /// Adds the answers to the calls for each domain.
    pub(crate) fn tells_of_each(mut self) -> FakeHost {
        for domain in domains() {
            let info = words(&[1, 0, 1 << 18, 0, 1 << 18, VCPUS, 0, 0]);
            self.answer(Call::Info(domain.clone()), info);
            let xml = format!(
                "<domain id='1'><memory unit='MiB'>{MEMORY_MIB}</memory><devices/></domain>"
            );
            self.answer(Call::Xml(domain), text(&xml));
        }
        self
    }

    /// Returns the program that sends all answers.
    pub(crate) fn program(&self) -> Command {
        fs::write(&self.file, &self.answers).unwrap();
        let mut program = Command::new("sh");
        program.args(["-c", HOST]).arg(&self.file);
        program
    }

    fn answer(&mut self, call: Call, body: Vec<u8>) {
        self.client.ask(call).unwrap();
        // The header up to the serial, with the answer's type and status.
        let sent = self.client.output().to_vec();
        self.client.advance(sent.len());
        let length = (28 + body.len()) as u32;
        self.answers.extend(words(&[length]));
        self.answers.extend(&sent[4..16]);
        self.answers.extend(words(&[1]));
        self.answers.extend(&sent[20..24]);
        self.answers.extend(words(&[0]));
        self.answers.extend(body);
    }
}

impl Drop for FakeHost {
    fn drop(&mut self) {
        // A leftover file does no harm.
        let _ = fs::remove_file(&self.file);
    }
}
