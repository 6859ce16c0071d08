#!/bin/sh
# Compiler launcher: ccache with paths relative to the checkout, so that the same commit built in another folder hits.
#   compiler_cache.sh COMPILER ARGUMENTS...
CCACHE_BASEDIR=$(cd "$(dirname "$0")/.." && pwd)
# What a source sees of a precompiled header is its text; its macros are few.
export CCACHE_BASEDIR CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
# A precompiled header remembers its headers with their comments, which the preprocessed text does not tell apart.
case " $* " in *" c++-header "*) export CCACHE_DEPEND=1 CCACHE_NAMESPACE=headers ;; esac
command -v ccache >/dev/null && exec ccache "$@"
exec "$@"
