//! A domain, as calls, answers and events name it.

use crate::Error;
use crate::xdr::{Reader, Writer};

/// The longest list of domains: as many as the largest hosts are said to run.
pub const DOMAINS_MAX: usize = 4096;

/// The longest name of a domain. libvirt makes a file's name of it, for which Linux has 255.
pub const NAME_BYTES_MAX: usize = 255;

/// A UUID as bytes.
pub type Uuid = [u8; 16];

/// A domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Domain {
    /// Its name. It comes from outside: escape it.
    pub name: String,
    /// Its UUID, which stays.
    pub uuid: Uuid,
    /// Its number while it runs, new with each start; -1 while it does not run.
    pub id: i32,
}

impl Domain {
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Domain, Error> {
        let name = reader.text("domain.name", NAME_BYTES_MAX)?.to_owned();
        let uuid = reader.fixed("domain.uuid")?;
        Ok(Domain { name, uuid, id: reader.i32("domain.id")? })
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        writer.text(&self.name);
        writer.bytes.extend(self.uuid);
        writer.i32(self.id);
    }
}
