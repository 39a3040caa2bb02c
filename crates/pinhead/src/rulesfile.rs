//! Rules files, found by a path or by the name of a preset.

use crate::{Error, RulesError};
use std::io::Read;
use std::path::Path;

/// A rules file's text and its name for messages.
#[derive(Clone, Debug)]
pub struct RulesText {
    /// Path of the file, or the preset's name in angle brackets.
    pub name: String,
    pub text: Vec<u8>,
}

/// Reads a rules file. If no file has this name, it may be the name of a preset.
pub fn read(path: &Path) -> Result<RulesText, Error> {
    let preset = path.to_str().and_then(find_preset);
    if let (Some(preset), false) = (preset, path.exists()) {
        let name = format!("<{}>", preset.name);
        return Ok(RulesText { name, text: preset.text().into_bytes() });
    }
    let mut text = Vec::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(rules::MAX_FILE as u64 + 1).read_to_end(&mut text))
        .map_err(|source| match source.kind() {
            std::io::ErrorKind::NotFound => {
                let presets = rules::PRESETS.iter().map(|preset| preset.name);
                let near = base::nearest(&path.to_string_lossy(), presets);
                let hint = match near.first() {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => "`pinhead presets` lists them".to_owned(),
                };
                RulesError::NoFile { path: path.into(), hint }.into()
            }
            _ => Error::read(path, source),
        })?;
    Ok(RulesText { name: path.display().to_string(), text })
}

/// Finds the preset with this name. The published spelling (`memory 4`) is accepted too.
pub fn find_preset(name: &str) -> Option<&'static rules::Preset> {
    let dashed = name.trim().to_ascii_lowercase().replace([' ', '_'], "-");
    let long = dashed.strip_prefix("mem-").map(|rest| format!("memory-{rest}"));
    rules::preset(&long.unwrap_or(dashed))
}
