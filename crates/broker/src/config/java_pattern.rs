//! Whether Java would compile a regular expression (`java.util.regex.Pattern`): what Kafka demands of the patterns in its
//! settings. Nothing is matched here.
//!
//! Non-obvious:
//! - The names of properties (`\p{IsGreek}`) and of characters (`\N{DIGIT ONE}`) are not looked up: any name will do.
//! - Whether what looks behind, `(?<=...)`, has a bounded length is not judged: Java's own rule has holes (`a*` has a bound).
//! - Java does not limit how deep groups lie in each other until its stack ends; here that is [`DEEPEST`].

/// How deep groups and classes may lie in each other.
const DEEPEST: usize = 200;

/// Whether `pattern` is one.
pub(super) fn is_valid(pattern: &str) -> bool {
    let mut parser = Parser {
        pattern: pattern.chars().collect(),
        at: 0,
        depth: 0,
        comments: false,
        names: Vec::new(),
    };
    // What is left over is a parenthesis too many.
    parser.alternatives().is_some() && parser.peek().is_none()
}

/// `None` from any of its functions: Java would throw.
struct Parser {
    pattern: Vec<char>,
    at: usize,
    depth: usize,
    /// The flag `x`: white space and what follows a `#` count for nothing.
    comments: bool,
    names: Vec<String>,
}

/// What an escape stands for.
enum Escape {
    Character(u32),
    /// A set of characters, or a place.
    Other,
}

impl Parser {
    fn peek(&mut self) -> Option<char> {
        while self.comments {
            match self.pattern.get(self.at) {
                Some('#') => {
                    let rest = &self.pattern[self.at..];
                    let line = rest.iter().position(|c| matches!(c, '\n' | '\r' | '\u{85}'));
                    self.at += line.unwrap_or(rest.len());
                }
                Some(' ' | '\t' | '\n' | '\x0b' | '\x0c' | '\r') => self.at += 1,
                _ => break,
            }
        }
        self.pattern.get(self.at).copied()
    }

    fn take(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.at += 1;
        Some(next)
    }

    /// As [`Parser::take`], where white space counts.
    fn take_raw(&mut self) -> Option<char> {
        let next = self.pattern.get(self.at).copied()?;
        self.at += 1;
        Some(next)
    }

    fn take_if(&mut self, wanted: char) -> bool {
        let is_next = self.peek() == Some(wanted);
        self.at += usize::from(is_next);
        is_next
    }

    fn alternatives(&mut self) -> Option<()> {
        self.sequence()?;
        while self.take_if('|') {
            self.sequence()?;
        }
        Some(())
    }

    fn sequence(&mut self) -> Option<()> {
        loop {
            let is_atom = match self.peek() {
                None | Some('|' | ')') => return Some(()),
                Some('*' | '+' | '?') => return None,
                Some('(') => self.group()?,
                Some('[') => {
                    self.at += 1;
                    self.class()?;
                    true
                }
                Some('\\') => {
                    self.escape(false)?;
                    true
                }
                // Nothing, so many times.
                Some('{') => true,
                Some(_) => {
                    self.at += 1;
                    true
                }
            };
            if is_atom {
                self.repetition()?;
            }
        }
    }

    fn repetition(&mut self) -> Option<()> {
        match self.peek() {
            Some('*' | '+' | '?') => self.at += 1,
            Some('{') => {
                self.at += 1;
                let least = self.number()??;
                let mut end = self.take_raw()?;
                if end == ',' {
                    if let Some(most) = self.number() {
                        (least <= most?).then_some(())?;
                    }
                    end = self.take_raw()?;
                }
                (end == '}').then_some(())?;
            }
            _ => return Some(()),
        }
        // Reluctant or possessive.
        if matches!(self.peek(), Some('?' | '+')) {
            self.at += 1;
        }
        Some(())
    }

    /// `None` if there are no digits, `Some(None)` if there are too many.
    fn number(&mut self) -> Option<Option<i32>> {
        let rest = &self.pattern[self.at..];
        let length = rest.iter().take_while(|c| c.is_ascii_digit()).count();
        let digits: String = rest[..length].iter().collect();
        self.at += length;
        (length > 0).then(|| digits.parse().ok())
    }

    /// From its parenthesis on; false for flags that hold from here, which cannot be repeated.
    fn group(&mut self) -> Option<bool> {
        self.at += 1;
        self.depth += 1;
        (self.depth <= DEEPEST).then_some(())?;
        let flags = self.comments;
        if self.pattern.get(self.at) == Some(&'?') {
            self.at += 1;
            match self.take_raw()? {
                ':' | '=' | '!' | '>' => {}
                '<' => match self.pattern.get(self.at)? {
                    '=' | '!' => self.at += 1,
                    _ => {
                        let name = self.group_name()?;
                        (!self.names.contains(&name)).then_some(())?;
                        self.names.push(name);
                    }
                },
                _ => {
                    self.at -= 1;
                    self.flags()?;
                    match self.take_raw()? {
                        ')' => {
                            self.depth -= 1;
                            return Some(false);
                        }
                        ':' => {}
                        _ => return None,
                    }
                }
            }
        }
        self.alternatives()?;
        self.take_if(')').then_some(())?;
        self.depth -= 1;
        self.comments = flags;
        Some(true)
    }

    fn flags(&mut self) -> Option<()> {
        let mut on = true;
        loop {
            match self.pattern.get(self.at) {
                Some('i' | 'm' | 's' | 'd' | 'u' | 'c' | 'U') => {}
                Some('x') => self.comments = on,
                Some('-') if on => on = false,
                _ => return Some(()),
            }
            self.at += 1;
        }
    }

    /// A letter, letters and digits, `>`.
    fn group_name(&mut self) -> Option<String> {
        let rest = &self.pattern[self.at..];
        let length = rest.iter().take_while(|c| c.is_ascii_alphanumeric()).count();
        rest.first()?.is_ascii_alphabetic().then_some(())?;
        (rest.get(length) == Some(&'>')).then_some(())?;
        let name = rest[..length].iter().collect();
        self.at += length + 1;
        Some(name)
    }

    /// After its bracket, up to and including the one that closes it.
    fn class(&mut self) -> Option<()> {
        self.depth += 1;
        (self.depth <= DEEPEST).then_some(())?;
        if self.pattern.get(self.at) == Some(&'^') {
            self.at += 1;
        }
        self.members(true)?;
        self.depth -= 1;
        Some(())
    }

    /// The members of a class; its end is taken only if `consume`.
    fn members(&mut self, consume: bool) -> Option<()> {
        let mut is_empty = true;
        loop {
            match self.peek()? {
                '[' => {
                    self.at += 1;
                    self.class()?;
                    is_empty = false;
                }
                '&' if self.pattern.get(self.at + 1) == Some(&'&') => {
                    self.at += 2;
                    let mut right = false;
                    while !matches!(self.peek()?, ']' | '&') {
                        if self.take_if('[') {
                            self.class()?;
                        } else {
                            self.depth += 1;
                            (self.depth <= DEEPEST).then_some(())?;
                            self.members(false)?;
                            self.depth -= 1;
                        }
                        right = true;
                    }
                    (right || !is_empty).then_some(())?;
                    is_empty = false;
                }
                ']' if !is_empty => {
                    self.at += usize::from(consume);
                    return Some(());
                }
                _ => {
                    self.range()?;
                    is_empty = false;
                }
            }
        }
    }

    fn range(&mut self) -> Option<()> {
        let first = match self.member()? {
            Escape::Character(first) => first,
            Escape::Other => return Some(()),
        };
        if self.peek() != Some('-') {
            return Some(());
        }
        match self.pattern.get(self.at + 1) {
            Some('[' | ']') => Some(()),
            _ => {
                self.at += 1;
                match self.member()? {
                    Escape::Character(last) if first <= last => Some(()),
                    Escape::Character(_) | Escape::Other => None,
                }
            }
        }
    }

    fn member(&mut self) -> Option<Escape> {
        match self.peek()? {
            '\\' => self.escape(true),
            _ => self.take().map(|c| Escape::Character(c.into())),
        }
    }

    /// From its backslash on.
    fn escape(&mut self, in_class: bool) -> Option<Escape> {
        self.at += 1;
        let letter = self.take_raw()?;
        let character = |c: u32| Some(Escape::Character(c));
        match letter {
            'Q' => {
                let rest = &self.pattern[self.at..];
                let end = rest.windows(2).position(|pair| pair == ['\\', 'E']);
                self.at += end.map_or(rest.len(), |end| end + 2);
                Some(Escape::Other)
            }
            'a' => character(7),
            'e' => character(27),
            'f' => character(12),
            'n' => character(10),
            'r' => character(13),
            't' => character(9),
            '0' => {
                let first = self.take_raw()?.to_digit(8)?;
                let mut value = first;
                let most = if first <= 3 { 2 } else { 1 };
                for _ in 0..most {
                    let digit = self.pattern.get(self.at).and_then(|c| c.to_digit(8));
                    let Some(digit) = digit else { break };
                    value = value * 8 + digit;
                    self.at += 1;
                }
                character(value)
            }
            'c' => {
                let control = self.take_raw()?;
                character(u32::from(control) ^ 64)
            }
            'x' if self.pattern.get(self.at) == Some(&'{') => {
                let inside = self.braced()?;
                let value = u32::from_str_radix(&inside, 16).ok().filter(|v| *v <= 0x10_ffff)?;
                (!inside.starts_with('+')).then_some(())?;
                character(value)
            }
            'x' => self.hexadecimal(2).and_then(character),
            'u' => self.hexadecimal(4).and_then(character),
            'N' => {
                let name = self.braced()?;
                (!name.is_empty()).then_some(Escape::Other)
            }
            'p' | 'P' => {
                match self.pattern.get(self.at)? {
                    '{' => (!self.braced()?.is_empty()).then_some(())?,
                    _ => self.at += 1,
                }
                Some(Escape::Other)
            }
            'd' | 'D' | 'h' | 'H' | 's' | 'S' | 'v' | 'V' | 'w' | 'W' => Some(Escape::Other),
            _ if in_class && letter.is_ascii_alphanumeric() => None,
            'b' => {
                if self.pattern[self.at..].starts_with(&['{', 'g']) {
                    (self.braced()? == "g").then_some(())?;
                }
                Some(Escape::Other)
            }
            'A' | 'B' | 'G' | 'R' | 'z' | 'Z' => Some(Escape::Other),
            'X' => Some(Escape::Other),
            'k' => {
                (self.take_raw()? == '<').then_some(())?;
                let name = self.group_name()?;
                self.names.contains(&name).then_some(Escape::Other)
            }
            '1'..='9' => Some(Escape::Other),
            _ if letter.is_ascii_alphabetic() => None,
            other => character(other.into()),
        }
    }

    fn braced(&mut self) -> Option<String> {
        (self.take_raw()? == '{').then_some(())?;
        let rest = &self.pattern[self.at..];
        let length = rest.iter().position(|c| *c == '}')?;
        let inside = rest[..length].iter().collect();
        self.at += length + 1;
        Some(inside)
    }

    fn hexadecimal(&mut self, digits: usize) -> Option<u32> {
        (0..digits).try_fold(0, |value, _| Some(value * 16 + self.take_raw()?.to_digit(16)?))
    }
}

/// Each line of the golden file is a pattern and what Java 17 made of it.
#[test]
fn what_java_compiles_is_a_pattern_and_nothing_else_is() {
    let golden = include_str!("../../tests/golden/java_patterns.txt");
    let lines = golden.lines().filter(|line| !line.starts_with('#'));
    for line in lines {
        let (verdict, pattern) = line.split_once(' ').unwrap();
        assert_eq!(is_valid(pattern), verdict == "valid", "{pattern}");
    }
    assert!(!is_valid(&"(".repeat(100_000)) && !is_valid(&"[a&&".repeat(100_000)));
}
