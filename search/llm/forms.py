"""What a model's message holds besides plain text: parts, reasoning, refusals, calls of tools; as text or a reason why
there is none.

Must not raise anything, whatever comes. Sources: OpenAI's API reference (chat completions), the documentation of
reasoning outputs of vLLM, DeepSeek, OpenRouter and Mistral, llama.cpp's server.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Message", "Verdict", "plain_finish"]

_REASONING = ("reasoning_content", "reasoning", "reasoning_details", "thinking")
"""Fields beside the answer: DeepSeek and llama.cpp, vLLM, OpenRouter, Ollama."""

_TEXT_PARTS = (None, "text", "output_text")
_FINISHES = {
    "max_tokens": "length",
    "max_output_tokens": "length",
    "model_length": "length",
    "safety": "content_filter",
    "recitation": "content_filter",
    "prohibited_content": "content_filter",
    "refusal": "content_filter",
    "abort": "cut",
    "cancelled": "cut",
    "insufficient_system_resource": "cut",
}
"""Other words for why a model stopped (Anthropic, Mistral, Gemini, SGLang, DeepSeek)."""

_MOST_CALLS = 32
_MOST_FINISH = 40
_MOST_SHOWN = 200
_EDITS = re.compile(
    r"^[ \t]*(?:<{4,12}[ \t]*SEARCH\b|(?:```+|~~~+).*\bregion\b)", re.MULTILINE | re.IGNORECASE
)
_THOUGHT = re.compile(r"<(think|thinking|reasoning)>.*?(</\1>|\Z)", re.DOTALL | re.IGNORECASE)
_THOUGHT_END = re.compile(r"</(?:think|thinking|reasoning)>", re.IGNORECASE)
_THOUGHT_BEGIN = re.compile(r"<(?:think|thinking|reasoning)>", re.IGNORECASE)
_CHANNEL = "<|channel|>"
_FINAL = "<|channel|>final<|message|>"
_CHANNEL_END = re.compile(r"<\|(?:end|return|start)\|>.*", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What came of a message: ``ok`` with its text, or another status with one line for people."""

    text: str = ""
    status: str = "ok"
    message: str = ""


@dataclass(slots=True)
class _ToolCall:
    name: str = ""
    pieces: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Message:
    """A message, whole or gathered from the deltas of a stream."""

    _texts: list[str] = field(default_factory=list)
    _refusals: list[str] = field(default_factory=list)
    _calls: dict[int, _ToolCall] = field(default_factory=dict)
    _reasoned: bool = False

    def add(self, value: Mapping[str, Any]) -> None:
        """Takes in a message or a delta."""
        self._content(value.get("content"))
        self._reasoned = self._reasoned or any(value.get(name) for name in _REASONING)
        if isinstance(value.get("refusal"), str):
            self._refusals.append(value["refusal"])
        calls = value.get("tool_calls")
        for position, call in enumerate(calls if isinstance(calls, list) else ()):
            if isinstance(call, dict):
                index = call.get("index")
                self._call(
                    index if type(index) is int else position, call.get("function") or call.get("custom")
                )
        self._call(-1, value.get("function_call"))

    def add_text(self, text: str) -> None:
        """Takes in text that stands outside of a message."""
        self._texts.append(text)

    @property
    def begun(self) -> bool:
        """Whether there is any text yet."""
        return any(self._texts)

    def verdict(self, finish: str, *, reasoning_tokens: int) -> Verdict:
        """What the message says.

        Args:
            finish: why the model stopped, in OpenAI's words.
            reasoning_tokens: that the server counts beside the answer's; 0 where it does not say.
        """
        text = _answer("".join(self._texts))
        refusal = "".join(self._refusals)
        if finish == "content_filter" or (refusal.strip() and not text.strip()):
            why = "the model refused" if refusal.strip() else "a filter of the server stopped the reply"
            return Verdict(status="declined", message=_with(why, refusal.strip() or text))
        if finish == "error":
            return Verdict(
                status="malformed", message=_with("the server ended the reply with an error", text)
            )
        edits = "" if _EDITS.search(text) else "\n".join(e for c in self._calls.values() for e in _edits(c))
        text = "\n".join(t for t in (text, edits) if t)
        if _THOUGHT.sub("", text).strip():
            return Verdict(text=text)
        if self._calls:
            names = ", ".join(sorted({c.name for c in self._calls.values() if c.name}))
            return Verdict(status="no_text", message=_with("the model answered with a call of a tool", names))
        if self._reasoned or text.strip() or reasoning_tokens or finish == "length":
            return _nothing_but_thought(finish)
        return Verdict(text=text)

    def _content(self, content: Any) -> None:
        if isinstance(content, str):
            self._texts.append(content)
            return
        # Some servers send parts.
        for part in content if isinstance(content, list) else [content]:
            if isinstance(part, str):
                self._texts.append(part)
            if not isinstance(part, dict):
                continue
            kind, text, refusal = part.get("type"), part.get("text"), part.get("refusal")
            if kind == "refusal" and isinstance(refusal, str):
                self._refusals.append(refusal)
            elif kind in _TEXT_PARTS and isinstance(text, str):
                self._texts.append(text)
            elif kind not in _TEXT_PARTS:
                self._reasoned = True

    def _call(self, index: int, function: Any) -> None:
        if not isinstance(function, dict) or (index not in self._calls and len(self._calls) >= _MOST_CALLS):
            return
        call = self._calls.setdefault(index, _ToolCall())
        if isinstance(function.get("name"), str):
            call.name = call.name or function["name"]
        arguments = function.get("arguments", function.get("input"))
        if isinstance(arguments, dict):
            arguments = json.dumps(arguments)
        if isinstance(arguments, str):
            call.pieces.append(arguments)


def plain_finish(finish: str) -> str:
    """Why a model stopped, in OpenAI's words where there is one."""
    lowered = re.sub(r"[^\w.:-]", "?", finish[:_MOST_FINISH].lower(), flags=re.ASCII)
    return _FINISHES.get(lowered, lowered)


def _nothing_but_thought(finish: str) -> Verdict:
    if finish == "length":
        message = "the model used its tokens for reasoning: raise search.llm.max_tokens"
    elif finish == "cut":
        message = "the reply was cut off within the model's reasoning"
    else:
        message = "the model ended after its reasoning, without an answer"
    return Verdict(status="no_text", message=message)


def _answer(text: str) -> str:
    """Text without reasoning whose begin is missing, and the last channel of a model that writes channels.

    A template that begins the reasoning itself leaves only its end in the reply.
    """
    end = _THOUGHT_END.search(text)
    if end is not None and _THOUGHT_BEGIN.search(text, 0, end.start()) is None:
        text = text[end.end() :]
    if _FINAL in text:
        return _CHANNEL_END.sub("", text.rpartition(_FINAL)[2])
    if text.lstrip().startswith(_CHANNEL):
        return f"<think>{text}"
    return text


def _edits(call: _ToolCall) -> Iterator[str]:
    """Texts with edits among a call's arguments."""
    arguments = "".join(call.pieces)
    try:
        waiting = [json.loads(arguments)]
    except (ValueError, RecursionError):
        waiting = [arguments]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            if _EDITS.search(value):
                yield value
        elif isinstance(value, dict):
            waiting += reversed(value.values())
        elif isinstance(value, list):
            waiting += reversed(value)


def _with(why: str, more: str) -> str:
    shown = " ".join(more.split())
    return f"{why}: {shown[:_MOST_SHOWN]}" if shown else why
