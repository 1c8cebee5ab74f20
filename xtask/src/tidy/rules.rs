//! The idioms that prose avoids, as data.

/// A rule about one idiom.
#[derive(Clone, Copy)]
pub(crate) struct Rule {
    /// The name used in reports, in `prose.toml` and in `style: allow(ID)`.
    pub(crate) id: &'static str,
    /// The expression to find.
    pub(crate) pattern: &'static str,
    /// Text that is removed before the search, if any.
    pub(crate) allowed: Option<&'static str>,
    /// The advice printed with a finding.
    pub(crate) advice: &'static str,
    /// A finding is printed but is not an error.
    pub(crate) is_advisory: bool,
}

const fn rule(id: &'static str, pattern: &'static str, advice: &'static str) -> Rule {
    Rule {
        id,
        pattern,
        allowed: None,
        advice,
        is_advisory: false,
    }
}

const fn with_allowed(rule: Rule, allowed: &'static str) -> Rule {
    Rule {
        allowed: Some(allowed),
        ..rule
    }
}

const fn advisory(rule: Rule) -> Rule {
    Rule {
        is_advisory: true,
        ..rule
    }
}

/// Words that a doc comment does not open with.
pub(crate) const OPENERS: &[&str] = &[
    "What", "Who", "Whom", "Whose", "Whether", "Where", "How", "Which", "When", "Why",
];

/// The most words of a summary.
pub(crate) const SUMMARY_WORDS: usize = 15;

/// Rules that look at one line of a comment, literal or paragraph.
pub(crate) const RULES: &[Rule] = &[
    rule(
        "agent",
        r"\b([Nn]o|[Ss]ome|[Aa]ny|[Ee]very)body\b|\b[Ww]hoever\b|\b[Ww]hichever\b",
        "name the actor",
    ),
    with_allowed(
        rule(
            "tell",
            r"\b([Tt]old|[Tt]ells?|[Tt]elling|[Hh]ears?|[Hh]eard)\b",
            "use emit, report, send or receive",
        ),
        r"\b(told|tells?) apart\b",
    ),
    with_allowed(
        rule(
            "stand",
            r"\b([Ss]tands?|[Ss]tood)\b",
            "use is, appears or occurs",
        ),
        r"\b[Ss]tands? for\b|\b[Ss]tand-in\b",
    ),
    with_allowed(
        rule("behind", r"\b[Bb]ehind\b", "use after or following"),
        r"\b[Bb]ehind (a|an|the|its) (proxy|feature|flag|lock|firewall)\b|\b(leave|leaves|left) behind\b",
    ),
    with_allowed(
        rule(
            "is-no",
            r"\b(is|are|was|were) (no|none)\b",
            "use \"is not a\" or \"invalid\"",
        ),
        r"\b[Tt]here (is|are|was|were) (no|none)\b|\bis no longer\b|\bis no more than\b",
    ),
    rule(
        "go-on",
        r"\b(go|goes|going|gone|went) on\b",
        "use continue or resume",
    ),
    advisory(with_allowed(
        rule(
            "as-it-is",
            r"\b(as|so) it (is|was|comes|came)\b",
            "name the state",
        ),
        r"\b(as|so) it (is|was|comes|came) (written|read|stored|printed|sent|used|parsed)\b",
    )),
    rule(
        "knows",
        r"\bmust not know\b|\b([Nn]obody|[Nn]othing|no rule) knows\b",
        "use unknown or \"does not depend on\"",
    ),
    // The element of HTML has no other name.
    with_allowed(
        rule("picture", r"\b[Pp]ictures?\b", "use image"),
        r"</?picture>",
    ),
    with_allowed(
        rule(
            "wants",
            r"\bwants? (to|a|an|the|no|it|them|one)\b",
            "use requires or expects",
        ),
        r"\bif you want to\b",
    ),
    rule(
        "becomes-of",
        r"\b[Ww]hat becomes of\b",
        "use \"policy for\" or disposition",
    ),
    rule(
        "filler",
        r"\bin the making\b|\bof no use\b|\bfor ever\b|\bfor a (moment|short while)\b",
        "name the condition or the time",
    ),
    advisory(rule(
        "itself",
        r"\bby (itself|themselves)\b",
        "name the actor",
    )),
    with_allowed(
        rule(
            "so-many",
            r"\bso (often|many|long|much)\b",
            "name the quantity",
        ),
        r"\bso (often|many|long|much) (as|that)\b",
    ),
    rule(
        "one-a",
        r"\bone (JSON )?(object|event|line) a [a-z]+\b|\ba line each\b",
        "use \"JSON lines\" or \"per line\"",
    ),
    rule("in-force", r"\bin force\b", "use effective or current"),
    advisory(rule(
        "lie",
        r"\b(lies|lay) (in|at|on|below|beside|between|outside|before|there)\b",
        "use is",
    )),
    rule(
        "work-off",
        r"\b[Ww]ork(s|ed)? ([a-z' ]{1,20} )?off\b",
        "use process or drain",
    ),
];
