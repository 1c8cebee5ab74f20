//! A reader of unified diffs that shares nothing with what writes them.

use std::collections::BTreeMap;

/// Puts a preview into files: what each file that it names holds afterwards, `None` if it is gone.
pub(crate) fn apply(
    preview: &str,
    before: &BTreeMap<String, Vec<u8>>,
) -> BTreeMap<String, Option<Vec<u8>>> {
    let mut after = BTreeMap::new();
    let mut lines = preview.lines().peekable();
    while let Some(line) = lines.next() {
        let Some(from) = line.strip_prefix("--- ") else {
            continue;
        };
        let to = lines.next().unwrap().strip_prefix("+++ ").unwrap();
        let name = if to == "/dev/null" { from } else { to };
        let name = name.split_once('/').unwrap().1.to_owned();
        let empty = Vec::new();
        let old = if from == "/dev/null" {
            &empty
        } else {
            &before[&name]
        };
        let old: Vec<&[u8]> = old.split_inclusive(|byte| *byte == b'\n').collect();
        let mut new: Vec<u8> = Vec::new();
        let mut at = 0;
        while let Some(head) = lines.next_if(|line| line.starts_with("@@ ")) {
            let mut numbers = head.split([' ', ',']).filter(|word| !word.starts_with('@'));
            let first: usize = numbers.next().unwrap()[1..].parse().unwrap();
            // A range without lines names the line before it.
            let first = if head.split(' ').nth(1).unwrap().ends_with(",0") {
                first
            } else {
                first - 1
            };
            for line in &old[at..first] {
                new.extend_from_slice(line);
            }
            at = first;
            while let Some(line) = lines.next_if(|line| line.starts_with([' ', '-', '+'])) {
                let ends = lines.next_if(|line| line.starts_with('\\')).is_none();
                let mut text = bytes(&line[1..]);
                if ends {
                    text.push(b'\n');
                }
                if line.starts_with([' ', '-']) {
                    assert_eq!(old[at], text, "{preview}");
                    at += 1;
                }
                if line.starts_with([' ', '+']) {
                    new.extend(text);
                }
            }
        }
        for line in &old[at..] {
            new.extend_from_slice(line);
        }
        after.insert(name, (to != "/dev/null").then_some(new));
    }
    after
}

/// What stands for what was made visible.
fn bytes(shown: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = shown;
    loop {
        let next = ["\\u{", "\\x{"]
            .iter()
            .filter_map(|mark| rest.find(mark))
            .min();
        let Some(at) = next else {
            out.extend_from_slice(rest.as_bytes());
            return out;
        };
        out.extend_from_slice(&rest.as_bytes()[..at]);
        let (digits, behind) = rest[at + 3..].split_once('}').unwrap();
        let number = u32::from_str_radix(digits, 16).unwrap();
        if rest[at..].starts_with("\\u{") {
            let mut buffer = [0; 4];
            let character = char::from_u32(number).unwrap();
            out.extend_from_slice(character.encode_utf8(&mut buffer).as_bytes());
        } else {
            out.push(u8::try_from(number).unwrap());
        }
        rest = behind;
    }
}
