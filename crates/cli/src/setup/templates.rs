//! The examples that `logue init --template` writes.

/// An example with its files and first commands.
pub(crate) struct Template {
    pub(crate) name: &'static str,
    pub(crate) files: &'static [(&'static str, &'static str)],
    /// The commands of its README, up to the first one that waits for a person.
    pub(crate) commands: &'static [&'static str],
}

/// Returns the names of the templates.
pub(crate) fn template_names() -> impl Iterator<Item = &'static str> {
    TEMPLATES.iter().map(|template| template.name)
}

/// Pairs names of files with their content in an example.
macro_rules! files {
    ($example:literal: $($name:literal),+ $(,)?) => {
        &[$((
            $name,
            include_str!(concat!("../../../../examples/", $example, "/", $name)),
        )),+]
    };
}

pub(crate) const TEMPLATES: &[Template] = &[
    Template {
        name: "commit-message",
        files: files!("commit-message": "make-repository.sh", "prompt.md", "session.ocml", "staged.sh"),
        commands: &[
            "sh make-repository.sh",
            "logue trust add prompt.md",
            "logue run --no-save prompt.md",
        ],
    },
    Template {
        name: "extract",
        files: files!(
            "extract": "invoices.schema.json", "invoices/2026-041.txt", "invoices/B-77.txt",
            "invoices/letter.txt", "prompt.md", "session.ocml",
        ),
        commands: &["logue run --no-save prompt.md"],
    },
    Template {
        name: "gpt-oss",
        files: files!("gpt-oss": "manual/settings.md", "prompt.md", "session.ocml", "ticket.txt"),
        commands: &[
            "logue run --no-save prompt.md",
            "logue run --dry-run -m harmony:gpt-oss-20b prompt.md | tail -n 15",
        ],
    },
    Template {
        name: "mcp-tools",
        files: files!("mcp-tools": "prompt.md", "server.py", "session.ocml"),
        commands: &["logue trust add prompt.md", "logue run --no-save prompt.md"],
    },
    Template {
        name: "release-notes",
        files: files!("release-notes": "commits.sh", "make-repository.sh", "prompt.md", "session.ocml"),
        commands: &[
            "sh make-repository.sh",
            "logue trust add prompt.md",
            "logue run -o notes.md prompt.md",
            "logue run notes.md \"Now one sentence for the website.\"",
        ],
    },
    Template {
        name: "research",
        files: files!(
            "research": "figures.md", "figures.ocml", "limits.md", "limits.ocml", "prompt.md",
            "question.html", "reports/counts.md", "reports/survey.md", "session.ocml",
        ),
        commands: &["logue run -o answer.md prompt.md"],
    },
    Template {
        name: "review-diff",
        files: files!(
            "review-diff": "change.diff", "prompt.md", "session.ocml", "shop/fees.py",
            "shop/refund.py", "tests/note.txt",
        ),
        commands: &["logue run --no-save prompt.md - < change.diff"],
    },
    Template {
        name: "support-approval",
        files: files!(
            "support-approval": "half.json", "orders/1042.txt", "policy.md", "prompt.md",
            "refund.sh", "session.ocml",
        ),
        commands: &[
            "logue trust add prompt.md",
            "logue send --agent prompt.md --permission refund=ask ben \"One of the two raincoats of order 1042 has a hole.\"",
        ],
    },
];
