//! Checks of the links between classes, and the resulting links between guests.

use std::net::Ipv4Addr;

use settings::{Entries, Reader, shown};

use super::types::{Builtin, Class, ClassLink, Farm, LINKS_HELP, Source};
use crate::links::{Link, class_address};

/// Maximum number of links of one class. Each link is a word on the kernel command lines of the
/// class's guests.
const LINKS_MAX: usize = 8;
const DATABASE_PORT: u16 = 5432;

/// The links of a class, to be checked once all classes are known.
pub(super) struct Written<'t, 'i>(Vec<(ClassLink, Entries<'t, 'i>)>);

pub(super) fn read<'t, 'i>(reader: &mut Reader<'_>, class_at: &Entries<'t, 'i>) -> Written<'t, 'i> {
    Written(reader.nested(class_at, "links", "link", LINKS_MAX, LINKS_HELP))
}

/// Checks the links of each class, reports invalid links, and stores the valid links in the class.
/// `classes` and `written` are in the same order.
pub(super) fn check(reader: &mut Reader<'_>, classes: &mut [Class], written: Vec<Written<'_, '_>>) {
    for (place, Written(links)) in written.into_iter().enumerate() {
        let mut known: Vec<ClassLink> = Vec::new();
        for (link, at) in links {
            if at.get("to").is_none() || at.get("port").is_none() {
                let message = "a link needs `to` and `port`".to_owned();
                let help = "write { to = \"db\", port = 5432 }";
                reader.fault(at.span.clone(), "class.links", message, Some(help));
            } else if let Some((key, message, help)) = fault(classes, place, &link, &known) {
                reader.refuse(&at, &[key], message, &help);
            } else {
                known.push(link);
            }
        }
        classes[place].links = known;
    }
}

/// Returns the fault of a link: the key, the message, and the remedy.
fn fault(
    classes: &[Class],
    place: usize,
    link: &ClassLink,
    known: &[ClassLink],
) -> Option<(&'static str, String, String)> {
    let to = shown(&link.to);
    let Some(target) = classes.iter().find(|class| class.name == link.to) else {
        // The names include classes with invalid names. Such a class has its own error.
        let names: Vec<String> = classes.iter().map(|class| shown(&class.name)).collect();
        let help = match base::nearest(&link.to, names.iter().map(String::as_str)).first() {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("the classes are {}", names.join(", ")),
        };
        return Some(("to", format!("there is no class `{to}`"), help));
    };
    if target.name == classes[place].name {
        let help = "name another class in `to`".to_owned();
        return Some(("to", format!("class `{to}` links to itself"), help));
    }
    let ends = [&classes[place], target];
    if let Some(parked) = ends.into_iter().find(|class| class.park_ms.is_some()) {
        let message = format!("class `{}` has `park`", shown(&parked.name));
        let help = "remove `park` or the link: data on a link does not wake a parked guest";
        return Some(("to", message, help.to_owned()));
    }
    if known.contains(link) {
        let help = "write each link once".to_owned();
        return Some(("port", format!("`{to}` port {} has a link already", link.port), help));
    }
    let ports = target.known_ports()?;
    if !ports.contains(&link.port) {
        let ports: Vec<String> = ports.iter().map(ToString::to_string).collect();
        let message = format!("class `{to}` does not serve port {}", link.port);
        let help = format!("the class serves {}; add others to its `ports`", ports.join(", "));
        return Some(("port", message, help));
    }
    None
}

impl Class {
    /// Returns the ports that the guests serve: the ports of a server image, and the forwarded
    /// ports. `None` means that the ports are unknown.
    fn known_ports(&self) -> Option<Vec<u16>> {
        let Source::Builtin(image) = self.source() else { return None };
        let mut ports = image.ports()?.to_vec();
        ports.extend(self.ports.iter().map(|port| port.guest));
        ports.dedup();
        Some(ports)
    }

    fn has_database(&self) -> bool {
        let has = |image: Builtin| image.ports().is_some_and(|all| all.contains(&DATABASE_PORT));
        matches!(self.source(), Source::Builtin(image) if has(image))
    }
}

impl Farm {
    fn place(&self, name: &str) -> Option<usize> {
        self.classes.iter().position(|class| class.name == name)
    }

    /// Returns the network number of a class's first guest. The numbers of all classes are
    /// consecutive.
    pub fn first_number(&self, class: usize) -> u32 {
        1 + self.classes.iter().take(class).map(|class| class.count).sum::<u32>()
    }

    /// Returns the links between guests. A link names each guest by the guest's number on the
    /// network. Guest n of a class is linked to guest n of the target class, modulo the target
    /// class's size. Links to classes that are not started are left out.
    pub fn links(&self) -> Vec<Link> {
        let mut links = Vec::new();
        for (place, class) in self.classes.iter().enumerate() {
            let first = self.first_number(place);
            for link in &class.links {
                let Some(to) = self.place(&link.to) else { continue };
                let server = self.first_number(to);
                let servers = self.classes[to].count.max(1);
                links.extend((0..class.count).map(|guest| Link {
                    client: first + guest,
                    address: class_address(to),
                    port: link.port,
                    server: server + guest % servers,
                }));
            }
        }
        links
    }

    /// Returns the names of the linked classes, with the addresses at which the guests reach these
    /// classes.
    pub fn neighbours(&self, class: &Class) -> Vec<(&str, Ipv4Addr)> {
        let mut found: Vec<(&str, Ipv4Addr)> = Vec::new();
        for place in class.links.iter().filter_map(|link| self.place(&link.to)) {
            let neighbour = (self.classes[place].name.as_str(), class_address(place));
            if !found.contains(&neighbour) {
                found.push(neighbour);
            }
        }
        found
    }

    /// Returns true if this class has a link to another class, or another class has a link to this
    /// class.
    pub fn is_linked(&self, class: &Class) -> bool {
        let to = |link: &ClassLink| link.to == class.name;
        self.classes.iter().any(|other| other.links.iter().any(to))
            || !self.neighbours(class).is_empty()
    }

    /// Returns true if guests of a class get the password of the farm's database. The database's
    /// servers and all guests linked with these servers get the password. A user's own kernel has
    /// no shell that could receive the password.
    pub fn knows_password(&self, class: &Class) -> bool {
        let is_database = |link: &ClassLink| {
            let target = self.place(&link.to).map(|place| &self.classes[place]);
            link.port == DATABASE_PORT && target.is_some_and(Class::has_database)
        };
        matches!(class.source(), Source::Builtin(_))
            && (class.has_database() || class.links.iter().any(is_database))
    }
}
