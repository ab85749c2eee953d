//! The calendar. Reads no clock.

/// Year, month and day of the Gregorian calendar, from a count of days since 1970-01-01. Years are counted from March, so
/// that a leap day comes last; an era of 400 years has 146,097 days.
pub fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468; // from 0000-03-01 to 1970-01-01
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        let days = [(0, (1970, 1, 1)), (11_016, (2000, 2, 29)), (47_540, (2100, 2, 28)), (47_541, (2100, 3, 1))];
        for (day, date) in days {
            assert_eq!(civil(day), date);
        }
    }
}
