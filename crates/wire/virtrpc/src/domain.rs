//! A domain, as calls, answers and events name it.

use crate::Error;
use crate::xdr::{Reader, Writer};

/// Maximum number of domains, the number that the largest hosts are reported to run.
pub const DOMAINS_MAX: usize = 4096;

/// Maximum length of a domain's name. libvirt uses the name as a file name, which Linux limits to
/// 255 bytes.
pub const NAME_BYTES_MAX: usize = 255;

/// A UUID as bytes.
pub type Uuid = [u8; 16];

/// A domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Domain {
    /// The name. It comes from outside and must be escaped.
    pub name: String,
    /// The UUID, which never changes.
    pub uuid: Uuid,
    /// The id while the domain runs, new with each start; -1 otherwise.
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
