//! Columns in Arrow's layout: little-endian numbers in sequence, a validity bit for each, and texts
//! as indexes into a list.

use model::{Field, GuestField, HostField, Kind, ProcessField, Row, TierField, Unit};
use std::collections::HashMap;

/// A part of the recordings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The host.
    Host,
    /// Guests.
    Guests,
    /// Tiers of memory.
    Tiers,
    /// Processes of guests.
    Processes,
}

/// Description of a field: name, unit, kind, source and documentation.
pub type Described = (&'static str, &'static str, &'static str, &'static str, &'static str);

impl Part {
    /// Returns the part with this name.
    pub fn named(name: &str) -> Result<Part, String> {
        match name {
            "host" => Ok(Part::Host),
            "guests" => Ok(Part::Guests),
            "tiers" => Ok(Part::Tiers),
            "processes" => Ok(Part::Processes),
            _ => Err(format!("there is no part {name:?}: say host, guests, tiers or processes")),
        }
    }

    /// Returns the fields of the part.
    pub fn fields(self) -> Vec<Described> {
        match self {
            Part::Host => described::<HostField>(),
            Part::Guests => described::<GuestField>(),
            Part::Tiers => described::<TierField>(),
            Part::Processes => described::<ProcessField>(),
        }
    }

    /// Returns the places of the wanted fields in a row; of all fields if no names are given.
    pub fn wanted(self, names: Option<&[String]>) -> Result<Vec<usize>, String> {
        let all = self.fields();
        let Some(names) = names else { return Ok((0..all.len()).collect()) };
        let place = |name: &String| {
            all.iter().position(|field| field.0 == name).ok_or_else(|| {
                let near = base::nearest(name, all.iter().map(|field| field.0));
                let near =
                    near.first().map_or(String::new(), |near| format!("; did you mean {near}?"));
                format!("there is no field {name:?}{near}")
            })
        };
        let mut places = Vec::with_capacity(names.len());
        for name in names {
            let place = place(name)?;
            if places.contains(&place) {
                return Err(format!("the field {name:?} is named twice"));
            }
            places.push(place);
        }
        Ok(places)
    }
}

fn described<F: Field>() -> Vec<Described> {
    let unit = |unit: Unit| match unit {
        Unit::Bytes => "bytes",
        Unit::Nanoseconds => "ns",
        Unit::Pages => "pages of 4 KiB",
        Unit::Ticks => "ticks of 10 ms",
        Unit::Count => "count",
        Unit::Permille => "permille",
    };
    let kind = |kind: Kind| match kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
    };
    let one = |f: &F| (f.name(), unit(f.unit()), kind(f.kind()), f.source(), f.doc());
    F::ALL.iter().map(one).collect()
}

/// A finished column.
#[derive(Debug)]
pub struct Column {
    /// Name of the column.
    pub name: &'static str,
    /// `time`, `number` or `text`.
    pub kind: &'static str,
    /// Numbers of 8 bytes, or indexes of 4 bytes into `texts`.
    pub values: Vec<u8>,
    /// Validity bits, if some values are missing.
    pub known: Option<Vec<u8>>,
    /// Number of values.
    pub rows: usize,
    /// Distinct texts.
    pub texts: Vec<String>,
}

/// Numbers, some of which may be missing.
#[derive(Debug, Default)]
pub struct Numbers {
    values: Vec<u8>,
    known: Vec<u8>,
    rows: usize,
    missing: bool,
}

impl Numbers {
    /// Adds a value.
    pub fn push(&mut self, value: Option<u64>) {
        self.values.extend(value.unwrap_or(0).to_le_bytes());
        if self.rows.is_multiple_of(8) {
            self.known.push(0);
        }
        match (value, self.known.last_mut()) {
            (Some(_), Some(bits)) => *bits |= 1 << (self.rows % 8),
            _ => self.missing = true,
        }
        self.rows += 1;
    }

    fn column(self, name: &'static str, kind: &'static str) -> Column {
        let known = self.missing.then_some(self.known);
        Column { name, kind, values: self.values, known, rows: self.rows, texts: Vec::new() }
    }
}

/// Texts, most of which repeat.
#[derive(Debug, Default)]
pub struct Texts {
    places: HashMap<String, i32>,
    texts: Vec<String>,
    values: Vec<u8>,
    rows: usize,
}

impl Texts {
    /// Adds a text.
    pub fn push(&mut self, text: &str) {
        let place = match self.places.get(text) {
            Some(place) => *place,
            None => {
                let place = self.texts.len() as i32;
                self.places.insert(text.to_owned(), place);
                self.texts.push(text.to_owned());
                place
            }
        };
        self.values.extend(place.to_le_bytes());
        self.rows += 1;
    }

    fn column(self, name: &'static str) -> Column {
        let Texts { texts, values, rows, .. } = self;
        Column { name, kind: "text", values, known: None, rows, texts }
    }
}

/// A table under construction.
#[derive(Debug)]
pub struct Columns {
    times: Numbers,
    /// Time that each row covers; `None` for samples, which are of a moment.
    covered: Option<Numbers>,
    labels: Vec<(&'static str, Texts)>,
    /// PIDs, if rows are of processes.
    pids: Option<Numbers>,
    fields: Vec<(usize, Numbers)>,
    part: Part,
}

impl Columns {
    /// Creates an empty table with these fields.
    pub fn new(part: Part, wanted: &[usize], of_samples: bool) -> Columns {
        let labels: &[&str] = match part {
            Part::Host => &[],
            Part::Guests => &["guest", "uuid", "class"],
            Part::Tiers => &["tier"],
            Part::Processes => &["guest", "uuid", "process"],
        };
        Columns {
            times: Numbers::default(),
            covered: (!of_samples).then(Numbers::default),
            labels: labels.iter().map(|name| (*name, Texts::default())).collect(),
            pids: (part == Part::Processes).then(Numbers::default),
            fields: wanted.iter().map(|place| (*place, Numbers::default())).collect(),
            part,
        }
    }

    /// Adds a row, with as many labels as the part has.
    pub fn push<F: Field>(&mut self, at_ms: i64, covered_ms: u64, labels: &[&str], row: &Row<F>) {
        self.times.push(Some(at_ms as u64));
        if let Some(covered) = &mut self.covered {
            covered.push(Some(covered_ms));
        }
        for ((_, texts), label) in self.labels.iter_mut().zip(labels) {
            texts.push(label);
        }
        for (place, numbers) in &mut self.fields {
            numbers.push(F::ALL.get(*place).and_then(|field| row.get(*field)));
        }
    }

    /// Adds the PID of a row.
    pub fn pid(&mut self, pid: u32) {
        if let Some(pids) = &mut self.pids {
            pids.push(Some(u64::from(pid)));
        }
    }

    /// Returns the finished columns.
    pub fn finish(self) -> Vec<Column> {
        let names = self.part.fields();
        let mut all = vec![self.times.column("time", "time")];
        all.extend(self.labels.into_iter().map(|(name, texts)| texts.column(name)));
        all.extend(self.pids.map(|pids| pids.column("pid", "number")));
        all.extend(self.covered.map(|covered| covered.column("covered_ms", "number")));
        let field = |(place, numbers): (usize, Numbers)| numbers.column(names[place].0, "number");
        all.extend(self.fields.into_iter().map(field));
        all
    }
}
