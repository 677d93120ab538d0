//! Tests of chat templates that need no other module.

use super::*;
use crate::tokenizer::Tokenizer;

fn chat() -> Conversation {
    let mut chat = Conversation::default();
    for (role, content) in [
        ("system", "Be brief."),
        ("user", "1+1?"),
        (ASSISTANT, "2"),
        ("user", "2+2?"),
        (ASSISTANT, "4"),
    ] {
        chat.push(role, content);
    }
    chat
}

#[test]
fn chatml_says_where_its_answers_are() {
    let template = ChatTemplate::chatml();
    let written = template.render_with_answers(&chat(), Answers::All).unwrap();
    let texts = |written: &RenderedConversation| -> Vec<String> {
        let of = written.answers.iter();
        of.map(|range| written.text[range.clone()].to_owned())
            .collect()
    };
    assert_eq!(texts(&written), ["2<|im_end|>\n", "4<|im_end|>\n"]);
    let last = template
        .render_with_answers(&chat(), Answers::Last)
        .unwrap();
    assert_eq!(texts(&last), ["4<|im_end|>\n"]);
    assert_eq!(template.text_after_content().unwrap(), "<|im_end|>\n");
    let plain = Tokenizer::of_characters("\n", None).unwrap();
    let marks = CHATML_MARKS.map(String::from);
    let tokenizer = plain.with_tokens(marks.into_iter()).unwrap();
    let closing = ["<|im_end|>", "\n"].map(|text| tokenizer.id(text).unwrap());
    assert_eq!(template.closing(&tokenizer).unwrap(), closing);
    let asked = template.render(&chat(), true).unwrap();
    assert_eq!(asked, written.text + "<|im_start|>assistant\n");
}

#[test]
fn chatml_joins_the_texts_of_content_in_parts() {
    let said = |parts: serde_json::Value| {
        let message = serde_json::json!({ "role": "user", "content": parts });
        let chat = Conversation {
            messages: vec![message],
            ..Conversation::default()
        };
        ChatTemplate::chatml().render(&chat, false)
    };
    let texts =
        serde_json::json!([{ "type": "text", "text": "so " }, { "type": "text", "text": "it is" }]);
    assert_eq!(
        said(texts).unwrap(),
        "<|im_start|>user\nso it is<|im_end|>\n"
    );
    let image = serde_json::json!([{ "type": "image", "url": "a.png" }]);
    assert!(said(image).unwrap_err().contains("of type image"));
}

#[test]
fn tags_mark_answers_and_leave_no_trace() {
    let tagged = "{% for m in messages %}\n    {%- if m.role == 'assistant' %}\n        {%- generation %}[{{ m.content }}]\
                  {%- endgeneration -%}\n    {% else %}({{ m.content }}){% endif %}{% endfor %}";
    let template = ChatTemplate::new(tagged, BTreeMap::new()).unwrap();
    let written = template.render_with_answers(&chat(), Answers::All).unwrap();
    assert_eq!(written.text, "(Be brief.)(1+1?)[2](2+2?)[4]");
    assert_eq!(written.answers, [17..20, 26..29]);
    assert_eq!(template.text_after_content().unwrap(), "]");
}

#[test]
fn a_template_that_rewrites_earlier_answers_is_told() {
    let rewrites = "{% for m in messages %}{% if m.role == 'assistant' and not loop.last %}…{% else %}{{ m.content }}\
                    {% endif %}|{% endfor %}";
    let template = ChatTemplate::new(rewrites, BTreeMap::new()).unwrap();
    let why = template
        .render_with_answers(&chat(), Answers::All)
        .unwrap_err();
    assert!(
        why.contains("message 3") && why.contains("answers"),
        "{why}"
    );
    let last = template
        .render_with_answers(&chat(), Answers::Last)
        .unwrap();
    assert_eq!(&last.text[last.answers[0].clone()], "4|");
}

#[test]
fn faults_of_programs_have_lines() {
    let broken = ChatTemplate::new("a\n{% for %}", BTreeMap::new()).unwrap_err();
    assert!(broken.starts_with("line 2"), "{broken}");
    let refuses = "{{ raise_exception('roles must alternate') }}";
    let template = ChatTemplate::new(refuses, BTreeMap::new()).unwrap();
    let why = template.render(&chat(), false).unwrap_err();
    assert!(why.contains("roles must alternate"), "{why}");
}

#[test]
fn the_file_of_a_run_has_program_and_tokens() {
    let tokens = BTreeMap::from([("bos_token".to_owned(), "<s>".to_owned())]);
    let template = ChatTemplate::new("{{ bos_token }}{{ messages|tojson }}", tokens).unwrap();
    let again = ChatTemplate::from_json(&template.json().unwrap(), Path::new("x")).unwrap();
    assert_eq!(again, template);
    let mut one = Conversation::default();
    one.push("user", "<é>");
    let text = again.render(&one, false).unwrap();
    assert_eq!(text, r#"<s>[{"role": "user", "content": "<é>"}]"#);
}

#[test]
fn an_answer_begins_where_it_parts_from_what_asks_for_it() {
    let thinks = "{% for m in messages %}<{{ m.role }}>\r\n{{ m.content }}</>{% endfor %}{% if add_generation_prompt %}<assistant>\r\n\
                  <think>{% endif %}";
    let template = ChatTemplate::new(thinks, BTreeMap::new()).unwrap();
    let written = template.render_with_answers(&chat(), Answers::All).unwrap();
    let texts: Vec<&str> = written
        .answers
        .iter()
        .map(|at| &written.text[at.clone()])
        .collect();
    assert_eq!(texts, ["2</>", "4</>"]);
    assert!(!written.text.contains('\r'));
    assert_eq!(template.text_after_content().unwrap(), "</>");
    // A conversation may begin with an answer, even if a program reads its first message.
    let looks = "{{ messages[0].role }}{% for m in messages %}|{{ m.content }}{% endfor %}";
    let template = ChatTemplate::new(looks, BTreeMap::new()).unwrap();
    let mut first = Conversation::default();
    first.push(ASSISTANT, "Hello \u{FDD0}");
    first.push("user", "hi");
    let written = template.render_with_answers(&first, Answers::All).unwrap();
    assert_eq!(written.text, "assistant|Hello \u{FFFD}|hi");
    assert_eq!(&written.text[written.answers[0].clone()], "Hello \u{FFFD}");
}

#[test]
fn messages_that_are_not_learnt_are_read_alone() {
    let tagged = "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}[{{ m.content }}]{% endgeneration %}\
                  {% else %}({{ m.content }}){% endif %}{% endfor %}";
    let tagged = ChatTemplate::new(tagged, BTreeMap::new()).unwrap();
    let whole =
        "{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}";
    let whole = ChatTemplate::new(whole, BTreeMap::new()).unwrap();
    let texts = |template: &ChatTemplate, not_learnt: usize, answers: Answers| {
        let mut chat = chat();
        chat.untrained.insert(not_learnt);
        let written = template.render_with_answers(&chat, answers)?;
        let of = written.answers.into_iter();
        Ok::<_, String>(of.map(|at| written.text[at].to_owned()).collect::<Vec<_>>())
    };
    let chatml = ChatTemplate::chatml();
    assert_eq!(texts(&chatml, 2, Answers::All).unwrap(), ["4<|im_end|>\n"]);
    assert_eq!(texts(&chatml, 4, Answers::All).unwrap(), ["2<|im_end|>\n"]);
    assert_eq!(texts(&chatml, 4, Answers::Last).unwrap(), [""; 0]);
    assert_eq!(texts(&tagged, 2, Answers::All).unwrap(), ["[4]"]);
    assert_eq!(texts(&tagged, 2, Answers::Last).unwrap(), ["[4]"]);
    assert_eq!(texts(&tagged, 4, Answers::Last).unwrap(), [""; 0]);
    let why = texts(&whole, 2, Answers::All).unwrap_err();
    assert!(
        why.contains("5 parts") && why.contains("2 messages"),
        "{why}"
    );
    // An earlier answer that is not learnt need not be found, even if the template rewrites it.
    let rewrites = "{% for m in messages %}{% if m.role == 'assistant' and not loop.last %}…{% else %}{{ m.content }}\
                    {% endif %}|{% endfor %}";
    let rewrites = ChatTemplate::new(rewrites, BTreeMap::new()).unwrap();
    assert_eq!(texts(&rewrites, 2, Answers::All).unwrap(), ["4|"]);
}

#[test]
fn conversations_with_tools_have_a_template_of_their_own() {
    let template = ChatTemplate::new("{{ messages[0].content }}", BTreeMap::new()).unwrap();
    let template = template
        .with_tool_use("{{ tools|length }} {{ messages[0].content }}")
        .unwrap();
    let again = ChatTemplate::from_json(&template.json().unwrap(), Path::new("x")).unwrap();
    assert_eq!(again, template);
    let mut one = Conversation::default();
    one.push("user", "hi");
    assert_eq!(again.render(&one, false).unwrap(), "hi");
    one.tools = Some(serde_json::json!([{ "name": "add" }]));
    assert_eq!(again.render(&one, false).unwrap(), "1 hi");
    let broken = template.with_tool_use("{% for %}").unwrap_err();
    assert!(broken.starts_with("line 1"), "{broken}");
}

#[test]
fn a_date_that_no_template_asks_for_is_idle() {
    let plain = ChatTemplate::chatml().with_date("2024-07-26").unwrap();
    assert!(plain.has_unused_date() && !ChatTemplate::chatml().has_unused_date());
    let asks = plain.with_tool_use("{{ strftime_now('%d') }}").unwrap();
    assert!(!asks.has_unused_date());
    let mut one = Conversation::default();
    one.push("user", "hi");
    one.tools = Some(serde_json::json!([{ "name": "add" }]));
    assert_eq!(asks.render(&one, false).unwrap(), "26");
}
