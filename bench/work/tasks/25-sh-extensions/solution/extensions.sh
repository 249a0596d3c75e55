#!/bin/sh
# Usage: extensions.sh FOLDER
find "$1" -type f -name '*.*' | sed 's/.*\.//' | sort | uniq -c | awk '{print $2, $1}'
