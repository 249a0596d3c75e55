set -eu
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
echo first > "$folder/log"
sh rotate.sh "$folder/log" 2
[ "$(cat "$folder/log.1")" = first ]
[ -e "$folder/log" ] && [ ! -s "$folder/log" ]
echo second > "$folder/log"
sh rotate.sh "$folder/log" 2
[ "$(cat "$folder/log.1")" = second ]
[ "$(cat "$folder/log.2")" = first ]
echo ok
