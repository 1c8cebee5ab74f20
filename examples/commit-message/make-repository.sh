#!/bin/sh
# Creates sample/, a git repository with a staged change. Your own settings of git have no effect.
set -eu
cd "$(dirname "$0")"
rm -rf sample
unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1
export GIT_AUTHOR_NAME=Ana GIT_AUTHOR_EMAIL=ana@example.org GIT_AUTHOR_DATE=2026-03-02T09:00:00Z
export GIT_COMMITTER_NAME=Ana GIT_COMMITTER_EMAIL=ana@example.org GIT_COMMITTER_DATE=2026-03-02T09:00:00Z
git init -q -b main sample
cd sample
cat > client.py <<'END'
import time
import urllib.request


def fetch(url, attempts=3):
    for attempt in range(attempts):
        try:
            return urllib.request.urlopen(url).read()
        except OSError:
            time.sleep(1)
    raise OSError(f"no answer from {url}")
END
git add client.py
git commit -qm "client: fetch pages with retries"
cat > client.py <<'END'
import time
import urllib.request


def fetch(url, attempts=3, timeout=10):
    for attempt in range(attempts):
        try:
            return urllib.request.urlopen(url, timeout=timeout).read()
        except OSError:
            time.sleep(2**attempt)
    raise OSError(f"no answer from {url}")
END
git add client.py
