//! Steps for the values that rules read, and the check that this kernel has the counters.

use super::emit::{Compiler, Emitter};
use crate::ast::{BinaryOp, Keyword};
use crate::diag::{Diagnostic, Severity, Span};
use crate::parse::{MAX_HISTORY, meant};
use crate::program::Op;
use base::nearest;
use model::counters::{Counter, CpuField, retired};

/// Code of the warning that a counter is gone, and that other counters are read instead.
pub(super) const RETIRED: &str = "retired-counter";

impl Compiler<'_> {
    pub(super) fn keyword(&mut self, out: &mut Emitter, keyword: Keyword, shift: u8, span: Span) {
        match keyword {
            Keyword::LoadAvg => self.load(out, &Counter::LoadAvg, shift, span),
            Keyword::RunnableProc => self.load(out, &Counter::RunnableProc, shift, span),
            Keyword::OnlineCpus => self.load(out, &Counter::OnlineCpus, shift, span),
            Keyword::FreeMem => {
                self.load(out, &Counter::meminfo("MemFree"), shift, span);
                out.push(Op::Const(1024.0), span);
                out.push(Op::Binary(BinaryOp::Divide), span);
            }
            Keyword::Percent(field) => {
                self.delta(out, &Counter::Cpu(field), shift, span);
                self.delta(out, &Counter::Cpu(CpuField::TotalTicks), shift, span);
                out.push(Op::OneIfZero, span);
                out.push(Op::Binary(BinaryOp::Divide), span);
                out.push(Op::Const(100.0), span);
                self.load(out, &Counter::OnlineCpus, shift, span);
                out.push(Op::Binary(BinaryOp::Multiply), span);
                out.push(Op::Binary(BinaryOp::Multiply), span);
            }
            Keyword::SwapRate => self.rate(out, ["pswpin", "pswpout"], shift, span),
            Keyword::Apcr => self.rate(out, ["pgpgin", "pgpgout"], shift, span),
        }
    }

    fn delta(&mut self, out: &mut Emitter, counter: &Counter, shift: u8, span: Span) {
        self.load(out, counter, shift, span);
        self.load(out, counter, shift.saturating_add(1), span);
        out.push(Op::Binary(BinaryOp::Subtract), span);
    }

    /// Emits the growth per second of the sum of two counters.
    fn rate(&mut self, out: &mut Emitter, names: [&str; 2], shift: u8, span: Span) {
        let [first, second] = names.map(Counter::vmstat);
        self.load(out, &first, shift, span);
        self.load(out, &second, shift, span);
        out.push(Op::Binary(BinaryOp::Add), span);
        self.load(out, &first, shift.saturating_add(1), span);
        out.push(Op::Binary(BinaryOp::Subtract), span);
        self.load(out, &second, shift.saturating_add(1), span);
        out.push(Op::Binary(BinaryOp::Subtract), span);
        self.delta(out, &Counter::Time, shift, span);
        out.push(Op::Binary(BinaryOp::Divide), span);
    }

    pub(super) fn load(&mut self, out: &mut Emitter, counter: &Counter, age: u8, span: Span) {
        if age > MAX_HISTORY {
            let message = format!("The history reaches back {MAX_HISTORY} intervals at most");
            self.found.push(Diagnostic::error("history", span, message));
            return;
        }
        let machine = self.machine;
        if let Counter::Vmstat(name) = counter
            && let Some(names) = &machine.names
            && !names.has_vmstat(name)
            && let Some(reads) = retired(name)
            && (reads.is_empty() || reads.iter().any(|line| names.has_vmstat(line)))
        {
            // The sum of the lines that replace the counter, or 0 if there are none.
            let mut now = String::new();
            for read in reads.iter().filter(|line| names.has_vmstat(line)) {
                self.load(out, &Counter::vmstat(read), age, span);
                if !now.is_empty() {
                    out.push(Op::Binary(BinaryOp::Add), span);
                    now += " + ";
                }
                now += read;
            }
            if now.is_empty() {
                out.push(Op::Const(0.0), span);
                now += "0, since its family is counted once";
            }
            let message =
                format!("This kernel no longer has vmstat.{name}; the rule uses {now} instead");
            let warning = Diagnostic::warning(RETIRED, span, message)
                .help("kernels since 4.8 count reclaim by node, and allocstall by zone");
            self.found.push(warning);
            return;
        }
        self.known(counter, span);
        let slot = match self.counters.iter().position(|c| c == counter) {
            Some(slot) => slot,
            None => {
                self.counters.push(counter.clone());
                self.counters.len() - 1
            }
        };
        self.deepest = self.deepest.max(usize::from(age));
        out.push(Op::Load { slot: slot as u16, age }, span);
    }

    fn known(&mut self, counter: &Counter, span: Span) {
        let Some(names) = &self.machine.names else { return };
        let (file, name, known) = match counter {
            Counter::Meminfo(name) => ("meminfo", name, &names.meminfo),
            Counter::Vmstat(name) => ("vmstat", name, &names.vmstat),
            Counter::Psi(..) if !names.psi => {
                let message = "This kernel has no pressure stall information";
                let error = Diagnostic::error("unknown-counter", span, message)
                    .help("boot with psi=1, or use a rule without psi counters");
                self.found.push(error);
                return;
            }
            _ => return,
        };
        if known.iter().any(|n| n == name) {
            return;
        }
        let message = format!("This kernel has no `{name}` in /proc/{file}");
        // Variables are copied into each place that uses them. The search for names similar to a
        // wrong name runs once for each position, and not for each copy.
        let told = |d: &Diagnostic| d.span == span && d.message == message;
        if self.found.iter().any(|d| told(d) && d.severity == Severity::Error) {
            return;
        }
        let near = nearest(name, known.iter().map(|n| &**n));
        let error = Diagnostic::error("unknown-counter", span, message);
        let help = meant(&near, &format!("`cat /proc/{file}` shows the names that it has"));
        self.found.push(error.label("no such counter").help(help));
    }
}
