"""Conversations as transformers writes them: texts, ids and the tokens of answers.

    python tests/goldens/make_chat.py [FOLDER]     # transformers==5.24.0 tokenizers==0.23.3 jinja2==3.1.6

Writes tests/goldens/chat.json. The templates were written for this file and use the features of published ones: tags around
answers, white space
control, namespaces, slices, string methods, tools as JSON, errors. With FOLDER, templates are the `*.jinja` files there, and the
JSON goes to standard output (benches/chat_templates.sh).
"""

import datetime
import json
import sys
from pathlib import Path

import jinja2
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
from transformers.utils import chat_template_utils

HERE = Path(__file__).parent
SPECIALS = ["<s>", "</s>", "<|im_start|>", "<|im_end|>", "<|tool|>"]

TEMPLATES = {
    "tagged": """{%- set ns = namespace(calls=0) -%}
{{- bos_token }}
{%- if messages[0].role == 'system' %}
    {{- '[' + messages[0].content.strip().upper() + ']\\n' }}
    {%- set rest = messages[1:] %}
{%- else %}
    {%- set rest = messages %}
{%- endif %}
{%- if tools is iterable and tools | length > 0 %}
    {%- for tool in tools %}
        {{- tool | tojson(indent=2) }}
        {{- "\\n" }}
    {%- endfor %}
{%- endif %}
{%- for message in rest %}
    {%- if message['role'] == 'assistant' %}
        {{- '<|im_start|>assistant\\n' }}
        {% generation %}
        {%- if message.tool_calls is defined and message.tool_calls %}
            {%- for call in message.tool_calls %}
                {%- set ns.calls = ns.calls + 1 %}
                {{- '<|tool|>' + call.function.name + ' ' + (call.function.arguments | tojson) }}
            {%- endfor %}
        {%- else %}
            {{- message.content | trim }}
        {%- endif %}
        {{- eos_token }}
        {%- endgeneration %}
        {{- '\\n' }}
    {%- elif message.role in ['user', 'tool'] %}
        {{- '<|im_start|>' ~ message.role ~ '\\n' ~ message.content | replace('?', '?!') ~ '<|im_end|>\\n' }}
    {%- else %}
        {{- raise_exception('no place for ' + message.role) }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
{%- if strftime_now is defined %}{{ strftime_now('%-d %b %Y, %A, %y-%m-%d %H:%M ') }}{% endif %}
calls={{ ns.calls }}
""",
    "plain": """{% for message in messages %}
{% if loop.first and message['role'] != 'system' %}
Be kind.
{% endif %}
{{ message['role'].capitalize() }}: {{ message['content'] }}
{% if message['role'] == 'assistant' %}{{ eos_token }}{% endif %}

{% endfor %}
{% if add_generation_prompt %}Assistant: {% endif %}""",
    "turns": """{{ bos_token }}{% for m in messages %}{% if (m['role'] == 'assistant') %}{% set role = 'model' %}{% else %}\
{% set role = m['role'] %}{% endif %}{{ '<|im_start|>' + role + '\n' + (m['content'] or '') | trim + '<|im_end|>\n' }}{% endfor %}\
{% if add_generation_prompt %}{{ '<|im_start|>model\n' }}{% endif %}""",
    "thinking": """{%- for m in messages %}
    {%- set content = m.content or '' %}
    {%- if m.role == 'assistant' and '</think>' in content and not loop.last %}
        {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
    {%- endif %}
    {{- '<|im_start|>' + m.role + '\\n' + content + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}""",
}

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "Tells <the> weather & \"more\" in a cité",
            "parameters": {"type": "object", "properties": {"place": {"type": "string"}, "days": {"type": "integer"}}},
        },
    }
]

CHATS = [
    {"messages": [{"role": "user", "content": "1+1?"}, {"role": "assistant", "content": "2"}]},
    {
        "messages": [
            {"role": "system", "content": " be <brief> & kind "},
            {"role": "user", "content": "Wie heißt „rot“ auf Englisch?"},
            {"role": "assistant", "content": "  red 🟥\n"},
            {"role": "user", "content": "And in French?\nOne word."},
            {"role": "assistant", "content": "<think>\nrouge or roux?\n</think>\n\nrouge"},
            {"role": "user", "content": ""},
            {"role": "assistant", "content": "Is there more?"},
        ]
    },
    {
        "messages": [
            {"role": "user", "content": "Weather in Oslo?"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"type": "function", "function": {"name": "weather", "arguments": {"place": "Oslo é", "days": 2, "x": [1.5, True]}}}
                ],
            },
            {"role": "tool", "content": "{\"sky\": \"clear\"}"},
            {"role": "assistant", "content": "Clear."},
        ],
        "tools": TOOLS,
    },
]


def tokenizer():
    vocabulary = {token: id for id, token in enumerate(SPECIALS)}
    for byte in sorted(pre_tokenizers.ByteLevel.alphabet()):
        vocabulary[byte] = len(vocabulary)
    merges = [("Ġ", "t"), ("r", "e"), ("re", "d"), ("i", "n"), ("?", "Ċ")]
    for left, right in merges:
        vocabulary[left + right] = len(vocabulary)
    made = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens(SPECIALS)
    return PreTrainedTokenizerFast(tokenizer_object=made, bos_token="<s>", eos_token="</s>")


class Midnight(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls(2024, 7, 6)


def main():
    chat_template_utils.datetime = Midnight
    made = tokenizer()
    templates = TEMPLATES
    if len(sys.argv) > 1:
        templates = {path.name: path.read_text() for path in sorted(Path(sys.argv[1]).rglob("*.jinja"))}
    cases = []
    for name, template in templates.items():
        for number, chat in enumerate(CHATS):
            for asks in [False, True]:
                case = {"template": name, "chat": number, "asks": asks}
                arguments = {"tools": chat.get("tools"), "chat_template": template, "add_generation_prompt": asks}
                try:
                    case["text"] = made.apply_chat_template(chat["messages"], tokenize=False, **arguments)
                    tagged = "generation %}" in template or "generation -%}" in template
                    both = made.apply_chat_template(
                        chat["messages"], tokenize=True, return_dict=True, return_assistant_tokens_mask=tagged, **arguments
                    )
                    case["ids"] = both["input_ids"]
                    if tagged:
                        case["answers"] = both["assistant_masks"]
                except jinja2.exceptions.TemplateError as error:
                    case["error"] = str(error)
                except Exception as error:  # Templates that fail otherwise, as on content that is no text.
                    case["error"] = f"{type(error).__name__}: {error}"
                cases.append(case)
    golden = {
        "tokenizer": json.loads(made.backend_tokenizer.to_str()),
        "templates": templates,
        "chats": CHATS,
        "date": "2024-07-06",
        "cases": cases,
    }
    text = json.dumps(golden, ensure_ascii=False, indent=1)
    if len(sys.argv) > 1:
        print(text)
    else:
        (HERE / "chat.json").write_text(text + "\n")


main()
