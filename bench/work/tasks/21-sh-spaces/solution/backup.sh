#!/bin/sh
# Usage: backup.sh FOLDER
for file in "$1"/*.txt; do
    [ -e "$file" ] || continue
    cp "$file" "$file.bak"
done
