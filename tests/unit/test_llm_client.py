"""The client against a server on the loopback that behaves well and in every bad way; one that never answers, too."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import llm_server as server
import pytest

from tuner.core.errors import MachineError
from tuner.search.llm.client import Client
from tuner.search.llm.exchange import Answer, Model, Request, bound_tokens

KEY = "sk-this-is-a-secret-0123456789"
WAIT_S = 120.0
"""For what will come; the process that talks to servers begins in seconds, and in many on a busy machine."""


Reply = server.Reply


def environment(**more: str) -> dict[str, str]:
    kept = {n: os.environ[n] for n in ("PATH", "PYTHONPATH", "HOME") if n in os.environ}
    return {**kept, "OPENAI_API_KEY": KEY, **more}


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    """One for many tests: its process takes a second or more to begin. Each model has its own address."""
    client = Client((Model(name="local", base_url="http://127.0.0.1:9/v1"),), environment())
    yield client
    client.close()


@pytest.fixture
def exchanged(client: Client) -> Iterator[Any]:
    """Answers to so many requests to a server with a script."""
    opened: list[server.Server] = []

    def exchange(script: Any, **more: Any) -> Answer:
        running = server.Server(script)
        opened.append(running)
        exchange.requests = running.requests  # type: ignore[attr-defined]
        exchange.headers = running.headers  # type: ignore[attr-defined]
        client.send(request(Model(name="local", base_url=running.url), **more))
        answer = client.take(WAIT_S)
        assert answer is not None
        assert client.take() is None
        return answer

    yield exchange
    for running in reversed(opened):
        running.close()


def request(model: Model, number: int = 0, **more: Any) -> Request:
    messages = [{"role": "user", "content": "faster"}]
    fields = {"messages": messages, "max_tokens": 50, "timeout_s": 30.0, **more}
    return Request(number=number, model=model, **fields)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.integration
def test_a_reply_with_its_counts(exchanged: Any, stream: bool) -> None:
    answer = exchanged(server.always("two\nlines ü", finish="length"), stream=stream)
    assert (answer.status, answer.text, answer.finish) == ("ok", "two\nlines ü", "length")
    assert (answer.prompt_tokens, answer.completion_tokens, answer.tries) == (100, 20, 1)
    assert exchanged.requests[0]["max_tokens"] == 50
    assert bool(exchanged.requests[0].get("stream")) is stream
    assert exchanged.headers[0]["authorization"] == f"Bearer {KEY}"


@pytest.mark.integration
def test_several_at_once_come_as_they_are_ready(client: Client) -> None:
    """Each is answered once the one that came after it has been taken."""
    taken = [threading.Event() for _ in range(3)]

    def script(number: int, body: Any) -> Any:
        assert number == 2 or taken[number + 1].wait(WAIT_S)
        return Reply(str(number))

    with server.serving(script) as running:
        model, answers = Model(name="local", base_url=running.url), []
        for number in range(3):
            client.send(request(model, number, timeout_s=WAIT_S))
        for _ in range(3):
            answer = client.take(WAIT_S)
            assert answer is not None
            assert answer.status == "ok", answer.message
            answers.append(answer)
            taken[int(answer.text)].set()
    assert [a.text for a in answers] == ["2", "1", "0"]
    assert sorted(a.number for a in answers) == [0, 1, 2]


def test_a_server_that_counts_nothing(exchanged: Any) -> None:
    answer = exchanged(server.always("text", usage=None))
    assert answer.status == "ok"
    assert answer.prompt_tokens is None


@pytest.mark.integration
def test_busy_servers_are_asked_again_after_what_they_say(exchanged: Any) -> None:
    def script(number: int, body: Any) -> Any:
        return Reply("", status=429, headers={"Retry-After": "1"}) if number == 0 else Reply("then")

    started = time.monotonic()
    answer = exchanged(script)
    assert (answer.status, answer.text, answer.tries) == ("ok", "then", 2)
    assert time.monotonic() - started >= 1.0


def test_a_server_that_wants_too_long_a_wait_is_left(exchanged: Any) -> None:
    answer = exchanged(server.always("later", status=429, headers={"Retry-After": "3600"}))
    assert (answer.status, answer.tries) == ("busy", 1)
    assert answer.free


@pytest.mark.parametrize("status", [500, 503])
def test_failing_servers_are_asked_so_often_and_no_more(exchanged: Any, status: int) -> None:
    answer = exchanged(server.always("down", status=status), retries=1)
    assert (answer.status, answer.tries) == ("unavailable", 2)
    assert str(status) in answer.message
    assert len(exchanged.requests) == 2


def test_a_refusal_is_final_and_hides_the_key(exchanged: Any) -> None:
    answer = exchanged(server.always(f"Incorrect API key: {KEY}", status=401))
    assert (answer.status, answer.tries) == ("refused", 1)
    assert "Incorrect API key: [key]" in answer.message


def test_a_key_in_a_reply_is_hidden(exchanged: Any) -> None:
    answer = exchanged(server.always(f"your key is {KEY}"), stream=False)
    assert answer.text == "your key is [key]"


def test_parameters_that_a_server_does_not_know_are_left_out(exchanged: Any) -> None:
    def script(number: int, body: Any) -> Any:
        for name, other in (("stream_options", ""), ("max_tokens", "use max_completion_tokens instead")):
            if name in body:
                return Reply(f"unknown parameter {name} {other}", status=400)
        return Reply("fine")

    answer = exchanged(script)
    assert (answer.status, answer.text) == ("ok", "fine")
    assert exchanged.requests[-1]["max_completion_tokens"] == 50


def test_a_server_that_does_not_stream_is_asked_without_and_so_from_then_on(exchanged: Any) -> None:
    """More is left out here than a request is tried again; a later request is right at once."""

    def script(number: int, body: Any) -> Any:
        refused = {"stream_options": "stream_options", "stream": "streaming", "temperature": "'temperature'"}
        for name, said in refused.items():
            if name in body:
                return Reply(f"{said} is not supported with this model", status=422)
        if "max_tokens" in body:
            return Reply("Use 'max_completion_tokens' instead.", status=400)
        if body["messages"][0]["role"] == "system":
            return Reply("System role not supported", status=500)
        return Reply("fine")

    messages = [{"role": "system", "content": "rules"}, {"role": "user", "content": "faster"}]
    answer = exchanged(script, temperature=0.5, retries=0, messages=messages)
    assert (answer.status, answer.text, answer.tries) == ("ok", "fine", 6)
    last = exchanged.requests[-1]
    assert set(last) == {"model", "messages", "max_completion_tokens"}
    assert last["messages"] == [{"role": "user", "content": "rules\n\nfaster"}]


def test_what_a_server_does_not_take_is_known_to_later_requests(client: Client) -> None:
    def script(number: int, body: Any) -> Any:
        return Reply(
            "no max_completion_tokens" if (old := "max_tokens" in body) else "", status=400 if old else 200
        )

    with server.serving(script) as running:
        model = Model(name="local", base_url=running.url)
        for _ in range(2):
            client.send(request(model))
            assert client.take(WAIT_S)
        assert ["max_tokens" in r for r in running.requests] == [True, False, False]


def test_a_server_that_refuses_the_same_again_is_left(exchanged: Any) -> None:
    answer = exchanged(
        server.always("no stream_options, temperature or streaming of any role system", status=400)
    )
    assert (answer.status, answer.tries) == ("refused", 3)


def test_no_key_is_sent_where_there_is_none() -> None:
    with server.serving(server.always("hello")) as running:
        client = Client((Model(name="local", base_url=running.url, api_key_env="NO_SUCH"),), environment())
        client.send(request(Model(name="local", base_url=running.url, api_key_env="NO_SUCH")))
        answer = client.take(WAIT_S)
        client.close()
        assert answer is not None
        assert answer.text == "hello"
        assert "authorization" not in running.headers[0]


EDIT = "<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE"


def tool(arguments: Any, name: str = "edit_file") -> dict[str, Any]:
    return {"index": 0, "type": "function", "function": {"name": name, "arguments": arguments}}


FORMS: dict[str, tuple[dict[str, Any], str, str, str]] = {
    "parts": ({"content": [{"type": "text", "text": "a"}, {"text": "b"}, "c"]}, "stop", "ok", "abc"),
    "thinking parts": (
        {"content": [{"type": "thinking", "thinking": "hm", "text": "no"}, {"type": "text", "text": "yes"}]},
        "stop",
        "ok",
        "yes",
    ),
    "reasoning beside": ({"content": "yes", "reasoning_content": "hm"}, "stop", "ok", "yes"),
    "the end of reasoning": ({"content": f"say {EDIT}\n</think>\nyes"}, "stop", "ok", "\nyes"),
    "channels": (
        {
            "content": "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>yes<|end|>"
        },
        "stop",
        "ok",
        "yes",
    ),
    "reasoning alone": (
        {"content": None, "reasoning": "hm"},
        "length",
        "no_text",
        "the model used its tokens for reasoning: raise search.llm.max_tokens",
    ),
    "half a thought": (
        {"content": "<think>hm"},
        "MAX_TOKENS",
        "no_text",
        "the model used its tokens for reasoning: raise search.llm.max_tokens",
    ),
    "reasoning that ended": (
        {"content": "", "thinking": "hm"},
        "stop",
        "no_text",
        "the model ended after its reasoning, without an answer",
    ),
    "a call of a tool": (
        {"content": None, "tool_calls": [tool('{"command": "rm -rf /"}', "shell\nrm")]},
        "tool_calls",
        "no_text",
        "the model answered with a call of a tool: shell rm",
    ),
    "edits in a call": (
        {"content": "So:", "tool_calls": [tool(json.dumps({"path": "/x", "edits": [EDIT]}))]},
        "tool_calls",
        "ok",
        f"So:\n{EDIT}",
    ),
    "edits as the argument": ({"tool_calls": [tool(EDIT)]}, "tool_calls", "ok", EDIT),
    "an object as the argument": ({"tool_calls": [tool({"diff": EDIT})]}, "tool_calls", "ok", EDIT),
    "a function": (
        {"content": None, "function_call": {"name": "f", "arguments": json.dumps({"text": EDIT})}},
        "function_call",
        "ok",
        EDIT,
    ),
    "a refusal": (
        {"content": None, "refusal": "I can't\nhelp. \x1b[2J"},
        "stop",
        "declined",
        "the model refused: I can't help. ?[2J",
    ),
    "a filter": (
        {"content": "half"},
        "content_filter",
        "declined",
        "a filter of the server stopped the reply: half",
    ),
    "an error at the end": (
        {"content": "half"},
        "error",
        "malformed",
        "the server ended the reply with an error: half",
    ),
}


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("name", FORMS)
def test_other_forms_of_answers_are_understood_or_named(exchanged: Any, name: str, streamed: bool) -> None:
    """Also a stream that nobody asked for, and none where one was asked for."""
    message, finish, status, said = FORMS[name]
    usage = {"prompt_tokens": 7, "completion_tokens": 5}
    raw = json.dumps({"choices": [{"message": message, "finish_reason": finish}], "usage": usage})
    if streamed:
        events = [{"choices": [{"delta": d, "finish_reason": None}]} for d in deltas(message)]
        events += [{"choices": [{"delta": {}, "finish_reason": finish}]}, {"choices": [], "usage": usage}]
        raw = "".join(f"data: {json.dumps(e)}\n\n" for e in events) + "data: [DONE]\n\n"
    answer = exchanged(server.always("", raw=raw.encode()), stream=not streamed)
    assert (answer.status, answer.text if status == "ok" else answer.message) == (status, said)
    assert (answer.prompt_tokens, answer.completion_tokens) == (7, 5)
    assert status == "ok" or answer.text == ""
    assert not answer.free


def deltas(message: dict[str, Any]) -> list[dict[str, Any]]:
    """The message in pieces of three characters, each text of it."""
    found: list[dict[str, Any]] = [{"role": "assistant"}]
    for key, value in message.items():
        if key == "tool_calls" and isinstance(value[0]["function"]["arguments"], str):
            call = value[0]["function"]
            found.append(
                {key: [{"index": 0, "id": "1", "function": {"name": call["name"], "arguments": ""}}]}
            )
            found += [{key: [{"index": 0, "function": {"arguments": p}}]} for p in threes(call["arguments"])]
        elif isinstance(value, str):
            found += [{key: piece} for piece in threes(value)]
        else:
            found.append({key: value})
    return found


def threes(text: str) -> list[str]:
    return [text[at : at + 3] for at in range(0, len(text), 3)]


@pytest.mark.parametrize(
    ("reply", "status"),
    [
        ({"hang": True}, "timed_out"),
        ({"drip": True, "text": "word " * 50}, "timed_out"),
        ({"cut": True, "text": "word " * 50}, "broken"),
        ({"raw": b"<html>sorry</html>"}, "malformed"),
        ({"raw": b"{}"}, "malformed"),
        ({"raw": b'{"choices": [{"message": null}'}, "malformed"),
        ({"raw": b'data: {"error": {"message": "overloaded"}}\n\n'}, "malformed"),
        ({"raw": b'error: {"code": 500, "message": "no slot"}\n\n'}, "malformed"),
        (
            {"raw": b'{"choices": [{"error": {"message": "provider"}, "message": {"content": ""}}]}'},
            "malformed",
        ),
        ({"raw": b"[" * 100_000}, "malformed"),
        ({"raw": b" " * (5 << 20)}, "too_large"),
    ],
)
@pytest.mark.integration
def test_bad_replies_are_a_status(exchanged: Any, reply: dict[str, Any], status: str) -> None:
    # Only what never comes is waited for to the end.
    timeout_s = 1.0 if status == "timed_out" else WAIT_S
    answer = exchanged(lambda n, b: Reply(**reply), timeout_s=timeout_s)
    assert answer.status == status
    assert answer.message
    assert "\n" not in answer.message
    assert not answer.free


def test_a_stream_with_its_message_whole(exchanged: Any) -> None:
    event = {"choices": [{"delta": {}, "message": {"content": "all"}, "finish_reason": "\x1b[2Jend"}]}
    again = {"choices": [{"delta": {}, "message": {"content": "all"}}]}
    raw = "".join(f"data: {json.dumps(e)}\n\n" for e in (event, again))
    answer = exchanged(server.always("", raw=raw.encode()))
    assert (answer.status, answer.text, answer.finish) == ("ok", "all", "??2jend")


def test_a_stream_that_ends_early_says_so(exchanged: Any) -> None:
    answer = exchanged(
        lambda n, b: Reply(raw=b'data: {"choices": [{"delta": {"content": "half"}}]}\n\ndata: {"cho')
    )
    assert (answer.status, answer.text, answer.finish) == ("ok", "half", "cut")


def test_no_server_is_unreachable(client: Client) -> None:
    client.send(request(Model(name="local", base_url="http://127.0.0.1:9/v1"), retries=1))
    answer = client.take(WAIT_S)
    assert answer is not None
    assert (answer.status, answer.tries) == ("unreachable", 2)


@pytest.mark.integration
def test_a_killed_process_is_an_answer_and_the_next_request_starts_another() -> None:
    with server.serving(lambda n, b: Reply("again", hang=n == 0)) as running:
        model = Model(name="local", base_url=running.url)
        client = Client((model,), environment())
        client.send(request(model, 0))
        server.wait_until(lambda: len(running.requests) == 1)
        assert client._process is not None
        os.kill(client._process.pid, signal.SIGKILL)
        lost = client.take(WAIT_S)
        assert lost is not None
        assert lost.status == "broken"
        client.send(request(model, 1))
        answer = client.take(WAIT_S)
        assert answer is not None
        assert answer.text == "again"
        client.close()


@pytest.mark.integration
def test_the_process_has_the_key_by_no_way_that_others_can_read() -> None:
    with server.serving(server.always("x", delay_s=5)) as running:
        model = Model(name="local", base_url=running.url)
        client = Client((model,), environment(OTHER_TOKEN=KEY))
        client.send(request(model))
        server.wait_until(lambda: len(running.requests) == 1)
        assert client._process is not None
        process = Path("/proc") / str(client._process.pid)
        assert KEY.encode() not in (process / "cmdline").read_bytes()
        assert (process / "environ").stat().st_uid == 0
        if os.getuid() == 0:
            assert KEY.encode() not in (process / "environ").read_bytes()
        client.close()
        assert not process.exists()


def test_a_model_of_openai_needs_a_key() -> None:
    with pytest.raises(MachineError, match="MY_KEY is not set") as raised:
        Client((Model(name="m", api_key_env="MY_KEY"),), environment())
    assert "a server of your own, which needs none, in search.llm.base_url" in str(raised.value.hint)


def test_a_prompt_has_no_more_tokens_than_reckoned() -> None:
    messages = [{"role": "user", "content": "ü" * 100}]
    assert bound_tokens(messages) >= 200
