//! Attachments of questions: PDF files, patterns and directories, by the bytes at the server.

use std::path::Path;

use serde_json::{Value, json};
use testkit::{Answer, Delivery, ModelServer, Reply};

use crate::program::{Ran, folder, logue, run};

fn serve(replies: Vec<Reply>) -> ModelServer {
    ModelServer::start(replies, Delivery::Whole).unwrap()
}

fn answering() -> ModelServer {
    serve(vec![Reply::Answer(Answer::text("fine"))])
}

fn ask(folder: &Path, server: &ModelServer, arguments: &[&str]) -> Ran {
    let mut command = logue(folder);
    command
        .env("OPENAI_BASE_URL", server.base_url())
        .args(["ask", "-m", "m"])
        .args(arguments);
    command.output().unwrap().into()
}

/// The content of the only message of the last request.
fn content(server: &ModelServer) -> Value {
    server.received().last().unwrap().body["messages"][0]["content"].clone()
}

/// A PDF whose pages have these contents and a font `F`.
fn pdf(pages: &[&str]) -> Vec<u8> {
    pdf_with("", "", pages)
}

/// A PDF with entries of its streams and of its trailer.
fn pdf_with(stream: &str, trailer: &str, pages: &[&str]) -> Vec<u8> {
    let numbers = (0..pages.len()).map(|page| 4 + 2 * page);
    let kids: Vec<String> = numbers.map(|number| format!("{number} 0 R")).collect();
    let mut objects = vec![
        "<< /Type /Catalog /Pages 2 0 R >>".to_owned(),
        format!(
            "<< /Type /Pages /Count {} /Kids [{}] /MediaBox [0 0 612 792] \
             /Resources << /Font << /F 3 0 R >> >> >>",
            pages.len(),
            kids.join(" ")
        ),
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>"
            .to_owned(),
    ];
    for (number, page) in (5..).step_by(2).zip(pages) {
        objects.push(format!(
            "<< /Type /Page /Parent 2 0 R /Contents {number} 0 R >>"
        ));
        let length = page.len();
        objects.push(format!(
            "<< /Length {length} {stream} >>\nstream\n{page}\nendstream"
        ));
    }
    let mut bytes = "%PDF-1.7\n".to_owned();
    let mut table = String::new();
    for (number, object) in (1..).zip(&objects) {
        table.push_str(&format!("{:010} 00000 n \n", bytes.len()));
        bytes.push_str(&format!("{number} 0 obj\n{object}\nendobj\n"));
    }
    let (place, count) = (bytes.len(), objects.len() + 1);
    bytes.push_str(&format!(
        "xref\n0 {count}\n0000000000 65535 f \n{table}trailer\n<< /Size {count} /Root 1 0 R {trailer} >>\n\
         startxref\n{place}\n%%EOF\n"
    ));
    bytes.into_bytes()
}

const THREE_PAGES: &[&str] = &[
    "BT /F 12 Tf 72 700 Td (Revenue grew by 7 %.) Tj 0 -14 Td (Costs fell.) Tj ET",
    "",
    "BT /F 12 Tf 72 700 Td [(The) -300 (end)] TJ ET",
];

const THREE_TEXTS: &str = "```\n--- page 1 ---\nRevenue grew by 7 %.\nCosts fell.\n\
     --- page 2 (no text) ---\n--- page 3 ---\nThe end\n```";

#[test]
fn a_pdf_reaches_the_model_as_the_text_of_its_pages() {
    let folder = folder(&[]);
    // The content decides, and not the name.
    for name in ["report.pdf", "report"] {
        std::fs::write(folder.path().join(name), pdf(THREE_PAGES)).unwrap();
        let server = answering();
        let ran = ask(folder.path(), &server, &["-a", name, "sum up"]);
        assert_eq!((ran.status, ran.stderr.as_str()), (0, ""));
        assert_eq!(
            content(&server),
            json!(format!("sum up\n\n{name}:\n{THREE_TEXTS}"))
        );
    }
}

#[test]
fn a_pdf_of_an_address_is_read_too() {
    let folder = folder(&[]);
    for kind in ["application/pdf", "application/octet-stream", "text/plain"] {
        let pages = serve(vec![Reply::Body(kind, pdf(THREE_PAGES))]);
        let address = pages.base_url().replace("/v1", "/report");
        let server = answering();
        let ran = ask(folder.path(), &server, &["-a", &address, "sum up"]);
        assert_eq!((ran.status, ran.stderr.as_str()), (0, ""), "{kind}");
        assert_eq!(
            content(&server),
            json!(format!("sum up\n\n{address}:\n{THREE_TEXTS}"))
        );
    }
}

#[test]
fn a_pdf_without_text_is_refused_with_a_remedy() {
    let encrypted = format!(
        "/ID [<01> <01>] /Encrypt << /Filter /Standard /V 2 /R 3 /Length 128 /P -4 /O <{0}> /U <{0}> >>",
        "00".repeat(32)
    );
    // Each filter multiplies the length by 64.
    let bomb = "/Filter [/ASCIIHexDecode /RunLengthDecode /RunLengthDecode /RunLengthDecode \
                /RunLengthDecode /RunLengthDecode]";
    // A run of 128 bytes is two bytes; the last ones are the ends of the five levels.
    let packed = format!("{}060402008080808080>", "8181".repeat(1000));
    let cases: &[(Vec<u8>, &str, &str)] = &[
        (pdf(&["", "q Q"]), "its pages may be scans", "ocrmypdf"),
        (
            pdf_with("", &encrypted, THREE_PAGES),
            "the PDF requires a password",
            "qpdf --decrypt",
        ),
        (
            b"%PDF-1.7\nnothing".to_vec(),
            "invalid PDF",
            "a viewer of PDF files",
        ),
        (
            pdf_with(bomb, "", &[&packed]),
            "too much time or memory",
            "pdftotext",
        ),
        (
            pdf(&[""].repeat(2001)),
            "more than 2000 pages",
            "qpdf FILE.pdf --pages",
        ),
    ];
    for (bytes, message, remedy) in cases {
        let folder = folder(&[]);
        std::fs::write(folder.path().join("x.pdf"), bytes).unwrap();
        let server = answering();
        let ran = ask(folder.path(), &server, &["-a", "x.pdf", "sum up"]);
        assert_eq!(ran.status, 3, "{message}: {}", ran.stderr);
        assert!(ran.stderr.contains("x.pdf: "), "{}", ran.stderr);
        assert!(ran.stderr.contains(message), "{message}: {}", ran.stderr);
        assert!(ran.stderr.contains(remedy), "{remedy}: {}", ran.stderr);
        assert!(server.received().is_empty(), "{message}");
        let listed = run(folder.path(), ["sessions", "list", "--json"]);
        assert_eq!(listed.stdout, "", "{message}");
    }
}

#[test]
fn a_pattern_takes_the_files_below_without_ignored_and_binary_ones() {
    let folder = folder(&[
        ("src/b.rs", "b\n"),
        ("src/a/deep/c.rs", "c\n"),
        ("src/a.txt", "a\n"),
        ("src/out/made.rs", "no\n"),
        ("src/.hidden", "no\n"),
        (".gitignore", "out/\n"),
        ("other.rs", "no\n"),
    ]);
    std::fs::write(folder.path().join("src/x.o"), b"\x7fELF\0\0").unwrap();
    std::fs::write(folder.path().join("src/y.bin"), b"\xff\xfe\xfd").unwrap();
    let expected = "go\n\nsrc/a/deep/c.rs:\n```rs\nc\n```\n\nsrc/a.txt:\n```txt\na\n```\n\nsrc/b.rs:\n```rs\nb\n```";
    for pattern in ["src/**", "./src/**", "src/**/*"] {
        let server = answering();
        let ran = ask(folder.path(), &server, &["-a", pattern, "go"]);
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        assert_eq!(content(&server), json!(expected), "{pattern}");
        let warning = "warning: binary files are not attached: src/x.o, src/y.bin\n";
        assert_eq!(ran.stderr, warning, "{pattern}");
    }
    // A level is not all levels.
    let server = answering();
    ask(folder.path(), &server, &["-a", "src/*.rs", "go"]);
    assert_eq!(content(&server), json!("go\n\nsrc/b.rs:\n```rs\nb\n```"));
    // The name of one file is an order.
    let server = answering();
    ask(folder.path(), &server, &["-a", "src/out/made.rs", "go"]);
    assert_eq!(
        content(&server),
        json!("go\n\nsrc/out/made.rs:\n```rs\nno\n```")
    );
}

#[test]
fn what_is_no_file_to_attach_is_explained() {
    let folder = folder(&[
        ("src/b.rs", "b\n"),
        (".gitignore", "*.log\n"),
        ("a.log", ""),
    ]);
    std::fs::write(folder.path().join("src/x.o"), b"\x7fELF\0\0").unwrap();
    for (name, message) in [
        ("src", "`src` is a directory"),
        ("src", "attach the files below it: -a 'src/**'"),
        ("src/", "-a 'src/**'"),
        ("*.log", "files that .gitignore ignores are left out"),
        ("src/*.o", "`src/*.o` names only binary files: src/x.o"),
        ("src/x.o", "neither text, a PDF nor a known image"),
    ] {
        let server = answering();
        let ran = ask(folder.path(), &server, &["-a", name, "go"]);
        assert_eq!(ran.status, 3, "{}", ran.stderr);
        assert!(ran.stderr.contains(message), "{name}: {}", ran.stderr);
        assert!(server.received().is_empty());
    }
}
