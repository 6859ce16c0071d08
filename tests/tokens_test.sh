#!/usr/bin/env bash
# The decoder of examples/decoder continues a prompt as ExecuTorch does (tokens.txt; tests/decoder_test.py compares the two).
#   tokens_test.sh GENERATE FOLDER
set -euo pipefail
tokens=$("$1" "$2/decoder_4bit.pte" 64 3 14 15 92 65)
if [ "$tokens" != "$(cat "$2/tokens.txt")" ]; then
  echo "other tokens than expected: $tokens"
  exit 1
fi
echo "64 tokens agree"
