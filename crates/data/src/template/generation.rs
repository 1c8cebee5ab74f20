//! `{% generation %}`, which `transformers` adds to Jinja.

/// The filter that receives the text of a generation.
pub(super) const FILTER: &str = "logue_generation";

/// Replaces the tags of generations by tags of Jinja; returns whether there are any.
///
/// The text becomes the input of a filter within a scope of its own, as it is the body of a call
/// in `transformers`. Both tags keep the marks that remove white space around them.
pub(super) fn rewritten(source: &str) -> (String, bool) {
    let mut result = String::with_capacity(source.len());
    let mut has_generation = false;
    let mut is_raw = false;
    let mut rest = source;
    while let Some(at) = rest
        .find("{%")
        .into_iter()
        .chain(rest.find("{{"))
        .chain(rest.find("{#"))
        .min()
    {
        let (before, tag) = rest.split_at(at);
        result.push_str(before);
        let length = tag_length(tag);
        let (tag, after) = tag.split_at(length);
        rest = after;
        let inner = tag
            .strip_prefix("{%")
            .and_then(|tag| tag.strip_suffix("%}"));
        let Some(inner) = inner else {
            result.push_str(tag);
            continue;
        };
        let left = inner.get(..1).filter(|sign| matches!(*sign, "-" | "+"));
        let right = inner.get(inner.len().saturating_sub(1)..);
        let right = right.filter(|sign| matches!(*sign, "-" | "+"));
        let (left, right) = (left.unwrap_or_default(), right.unwrap_or_default());
        match inner.trim_matches(['-', '+']).trim() {
            "raw" => is_raw = true,
            "endraw" => is_raw = false,
            "generation" if !is_raw => {
                has_generation = true;
                result.push_str(&format!("{{%{left} with %}}{{% filter {FILTER} {right}%}}"));
                continue;
            }
            "endgeneration" if !is_raw => {
                result.push_str(&format!("{{%{left} endfilter %}}{{% endwith {right}%}}"));
                continue;
            }
            _ => {}
        }
        result.push_str(tag);
    }
    result.push_str(rest);
    (result, has_generation)
}

/// Returns the length of the tag, expression or comment at the begin of a text.
fn tag_length(text: &str) -> usize {
    let is_comment = text.starts_with("{#");
    let end = match text.as_bytes().get(1) {
        Some(b'#') => "#}",
        Some(b'{') => "}}",
        _ => "%}",
    };
    let mut quote = None;
    let mut characters = text.char_indices().skip(2);
    while let Some((at, character)) = characters.next() {
        match quote {
            Some(_) if character == '\\' => drop(characters.next()),
            Some(open) if character == open => quote = None,
            Some(_) => {}
            None if !is_comment && matches!(character, '"' | '\'') => quote = Some(character),
            None => {
                if text.get(at..).is_some_and(|text| text.starts_with(end)) {
                    return at + 2;
                }
            }
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::rewritten;

    #[test]
    fn tags_keep_their_marks_of_white_space() {
        let (text, has_generation) = rewritten("a{%- generation -%} b {% endgeneration %}");
        assert!(has_generation);
        assert_eq!(
            text,
            "a{%- with %}{% filter logue_generation -%} b {% endfilter %}{% endwith %}"
        );
    }

    #[test]
    fn text_in_comments_strings_and_raw_blocks_is_not_a_tag() {
        for source in [
            "{# {% generation %} #}x",
            "{{ '{% generation %}' }}",
            "{% raw %}{% generation %}{% endraw %}",
            "{% set generation = 1 %}{{ \"it's }}\" }}",
            "unclosed {% generation",
        ] {
            assert_eq!(rewritten(source), (source.to_owned(), false));
        }
    }
}
