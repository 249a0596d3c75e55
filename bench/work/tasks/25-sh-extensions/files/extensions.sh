#!/bin/sh
# Usage: extensions.sh FOLDER
