//! Tests of reading rows as pairs.

use super::*;

fn pair(row: Value) -> RowResult<Pair> {
    let Value::Object(row) = row else {
        panic!("a row is an object");
    };
    Reader(&PreferencesConfig::default()).pair(&row)
}

fn user(content: &str) -> Value {
    json!({ "role": "user", "content": content })
}

fn answer(content: &str) -> Value {
    json!({ "role": "assistant", "content": content })
}

#[test]
fn texts_that_begin_alike_have_their_beginning_as_prompt() {
    let texts = |prompt: &str, better: &str, worse: &str| Pair::Texts {
        prompt: prompt.into(),
        better: better.into(),
        worse: worse.into(),
    };
    let given = pair(json!({ "prompt": "1+1=", "chosen": "2", "rejected": "3" }));
    assert_eq!(given.unwrap(), texts("1+1=", "2", "3"));
    let found = pair(json!({ "chosen": "Q: é? A: yes", "rejected": "Q: é? A: no" }));
    assert_eq!(found.unwrap(), texts("Q: é? A:", " yes", " no"));
    // One text begins with the other.
    let found = pair(json!({ "chosen": "ab", "rejected": "abc" }));
    assert_eq!(found.unwrap(), texts("ab", "", "c"));
}

#[test]
fn messages_have_their_prompt_before_them_or_within() {
    let wanted = Pair::Messages {
        prompt: vec![user("1+1?")],
        better: vec![answer("2")],
        worse: vec![answer("3")],
        tools: None,
    };
    let [better, worse] = ["2", "3"].map(|said| json!([answer(said)]));
    let [whole, other] = ["2", "3"].map(|said| json!([user("1+1?"), answer(said)]));
    for row in [
        json!({ "prompt": [user("1+1?")], "chosen": better, "rejected": worse }),
        json!({ "prompt": "1+1?", "chosen": better, "rejected": worse }),
        json!({ "prompt": "1+1?", "chosen": whole, "rejected": other }),
        json!({ "prompt": null, "chosen": whole, "rejected": other }),
        json!({ "chosen": whole, "rejected": other }),
    ] {
        assert_eq!(pair(row.clone()).unwrap(), wanted, "{row}");
    }
    // The question after a system message.
    let system = json!({ "role": "system", "content": "brief" });
    let [one, two] = ["2", "3"].map(|said| json!([system, user("1+1?"), answer(said)]));
    let found = pair(json!({ "prompt": "1+1?", "chosen": one, "rejected": two }));
    let found = found.unwrap();
    assert!(matches!(&found, Pair::Messages { prompt, better, .. }
        if *prompt == [system, user("1+1?")] && *better == [answer("2")]));
    let one_sided = json!({ "prompt": "1+1?", "chosen": whole, "rejected": worse });
    assert!(pair(one_sided).unwrap_err().contains("remove it there"));
}

#[test]
fn margins_are_numbers_or_texts_of_them() {
    let config = PreferencesConfig {
        margin: Some("by".into()),
        ..PreferencesConfig::default()
    };
    let margin = |value: Value| {
        let Value::Object(row) = json!({ "by": value }) else {
            panic!("a row is an object");
        };
        Reader(&config).margin(&row)
    };
    assert_eq!(margin(json!(1.5)), Ok(1.5));
    assert_eq!(margin(json!(" 2 ")), Ok(2.0));
    for wrong in [json!("two"), json!(null), json!(1e300), json!("inf")] {
        assert!(margin(wrong).unwrap_err().contains("`by` is not a number"));
    }
    let lacking = Reader(&config).margin(&Map::new());
    assert!(lacking.unwrap_err().contains("no field `by`"));
}

#[test]
fn rows_that_are_no_pairs_say_why() {
    for (row, why) in [
        (
            json!({ "prompt": "a", "chosen": "b" }),
            "no field `rejected`",
        ),
        (
            json!({ "prompt": "a", "chosen": "b", "rejected": "b" }),
            "`chosen` and `rejected` are the same",
        ),
        (
            json!({ "chosen": "b", "rejected": "c" }),
            "the first characters of `chosen` and `rejected` differ",
        ),
        (
            json!({ "prompt": "a", "chosen": "b", "rejected": [answer("c")] }),
            "use the same form for both",
        ),
        (
            json!({ "prompt": [user("a")], "chosen": "b", "rejected": "c" }),
            "the prompt is a list of messages",
        ),
        (
            json!({ "prompt": "a", "chosen": [{ "role": "assistant" }], "rejected": [] }),
            "`chosen`: message 1 has neither",
        ),
        (
            json!({ "prompt": "a", "chosen": 3, "rejected": "c" }),
            "`chosen` is neither a text nor a list",
        ),
    ] {
        let told = pair(row.clone()).unwrap_err();
        assert!(told.contains(why), "{row}: {told}");
    }
}

/// Fields that mark messages as trained on do not change the prompt, and no template sees them.
#[test]
fn fields_of_what_is_learnt_are_left_out() {
    let with = |mut message: Value, name: &str, value: Value| {
        message[name] = value;
        message
    };
    let row = json!({
        "chosen": [with(user("a"), "weight", json!(0)), with(answer("b"), "weight", json!(1))],
        "rejected": [user("a"), with(answer("c"), "train", json!(true))],
    });
    let wanted = Pair::Messages {
        prompt: vec![user("a")],
        better: vec![answer("b")],
        worse: vec![answer("c")],
        tools: None,
    };
    assert_eq!(pair(row).unwrap(), wanted);
}
