# Prints the staged change of sample/. Settings of git could change the output or run a program.
GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 exec git -C sample --no-pager diff --cached --no-ext-diff
