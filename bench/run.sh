#!/bin/bash
# What an operation costs beside its business writes: bench/run.py --help
exec "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/run.py" "$@"
