//! How long ago something was, in the short form that kubectl prints.

/// The time from `then` to `now` (seconds since 1970), with two units at most.
///
/// A time up to a second ahead counts as now: clocks differ.
pub fn age(now: i64, then: i64) -> String {
    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    const YEAR: i64 = 365 * DAY;

    let seconds = now.saturating_sub(then);
    match seconds {
        ..=-2 => "<invalid>".into(),
        -1 => "0s".into(),
        0..120 => format!("{seconds}s"),
        120..600 => two(seconds / MINUTE, "m", seconds % MINUTE, "s"),
        600..10_800 => format!("{}m", seconds / MINUTE),
        10_800..28_800 => two(seconds / HOUR, "h", seconds % HOUR / MINUTE, "m"),
        28_800..172_800 => format!("{}h", seconds / HOUR),
        172_800..691_200 => two(seconds / DAY, "d", seconds % DAY / HOUR, "h"),
        691_200..63_072_000 => format!("{}d", seconds / DAY),
        63_072_000..252_288_000 => two(seconds / YEAR, "y", seconds % YEAR / DAY, "d"),
        _ => format!("{}y", seconds / YEAR),
    }
}

/// Two units, the smaller one only when it is not zero.
fn two(large: i64, large_unit: &str, small: i64, small_unit: &str) -> String {
    match small {
        0 => format!("{large}{large_unit}"),
        _ => format!("{large}{large_unit}{small}{small_unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::age;

    #[test]
    fn ages_change_units_where_kubectl_changes_them() {
        let check = |seconds: i64, expected: &str| {
            let now = 1_700_000_000;
            assert_eq!(age(now, now - seconds), expected, "{seconds}");
        };
        let (minute, hour, day, year) = (60, 3600, 86_400, 365 * 86_400);
        check(-2, "<invalid>");
        check(-1, "0s");
        check(0, "0s");
        check(119, "119s");
        check(2 * minute, "2m");
        check(2 * minute + 21, "2m21s");
        check(10 * minute - 1, "9m59s");
        check(10 * minute + 59, "10m");
        check(3 * hour - 1, "179m");
        check(3 * hour + 5 * minute, "3h5m");
        check(8 * hour - 1, "7h59m");
        check(8 * hour + 59 * minute, "8h");
        check(2 * day - 1, "47h");
        check(2 * day + 3 * hour, "2d3h");
        check(8 * day - 1, "7d23h");
        check(8 * day, "8d");
        check(2 * year - 1, "729d");
        check(2 * year + 3 * day, "2y3d");
        check(3 * year, "3y");
        check(8 * year + 100 * day, "8y");
    }
}
