//! Inputs of the policy in each pass, recorded for replay: `passes.db`.
//!
//! ```text
//!   PassInput ─► chain ─► a block a minute ─► passes.db ─► Records::passes
//! ```
//!
//! Passes are written once a minute, so a killed process loses the passes of the current minute.
//! Gaps in the numbers of the passes show the loss. A damaged file is set aside.

pub mod codec;

use super::damage;
use super::pack::{Damaged, block, chain};
use super::raw::Block;
use crate::bound::Order;
use crate::error::cannot;
use crate::held::Failures;
use crate::news::News;
use crate::{Error, db};
use codec::Encoder;
use model::{PassInput, minute_of};
use rusqlite::{Connection, params};
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// Name of the file.
pub const FILE: &str = "passes.db";
const PASSES: db::Kind = db::Kind { application_id: 0x7069_6e70, migrations: &[PASSES_1] };
const PASSES_1: &str = "
CREATE TABLE pass (
    number INTEGER PRIMARY KEY,
    at_ms INTEGER NOT NULL,
    to_ms INTEGER NOT NULL,
    count INTEGER NOT NULL,
    bytes BLOB NOT NULL
);
CREATE INDEX pass_at ON pass (at_ms);
";
const WAITING_MAX: usize = 30;
/// Maximum number of passes in a block, so that a stopped clock cannot fill the memory.
const PASSES_MAX: i64 = 4_096;

#[derive(Debug, Default)]
struct Running {
    minute_ms: i64,
    at_ms: i64,
    to_ms: i64,
    count: i64,
    encoder: Encoder,
    chain: Vec<u8>,
}

impl Running {
    fn block(self) -> Option<Block> {
        let Running { at_ms, to_ms, count, chain, .. } = self;
        (count > 0).then(|| Block { at_ms, to_ms, count, bytes: block(&chain) })
    }
}

#[derive(Debug)]
pub struct PassRecorder {
    path: PathBuf,
    keep_ms: i64,
    most_bytes: u64,
    file: Option<Connection>,
    running: Running,
    waiting: VecDeque<Block>,
    failures: Failures,
}

impl PassRecorder {
    /// Creates a recorder in a directory, with limits on the age and the bytes of passes.
    pub fn new(dir: &Path, keep_ms: i64, most_bytes: u64) -> PassRecorder {
        PassRecorder {
            path: dir.join(FILE),
            keep_ms,
            most_bytes,
            file: None,
            running: Running::default(),
            waiting: VecDeque::new(),
            failures: Failures::default(),
        }
    }

    pub fn record(&mut self, pass: &PassInput) -> Option<News> {
        let minute_ms = minute_of(pass.at_ms);
        let turns = self.running.minute_ms != minute_ms || self.running.count >= PASSES_MAX;
        if turns {
            self.turn(minute_ms, pass.at_ms);
        }
        let running = &mut self.running;
        let bytes = running.encoder.encode(pass);
        running.chain.extend(bytes);
        running.count += 1;
        (running.at_ms, running.to_ms) =
            (running.at_ms.min(pass.at_ms), running.to_ms.max(pass.at_ms));
        if !turns || self.waiting.is_empty() {
            return None;
        }
        let (waits, copied) = self.failures.turn();
        if waits || copied.is_some() {
            return copied;
        }
        self.write_or_wait(pass.at_ms)
    }

    fn turn(&mut self, minute_ms: i64, at_ms: i64) {
        let next = Running { minute_ms, at_ms, to_ms: at_ms, ..Running::default() };
        if let Some(block) = std::mem::replace(&mut self.running, next).block() {
            if self.waiting.len() >= WAITING_MAX {
                self.waiting.pop_front();
            }
            self.waiting.push_back(block);
        }
    }

    fn write_or_wait(&mut self, now_ms: i64) -> Option<News> {
        let written = match self.write(now_ms) {
            Err(error) if damage::is_damaged(&self.path, &error) => {
                // This process must not have the file open when it is moved.
                self.file = None;
                match damage::set_aside(&self.path, now_ms) {
                    Ok(aside) => {
                        let path = self.path.clone();
                        let _ = self.write(now_ms);
                        return Some(News::SetAside { path, aside });
                    }
                    Err(error) => Err(error),
                }
            }
            written => written,
        };
        match written {
            Ok(()) => {
                if self.failures.is_log_held(&self.path) {
                    self.file = None;
                    self.failures.copy(&self.path);
                }
                self.failures.worked().then_some(News::Recovered { lost: 0 })
            }
            Err(error) => {
                self.file = None;
                self.failures.failed(&self.path, error)
            }
        }
    }

    fn write(&mut self, now_ms: i64) -> Result<(), Error> {
        let failed = cannot("write passes");
        let file = match self.file.take() {
            Some(file) => file,
            None => db::open(&self.path, &PASSES)?,
        };
        let file = self.file.insert(file);
        let transaction = file.transaction().map_err(&failed)?;
        for block in &self.waiting {
            transaction
                .prepare_cached("INSERT INTO pass (at_ms, to_ms, count, bytes) VALUES (?, ?, ?, ?)")
                .and_then(|mut statement| {
                    statement.execute(params![block.at_ms, block.to_ms, block.count, block.bytes])
                })
                .map_err(&failed)?;
        }
        transaction.commit().map_err(&failed)?;
        self.waiting.clear();
        let before_ms = now_ms.saturating_sub(self.keep_ms);
        db::prune_blocks(file, "pass", "number", before_ms, self.most_bytes)
            .map_err(cannot("remove passes"))
    }

    /// Writes everything not yet written.
    pub fn close(mut self) -> Result<(), Error> {
        let _ = self.failures.finish();
        self.turn(i64::MAX, 0);
        match self.waiting.back().map(|block| block.to_ms) {
            Some(to_ms) => self.write(to_ms),
            None => Ok(()),
        }
    }
}

/// Visits all passes in `from_ms..to_ms`, in the order in which they were made.
pub(super) fn visit(
    dir: &Path,
    from_ms: i64,
    to_ms: i64,
    mut visit: impl FnMut(PassInput) -> ControlFlow<()>,
) -> Result<(), Error> {
    let opened = db::open_if_begun(&dir.join(FILE), &PASSES, db::BUSY_READER)?;
    let Some(file) = opened else { return Ok(()) };
    let failed = cannot("read passes");
    let mut statement = file
        .prepare("SELECT number, bytes FROM pass WHERE at_ms < ? AND to_ms >= ? ORDER BY number")
        .map_err(&failed)?;
    let mut rows = statement.query([to_ms, from_ms]).map_err(&failed)?;
    let mut order = Order::of("pass");
    while let Some(row) = rows.next().map_err(&failed)? {
        let id: i64 = row.get(0).map_err(&failed)?;
        order.next(id, id)?;
        let bytes = row.get_ref(1).map_err(&failed)?.as_blob().unwrap_or_default();
        let damaged = |damage: Damaged| damage.in_row("pass", id);
        let chain = chain(bytes).map_err(damaged)?;
        let mut flow = ControlFlow::Continue(());
        codec::decode(&chain, |pass| {
            if flow.is_continue() && (from_ms..to_ms).contains(&pass.at_ms) {
                flow = visit(pass);
            }
        })
        .map_err(damaged)?;
        if flow.is_break() {
            break;
        }
    }
    Ok(())
}
