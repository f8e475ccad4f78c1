"""A script is checked at start: file, line and reason (LLM-40)."""

from pathlib import Path

import pytest

from aalis_llm.checked_yaml import UnreadableYaml
from aalis_llm.script_file import demo_script, load_script, parse_script
from aalis_llm.scripted import ScriptedProvider


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("rules:\n- reply: hi\n  repyl: x\n", r"^s\.yaml:3: .*not permitted.* \(rules\.0\.repyl\)"),
        ("rules:\n- when:\n    text: '('\n", r"^s\.yaml:3: .*no regular expression"),
        ("rules:\n- when: {iteration: -1}\n", r"^s\.yaml:2: .*greater than or equal to 0"),
        ("rules:\n- fail: {status: 200}\n", r"^s\.yaml:2: .*400 .*\(rules\.0\.fail\.status\)"),
        ("rules:\n- fail: {message: x}\n", r"^s\.yaml:2: Field required \(rules\.0\.fail\)"),
        ("rules:\n- reply: a\n  hang: true\n", r"^s\.yaml:2: .*either answers"),
        ("rules:\n- cut: {after: 1}\n", r"^s\.yaml:2: .*needs something to cut"),
        ("rules:\n- call: [{tool: f, args: 3}]\n", r"^s\.yaml:2: .*\(rules\.0\.call\.0\.args\)"),
        ("rules:\n- reply: '{match.1}'\n", r"^s\.yaml:2: .*`text` has 0 groups"),
        ("models:\n- id: m\n", r"^s\.yaml:2: Field required"),
        ("models:\n- {id: m, contextLength: 0}\n", r"^s\.yaml:2: .*greater than 0"),
        ("models:\n- {id: m, contextLength: 9, profile: x}\n", r"^s\.yaml:2: .*'openai'"),
        ("rules: 3\n", r"^s\.yaml:1: .*list \(rules\)"),
        ("- 1\n", r"^s\.yaml:1: "),
        ("rules:\n- {reply: a, reply: b}\n", r"^s\.yaml:2: the key 'reply' stands twice"),
        ("rules:\n  - a: [\n", r"^s\.yaml:3: "),
        ("a: !!python/object:os.system x\n", r"^s\.yaml:1: .*could not determine"),
        ("[" * 5_000, r"^s\.yaml:1: "),
        ("rules:\n- reply: \u0001\n", r"^s\.yaml:1: "),
    ],
)
def test_a_wrong_script_is_refused_with_line_and_reason(text: str, complaint: str) -> None:
    with pytest.raises(UnreadableYaml, match=complaint):
        parse_script(text, "s.yaml")


def test_a_value_used_twice_by_reference_is_fine() -> None:
    script = parse_script("rules:\n- when: &w {text: a}\n  reply: x\n- when: *w\n  reply: y\n")

    assert script.rules[0].when == script.rules[1].when


def test_an_empty_script_has_the_two_models_and_no_rule() -> None:
    script = parse_script("# nothing\n")

    assert [model.id for model in script.all_models()] == ["demo", "tiny"]
    assert script.rules == []


async def test_models_of_the_file_are_listed_beside_the_two() -> None:
    script = parse_script(
        "models:\n- {id: big/one, contextLength: 1000000, profile: strict}\n"
        "- {id: demo, contextLength: 5, capabilities: [chat]}\n"
    )
    entries = {entry.context_id: entry for entry in await ScriptedProvider(script).entries()}

    assert list(entries) == ["scripted/big/one", "scripted/demo", "scripted/tiny"]
    assert entries["scripted/big/one"].profile == "strict"
    assert entries["scripted/demo"].context_length == 5
    assert entries["scripted/tiny"].context_length == 4000
    assert entries["scripted/tiny"].max_output_tokens == 512
    assert entries["scripted/tiny"].can("vision")


def test_a_file_is_read_and_a_missing_or_binary_one_is_named(tmp_path: Path) -> None:
    good, binary = tmp_path / "good.yaml", tmp_path / "binary.yaml"
    good.write_text("rules:\n- reply: 好\n", encoding="utf-8")
    binary.write_bytes(b"\xff\xfe\x00")

    assert load_script(good).rules[0].reply == "好"
    with pytest.raises(UnreadableYaml, match=r"absent\.yaml: No such file"):
        load_script(tmp_path / "absent.yaml")
    with pytest.raises(UnreadableYaml, match=r"binary\.yaml: not UTF-8"):
        load_script(str(binary))


def test_the_demo_script_is_valid() -> None:
    assert demo_script().rules
