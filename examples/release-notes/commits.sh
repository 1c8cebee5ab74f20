# Prints the commits of sample/ after one tag up to another one, oldest first: sh commits.sh v1.0 v1.1
GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 exec git -C sample --no-pager log --reverse \
    --format='%h %s%n%w(0,2,2)%b' --end-of-options "refs/tags/$1..refs/tags/$2" --
