//! `pinhead presets`: the published configurations.

use crate::args::PresetsArgs;
use crate::rulesfile::find_preset;
use crate::{Error, RulesError};
use rules::PRESETS;
use std::fmt::Write as _;

/// Lists the presets, or prints one as a rules file.
pub fn show(args: &PresetsArgs) -> Result<String, Error> {
    match args.name.as_deref() {
        Some(name) => find_preset(name).map(|preset| preset.text()).ok_or_else(|| {
            let hint = base::correction(name, PRESETS.iter().map(|preset| preset.name));
            RulesError::NoPreset { name: name.to_owned(), hint }.into()
        }),
        None => {
            let mut out = String::new();
            for preset in &PRESETS {
                let _ = writeln!(out, "{:<14} {}", preset.name, preset.summary);
            }
            out.push_str("\nThe whole file: pinhead presets NAME\n");
            Ok(out)
        }
    }
}
