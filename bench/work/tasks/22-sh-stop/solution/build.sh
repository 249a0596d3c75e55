#!/bin/sh
set -e
sh steps/compile.sh
sh steps/test.sh
echo "build ok"
