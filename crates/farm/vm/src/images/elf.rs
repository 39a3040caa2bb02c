//! ELF files of guests: kernels, their modules, programs and libraries.

/// Returns the names of the modules that a module depends on, from its `.modinfo`.
pub fn depends(elf: &[u8]) -> Option<Vec<String>> {
    let info = Elf::new(elf)?.section(b".modinfo")?;
    let line = info.split(|&byte| byte == 0).find_map(|item| item.strip_prefix(b"depends="))?;
    let text = std::str::from_utf8(line).ok()?;
    Some(text.split(',').filter(|name| !name.is_empty()).map(|n| n.replace('-', "_")).collect())
}

/// Returns the names of the libraries that a program or a library is linked with (`DT_NEEDED`).
pub fn libraries(elf: &[u8]) -> Option<Vec<&str>> {
    const DT_NEEDED: usize = 1;
    const ENTRY_BYTES: usize = 16;
    let elf = Elf::new(elf)?;
    let (dynamic, names) = (elf.section(b".dynamic")?, elf.section(b".dynstr")?);
    let table = Elf { bytes: dynamic, ..elf };
    let entries = (0..dynamic.len() / ENTRY_BYTES).map(|entry| entry * ENTRY_BYTES);
    let name = |entry: usize| {
        let name = names.get(table.number(entry + 8, 8)?..)?.split(|&byte| byte == 0).next()?;
        std::str::from_utf8(name).ok().filter(|name| !name.contains('/'))
    };
    entries.filter(|&entry| table.number(entry, 8) == Some(DT_NEEDED)).map(name).collect()
}

/// The parts of a 64-bit ELF file needed to find a section or the notes. s390x is big-endian.
pub(crate) struct Elf<'a> {
    bytes: &'a [u8],
    big_endian: bool,
}

impl<'a> Elf<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Option<Elf<'a>> {
        let (magic, class, data) = (bytes.get(..4)?, *bytes.get(4)?, *bytes.get(5)?);
        let known = magic == b"\x7fELF" && class == 2 && (data == 1 || data == 2);
        known.then_some(Elf { bytes, big_endian: data == 2 })
    }

    /// Returns an unsigned number of `width` bytes.
    fn number(&self, at: usize, width: usize) -> Option<usize> {
        let field = self.bytes.get(at..at.checked_add(width)?)?;
        let push = |number: usize, byte: &u8| number << 8 | usize::from(*byte);
        Some(if self.big_endian {
            field.iter().fold(0, push)
        } else {
            field.iter().rev().fold(0, push)
        })
    }

    /// Returns the offsets of a table's headers. The arguments are the places in the file at which
    /// the table's offset, entry size and entry count are stored.
    fn headers(&self, table: usize, size: usize, count: usize) -> Option<Vec<usize>> {
        let (table, size) = (self.number(table, 8)?, self.number(size, 2)?);
        let header = |index: usize| table.checked_add(index.checked_mul(size)?);
        (0..self.number(count, 2)?).map(header).collect()
    }

    fn content(&self, header: usize) -> Option<&'a [u8]> {
        self.slice(header.checked_add(0x18)?, header.checked_add(0x20)?)
    }

    /// Returns a slice of the file. The arguments are the places in the file at which the slice's
    /// offset and length are stored.
    fn slice(&self, offset_at: usize, length_at: usize) -> Option<&'a [u8]> {
        let (start, length) = (self.number(offset_at, 8)?, self.number(length_at, 8)?);
        self.bytes.get(start..start.checked_add(length)?)
    }

    pub(crate) fn notes(&self) -> impl Iterator<Item = &'a [u8]> {
        const PT_NOTE: usize = 4;
        let segment = |header: usize| {
            (self.number(header, 4)? == PT_NOTE).then_some(())?;
            self.slice(header.checked_add(0x08)?, header.checked_add(0x20)?)
        };
        self.headers(0x20, 0x36, 0x38).into_iter().flatten().filter_map(segment)
    }

    fn section(&self, name: &[u8]) -> Option<&'a [u8]> {
        let headers = self.headers(0x28, 0x3a, 0x3c)?;
        let names = self.content(*headers.get(self.number(0x3e, 2)?)?)?;
        for header in headers {
            let own_name = names.get(self.number(header, 4)?..)?;
            if own_name.strip_prefix(name).is_some_and(|rest| rest.first() == Some(&0)) {
                return self.content(header);
            }
        }
        None
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn elf(modinfo: &str, big_endian: bool) -> Vec<u8> {
        elf_of(&[(".modinfo", modinfo.as_bytes())], big_endian)
    }

    /// Returns a minimal ELF file: header, names of the sections, the sections, their headers.
    fn elf_of(sections: &[(&str, &[u8])], big_endian: bool) -> Vec<u8> {
        let mut names = vec![0];
        let mut bytes = vec![0; 64];
        bytes[..6].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, if big_endian { 2 } else { 1 }]);
        let mut headers = Vec::new();
        for (name, content) in sections {
            headers.push((names.len(), bytes.len(), content.len()));
            names.extend_from_slice(name.as_bytes());
            names.push(0);
            bytes.extend_from_slice(content);
        }
        headers.insert(0, (0, bytes.len(), names.len()));
        bytes.extend_from_slice(&names);
        let table_at = bytes.len();
        bytes.resize(table_at + headers.len() * 64, 0);
        let mut put = |at: usize, width: usize, number: usize| {
            let all = number.to_be_bytes();
            let field = &mut bytes[at..at + width];
            field.copy_from_slice(&all[8 - width..]);
            if !big_endian {
                field.reverse();
            }
        };
        put(0x28, 8, table_at);
        put(0x3a, 2, 64);
        put(0x3c, 2, headers.len());
        for (index, (name, content_at, length)) in headers.into_iter().enumerate() {
            let header = table_at + index * 64;
            put(header, 4, name);
            put(header + 0x18, 8, content_at);
            put(header + 0x20, 8, length);
        }
        bytes
    }

    #[test]
    fn dependencies_are_read_in_both_byte_orders() {
        for big_endian in [false, true] {
            let bytes = elf("license=GPL\0depends=virtio,virtio-ring\0name=x\0", big_endian);
            assert_eq!(depends(&bytes).unwrap(), ["virtio", "virtio_ring"]);
            assert_eq!(depends(&elf("depends=\0", big_endian)).unwrap(), [""; 0]);
        }
    }

    #[test]
    fn libraries_are_read_in_both_byte_orders() {
        for big_endian in [false, true] {
            // NEEDED, STRTAB, NEEDED, and the end.
            let entries = [(1_u64, 1_u64), (5, 1), (1, 8), (0, 0)];
            let to_bytes = |n: u64| if big_endian { n.to_be_bytes() } else { n.to_le_bytes() };
            let numbers = entries.iter().flat_map(|(tag, value)| [*tag, *value]);
            let dynamic: Vec<u8> = numbers.flat_map(to_bytes).collect();
            let elf = |names| elf_of(&[(".dynamic", &dynamic), (".dynstr", names)], big_endian);
            let linked = elf(b"\0libc.6\0libz.1\0");
            assert_eq!(libraries(&linked).unwrap(), ["libc.6", "libz.1"]);
            assert_eq!(libraries(&elf(b"\0libc.6\0/etc/s\0")), None, "a path is no library's name");
            assert_eq!(libraries(&elf(b"\0libc")), None, "a name is behind the end");
        }
    }

    #[test]
    fn damaged_files_give_nothing_and_never_panic() {
        let bytes = elf("depends=a\0", true);
        // The last 24 bytes of a section's header are not used, so their loss changes nothing.
        for length in 0..bytes.len() - 24 {
            assert_eq!(depends(&bytes[..length]), None, "cut to {length} bytes");
        }
        for position in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[position] ^= 0xff;
            depends(&damaged);
        }
        assert_eq!(depends(&elf("license=GPL\0", false)), None);
    }
}
