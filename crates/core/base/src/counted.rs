//! Numbers with their nouns.

/// Returns a number with its noun: `1 guest`, `2 guests`.
pub fn counted(number: u64, noun: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{ending}")
}

#[cfg(test)]
mod tests {
    use super::counted;

    #[test]
    fn report_h14_count_of_one_is_singular() {
        let all = [0, 1, 2].map(|number| counted(number, "guest"));
        assert_eq!(all, ["0 guests", "1 guest", "2 guests"]);
    }
}
