#!/bin/sh
# Usage: rotate.sh FILE COUNT
file=$1
count=$2
if [ ! -e "$file" ]; then
    echo "$file does not exist" >&2
    exit 1
fi
rm -f "$file.$count"
number=$count
while [ "$number" -gt 1 ]; do
    older=$((number - 1))
    [ -e "$file.$older" ] && mv "$file.$older" "$file.$number"
    number=$older
done
mv "$file" "$file.1"
: > "$file"
