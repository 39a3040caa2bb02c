//! Parses rules and the variables that they use; unused variables stay text.

use super::reader::FileReader;
use super::{Language, RuleText, Text};
use crate::ast::{Expr, ExprKind};
use crate::diag::{Diagnostic, has_errors};
use crate::parse::{MAX_LEVELS, Parser, Visible};

/// Number of rules with errors after which no further rule is parsed. Each such rule may cost a
/// search among all names.
const MAX_FAILED: usize = 100;

impl FileReader {
    pub(super) fn expressions(&mut self) {
        let mut failed = 0;
        for pending in std::mem::take(&mut self.pending) {
            let index = pending.name as usize;
            if failed == MAX_FAILED {
                self.file.unread[index] = true;
                continue;
            }
            let first = self.file.rules[index].take();
            if let Some(first) = first {
                let message = format!("A later {} replaces this one", pending.name.name());
                self.diagnostics.push(
                    Diagnostic::warning("overruled", first.name, message)
                        .help("only the last setting counts: remove the others"),
                );
            }
            if pending.value.len() == 0 {
                continue;
            }
            let before = self.diagnostics.len();
            let expr = self.expression(&pending.value, pending.variables);
            failed += usize::from(has_errors(&self.diagnostics[before..]));
            self.file.rules[index] = Some(RuleText { expr, name: pending.span });
        }
    }

    /// Parses a rule, and those of its variables that no earlier rule uses.
    fn expression(&mut self, text: &Text, visible: usize) -> Expr {
        let (mut expr, history) = self.one(text, visible);
        self.file.history = self.file.history.max(history);
        let levels = self.used(&mut expr, visible, &mut Vec::new(), 0);
        debug_assert!(levels <= MAX_LEVELS, "what is deeper was cut off");
        expr
    }

    fn one(&mut self, text: &Text, visible: usize) -> (Expr, u8) {
        let variables = &self.file.variables;
        let lookup = |name: &str| match variables.iter().position(|v| v.name == name) {
            Some(index) if index < visible => Visible::Yes(index),
            Some(index) if self.file.language == Language::Extended => Visible::Yes(index),
            Some(index) => Visible::Later(variables[index].span),
            None => Visible::No,
        };
        let mut parser = Parser::new(text, &self.file, &lookup, self.host_name);
        let expr = parser.whole();
        let (history, mut found) = (parser.history, parser.diagnostics);
        self.diagnostics.append(&mut found);
        (expr, history)
    }

    /// Parses those variables of an expression that were not used before. Returns the number of
    /// levels of the tree, its variables included. `above` is the number of levels above the
    /// expression; parts that would be too deep are cut off.
    fn used(
        &mut self,
        expr: &mut Expr,
        visible: usize,
        open: &mut Vec<usize>,
        above: usize,
    ) -> usize {
        if above >= MAX_LEVELS {
            return self.too_deep(expr);
        }
        let below = above + 1;
        let levels = match &mut expr.kind {
            ExprKind::Variable(index) => {
                let index = *index;
                if open.contains(&index) {
                    return self.circle(expr, index);
                }
                if self.file.variables[index].expr.is_none() {
                    let text = self.file.variables[index].text.clone();
                    let (mut value, history) = self.one(&text, visible);
                    self.file.history = self.file.history.max(history);
                    open.push(index);
                    let levels = self.used(&mut value, visible, open, below);
                    open.pop();
                    let variable = &mut self.file.variables[index];
                    (variable.levels, variable.expr) = (levels, Some(value));
                }
                // The variable may have been parsed for a shallower use.
                let levels = self.file.variables[index].levels;
                if below + levels > MAX_LEVELS {
                    return self.too_deep(expr);
                }
                levels
            }
            ExprKind::Negate(x) | ExprKind::Not(x) | ExprKind::Call(_, x, _) => {
                self.used(x, visible, open, below)
            }
            ExprKind::Binary(_, x, y) => {
                let left = self.used(x, visible, open, below);
                left.max(self.used(y, visible, open, below))
            }
            _ => 0,
        };
        levels + 1
    }

    /// Marks a variable that uses itself as broken, so that no later step follows the circle.
    fn circle(&mut self, expr: &mut Expr, index: usize) -> usize {
        let message = format!("Variable `{}` uses itself", self.file.variables[index].name);
        self.cut(expr, "recursion", message, "a variable cannot need its own value")
    }

    fn too_deep(&mut self, expr: &mut Expr) -> usize {
        let message = format!("With its variables the expression is {MAX_LEVELS} levels deep here");
        self.cut(expr, "too-deep", message, "write it in fewer steps")
    }

    fn cut(&mut self, expr: &mut Expr, code: &'static str, message: String, help: &str) -> usize {
        self.error(code, expr.span, message, help);
        expr.kind = ExprKind::Broken;
        0
    }
}
