//! JSON, read strictly: every text that is taken here means the same to any reader of JSON.
//!
//! `None` stands for "not JSON" as well as for "not usual": deep nesting, an escape in a member's
//! name, half of a pair of surrogates, a number of many digits. The caller leaves it to Python.

use memchr::memchr2;
use std::borrow::Cow;

/// Deepest nesting; the contract takes more.
const MAX_DEPTH: u32 = 16;
/// Most bytes of a number.
const MAX_NUMBER: usize = 20;

/// Reads values one after the other from bytes that are UTF-8.
pub struct Reader<'a> {
    text: &'a str,
    at: usize,
}

/// The text of one value, without space around it.
pub type Raw<'a> = &'a str;

impl<'a> Reader<'a> {
    pub fn new(text: &'a str) -> Self {
        Reader { text, at: 0 }
    }

    /// The members of the object that is all of `text`, in order.
    pub fn object(
        text: &'a str,
        mut take: impl FnMut(&'a str, Raw<'a>) -> Option<()>,
    ) -> Option<()> {
        let mut reader = Reader::new(text);
        reader.members(0, &mut take)?;
        reader.end()
    }

    /// The elements of the array that is all of `text`, in order.
    pub fn array(text: &'a str, mut take: impl FnMut(Raw<'a>) -> Option<()>) -> Option<()> {
        let mut reader = Reader::new(text);
        reader.elements(0, &mut take)?;
        reader.end()
    }

    fn end(&mut self) -> Option<()> {
        self.space();
        (self.at == self.text.len()).then_some(())
    }

    fn members(
        &mut self,
        depth: u32,
        take: &mut dyn FnMut(&'a str, Raw<'a>) -> Option<()>,
    ) -> Option<()> {
        self.expect(b'{')?;
        if self.next_is(b'}') {
            return Some(());
        }
        loop {
            self.space();
            let raw = self.string()?;
            let name = &raw[1..raw.len() - 1];
            if name.contains('\\') {
                return None;
            }
            self.expect(b':')?;
            take(name, self.value(depth + 1)?)?;
            if self.next_is(b'}') {
                return Some(());
            }
            self.expect(b',')?;
        }
    }

    fn elements(&mut self, depth: u32, take: &mut dyn FnMut(Raw<'a>) -> Option<()>) -> Option<()> {
        self.expect(b'[')?;
        if self.next_is(b']') {
            return Some(());
        }
        loop {
            take(self.value(depth + 1)?)?;
            if self.next_is(b']') {
                return Some(());
            }
            self.expect(b',')?;
        }
    }

    /// The next value.
    fn value(&mut self, depth: u32) -> Option<Raw<'a>> {
        self.space();
        let start = self.at;
        match *self.bytes().get(self.at)? {
            b'"' => return self.string(),
            _ if depth > MAX_DEPTH => return None,
            b'{' => self.members(depth, &mut |_, _| Some(()))?,
            b'[' => self.elements(depth, &mut |_| Some(()))?,
            b't' => self.word("true")?,
            b'f' => self.word("false")?,
            b'n' => self.word("null")?,
            _ => self.number()?,
        }
        Some(&self.text[start..self.at])
    }

    /// The next string with its quotes; its escapes are checked by `string_of`, or here.
    fn string(&mut self) -> Option<Raw<'a>> {
        let start = self.at;
        if *self.bytes().get(start)? != b'"' {
            return None;
        }
        let mut at = start + 1;
        loop {
            at += memchr2(b'"', b'\\', &self.bytes()[at..])?;
            if self.bytes()[at] == b'"' {
                break;
            }
            at += 2; // an escaped quote does not end it
            if at > self.text.len() {
                return None;
            }
        }
        let inside = &self.bytes()[start + 1..at];
        let lowest = inside.iter().fold(u8::MAX, |lowest, byte| lowest.min(*byte));
        if lowest < 0x20 {
            return None;
        }
        self.at = at + 1;
        let raw = &self.text[start..self.at];
        if memchr::memchr(b'\\', inside).is_some() {
            unescaped(&raw[1..raw.len() - 1])?;
        }
        Some(raw)
    }

    fn number(&mut self) -> Option<()> {
        let rest = &self.bytes()[self.at..];
        let mut length = usize::from(rest[0] == b'-');
        let digits = |from: usize| rest[from..].iter().take_while(|b| b.is_ascii_digit()).count();
        let whole = digits(length);
        if whole == 0 || (whole > 1 && rest[length] == b'0') {
            return None;
        }
        length += whole;
        if rest.get(length) == Some(&b'.') {
            let fraction = digits(length + 1);
            length += 1 + fraction;
            if fraction == 0 {
                return None;
            }
        }
        if matches!(rest.get(length), Some(b'e' | b'E')) {
            length += 1 + usize::from(matches!(rest.get(length + 1), Some(b'+' | b'-')));
            let exponent = digits(length);
            length += exponent;
            if !(1..=2).contains(&exponent) {
                return None;
            }
        }
        self.at += length;
        (length <= MAX_NUMBER).then_some(())
    }

    fn word(&mut self, word: &str) -> Option<()> {
        self.text[self.at..].starts_with(word).then(|| self.at += word.len())
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        self.next_is(byte).then_some(())
    }

    /// Passes space, and this byte if it comes next.
    fn next_is(&mut self, byte: u8) -> bool {
        self.space();
        let found = self.bytes().get(self.at) == Some(&byte);
        self.at += usize::from(found);
        found
    }

    fn space(&mut self) {
        while matches!(self.bytes().get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn bytes(&self) -> &'a [u8] {
        self.text.as_bytes()
    }
}

/// The string that `raw` is.
pub fn string_of(raw: Raw<'_>) -> Option<Cow<'_, str>> {
    let inside = raw.strip_prefix('"')?.strip_suffix('"')?;
    match memchr::memchr(b'\\', inside.as_bytes()) {
        None => Some(Cow::Borrowed(inside)),
        Some(_) => unescaped(inside).map(Cow::Owned),
    }
}

/// The string that `raw` is, if it has no escape.
pub fn plain_string(raw: Raw<'_>) -> Option<&str> {
    match string_of(raw)? {
        Cow::Borrowed(text) => Some(text),
        Cow::Owned(_) => None,
    }
}

fn unescaped(inside: &str) -> Option<String> {
    let mut text = String::with_capacity(inside.len());
    let mut rest = inside;
    while let Some(at) = rest.find('\\') {
        text.push_str(&rest[..at]);
        let escaped = *rest.as_bytes().get(at + 1)?;
        let mut taken = at + 2;
        text.push(match escaped {
            b'"' | b'\\' | b'/' => escaped as char,
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let first = unit(rest, taken)?;
                taken += 4;
                if (0xd800..0xdc00).contains(&first) && rest.get(taken..taken + 2) == Some("\\u") {
                    let second = unit(rest, taken + 2)?;
                    taken += 6;
                    char::decode_utf16([first, second]).next()?.ok()?
                } else {
                    char::from_u32(first.into())?
                }
            }
            _ => return None,
        });
        rest = &rest[taken..];
    }
    text.push_str(rest);
    Some(text)
}

/// The four hexadecimal digits at a place.
fn unit(text: &str, at: usize) -> Option<u16> {
    let digits = text.as_bytes().get(at..at + 4)?;
    digits.iter().try_fold(0, |unit, digit| Some(16 * unit + (*digit as char).to_digit(16)? as u16))
}

/// A string as the encoder of messages writes it.
pub fn write_string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    let mut rest = text.as_bytes();
    while let Some(at) = rest.iter().position(|byte| matches!(byte, 0..0x20 | b'"' | b'\\')) {
        out.extend_from_slice(&rest[..at]);
        match rest[at] {
            byte @ (b'"' | b'\\') => out.extend_from_slice(&[b'\\', byte]),
            0x08 => out.extend_from_slice(b"\\b"),
            0x09 => out.extend_from_slice(b"\\t"),
            0x0a => out.extend_from_slice(b"\\n"),
            0x0c => out.extend_from_slice(b"\\f"),
            0x0d => out.extend_from_slice(b"\\r"),
            byte => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
        }
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_read(text: &str) -> bool {
        Reader::array(text, |_| Some(())).is_some()
    }

    #[test]
    fn refuses_what_is_not_json_or_not_usual() {
        let broken = [
            "", "[", "]", "[1,]", "[,1]", "[1 2]", "[-]", "[nul]", "[\"", "[\"\\\"]", "[\"\\",
            "[] x", "{}",
        ];
        let numbers = ["[01]", "[1.]", "[.5]", "[+1]", "[1e]", "[1e+", "[1e999]", "[NaN]"];
        let others = [
            r#"["\x"]"#,
            r#"["\u00"]"#,
            "[\"\u{1}\"]",
            r#"["\ud800"]"#,
            r#"["\ud800\u0041"]"#,
            r#"["\udc00"]"#,
            r#"[{"a"}]"#,
            r#"[{"a":}]"#,
            r#"[{"a":1,}]"#,
            r#"[{a:1}]"#,
            r#"[{"\u0061":1}]"#,
            "[123456789012345678901]",
            "\u{feff}[]",
            "[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]",
        ];
        for text in broken.iter().chain(&numbers).chain(&others) {
            assert!(!is_read(text), "{text}");
        }
    }

    #[test]
    fn strings_are_read_back() {
        let text = "\u{0}\u{8}\t\n\u{b}\u{c}\r\"\\/é😀\u{7f}\u{2028}";
        let mut out = Vec::new();
        write_string(&mut out, text);
        let raw = std::str::from_utf8(&out).unwrap();
        assert_eq!(string_of(raw).unwrap(), text);
        assert_eq!(raw, "\"\\u0000\\b\\t\\n\\u000b\\f\\r\\\"\\\\/é😀\u{7f}\u{2028}\"");
        assert_eq!(string_of(r#""\ud83d\ude00\/""#).unwrap(), "😀/");
        assert_eq!(plain_string(r#""a\n""#), None);
    }
}
