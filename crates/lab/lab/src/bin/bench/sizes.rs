//! Size of the daemon's file, which takes space on a guest's disk or in the guest's memory.

use crate::error::Error;
use crate::table::{Row, figure};
use std::path::Path;

const PROMISE_BYTES: f64 = 450_000.0;

pub fn rows(guest_dir: &Path) -> Result<Vec<Row>, Error> {
    ["x86_64", "s390x"]
        .iter()
        .map(|arch| {
            let path = guest_dir.join(arch).join("pinheadd");
            let found = std::fs::metadata(&path).map_err(|e| Error::file(&path, e))?;
            let figure = figure(found.len() as f64, 0, " bytes");
            Ok(Row::promised(&format!("binary, {arch}"), figure, PROMISE_BYTES))
        })
        .collect()
}
