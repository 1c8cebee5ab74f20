"""Serves an agent, and uses it with the OpenAI client of Python, then with that of JavaScript."""

import os
import subprocess
import sys
import tempfile
import time

import openai
import pydantic
from openai.types import chat as chats
from openai.types import conversations, responses as types

program, node = sys.argv[1:3]
here = os.path.dirname(os.path.abspath(__file__))
AGENT = ('<config model="openai:m"/>\n<system>HIDDEN rules</system>\n'
         '<tool name="work" command="printf done"/>\n')


def chat(client):
    user = [{"role": "user", "content": "hi"}]
    whole = client.chat.completions.create(model="agent", messages=user)
    assert whole.choices[0].message.content == "1: hi", whole
    assert whole.usage.total_tokens == 7, whole
    parts = client.chat.completions.create(model="agent", messages=user, stream=True)
    text = "".join(part.choices[0].delta.content or "" for part in parts if part.choices)
    assert text == "1: hi", text
    longer = user + [{"role": "assistant", "content": "1: hi"}, {"role": "user", "content": "on"}]
    assert client.chat.completions.create(
        model="agent", messages=longer).choices[0].message.content == "2: on"


def responses(client):
    first = client.responses.create(model="agent", input="hi")
    assert (first.output_text, first.status) == ("1: hi", "completed"), first
    second = client.responses.create(model="agent", input="on", previous_response_id=first.id)
    assert second.output_text == "2: on", second
    branch = client.responses.create(model="agent", input="or", previous_response_id=first.id)
    assert branch.output_text == "2: or", branch
    assert client.responses.retrieve(second.id).output_text == "2: on"
    with client.responses.stream(model="agent", input="hey") as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_response()
    assert kinds[0] == "response.created" and kinds[-1] == "response.completed", kinds
    assert final.output_text == "1: hey", final
    talk = client.conversations.create()
    for number, text in [(1, "a"), (2, "b")]:
        said = client.responses.create(model="agent", input=text, conversation=talk.id)
        assert said.output_text == f"{number}: {text}", said


def background(client):
    begun = client.responses.create(model="agent", input="later", background=True)
    assert begun.status in ("queued", "in_progress", "completed"), begun
    while begun.status in ("queued", "in_progress"):
        time.sleep(0.02)
        begun = client.responses.retrieve(begun.id)
    assert begun.output_text == "1: later", begun


def approval(client):
    asked = client.responses.create(model="agent", input="work")
    request = [item for item in asked.output if item.type == "mcp_approval_request"][0]
    answer = {"type": "mcp_approval_response", "approval_request_id": request.id, "approve": True}
    done = client.responses.create(model="agent", input=[answer], previous_response_id=asked.id)
    assert done.output_text == "1: result", done


def errors(client):
    try:
        client.responses.create(model="none", input="hi")
        raise AssertionError("an unknown agent answers")
    except openai.NotFoundError as error:
        assert error.code == "agent_not_found", error
    try:
        client.responses.retrieve("resp_none")
        raise AssertionError("an unknown response is found")
    except openai.NotFoundError as error:
        assert error.code == "response_not_found", error
    try:
        client.chat.completions.create(model="agent", messages=[])
        raise AssertionError("an empty conversation is answered")
    except openai.BadRequestError:
        pass


def lines(raw):
    for line in raw.read().decode().splitlines():
        if line.startswith("data: ") and line != "data: [DONE]":
            yield line.removeprefix("data: ")


def required(client):
    """Validates what the clients only construct: fields that their types require are present."""
    http = client.with_raw_response
    user = [{"role": "user", "content": "hi"}]
    whole = http.chat.completions.create(model="agent", messages=user)
    chats.ChatCompletion.model_validate_json(whole.text)
    usage = {"include_usage": True}
    with client.chat.completions.with_streaming_response.create(
            model="agent", messages=user, stream=True, stream_options=usage) as parts:
        for line in lines(parts):
            chats.ChatCompletionChunk.model_validate_json(line)
    event = pydantic.TypeAdapter(types.ResponseStreamEvent)
    for text in ["hi", "work"]:
        whole = http.responses.create(model="agent", input=text)
        types.Response.model_validate_json(whole.text)
        identity = whole.parse().id
        types.Response.model_validate_json(http.responses.retrieve(identity).text)
        items = http.responses.input_items.list(identity)
        types.ResponseItemList.model_validate_json(items.text)
        with client.responses.with_streaming_response.create(
                model="agent", input=text, stream=True) as parts:
            for line in lines(parts):
                event.validate_json(line)
    talk = http.conversations.create()
    conversations.Conversation.model_validate_json(talk.text)
    client.responses.create(model="agent", input="a", conversation=talk.parse().id)
    items = http.conversations.items.list(talk.parse().id)
    conversations.ConversationItemList.model_validate_json(items.text)


with tempfile.TemporaryDirectory() as folder:
    with open(os.path.join(folder, "agent.md"), "w") as file:
        file.write(AGENT)
    model = subprocess.Popen([sys.executable, "-B", os.path.join(here, "model.py")],
                             stdout=subprocess.PIPE, text=True)
    server = None
    try:
        port = int(model.stdout.readline())
        environment = {"PATH": os.environ["PATH"], "HOME": folder, "OPENAI_API_KEY": "none",
                       "OPENAI_BASE_URL": f"http://127.0.0.1:{port}/v1"}
        server = subprocess.Popen(
            [program, "serve", "agent.md", "--listen", "127.0.0.1:0", "--store", "sqlite:s.db"],
            cwd=folder, env=environment, stderr=subprocess.PIPE, text=True)
        line = ""
        while "listening on " not in line:
            line = server.stderr.readline()
            assert line, "the server ended"
        address = line.split("listening on ")[1].strip() + "/v1"
        client = openai.OpenAI(base_url=address, api_key="any", max_retries=0)
        assert [one.id for one in client.models.list()] == ["agent"]
        for check in [chat, responses, background, approval, errors, required]:
            check(client)
            print(f"python: {check.__name__}: ok")
        subprocess.run(["node", node, address], check=True)
    finally:
        for process in [server, model]:
            if process:
                process.kill()
                process.wait()
