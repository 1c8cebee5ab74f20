"""Runs turns with LangGraph and its SQLite saver, for `cargo xtask bench sessions`.

    langgraph_sqlite.py write STORE WRITER TURNS    prints `answered MESSAGE` for each
    langgraph_sqlite.py read STORE                  prints the stored user messages, one per line
    langgraph_sqlite.py retry STORE EFFECTS         prints the answer after an error and a retry
    langgraph_sqlite.py rate STORE TURNS            prints the seconds that the turns took
"""

import sys
import time

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph

CONFIG = {"configurable": {"thread_id": "s"}}
ANSWER = "The quick brown fox jumps over the lazy dog. " * 4


def graph(saver, effects=None, failures=0):
    """One model node and one tool node. The first requests after a tool result fail."""
    left = [failures]

    def model(state):
        last = state["messages"][-1]
        if isinstance(last, HumanMessage) and effects is not None:
            call = {"name": "work", "args": {}, "id": f"call-{len(state['messages'])}"}
            return {"messages": [AIMessage("", tool_calls=[call])]}
        if left[0] > 0:
            left[0] -= 1
            raise ConnectionError("503")
        return {"messages": [AIMessage(ANSWER)]}

    def tools(state):
        results = []
        for call in state["messages"][-1].tool_calls:
            with open(effects, "a") as file:
                file.write(call["id"] + "\n")
            results.append(ToolMessage("worked", tool_call_id=call["id"]))
        return {"messages": results}

    def after(state):
        return "tools" if getattr(state["messages"][-1], "tool_calls", None) else END

    built = StateGraph(MessagesState)
    built.add_node("model", model)
    built.add_node("tools", tools)
    built.add_edge(START, "model")
    built.add_conditional_edges("model", after, ["tools", END])
    built.add_edge("tools", "model")
    return built.compile(checkpointer=saver)


def say(chat, text):
    return chat.invoke({"messages": [HumanMessage(text)]}, CONFIG)["messages"][-1].content


def main(action, store, *rest):
    with SqliteSaver.from_conn_string(store) as saver:
        if action == "write":
            chat = graph(saver)
            for turn in range(int(rest[1])):
                text = f"{rest[0]}-{turn}"
                try:
                    say(chat, text)
                except Exception as error:
                    print(f"{text}: {error}", file=sys.stderr)
                    continue
                print(f"answered {text}", flush=True)
        elif action == "read":
            for message in graph(saver).get_state(CONFIG).values.get("messages", []):
                if isinstance(message, HumanMessage):
                    print(message.content)
        elif action == "retry":
            chat = graph(saver, rest[0], failures=1)
            try:
                say(chat, "go")
            except ConnectionError:
                pass
            print(say(chat, "go"))
        elif action == "rate":
            chat = graph(saver)
            say(chat, "first")
            begun = time.perf_counter()
            for turn in range(int(rest[0])):
                say(chat, f"{turn} {ANSWER}")
            print(time.perf_counter() - begun)


main(*sys.argv[1:])
