//! Values as Kafka's `ConfigDef` parses and prints them.

use super::definition::Kind;

/// One parsed value. Absence (Kafka's null) is an `Option` around it.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// [`Kind::Boolean`]
    Boolean(bool),
    /// [`Kind::Short`], [`Kind::Int`] and [`Kind::Long`]
    Whole(i64),
    /// [`Kind::Double`]
    Double(f64),
    /// [`Kind::String`], [`Kind::Class`] and [`Kind::Password`]
    Text(String),
    /// [`Kind::List`]
    List(Vec<String>),
}

impl Value {
    /// Parses `text` as `kind`.
    ///
    /// # Errors
    /// Kafka's reason, to follow `Invalid value X for configuration Y: `.
    pub fn parse(kind: Kind, text: &str) -> Result<Self, String> {
        let text = java_trim(text);
        let whole = |least: i64, most: i64| {
            text.parse::<i64>()
                .ok()
                .filter(|number| (least..=most).contains(number))
                .map(Self::Whole)
                .ok_or_else(|| format!("Not a number of type {}", kind.name()))
        };
        match kind {
            Kind::Boolean if text.eq_ignore_ascii_case("true") => Ok(Self::Boolean(true)),
            Kind::Boolean if text.eq_ignore_ascii_case("false") => Ok(Self::Boolean(false)),
            Kind::Boolean => Err("Expected value to be either true or false".into()),
            Kind::Short => whole(i16::MIN.into(), i16::MAX.into()),
            Kind::Int => whole(i32::MIN.into(), i32::MAX.into()),
            Kind::Long => whole(i64::MIN, i64::MAX),
            Kind::Double => parse_double(text)
                .map(Self::Double)
                .ok_or_else(|| format!("Not a number of type {}", kind.name())),
            Kind::String | Kind::Class | Kind::Password => Ok(Self::Text(text.to_owned())),
            Kind::List if text.is_empty() => Ok(Self::List(Vec::new())),
            Kind::List => {
                Ok(Self::List(text.split(',').map(|item| item.trim_ascii().to_owned()).collect()))
            }
        }
    }

    /// The whole number, if it is one.
    #[must_use]
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Self::Whole(number) => Some(*number),
            Self::Boolean(_) | Self::Double(_) | Self::Text(_) | Self::List(_) => None,
        }
    }

    /// The fraction, if it is one.
    #[must_use]
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Double(number) => Some(*number),
            Self::Boolean(_) | Self::Whole(_) | Self::Text(_) | Self::List(_) => None,
        }
    }

    /// `ConfigDef.convertToString`: how `DescribeConfigs` shows it.
    #[must_use]
    pub fn print(&self) -> String {
        match self {
            Self::Boolean(value) => value.to_string(),
            Self::Whole(value) => value.to_string(),
            Self::Double(value) => print_double(*value),
            Self::Text(value) => value.clone(),
            Self::List(items) => items.join(","),
        }
    }

    /// Java's `String.valueOf`, as error messages show it: a list stands in brackets.
    #[must_use]
    pub fn display(&self) -> String {
        match self {
            Self::List(items) => format!("[{}]", items.join(", ")),
            Self::Boolean(_) | Self::Whole(_) | Self::Double(_) | Self::Text(_) => self.print(),
        }
    }
}

/// `String.trim`: everything up to and including the space, nothing beyond ASCII.
fn java_trim(text: &str) -> &str {
    text.trim_matches(|character| character <= ' ')
}

/// `Double.parseDouble` without its hexadecimal form, which nobody writes into a configuration file.
fn parse_double(text: &str) -> Option<f64> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    match unsigned {
        "NaN" | "Infinity" => text.parse().ok(),
        _ if unsigned.starts_with(|first: char| first.is_ascii_digit() || first == '.') => {
            text.strip_suffix(['d', 'D', 'f', 'F']).unwrap_or(text).parse().ok()
        }
        _ => None,
    }
}

/// `Double.toString`: the shortest digits that read back, in scientific form outside 10^-3 to 10^7.
fn print_double(value: f64) -> String {
    let magnitude = value.abs();
    if value.is_nan() {
        "NaN".into()
    } else if value.is_infinite() {
        if value > 0.0 { "Infinity".into() } else { "-Infinity".into() }
    } else if magnitude != 0.0 && !(1e-3..1e7).contains(&magnitude) {
        let scientific = format!("{value:e}");
        let (digits, exponent) =
            scientific.split_once('e').expect("LowerExp always writes an exponent");
        if digits.contains('.') {
            format!("{digits}E{exponent}")
        } else {
            format!("{digits}.0E{exponent}")
        }
    } else {
        format!("{value:?}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_print_as_java_prints_them() {
        for (value, text) in [
            (0.5, "0.5"),
            (1.0, "1.0"),
            (0.0, "0.0"),
            (0.001, "0.001"),
            (0.0005, "5.0E-4"),
            (1e7, "1.0E7"),
            (9_999_999.0, "9999999.0"),
            (f64::MAX, "1.7976931348623157E308"),
            (2_147_483_647.0, "2.147483647E9"),
        ] {
            assert_eq!(print_double(value), text);
        }
    }

    #[test]
    fn text_is_trimmed_and_lists_are_split_around_blanks() {
        assert_eq!(Value::parse(Kind::Int, " 7\t"), Ok(Value::Whole(7)));
        assert_eq!(Value::parse(Kind::Int, "+7"), Ok(Value::Whole(7)));
        assert_eq!(
            Value::parse(Kind::List, " a , b,, "),
            Ok(Value::List(["a", "b", "", ""].map(str::to_owned).to_vec()))
        );
        assert_eq!(Value::parse(Kind::List, "  "), Ok(Value::List(vec![])));
        assert_eq!(Value::parse(Kind::Boolean, "TRUE"), Ok(Value::Boolean(true)));
        assert_eq!(Value::parse(Kind::Double, "1d"), Ok(Value::Double(1.0)));
    }

    #[test]
    fn numbers_out_of_their_type_are_refused_in_kafkas_words() {
        assert_eq!(Value::parse(Kind::Int, "2147483648"), Err("Not a number of type INT".into()));
        assert_eq!(Value::parse(Kind::Short, "32768"), Err("Not a number of type SHORT".into()));
        assert_eq!(Value::parse(Kind::Long, "1.0"), Err("Not a number of type LONG".into()));
        assert_eq!(Value::parse(Kind::Double, "inf"), Err("Not a number of type DOUBLE".into()));
        assert_eq!(
            Value::parse(Kind::Boolean, "yes"),
            Err("Expected value to be either true or false".into())
        );
    }
}
