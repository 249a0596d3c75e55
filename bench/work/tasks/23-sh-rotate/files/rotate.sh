#!/bin/sh
# Usage: rotate.sh FILE COUNT
