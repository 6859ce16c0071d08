#!/bin/sh
# Compiler launcher: ccache with paths relative to the checkout, so that the same commit built in another folder hits.
#   compiler_cache.sh COMPILER ARGUMENTS...
CCACHE_BASEDIR=$(cd "$(dirname "$0")/.." && pwd)
export CCACHE_BASEDIR CCACHE_NOHASHDIR=1
command -v ccache >/dev/null && exec ccache "$@"
exec "$@"
