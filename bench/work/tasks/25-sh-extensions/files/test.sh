set -eu
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
mkdir "$folder/sub"
touch "$folder/a.txt" "$folder/sub/b.txt" "$folder/c.md" "$folder/plain"
[ "$(sh extensions.sh "$folder")" = "md 1
txt 2" ]
echo ok
