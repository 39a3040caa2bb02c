//! The settings of one guest's servers, as words of its kernel's command line.

use std::net::SocketAddrV4;

/// Settings of a guest with [`super::Software`]; `None` leaves the image's default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The services to start: all of the image unless given.
    pub services: Option<Vec<&'static str>>,
    /// The application server's address for nginx: the same guest, port 8000, unless given. Another
    /// guest is reached if this guest is linked with it.
    pub app: Option<SocketAddrV4>,
    /// PostgreSQL's address for the application server: the same guest, port 5432, unless given.
    pub database: Option<SocketAddrV4>,
    /// The application server's heap, in MiB: 16 unless given.
    pub heap_mib: Option<u32>,
    /// Number of requests that the application server handles concurrently: 4 unless given.
    pub threads: Option<u32>,
    /// PostgreSQL's shared buffers, in MiB: 16 unless given.
    pub shared_mib: Option<u32>,
}

impl Settings {
    /// Returns the words for the kernel's command line.
    pub fn kernel_words(&self) -> Vec<String> {
        let services = self.services.as_ref().map(|names| names.join(","));
        [
            services.map(|names| format!("pinhead.services={names}")),
            self.app.map(|address| format!("pinhead.app={address}")),
            self.database.map(|address| format!("pinhead.db={address}")),
            self.heap_mib.map(|mib| format!("pinhead.heap_mib={mib}")),
            self.threads.map(|count| format!("pinhead.threads={count}")),
            self.shared_mib.map(|mib| format!("pinhead.shared_mib={mib}")),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    const OTHER: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 2);

    /// A word unknown to the image's script would be ignored silently.
    #[test]
    fn the_image_knows_every_word() {
        let all = Settings {
            services: Some(vec!["nginx", "app"]),
            app: Some(SocketAddrV4::new(OTHER, 18_001)),
            database: Some(SocketAddrV4::new(OTHER, 18_002)),
            heap_mib: Some(64),
            threads: Some(2),
            shared_mib: Some(32),
        };
        let words = all.kernel_words();
        assert_eq!(words[..2], ["pinhead.services=nginx,app", "pinhead.app=10.0.1.2:18001"]);
        let script = include_str!("start.sh");
        for word in &words {
            let name = word.split('=').next().unwrap();
            assert!(script.contains(&format!("{name}=*)")), "{name}");
        }
        assert_eq!(words.len(), 6);
        assert_eq!(Settings::default().kernel_words(), Vec::<String>::new());
    }
}
