//! Users that VMRM, z/VM's resource manager, would notify if memory is short. The `NOTIFY MEMORY`
//! statements of VMRM's configuration file name these users.
//!
//! ```text
//!   /* memory */
//!   * a line of comment
//!   ADMIN MSGUSER VMRMADMN
//!   NOTIFY MEMORY LINUX* ORACLE1,
//!                 ORACLE2
//! ```
//!
//! A statement ends with its line, unless its last word ends with a comma. Case does not matter.
//! VMRM's other statements concern CPUs and disks, and are ignored.

use std::collections::BTreeSet;
use std::iter::Peekable;
use std::ops::Range;

/// Maximum number of users named: more than are logged on to any z/VM that runs Linux.
const USERS_MAX: usize = 10_000;
/// Maximum number of faults reported. A file with more faults is no configuration file of VMRM.
const FAULTS_MAX: usize = 50;
/// Maximum length of a name.
const NAME_MAX: usize = 8;
/// Maximum length of a quoted word.
const QUOTED_MAX: usize = 24;

/// A fault of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotifyFault {
    /// Range of bytes in the text.
    pub span: Range<usize>,
    /// Description of the fault.
    pub message: String,
    /// Description of a valid text.
    pub help: &'static str,
}

/// A word of a statement, with its place.
#[derive(Clone, Debug)]
struct Word<'t> {
    text: &'t str,
    at: usize,
}

impl Word<'_> {
    fn is(&self, word: &str) -> bool {
        self.text.eq_ignore_ascii_case(word)
    }

    fn fault(&self, message: String, help: &'static str) -> NotifyFault {
        NotifyFault { span: self.at..self.at + self.text.len(), message, help }
    }
}

/// Returns the names and patterns in capitals, without duplicates, in the order of the text. If the
/// text has faults, all faults are returned.
pub fn notified(text: &str) -> Result<Vec<String>, Vec<NotifyFault>> {
    let (statements, mut faults) = statements(text);
    let mut users = Vec::new();
    let mut known = BTreeSet::new();
    for statement in &statements {
        let mut words = statement.iter();
        let Some(first) = words.next().filter(|word| word.is("NOTIFY")) else { continue };
        match words.next() {
            Some(kind) if kind.is("MEMORY") => {}
            Some(kind) => {
                let message = format!("NOTIFY {} is not supported", quoted(kind.text));
                faults.push(kind.fault(message, "write NOTIFY MEMORY, then users"));
                continue;
            }
            None => {
                let message = "NOTIFY without MEMORY".to_owned();
                faults.push(first.fault(message, "write NOTIFY MEMORY, then users"));
                continue;
            }
        }
        if words.len() == 0 {
            let message = "NOTIFY MEMORY without users".to_owned();
            faults.push(first.fault(message, "name users, such as LINUX01 or LINUX*"));
        }
        for word in words {
            match pattern(word.text) {
                Ok(user) => {
                    if known.insert(user.clone()) {
                        users.push(user);
                    }
                }
                Err(message) => {
                    let help = "a user's name has at most 8 characters: A-Z 0-9 @ # $ _ - +; \
                                a * at the end stands for any text";
                    faults.push(word.fault(message, help));
                }
            }
            if users.len() > USERS_MAX {
                let message = format!("more than {USERS_MAX} users");
                faults.push(word.fault(message, "use patterns such as LINUX*"));
                faults.truncate(FAULTS_MAX);
                return Err(faults);
            }
        }
    }
    if users.is_empty() && faults.is_empty() {
        let message = "the file has no NOTIFY MEMORY, so no user would be managed".to_owned();
        let help = "write a line such as NOTIFY MEMORY LINUX*";
        faults.push(NotifyFault { span: 0..0, message, help });
    }
    faults.sort_by_key(|fault| fault.span.start);
    faults.truncate(FAULTS_MAX);
    if faults.is_empty() { Ok(users) } else { Err(faults) }
}

/// Checks a name, or a prefix of names with a star at the end.
fn pattern(word: &str) -> Result<String, String> {
    let name = word.strip_suffix('*').unwrap_or(word);
    if name.len() > NAME_MAX {
        return Err(format!("`{}` is longer than a user's name", quoted(word)));
    }
    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"@#$_-+".contains(&byte);
    match name.bytes().all(is_of_name) {
        true => Ok(word.to_ascii_uppercase()),
        false => Err(format!("`{}` is no user's name", quoted(word))),
    }
}

fn quoted(word: &str) -> String {
    base::plain(word, QUOTED_MAX)
}

/// Returns the words of each statement, without comments.
fn statements(text: &str) -> (Vec<Vec<Word<'_>>>, Vec<NotifyFault>) {
    let mut faults = Vec::new();
    let mut all: Vec<Vec<Word<'_>>> = Vec::new();
    let mut goes_on = false;
    let mut comment: Option<usize> = None;
    let mut line_at = 0;
    for line in text.split_inclusive('\n') {
        let mut words = Vec::new();
        let is_comment = comment.is_none() && line.trim_start().starts_with('*');
        if !is_comment {
            words_of(line, line_at, &mut comment, &mut words);
        }
        line_at += line.len();
        let Some(last) = words.last_mut() else { continue };
        let is_continued = last.text.ends_with(',');
        last.text = last.text.strip_suffix(',').unwrap_or(last.text);
        words.retain(|word| !word.text.is_empty());
        match all.last_mut().filter(|_| goes_on) {
            Some(statement) => statement.append(&mut words),
            None => all.push(words),
        }
        goes_on = is_continued;
    }
    if let Some(at) = comment {
        let message = "a comment that does not end".to_owned();
        faults.push(NotifyFault { span: at..at + 2, message, help: "end it with */" });
    }
    (all, faults)
}

/// Collects the words of a line. `comment` is the start of a comment that is still open.
fn words_of<'t>(line: &'t str, at: usize, comment: &mut Option<usize>, words: &mut Vec<Word<'t>>) {
    let mut places = line.char_indices().peekable();
    let mut from = None;
    let mut end = |from: &mut Option<usize>, to: usize| {
        if let Some(from) = from.take() {
            words.push(Word { text: &line[from..to], at: at + from });
        }
    };
    while let Some((place, c)) = places.next() {
        if comment.is_some() {
            if c == '*' && takes(&mut places, '/') {
                *comment = None;
            }
        } else if c == '/' && takes(&mut places, '*') {
            end(&mut from, place);
            *comment = Some(at + place);
        } else if c.is_whitespace() {
            end(&mut from, place);
        } else {
            from.get_or_insert(place);
        }
    }
    end(&mut from, line.len());
}

/// Consumes the next character if it is the expected one.
fn takes(places: &mut Peekable<std::str::CharIndices<'_>>, wanted: char) -> bool {
    places.next_if(|(_, c)| *c == wanted).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn users(text: &str) -> Vec<String> {
        notified(text).unwrap()
    }

    #[test]
    fn users_of_all_statements_are_listed_once_in_capitals() {
        let text = "\
            /* VMRM on ZVM1, since 2008 */\n\
            ADMIN MSGUSER VMRMADMN\n\
            * NOTIFY MEMORY OLD1\n\
            \x20 * and this, too\n\
            notify memory linux01 Linux2* /* the new ones */ $TEST\n\
            GOAL MAX VELOCITY CPU 100 DASD 100\n\
            NOTIFY MEMORY ORACLE1, \n\
            /* many\n\
            NOTIFY MEMORY NOBODY\n\
            lines */ ORACLE2,\r\n\
            * between\n\
            LINUX01\r\n\
            MANAGE A GOAL B IMPORTANCE 5 , \n\
            NOTIFY MEMORY GOESON\n";
        assert_eq!(users(text), ["LINUX01", "LINUX2*", "$TEST", "ORACLE1", "ORACLE2"]);
        assert_eq!(users("NOTIFY MEMORY *"), ["*"]);
        assert_eq!(users("NOTIFY\tMEMORY\tA/**/B,"), ["A", "B"]);
    }

    fn faults(text: &str) -> Vec<(&str, String)> {
        let faults = notified(text).unwrap_err();
        faults.into_iter().map(|fault| (&text[fault.span.clone()], fault.message)).collect()
    }

    #[test]
    fn faults_are_reported_with_their_places() {
        let text =
            "NOTIFY MEMORY GOOD to-long-a-name A*B\nNOTIFY MEMRY A\nNOTIFY\nNOTIFY MEMORY\n/*";
        let found = faults(text);
        let places: Vec<&str> = found.iter().map(|(place, _)| *place).collect();
        assert_eq!(places, ["to-long-a-name", "A*B", "MEMRY", "NOTIFY", "NOTIFY", "/*"]);
        assert_eq!(found[1].1, "`A*B` is no user's name");
        assert_eq!(faults("ADMIN MSGUSER X")[0].0, "");
        assert!(faults("")[0].1.contains("no user would be managed"));
        let hostile = faults("NOTIFY MEMORY \u{1b}[31mA;rm");
        assert!(!hostile[0].1.contains('\u{1b}'), "{hostile:?}");
    }

    #[test]
    fn faults_and_users_are_bounded() {
        let many = format!("NOTIFY MEMORY {}", "A.B ".repeat(20_000));
        assert_eq!(faults(&many).len(), FAULTS_MAX);
        let names: Vec<String> = (0..20_000).map(|number| format!("U{number}")).collect();
        let many = format!("NOTIFY MEMORY {}", names.join(" "));
        assert_eq!(faults(&many).len(), 1);
    }
}
