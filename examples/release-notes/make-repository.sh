#!/bin/sh
# Creates sample/, a git repository with two releases. Your own settings of git have no effect.
set -eu
cd "$(dirname "$0")"
rm -rf sample
unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1
export GIT_AUTHOR_NAME=Ana GIT_AUTHOR_EMAIL=ana@example.org GIT_COMMITTER_NAME=Ana GIT_COMMITTER_EMAIL=ana@example.org
git init -q -b main sample
cd sample
day=1
commit() { # TEXT SUBJECT [BODY]
    export GIT_AUTHOR_DATE="2026-04-0${day}T09:00:00Z" GIT_COMMITTER_DATE="2026-04-0${day}T09:00:00Z"
    day=$((day + 1))
    echo "$1" >> tides.txt
    git add tides.txt
    git commit -q -m "$2" ${3:+-m "$3"}
}
commit "harbour" "tides: print the next high water"
git tag v1.0
commit "zones" "tides: use the time zone of the harbour" "Times were those of the computer, wrong by an hour for travellers."
commit "refactor" "tides: move the table to a file of its own"
commit "json" "output: add --json" "Fields: harbour, time, height_m."
commit "low" "output: name low water too"
commit "height" "output: print heights in metres" "Heights were in feet. Scripts that read them have to convert."
git tag v1.1
