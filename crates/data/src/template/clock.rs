//! The day that templates print.

use std::fmt::Write as _;

/// A day and a time, which stand for the time of a rendering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TemplateDate {
    year: u32,
    month: u32,
    day: u32,
    hour: u32,
    minute: u32,
    second: u32,
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

const DAYS: [&str; 7] = [
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
    "Sunday",
];

impl TemplateDate {
    /// Parses `YYYY-MM-DD` or `YYYY-MM-DDTHH:MM:SS`; returns `None` if there is no such day.
    pub fn parse(text: &str) -> Option<Self> {
        let (day, time) = text.split_once('T').unwrap_or((text, "00:00:00"));
        let numbers = |text: &str, separator: char, widths: [usize; 3]| {
            let parts: Vec<&str> = text.split(separator).collect();
            let parts: [&str; 3] = parts.try_into().ok()?;
            let mut numbers = [0; 3];
            for ((number, part), width) in numbers.iter_mut().zip(parts).zip(widths) {
                if part.len() != width || !part.bytes().all(|byte| byte.is_ascii_digit()) {
                    return None;
                }
                *number = part.parse().ok()?;
            }
            Some(numbers)
        };
        let [year, month, day] = numbers(day, '-', [4, 2, 2])?;
        let [hour, minute, second] = numbers(time, ':', [2, 2, 2])?;
        let date = Self {
            year,
            month,
            day,
            hour,
            minute,
            second,
        };
        let is_valid = year > 0
            && (1..=12).contains(&month)
            && (1..=date.days_of(month)).contains(&day)
            && hour < 24
            && minute < 60
            && second < 60;
        is_valid.then_some(date)
    }

    fn days_of(&self, month: u32) -> u32 {
        let is_leap = self.year.is_multiple_of(4)
            && (!self.year.is_multiple_of(100) || self.year.is_multiple_of(400));
        match month {
            2 if is_leap => 29,
            2 => 28,
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        }
    }

    fn day_of_year(&self) -> u32 {
        (1..self.month)
            .map(|month| self.days_of(month))
            .sum::<u32>()
            + self.day
    }

    fn weekday(&self) -> &'static str {
        let before = self.year - 1;
        let days = before * 365 + before / 4 - before / 100 + before / 400 + self.day_of_year();
        // The first day of year 1 is a Monday.
        let index = usize::try_from((days - 1) % 7).unwrap_or_default();
        DAYS.get(index).copied().unwrap_or_default()
    }

    fn month_name(&self) -> &'static str {
        let index = usize::try_from(self.month - 1).unwrap_or_default();
        MONTHS.get(index).copied().unwrap_or_default()
    }

    /// Formats as `strftime` does in the C locale; returns the directive that is not supported.
    pub(super) fn format(&self, format: &str) -> Result<String, String> {
        let mut text = String::new();
        let mut characters = format.chars();
        while let Some(character) = characters.next() {
            if character != '%' {
                text.push(character);
                continue;
            }
            let mut directive = characters.next().unwrap_or('%');
            let is_short = directive == '-';
            if is_short {
                directive = characters.next().unwrap_or('%');
            }
            let hour = if self.hour.is_multiple_of(12) {
                12
            } else {
                self.hour % 12
            };
            let (number, width) = match directive {
                'd' => (self.day, 2),
                'm' => (self.month, 2),
                'y' => (self.year % 100, 2),
                'H' => (self.hour, 2),
                'I' => (hour, 2),
                'M' => (self.minute, 2),
                'S' => (self.second, 2),
                'j' => (self.day_of_year(), 3),
                _ => {
                    let part = match directive {
                        'Y' => format!("{:04}", self.year),
                        'e' => format!("{:2}", self.day),
                        'F' => format!("{:04}-{:02}-{:02}", self.year, self.month, self.day),
                        'T' => format!("{:02}:{:02}:{:02}", self.hour, self.minute, self.second),
                        'B' => self.month_name().to_owned(),
                        'b' | 'h' => self.month_name().chars().take(3).collect(),
                        'A' => self.weekday().to_owned(),
                        'a' => self.weekday().chars().take(3).collect(),
                        'p' => if self.hour < 12 { "AM" } else { "PM" }.to_owned(),
                        '%' => "%".to_owned(),
                        other => return Err(format!("%{other}")),
                    };
                    text.push_str(&part);
                    continue;
                }
            };
            let width = if is_short { 1 } else { width };
            // Writing to a string does not fail.
            let _ = write!(text, "{number:0width$}");
        }
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::TemplateDate;

    #[test]
    fn days_are_formatted_as_in_c() {
        let date = TemplateDate::parse("2026-02-05T15:04:09").unwrap();
        let format = "%Y-%m-%d %d %b %Y %B %A %a %-d|%e %H:%M:%S %I %p %j %y %%";
        assert_eq!(
            date.format(format).unwrap(),
            "2026-02-05 05 Feb 2026 February Thursday Thu 5| 5 15:04:09 03 PM 036 26 %"
        );
        assert_eq!(date.format("%Q"), Err("%Q".to_owned()));
        let leap = TemplateDate::parse("2024-12-31").unwrap();
        assert_eq!(leap.format("%j %A").unwrap(), "366 Tuesday");
    }

    #[test]
    fn impossible_days_are_refused() {
        for text in [
            "2026-02-29",
            "2026-13-01",
            "2026-1-1",
            "today",
            "2026-01-01T24:00:00",
        ] {
            assert_eq!(TemplateDate::parse(text), None, "{text}");
        }
    }
}
