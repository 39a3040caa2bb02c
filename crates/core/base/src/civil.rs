//! Days of the Gregorian calendar.

/// Returns the days since 1970-01-01. Months and days are counted from 1.
pub fn days(year: i64, month: i64, day: i64) -> i64 {
    // Years begin in March here, so that the leap day is the last one.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let before_month = (153 * month + 2) / 5;
    let before_year = 365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    before_year + before_month + day - 1 - 719_468
}

/// Returns the year, month and day of a day since 1970-01-01.
pub fn date(day: i64) -> (i64, i64, i64) {
    // Eras of 400 years all have the same length.
    let day = day + 719_468;
    let (era, of_era) = (day.div_euclid(146_097), day.rem_euclid(146_097));
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let of_month = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + i64::from(month <= 2), month, of_month)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_dates_are_each_others_inverse() {
        assert_eq!(days(1970, 1, 1), 0);
        assert_eq!(days(2000, 3, 1), 11_017);
        assert_eq!(date(20_778), (2026, 11, 21));
        assert_eq!(date(-1), (1969, 12, 31));
        for day in (-200_000..200_000).step_by(13) {
            let (year, month, date) = date(day);
            assert_eq!(days(year, month, date), day);
        }
    }
}
