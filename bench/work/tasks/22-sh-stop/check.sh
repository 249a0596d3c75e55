set -u
out=$(sh build.sh) || exit 1
[ "$out" = "compiled
tested
build ok" ] || exit 1
echo "exit 3" > steps/compile.sh
out=$(sh build.sh) && exit 1
case "$out" in *"build ok"*|*tested*) exit 1 ;; esac
echo "echo compiled" > steps/compile.sh
echo "exit 1" > steps/test.sh
out=$(sh build.sh) && exit 1
case "$out" in *"build ok"*) exit 1 ;; esac
