"""Runs turns with the OpenAI Agents SDK and its SQLite session, for `cargo xtask bench sessions`.

The actions are those of `langgraph_sqlite.py`.
"""

import asyncio
import sys
import time

from agents import Agent, Model, ModelResponse, Runner, SQLiteSession, Usage, function_tool
from agents import set_tracing_disabled
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

ANSWER = "The quick brown fox jumps over the lazy dog. " * 4


class Scripted(Model):
    """Calls a tool after a user message, if there is one, and answers after its result."""

    def __init__(self, failures=0):
        self.failures = failures
        self.count = 0

    async def get_response(self, system_instructions, input, model_settings, tools, *rest, **named):
        self.count += 1
        items = [input] if isinstance(input, str) else input
        is_user = isinstance(items[-1], str) or items[-1].get("role") == "user"
        if is_user and tools:
            made = ResponseFunctionToolCall(
                type="function_call", name="work", arguments="{}", call_id=f"call-{self.count}"
            )
        elif self.failures > 0:
            self.failures -= 1
            raise ConnectionError("503")
        else:
            text = ResponseOutputText(type="output_text", text=ANSWER, annotations=[])
            made = ResponseOutputMessage(
                id=f"m{self.count}",
                type="message",
                role="assistant",
                status="completed",
                content=[text],
            )
        return ModelResponse(output=[made], usage=Usage(), response_id=None)

    def stream_response(self, *rest, **named):
        raise NotImplementedError


def agent(effects=None, failures=0):
    @function_tool
    def work() -> str:
        """Writes one line."""
        with open(effects, "a") as file:
            file.write("work\n")
        return "worked"

    tools = [] if effects is None else [work]
    return Agent(name="bench", model=Scripted(failures), tools=tools)


async def say(chat, session, text):
    return (await Runner.run(chat, text, session=session)).final_output


async def main(action, store, *rest):
    set_tracing_disabled(True)
    session = SQLiteSession("s", store)
    if action == "write":
        chat = agent()
        for turn in range(int(rest[1])):
            text = f"{rest[0]}-{turn}"
            try:
                await say(chat, session, text)
            except Exception as error:
                print(f"{text}: {error}", file=sys.stderr)
                continue
            print(f"answered {text}", flush=True)
    elif action == "read":
        for item in await session.get_items():
            if item.get("role") == "user":
                print(item["content"])
    elif action == "retry":
        chat = agent(rest[0], failures=1)
        try:
            await say(chat, session, "go")
        except ConnectionError:
            pass
        print(await say(chat, session, "go"))
    elif action == "rate":
        chat = agent()
        await say(chat, session, "first")
        begun = time.perf_counter()
        for turn in range(int(rest[0])):
            await say(chat, session, f"{turn} {ANSWER}")
        print(time.perf_counter() - begun)


asyncio.run(main(*sys.argv[1:]))
