#!/bin/sh
# Usage: backup.sh FOLDER
for file in $(ls $1/*.txt); do
    cp $file $file.bak
done
