"""The client of the package against `logue mcp serve`: `client.py PROGRAM`."""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import httpx2
from mcp import Client, MCPError
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

PROGRAM = sys.argv[1]
TOKEN = "sesame-and-nobody-else"


def prompts(folder: Path) -> None:
    (folder / "repeat.md").write_text(
        "<developer>Repeats what it is told.\nAnd nothing else.</developer>\n"
        "<user>Be exact.</user>\n"
        "<assistant>I am.</assistant>\n"
    )
    (folder / "notes.md").write_text("# Notes\n\nNo prompt at all.\n")
    (folder / "broken.chatmd").write_text('<user>Read <doc src="nowhere.txt" local/></user>\n')


def environment(folder: Path) -> dict[str, str]:
    return {"HOME": str(folder), "XDG_CONFIG_HOME": str(folder), "XDG_CACHE_HOME": str(folder)}


async def converse(client: Client, folder: Path, how: str) -> None:
    """Everything that a client does."""
    assert client.server_info is None or client.server_info.name == "logue", client.server_info
    tools = (await client.list_tools()).tools
    assert [tool.name for tool in tools] == ["broken", "repeat"], tools
    repeat = tools[1]
    assert repeat.description == "Repeats what it is told.", repeat
    assert repeat.input_schema["required"] == ["input"], repeat
    listed = (await client.list_prompts()).prompts
    assert [prompt.name for prompt in listed] == ["broken", "repeat"], listed

    prompt = await client.get_prompt("repeat", {"input": "Now."})
    said = [(message.role, message.content.text) for message in prompt.messages]
    assert said == [
        ("user", "Repeats what it is told.\nAnd nothing else."),
        ("user", "Be exact."),
        ("assistant", "I am."),
        ("user", "Now."),
    ], said

    answer = await client.call_tool("repeat", {"input": "Grüße 👋"})
    assert not answer.is_error and answer.content[0].text == "Grüße 👋", answer
    # Ten at once, each with a history of its own.
    answers = await asyncio.gather(
        *(client.call_tool("repeat", {"input": f"n{number}"}) for number in range(10))
    )
    assert [answer.content[0].text for answer in answers] == [f"n{n}" for n in range(10)], answers

    failed = await client.call_tool("broken", {"input": "x"})
    assert failed.is_error and failed.content[0].text.startswith("E-MD-DOCUMENT-UNREADABLE: "), failed
    wrong = await client.call_tool("repeat", {"text": 1})
    assert wrong.is_error and "E-CALL-SCHEMA" in wrong.content[0].text, wrong
    for name in ("nobody", "notes"):
        try:
            await client.call_tool(name, {"input": "x"})
        except MCPError as error:
            assert "there are: broken, repeat" in str(error), error
        else:
            raise AssertionError(f"{name} answered")
    print(f"mcp-peers: client over {how}: understood ({client.protocol_version})")


async def changes(server, folder: Path, how: str) -> None:
    """A file that comes is news, in the old way and the new one."""
    heard = asyncio.Event()

    async def hear(message) -> None:
        if "list_changed" in str(getattr(message, "method", "")):
            heard.set()

    async with Client(server(), mode="legacy", message_handler=hear) as client:
        await client.list_tools()
        (folder / "later.md").write_text("<user>Later.</user>\n")
        await asyncio.wait_for(heard.wait(), 20)
        assert len((await client.list_tools()).tools) == 3
    async with Client(server()) as client:
        async with client.listen(tools_list_changed=True) as news:
            (folder / "later.md").unlink()
            await asyncio.wait_for(anext(aiter(news)), 20)
        assert len((await client.list_tools(cache_mode="bypass")).tools) == 2
    print(f"mcp-peers: client over {how}: heard of changes")


async def over_stdio(folder: Path) -> None:
    def server() -> StdioServerParameters:
        arguments = ["mcp", "serve", "-m", "echo:", str(folder)]
        return StdioServerParameters(command=PROGRAM, args=arguments, env=environment(folder))

    for mode in ("auto", "legacy"):
        async with Client(server(), mode=mode) as client:
            await converse(client, folder, f"stdio, {mode}")
    await changes(server, folder, "stdio")


async def over_http(folder: Path) -> None:
    process = subprocess.Popen(
        [PROGRAM, "mcp", "serve", "--http", "--", str(folder)],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment(folder), "LOGUE_MCP_TOKEN": TOKEN, "LOGUE_MODEL": "echo:"},
    )
    try:
        url = process.stderr.readline().split()[1]
        clients = []

        def server():
            client = httpx2.AsyncClient(headers={"Authorization": f"Bearer {TOKEN}"}, timeout=60)
            clients.append(client)
            return streamable_http_client(url, http_client=client)

        for mode in ("auto", "legacy"):
            async with Client(server(), mode=mode) as client:
                await converse(client, folder, f"HTTP, {mode}")
        await changes(server, folder, "HTTP")
        for client in clients:
            await client.aclose()

        async with httpx2.AsyncClient() as stranger:
            for headers, status in (
                ({}, 401),
                ({"Authorization": "Bearer wrong"}, 401),
                ({"Authorization": f"Bearer {TOKEN}x"}, 401),
                ({"Authorization": f"Bearer {TOKEN}", "Origin": "http://evil.example"}, 403),
                ({"Authorization": f"Bearer {TOKEN}", "Host": "evil.example"}, 403),
            ):
                answer = await stranger.post(url, headers=headers, json={})
                assert answer.status_code == status, (headers, answer.status_code, answer.text)
        print("mcp-peers: strangers over HTTP: refused")
    finally:
        process.send_signal(signal.SIGTERM)
        status = process.wait(timeout=20)
    assert status == 143, status


with tempfile.TemporaryDirectory() as name:
    prompts(Path(name))
    asyncio.run(over_stdio(Path(name)))
    asyncio.run(over_http(Path(name)))
