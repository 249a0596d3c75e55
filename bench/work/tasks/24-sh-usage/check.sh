set -u
code=0
out=$(sh count.sh 2> error.txt) || code=$?
[ "$code" -eq 2 ] || exit 1
[ -z "$out" ] || exit 1
[ "$(cat error.txt)" = "usage: count.sh FILE" ] || exit 1
printf 'a\nb\nc\n' > "three lines"
[ "$(sh count.sh 'three lines')" = 3 ]
