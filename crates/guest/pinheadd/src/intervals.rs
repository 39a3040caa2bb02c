//! Display of each interval with `-V -f`. Scripts parse these lines, so the lines equal those of
//! the original daemon.

use crate::config::Loaded;
use crate::sys::ctime;
use base::Pages;
use model::counters::{Counter, CpuField, History};
use std::io::Write;

/// Prints the values of the newest row.
pub fn show(loaded: &Loaded, history: &History, epoch_s: f64, pool: Option<Pages>, present: u32) {
    let mut out = String::new();
    let mut line = |text: &str| {
        out.push_str(text);
        out.push('\n');
    };
    let at = |counter: &Counter, age: usize| {
        history.get(loaded.counters.iter().position(|c| c == counter)?, age)
    };
    let now = |counter: Counter| at(&counter, 0).unwrap_or(f64::NAN);
    let delta =
        |counter: Counter| at(&counter, 0).zip(at(&counter, 1)).map_or(0.0, |(new, old)| new - old);
    line("");
    line("==================== New interval ====================");
    let time = ctime(epoch_s);
    // The original prints the time with the newline that `ctime` appends.
    line(&format!("Timestamp: {time}\n           ({epoch_s:.6} seconds since the Epoch)"));
    let program = &loaded.program;
    line(&format!("config update interval: {} seconds", program.update));
    let seconds = delta(Counter::Time);
    line(&format!("real update interval: {seconds:.6} seconds"));
    let online = now(Counter::OnlineCpus);
    if let Some(cpu) = &program.cpu {
        line("-------------------- CPU --------------------");
        line(&format!("cpu_min: {}", cpu.min));
        // A maximum of 0 means all present CPUs.
        line(&format!("cpu_max: {}", if cpu.max == 0 { present } else { cpu.max }));
        line(&format!("loadavg: {:.6} ", now(Counter::LoadAvg)));
        let total = delta(Counter::Cpu(CpuField::TotalTicks));
        let total = if total == 0.0 { 1.0 } else { total };
        for field in CpuField::ALL.iter().filter(|f| **f != CpuField::TotalTicks) {
            let percent = delta(Counter::Cpu(*field)) / total * (100.0 * online);
            line(&format!("{} percent = {percent:.6}", field.name()));
        }
        line(&format!("numcpus {present}"));
        line(&format!("runnable_proc: {}", now(Counter::RunnableProc)));
        line("---------------------------------------------");
        line(&format!("onumcpus:   {online}"));
        line("---------------------------------------------");
    }
    if let (Some(memory), Some(pool)) = (&program.memory, pool) {
        line("------------------- Memory ------------------");
        line(&format!("cmm_min: {}", memory.min));
        line(&format!("cmm_max: {}", memory.max));
        let rate = |a: &str, b: &str| {
            let moved = delta(Counter::vmstat(a)) + delta(Counter::vmstat(b));
            if seconds > 0.0 { moved / seconds } else { 0.0 }
        };
        line(&format!("swaprate: {:.6}", rate("pswpin", "pswpout")));
        line(&format!("apcr: {:.6}", rate("pgpgin", "pgpgout")));
        if let Ok(steps) = memory.steps(history) {
            line(&format!("cmm_inc: {}", steps.inc));
            line(&format!("cmm_dec: {}", steps.dec));
        }
        line(&format!("free memory: {:.6} MB", now(Counter::meminfo("MemFree")) / 1024.0));
        line("---------------------------------------------");
        line(&format!("cmm_pages: {}", pool.0));
        line("---------------------------------------------");
    }
    // Failed output must not stop the management of the guest.
    let _ = std::io::stdout().lock().write_all(out.as_bytes());
}
