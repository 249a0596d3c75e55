#!/bin/sh
if [ $# -eq 0 ]; then
    echo "usage: count.sh FILE" >&2
    exit 2
fi
wc -l < "$1" | tr -d ' '
