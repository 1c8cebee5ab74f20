"""Starts a model and a server, prepares sessions and waiting turns, and runs schemathesis on them."""

import json
import os
import subprocess
import sys
import tempfile
import urllib.request

program, st, report = sys.argv[1:4]
seed = os.environ.get("SEED", "1")
here = os.path.dirname(os.path.abspath(__file__))
AGENT = '<config model="openai:m"/>\n<tool name="work" command="printf done"/>\n'


def post(url, body):
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


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
        address = line.split("listening on ")[1].strip()
        for session in ["s1", "s2"]:
            post(f"{address}/v1/sessions/{session}/send", {"message": "hello"})
        post(f"{address}/v1/sessions/w1/send", {"message": "work"})
        # Streams of events have no end. HTTP removes space around values of headers, so that some requests
        # that the tool considers wrong are right.
        ran = subprocess.run([
            st, "run", f"{address}/openapi.json",
            "--exclude-path-regex", "/events$",
            "--checks", "all", "--exclude-checks", "positive_data_acceptance,negative_data_rejection",
            "--phases", "examples,coverage,fuzzing,stateful", "--max-examples", "25",
            "--seed", seed, "--max-time", "40", "--workers", "1", "--request-timeout", "10",
            "--no-color", "--warnings", "off", "--report", "ndjson",
            "--report-ndjson-path", report], cwd=folder)
        assert server.poll() is None, "the server ended"
        sys.exit(ran.returncode)
    finally:
        for process in [server, model]:
            if process:
                process.kill()
                process.wait()
