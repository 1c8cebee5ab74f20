"""Runs turns with LangGraph and its PostgreSQL saver, for `cargo xtask bench postgres`.

    langgraph_postgres.py about                             versions and settings
    langgraph_postgres.py setup URL                         creates the tables
    langgraph_postgres.py write URL WRITER CLIENTS TURNS    {"answered": MESSAGE} for each
    langgraph_postgres.py read URL                          {"message": MESSAGE} for each stored one
    langgraph_postgres.py approve URL COUNT                 {"effects": N} for each approval
    langgraph_postgres.py long URL TURNS TEXTS              {"turn": N, "seconds": S} for each
    langgraph_postgres.py rate URL SESSIONS TURNS TEXTS     {"turns": N, "seconds": S}

It prints JSON lines. `write` prints {"ready": true} and begins when it receives a line. TEXTS is a
file with one JSON string on each line: the texts that users and the model say in turn.

The graph and the saver are as LangGraph's documentation recommends them: `MessagesState`, one
`AsyncPostgresSaver` on a pool of autocommit connections, `interrupt` and `Command(resume=...)`.
`--savers session` gives each session a saver on the same pool, because a saver runs one statement at a
time. `--durability` is LangGraph's; its default is `async`. `--channel delta` keeps the messages in
its `DeltaChannel`, which is in beta.
"""

import argparse
import asyncio
import contextlib
import json
import os
import platform
import sys
import time
from importlib.metadata import version
from typing import Annotated

# The documentation of the saver requires this for safe reading.
os.environ["LANGGRAPH_STRICT_MSGPACK"] = "true"
os.environ["LANGSMITH_TRACING"] = "false"

from langchain_core.messages import AIMessage, HumanMessage  # noqa: E402
from langgraph.channels import DeltaChannel  # noqa: E402
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver  # noqa: E402
from langgraph.graph import END, START, MessagesState, StateGraph, add_messages  # noqa: E402
from langgraph.types import Command, interrupt  # noqa: E402
from psycopg.rows import dict_row  # noqa: E402
from psycopg_pool import AsyncConnectionPool  # noqa: E402
from typing_extensions import TypedDict  # noqa: E402

PACKAGES = ["langgraph", "langgraph-checkpoint-postgres", "psycopg", "psycopg-pool"]
POOL = 20
THREAD = "s"


def add_batches(messages, batches):
    """The reducer `add_messages` for a channel that receives several updates at once."""
    for batch in batches:
        messages = add_messages(messages, batch)
    return messages


class DeltaState(TypedDict):
    messages: Annotated[list, DeltaChannel(add_batches)]


def emit(**line):
    print(json.dumps(line), flush=True)


def thread(name):
    return {"configurable": {"thread_id": name}}


def texts_of(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


@contextlib.asynccontextmanager
async def pool_at(url):
    settings = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
    async with AsyncConnectionPool(url, min_size=1, max_size=POOL, kwargs=settings) as pool:
        yield pool


def chat(saver, texts, state=MessagesState):
    """One node, which answers with the text that follows the last one."""

    def model(state):
        return {"messages": [AIMessage(texts[len(state["messages"]) % len(texts)])]}

    built = StateGraph(state)
    built.add_node("model", model)
    built.add_edge(START, "model")
    built.add_edge("model", END)
    return built.compile(checkpointer=saver)


def approved_chat(saver, effects):
    """One node, which asks for an approval and has an effect when it comes."""

    def work(state):
        if interrupt({"question": "run it?"}):
            effects.append(state["messages"][-1].content)
        return {"messages": [AIMessage("done")]}

    built = StateGraph(MessagesState)
    built.add_node("work", work)
    built.add_edge(START, "work")
    built.add_edge("work", END)
    return built.compile(checkpointer=saver)


class Player:
    def __init__(self, options):
        self.durability = options.durability
        self.savers = options.savers
        self.state = DeltaState if options.channel == "delta" else MessagesState

    async def say(self, graph, name, text):
        message = {"messages": [HumanMessage(text)]}
        await graph.ainvoke(message, thread(name), durability=self.durability)

    async def setup(self, url):
        async with AsyncPostgresSaver.from_conn_string(url) as saver:
            await saver.setup()

    async def write(self, url, writer, clients, turns):
        async with pool_at(url) as pool:
            await pool.wait()
            graph = chat(AsyncPostgresSaver(pool), ["yes"])
            emit(ready=True)
            await asyncio.to_thread(sys.stdin.readline)

            async def client(number):
                for turn in range(int(turns)):
                    text = f"{writer}-{number}-{turn}"
                    try:
                        await self.say(graph, THREAD, text)
                    except Exception as error:
                        print(f"{text}: {error}", file=sys.stderr)
                        continue
                    emit(answered=text)

            await asyncio.gather(*(client(number) for number in range(int(clients))))

    async def read(self, url):
        async with pool_at(url) as pool:
            state = await chat(AsyncPostgresSaver(pool), ["yes"]).aget_state(thread(THREAD))
            for message in state.values.get("messages", []):
                if isinstance(message, HumanMessage):
                    emit(message=message.content)

    async def approve(self, url, count):
        """Each approval is delivered at the same time by two graphs, with a saver and a pool each."""
        async with pool_at(url) as first, pool_at(url) as second:
            effects = []
            nodes = [approved_chat(AsyncPostgresSaver(pool), effects) for pool in (first, second)]
            for number in range(int(count)):
                name = f"approval-{number}"
                await self.say(nodes[0], name, name)

                async def deliver(node):
                    resume = Command(resume=True)
                    await node.ainvoke(resume, thread(name), durability=self.durability)

                results = await asyncio.gather(*map(deliver, nodes), return_exceptions=True)
                errors = [str(result) for result in results if result is not None]
                emit(effects=effects.count(name), errors=errors)

    async def long(self, url, turns, texts):
        texts = texts_of(texts)
        async with pool_at(url) as pool:
            await pool.wait()
            graph = chat(AsyncPostgresSaver(pool), texts, self.state)
            for turn in range(int(turns)):
                begin = time.perf_counter()
                await self.say(graph, THREAD, texts[2 * turn % len(texts)])
                emit(turn=turn + 1, seconds=time.perf_counter() - begin)

    async def rate(self, url, sessions, turns, texts):
        texts, sessions, turns = texts_of(texts), int(sessions), int(turns)
        async with pool_at(url) as pool:
            await pool.wait()
            shared = AsyncPostgresSaver(pool)

            async def session(number, turns):
                saver = AsyncPostgresSaver(pool) if self.savers == "session" else shared
                graph = chat(saver, texts, self.state)
                for turn in range(turns):
                    await self.say(graph, f"rate-{number}", texts[2 * turn % len(texts)])

            # The first turns open the connections of the pool.
            await asyncio.gather(*(session(number, 2) for number in range(sessions)))
            begin = time.perf_counter()
            await asyncio.gather(*(session(number, turns) for number in range(sessions)))
            emit(turns=sessions * turns, seconds=time.perf_counter() - begin)

    async def about(self):
        packages = {package: version(package) for package in PACKAGES}
        emit(
            python=platform.python_version(),
            packages=packages,
            durability=self.durability,
            savers=self.savers,
            pool=POOL,
            state=self.state.__name__,
        )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("action")
    parser.add_argument("arguments", nargs="*")
    parser.add_argument("--durability", choices=["async", "sync", "exit"], default="async")
    parser.add_argument("--savers", choices=["one", "session"], default="one")
    parser.add_argument("--channel", choices=["add", "delta"], default="add")
    options = parser.parse_args()
    asyncio.run(getattr(Player(options), options.action)(*options.arguments))


main()
