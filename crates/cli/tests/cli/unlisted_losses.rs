//! Losses that conversions and renderings must list, with their severity.

use crate::program::{Ran, folder, run, run_with_input};

const CALL: &str = "<|start|>assistant to=functions.f call_id=a<|channel|>commentary<|message|>{}";

/// Converts a text of standard input.
fn convert(text: &str, flags: &[&str]) -> Ran {
    let folder = folder(&[]);
    let arguments = [&["convert"][..], flags].concat();
    run_with_input(folder.path(), &arguments, text)
}

fn to(text: &str, form: &str) -> Ran {
    convert(text, &["--to", form])
}

#[test]
fn fields_of_chat_completions_beside_a_recipient_are_read_or_listed() {
    let row = r#"{"messages":[{"role":"user","content":"hi","recipient":"all"},
        {"role":"assistant","channel":"final","content":"x","reasoning_content":"WHY","weight":0,"extra":"E",
         "tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\":\"WORDS\"}"}}]},
        {"role":"tool","tool_call_id":"c1","content":[{"type":"text","text":"RESULT","note":1}]}]}"#;
    let ran = convert(row, &["--to", "ocml2.2"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    for words in [
        "<|channel|>analysis<|message|>WHY<|end|>",
        "to=functions.f call_id=c1",
        "{\"a\":\"WORDS\"}<|call|>",
        "name=functions.f call_id=c1",
        "RESULT",
    ] {
        assert!(ran.stdout.contains(words), "{words}: {}", ran.stdout);
    }
    for key in ["weight", "extra", "note"] {
        let listed = format!("structure: message {}", if key == "note" { 3 } else { 2 });
        let line = format!("{listed}: the key \"{key}\" dropped");
        assert!(ran.stderr.contains(&line), "{line}: {}", ran.stderr);
    }
    let strict = convert(row, &["--to", "ocml2.2", "--strict=structure"]);
    assert_eq!((strict.status, strict.stdout.as_str()), (8, ""));
}

#[test]
fn an_unreadable_header_is_a_loss() {
    let frames =
        ": 2.2version<|start|>system<|message|>SYS<|end|>\n<|start|>user<|message|>hi<|end|>\n";
    let ran = convert(frames, &["--to", "ocml2.2", "--json"]);
    assert_eq!(ran.status, 8, "{}", ran.stdout);
    assert!(ran.stdout.contains("\"text-dropped\""), "{}", ran.stdout);

    for lines in ["model: [x\nkeep: me", "model: [x]"] {
        let keys = format!("version: 2.2\n{lines}\n<|start|>user<|message|>hi<|end|>\n");
        let ran = convert(&keys, &["--to", "ocml2.2", "--json"]);
        assert_eq!(ran.status, 0, "{}", ran.stdout);
        assert!(ran.stdout.contains("\"header-dropped\""), "{}", ran.stdout);
    }
}

#[test]
fn reasoning_that_is_to_be_kept_is_content() {
    let text = "version: 2.2\n<|start|>user<|message|>q<|end|>\n\
        <|start|>assistant<|channel|>analysis<|message|>WHY<|end|>\n\
        <|start|>assistant<|channel|>final<|message|>a<|return|>\n";
    for form in ["sharegpt", "chatml"] {
        let left_out = to(text, form);
        assert_eq!(left_out.status, 0, "{form}: {}", left_out.stderr);
        assert!(
            left_out.stderr.contains("note: frame 2"),
            "{}",
            left_out.stderr
        );
        let kept = convert(text, &["--to", form, "--keep-reasoning"]);
        assert_eq!(kept.status, 8, "{form}: {}", kept.stderr);
        assert!(kept.stderr.contains("content: frame 2"), "{}", kept.stderr);
    }
}

#[test]
fn a_cut_call_is_content_in_every_form() {
    let text = format!("version: 2.2\n<|start|>user<|message|>q<|end|>\n{CALL}");
    for form in ["chatml", "ocml0.1", "sharegpt", "openai", "ocml2.0"] {
        let ran = to(&text, form);
        assert_eq!(ran.status, 8, "{form}: {}", ran.stderr);
        assert!(ran.stderr.contains("content: "), "{form}: {}", ran.stderr);
    }
}

#[test]
fn a_preamble_that_reads_back_as_hidden_is_content() {
    let row = r#"{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"VISIBLE",
        "tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},
        {"role":"tool","tool_call_id":"c","content":"r"}]}"#;
    let ran = to(row, "ocml2.0");
    assert_eq!(ran.status, 8, "{}", ran.stderr);
    assert!(
        ran.stderr
            .contains("content: frame 2: intent dropped, so the preamble is hidden"),
        "{}",
        ran.stderr
    );
}

#[test]
fn rendering_has_the_severities_of_a_conversion() {
    let prompt = "<user>\nSee <img src=\"https://example.org/a.png\" /> it.\n</user>\n";
    let folder = folder(&[("p.md", prompt), ("plain.md", "<user>\nHi\n</user>\n")]);
    let converted = run(folder.path(), ["convert", "p.md", "--to", "harmony"]);
    let rendered = run(folder.path(), ["tokens", "render", "p.md", "--text"]);
    assert_eq!(
        (converted.status, rendered.status),
        (8, 8),
        "{}",
        rendered.stderr
    );
    assert!(
        rendered.stderr.contains("p.md: content: "),
        "{}",
        rendered.stderr
    );
    assert!(
        rendered.stdout.contains("<|start|>user"),
        "{}",
        rendered.stdout
    );
    let plain = run(folder.path(), ["tokens", "render", "plain.md", "--text"]);
    assert_eq!((plain.status, plain.stderr.as_str()), (0, ""));
}

#[test]
fn labelled_steps_are_one_answer_and_others_are_refused() {
    let ran = to(
        r#"{"prompt":"p","completions":["a","b"],"labels":[true,false]}"#,
        "openai",
    );
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert!(ran.stdout.contains(r#""content":"a\nb""#), "{}", ran.stdout);
    assert!(
        ran.stdout.contains(r#""labels":[true,false]"#),
        "{}",
        ran.stdout
    );
    let alternatives = r#"{"prompt":"p","completions":["a","b"]}"#;
    let ran = to(alternatives, "openai");
    assert_eq!(ran.status, 3, "{}", ran.stdout);
    assert!(ran.stderr.contains("`labels`"), "{}", ran.stderr);
}

#[test]
fn rendering_has_the_flags_of_a_conversion() {
    let prompt = "<user>\nSee <img src=\"https://example.org/a.png\" /> it.\n</user>\n";
    let folder = folder(&[("p.md", prompt)]);
    for (flags, status) in [
        (&[][..], 8),
        (&["--allow-loss=content"], 0),
        (&["--strict"], 8),
        (&["--strict=identity"], 8),
    ] {
        for command in [
            &["convert", "p.md", "--to", "harmony"][..],
            &["tokens", "render", "p.md", "--text"],
        ] {
            let ran = run(folder.path(), [command, flags].concat());
            assert_eq!(ran.status, status, "{command:?} {flags:?}: {}", ran.stderr);
            let is_written = !flags.iter().any(|flag| flag.starts_with("--strict"));
            assert_eq!(!ran.stdout.is_empty(), is_written, "{}", ran.stdout);
            let is_refused = ran.stderr.contains("and --strict forbids it");
            assert_eq!(is_refused, !is_written, "{}", ran.stderr);
        }
    }
    let both = ["--strict", "--allow-loss=content"];
    let ran = run(
        folder.path(),
        [&["tokens", "render", "p.md"][..], &both].concat(),
    );
    assert_eq!(ran.status, 2, "{}", ran.stderr);
}

#[test]
fn a_strict_rendering_of_several_conversations_writes_all_or_nothing() {
    let rows = "{\"messages\":[{\"role\":\"user\",\"content\":\"one\"}]}\n\
        {\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\",\"image_url\":{\"url\":\"https://e.org/a.png\"}}]}]}\n";
    let folder = folder(&[("rows.jsonl", rows)]);
    let ran = run(
        folder.path(),
        ["tokens", "render", "rows.jsonl", "--strict"],
    );
    assert_eq!((ran.status, ran.stdout.as_str()), (8, ""), "{}", ran.stderr);
    let ran = run(folder.path(), ["tokens", "render", "rows.jsonl"]);
    assert_eq!((ran.status, ran.stdout.lines().count()), (8, 2));
}

#[test]
fn a_rendering_lists_only_channels_that_change() {
    let call = |channel: &str| {
        format!(
            "version: 2.2\n<|start|>user<|message|>2+2?<|end|>\n\
             <|start|>assistant to=python call_id=c<|channel|>{channel}<|message|>2+2<|call|>\n\
             <|start|>tool name=python call_id=c to=assistant<|channel|>{channel}<|message|>4<|end|>\n"
        )
    };
    let row = r#"{"messages":[{"role":"user","content":"2+2?"},{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"python","arguments":"2+2"}}]},{"role":"tool","tool_call_id":"c","content":"4"}]}"#;
    let folder = folder(&[
        ("same.ocml", &call("analysis")),
        ("other.ocml", &call("commentary")),
        ("row.json", row),
    ]);
    for (file, moved) in [("same.ocml", 0), ("other.ocml", 2), ("row.json", 0)] {
        let ran = run(folder.path(), ["tokens", "render", "--text", file]);
        let on_analysis = "to=python<|channel|>analysis code<|message|>2+2<|call|>";
        assert!(ran.stdout.contains(on_analysis), "{}", ran.stdout);
        let listed = ran.stderr.matches("moved to `analysis`").count();
        assert_eq!(listed, moved, "{file}: {}", ran.stderr);
        assert!(!ran.stderr.contains("commentary"), "{file}: {}", ran.stderr);
    }
}

#[test]
fn calls_with_one_id_are_found_and_get_ids_in_every_form() {
    let call = |id: &str, tool: &str| {
        format!(
            r#"{{"role":"assistant","content":null,"tool_calls":[{{"id":"{id}","type":"function","function":{{"name":"{tool}","arguments":"{{}}"}}}}]}}"#
        )
    };
    let reply = |text: &str| format!(r#"{{"role":"tool","tool_call_id":"a","content":"{text}"}}"#);
    let user = r#"{"role":"user","content":"u"}"#;
    let row = format!(
        r#"{{"messages":[{user},{},{},{user},{},{}]}}"#,
        call("a", "f"),
        reply("of f"),
        call("a", "g"),
        reply("of g")
    );
    let frames = "version: 2.2\n\
        <|start|>assistant to=functions.f call_id=a<|channel|>commentary<|message|>{}<|call|>\n\
        <|start|>assistant to=functions.g call_id=a<|channel|>commentary<|message|>{}<|call|>\n";
    let calls = format!(
        r#"<tool_call tool_call_id="a" function_name="f">{{}}</tool_call>{0}<tool_call tool_call_id="a" function_name="g">{{}}</tool_call>{0}"#,
        "\n"
    );
    let folder = folder(&[("row.json", &row), ("a.ocml", frames), ("a.chatmd", &calls)]);
    for (file, status, code) in [
        ("row.json", 8, "E-CALL-SCHEMA"),
        ("a.ocml", 8, "E-CALL-SCHEMA"),
        ("a.chatmd", 8, "error[E-CALL-SCHEMA]"),
    ] {
        let checked = run(folder.path(), ["check", file]);
        assert_eq!(checked.status, status, "{file}: {}", checked.stderr);
        assert!(checked.stderr.contains(code), "{file}: {}", checked.stderr);
        for form in [
            "ocml2.2",
            "json",
            "openai",
            "anthropic",
            "responses",
            "json2.0",
            "chatmd",
        ] {
            let ran = run(folder.path(), ["convert", file, "--to", form]);
            assert_eq!(ran.status, 0, "{file} {form}: {}", ran.stderr);
            assert!(ran.stdout.contains("a_2"), "{file} {form}: {}", ran.stdout);
            let listed = "identity: frame ";
            assert!(ran.stderr.contains(listed), "{file} {form}: {}", ran.stderr);
        }
    }
    let new = run(
        folder.path(),
        ["convert", "row.json", "--to", "ocml2.2", "-o", "new.ocml"],
    );
    assert_eq!(new.status, 0, "{}", new.stderr);
    let checked = run(folder.path(), ["check", "new.ocml"]);
    assert_eq!(checked.status, 0, "{}", checked.stderr);
    let back = run(folder.path(), ["convert", "new.ocml", "--to", "openai"]);
    let g = back
        .stdout
        .find(r#""id":"a_2","type":"function","function":{"name":"g""#);
    let reply = back.stdout.find(r#""content":"of g","tool_call_id":"a_2""#);
    assert!(g.is_some() && g < reply, "{}", back.stdout);
}

#[test]
fn a_reply_without_a_name_has_that_of_its_call() {
    let of_2_0 = r#"{"header":{"version":"2.0"},"messages":[{"role":"user","content":"x"},{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"a","content":"r"}]}"#;
    let of_2_2 = r#"[{"role":"user","content":"x"},{"role":"assistant","channel":"commentary","tool_call":{"id":"a","recipient":"functions.f","content_type":"json","arguments":"{}"}},{"role":"tool","call_id":"a","content":"r"}]"#;
    for row in [of_2_0, of_2_2] {
        let new = to(row, "ocml2.2");
        assert_eq!(new.status, 0, "{}", new.stderr);
        assert!(
            new.stdout
                .contains("<|start|>tool name=functions.f call_id=a"),
            "{}",
            new.stdout
        );
        let old = to(row, "ocml2.0");
        assert_eq!(old.status, 0, "{}", old.stderr);
        assert!(
            old.stdout.contains("<|start|>functions.f"),
            "{}",
            old.stdout
        );
    }
}

#[test]
fn an_unusable_name_of_a_user_is_an_identity_loss() {
    for name in ["", "a b"] {
        let row = format!(r#"{{"messages":[{{"role":"user","name":"{name}","content":"Hi"}}]}}"#);
        for form in ["ocml2.2", "ocml2.0", "ocml0.1", "chatml", "harmony"] {
            let ran = to(&row, form);
            assert_eq!(ran.status, 0, "{form} {name:?}: {}", ran.stderr);
            assert!(ran.stdout.contains("Hi"), "{form}: {}", ran.stdout);
            assert!(
                ran.stderr.contains("identity: frame 1"),
                "{form}: {}",
                ran.stderr
            );
        }
    }
}

#[test]
fn calls_as_text_and_without_the_level_of_the_function_are_read() {
    let text = r#"{"messages":[{"role":"assistant","content":null,"tool_calls":["{\"type\":\"function\",\"function\":{\"name\":\"tide\",\"arguments\":{\"port\":\"Brest\"}}}"]}]}"#;
    let flat = r#"{"messages":[{"role":"assistant","content":null,"tool_calls":[{"name":"tide","arguments":{"port":"Brest"}}]},{"role":"assistant","channel":"final","content":"ok"}]}"#;
    for row in [text, flat] {
        let ran = to(row, "openai");
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        let call = r#""function":{"name":"tide","arguments":"{\"port\":\"Brest\"}"}"#;
        assert!(ran.stdout.contains(call), "{}", ran.stdout);
    }
    let list = text
        .replace(r#"["{"#, r#""[{"#)
        .replace(r#"}"]}]}"#, r#"}]"}]}"#);
    let list_beside_channel =
        list.replace(r#""content":null"#, r#""channel":"final","content":"""#);
    assert_ne!(list, text);
    for row in [list, list_beside_channel] {
        let ran = to(&row, "openai");
        assert_eq!(ran.status, 0, "{row}: {}", ran.stderr);
        assert!(
            ran.stdout.contains(r#""arguments":"{\"port\":\"Brest\"}""#),
            "{}",
            ran.stdout
        );
        assert!(
            ran.stderr.contains("calls that are a text"),
            "{}",
            ran.stderr
        );
    }
    for none in [r#""""#, r#""[]""#, "[]"] {
        let row = format!(
            r#"{{"messages":[{{"role":"user","content":"q"}},{{"role":"assistant","channel":"final","content":"WORDS","tool_calls":{none}}}]}}"#
        );
        let ran = to(&row, "ocml2.2");
        assert_eq!(ran.status, 0, "{none}: {}", ran.stderr);
        assert!(
            ran.stdout.contains("final<|message|>WORDS"),
            "{}",
            ran.stdout
        );
    }
    let not_a_call = text.replace("tide", "").replace("name", "nome");
    assert_eq!(to(&not_a_call, "openai").status, 3);
}

/// Calls of `f` and `g` share an id; the replies are in another order.
fn shared_id(names: [&str; 2]) -> String {
    let reply = |name: &str, text: &str| {
        let name = if name.is_empty() {
            String::new()
        } else {
            format!(r#""name":"{name}","#)
        };
        format!(r#"{{"role":"tool",{name}"tool_call_id":"a","content":"{text}"}}"#)
    };
    let call = |name: &str| {
        format!(
            r#"{{"id":"a","type":"function","function":{{"name":"{name}","arguments":"{{}}"}}}}"#
        )
    };
    let [one, other] = names;
    let text = |name: &str, usual: &str| match name {
        "" => format!("of {usual}"),
        name => format!("of {name}"),
    };
    format!(
        r#"{{"messages":[{{"role":"user","content":"u"}},{{"role":"assistant","tool_calls":[{},{}]}},{},{}]}}"#,
        call("f"),
        call("g"),
        reply(one, &text(one, "f")),
        reply(other, &text(other, "g")),
    )
}

#[test]
fn calls_that_share_an_id_keep_their_replies() {
    for names in [["g", "f"], ["f", "g"], ["", ""]] {
        let row = shared_id(names);
        for form in [
            "openai",
            "anthropic",
            "responses",
            "chatmd",
            "harmony",
            "ocml2.2",
            "ocml2.0",
            "ocml0.1",
        ] {
            let there = to(&row, form);
            assert_eq!(there.status, 0, "{form} {names:?}: {}", there.stderr);
            let has_ids = ["openai", "anthropic", "responses", "chatmd"].contains(&form);
            let is_listed = there.stderr.contains("identity: frame 3: an earlier call");
            assert!(is_listed || !has_ids, "{form}: {}", there.stderr);
            let back = convert(&there.stdout, &["--from", form, "--to", "openai"]);
            let value: serde_json::Value = serde_json::from_str(&back.stdout).unwrap();
            let messages = value
                .as_array()
                .or_else(|| value["messages"].as_array())
                .unwrap();
            for name in ["f", "g"] {
                let calls = messages.iter().flat_map(|message| {
                    message["tool_calls"]
                        .as_array()
                        .cloned()
                        .unwrap_or_default()
                });
                let ids: Vec<_> = calls
                    .filter(|call| call["function"]["name"] == name)
                    .map(|call| call["id"].clone())
                    .collect();
                let replies: Vec<_> = messages
                    .iter()
                    .filter(|message| {
                        message["role"] == "tool" && message["tool_call_id"] == ids[0]
                    })
                    .map(|message| message["content"].clone())
                    .collect();
                assert_eq!(
                    replies,
                    [format!("of {name}")],
                    "{form} {names:?}: {}",
                    back.stdout
                );
            }
        }
        let folder = folder(&[("a.json", &row)]);
        let rendered = run(folder.path(), ["tokens", "render", "a.json", "--text"]);
        for name in ["f", "g"] {
            let pair = format!(
                "to=functions.{name}<|channel|>commentary <|constrain|>json<|message|>{{}}<|call|>\
                 <|start|>functions.{name} to=assistant<|channel|>commentary<|message|>of {name}<|end|>"
            );
            assert!(
                rendered.stdout.contains(&pair),
                "{names:?}: {}",
                rendered.stdout
            );
        }
    }
}

#[test]
fn rendering_many_parallel_calls_is_fast() {
    let count = 30_000;
    let call = |number: usize| {
        format!(
            r#"{{"id":"c{number}","type":"function","function":{{"name":"f","arguments":"{{}}"}}}}"#
        )
    };
    let reply =
        |number: usize| format!(r#"{{"role":"tool","tool_call_id":"c{number}","content":"r"}}"#);
    let calls: Vec<String> = (0..count).map(call).collect();
    let replies: Vec<String> = (0..count).rev().map(reply).collect();
    let row = format!(
        r#"{{"messages":[{{"role":"assistant","content":null,"tool_calls":[{}]}},{}]}}"#,
        calls.join(","),
        replies.join(",")
    );
    let folder = folder(&[("many.json", &row)]);
    let start = std::time::Instant::now();
    let converted = run(
        folder.path(),
        ["convert", "many.json", "--to", "harmony", "-o", "a.harmony"],
    );
    let linear = start.elapsed();
    let start = std::time::Instant::now();
    let rendered = run(folder.path(), ["tokens", "render", "many.json", "--text"]);
    let measured = start.elapsed();
    assert_eq!(
        (converted.status, rendered.status),
        (0, 0),
        "{}",
        rendered.stderr
    );
    assert!(
        measured < linear * 3,
        "{measured:?}, a conversion {linear:?}"
    );
}
