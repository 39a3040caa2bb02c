//! File of raw samples: one block per minute, and the current minute second by second.

use super::pack::{self, Damaged, Decoder};
use super::schema::RAW;
use crate::bound::Order;
use crate::error::cannot;
use crate::{Error, db};
use model::Moment;
use rusqlite::{Connection, OptionalExtension, params};
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

/// Name of the file.
pub const FILE: &str = "raw.db";

/// One minute of samples or of passes, packed.
#[derive(Debug)]
pub struct Block {
    /// Time of the first sample or pass.
    pub at_ms: i64,
    /// Time of the last sample or pass.
    pub to_ms: i64,
    /// Number of samples or passes.
    pub count: i64,
    /// Packed samples or passes.
    pub bytes: Vec<u8>,
}

/// Part of the current minute to be written.
pub enum Seconds<'a> {
    /// Replacement of all rows: the state before the minute, and the minute's moments so far.
    FromScratch { known: &'a [Vec<u8>], moments: &'a [Vec<u8>] },
    /// Further moments.
    More(&'a [Vec<u8>]),
}

/// Part of a minute that is not in a block yet.
pub enum Left {
    /// State before the minute.
    Known(Moment),
    /// A moment of the minute.
    Moment(Moment),
}

/// The open file.
#[derive(Debug)]
pub struct RawFile(Connection);

impl RawFile {
    /// Opens the file for writing, and creates it if it is missing.
    pub fn open(dir: &Path) -> Result<RawFile, Error> {
        db::open(&dir.join(FILE), &RAW).map(RawFile)
    }

    /// Opens the file for reading; `None` if it is missing or has no tables.
    pub fn read_only(dir: &Path) -> Result<Option<RawFile>, Error> {
        RawFile::read_within(dir, db::BUSY_READER)
    }

    /// Opens the file like `read_only`, with a timeout for another process's lock.
    pub fn read_within(dir: &Path, wait: Duration) -> Result<Option<RawFile>, Error> {
        Ok(db::open_if_begun(&dir.join(FILE), &RAW, wait)?.map(RawFile))
    }

    /// Writes complete blocks, and the new part of the current minute.
    pub fn write<'a>(
        &mut self,
        blocks: impl Iterator<Item = &'a Block>,
        seconds: Seconds<'_>,
    ) -> Result<(), Error> {
        let failed = cannot("write raw samples");
        let transaction = self.0.transaction().map_err(&failed)?;
        for block in blocks {
            transaction
                .prepare_cached("INSERT OR REPLACE INTO raw VALUES (?, ?, ?, ?)")
                .and_then(|mut statement| {
                    statement.execute(params![block.at_ms, block.to_ms, block.count, block.bytes])
                })
                .map_err(&failed)?;
        }
        let (known, moments): (&[_], _) = match seconds {
            Seconds::FromScratch { known, moments } => {
                transaction.execute("DELETE FROM second", []).map_err(&failed)?;
                (known, moments)
            }
            Seconds::More(moments) => (&[], moments),
        };
        let parts = known.iter().map(|bytes| (1, bytes)).chain(moments.iter().map(|b| (0, b)));
        for (is_base, bytes) in parts {
            transaction
                .prepare_cached("INSERT INTO second (is_base, bytes) VALUES (?, ?)")
                .and_then(|mut statement| statement.execute(params![is_base, bytes]))
                .map_err(&failed)?;
        }
        transaction.commit().map_err(&failed)
    }

    /// Visits the samples of the unfinished minute that a process left at its end. The visit stops
    /// at an unreadable row, or when the visitor breaks off.
    pub fn left(&self, mut visit: impl FnMut(Left) -> ControlFlow<()>) -> Result<(), Error> {
        let failed = cannot("read raw samples");
        let (mut known, mut moments) = (Decoder::default(), Decoder::default());
        let sql = "SELECT number, is_base, bytes FROM second ORDER BY number";
        let mut statement = self.0.prepare(sql).map_err(&failed)?;
        let mut rows = statement.query([]).map_err(&failed)?;
        let mut order = Order::of("second");
        while let Some(row) = rows.next().map_err(&failed)? {
            let number: i64 = row.get(0).map_err(&failed)?;
            order.next(number, number)?;
            let is_base: bool = row.get(1).map_err(&failed)?;
            let bytes = row.get_ref(2).map_err(&failed)?.as_blob().unwrap_or_default();
            let (decoder, left): (_, fn(Moment) -> Left) = match is_base {
                true => (&mut known, Left::Known),
                false => (&mut moments, Left::Moment),
            };
            let mut flow = ControlFlow::Continue(());
            let decoded = decoder.decode(bytes, |moment| {
                if flow.is_continue() {
                    flow = visit(left(moment));
                }
            });
            if decoded.is_err() || flow.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Returns the end of the last block.
    pub fn block_to_ms(&self) -> Result<Option<i64>, Error> {
        self.0
            .query_row("SELECT to_ms FROM raw ORDER BY at_ms DESC LIMIT 1", [], |row| row.get(0))
            .optional()
            .map_err(cannot("read raw samples"))
    }

    /// Visits all moments in `from_ms..to_ms`, in their order.
    pub fn visit(
        &self,
        from_ms: i64,
        to_ms: i64,
        visit: &mut impl FnMut(Moment) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let failed = cannot("read raw samples");
        let mut flow = ControlFlow::Continue(());
        let mut show = |moment: Moment| {
            if flow.is_continue() && (from_ms..to_ms).contains(&moment.at_ms) {
                flow = visit(moment);
            }
            flow.is_break()
        };
        let mut last_ms = i64::MIN;
        // Both tables are read in one transaction, because a writer moves a finished minute to the
        // other table in one transaction.
        let transaction = self.0.unchecked_transaction().map_err(&failed)?;
        let mut statement = transaction
            .prepare(
                "SELECT at_ms, to_ms, bytes FROM raw WHERE at_ms < ? AND to_ms >= ? ORDER BY at_ms",
            )
            .map_err(&failed)?;
        let mut rows = statement.query([to_ms, from_ms]).map_err(&failed)?;
        let mut order = Order::of("raw");
        while let Some(row) = rows.next().map_err(&failed)? {
            let at_ms: i64 = row.get(0).map_err(&failed)?;
            order.next(at_ms, at_ms)?;
            last_ms = last_ms.max(row.get(1).map_err(&failed)?);
            let bytes = row.get_ref(2).map_err(&failed)?.as_blob().unwrap_or_default();
            let damaged = |damage: Damaged| damage.in_row("raw", at_ms);
            let chain = pack::chain(bytes).map_err(damaged)?;
            let mut is_over = false;
            Decoder::default().decode(&chain, |moment| is_over = show(moment)).map_err(damaged)?;
            if is_over {
                return Ok(());
            }
        }
        self.left(|left| match left {
            Left::Moment(moment) => {
                let is_over = moment.at_ms > last_ms && show(moment);
                if is_over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            }
            Left::Known(_) => ControlFlow::Continue(()),
        })
    }

    /// Removes old blocks, and the oldest blocks above the limit in bytes.
    pub fn prune(&self, before_ms: i64, most_bytes: u64) -> Result<(), Error> {
        db::prune_blocks(&self.0, "raw", "at_ms", before_ms, most_bytes)
            .map_err(cannot("remove raw samples"))
    }
}
