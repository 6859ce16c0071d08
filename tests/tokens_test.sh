#!/usr/bin/env bash
# The decoder of examples/decoder continues a prompt as ExecuTorch does (tokens.txt; tests/decoder_test.py compares the two).
#   tokens_test.sh GENERATE FOLDER
set -euo pipefail
for device in "" --vulkan; do
  if ! tokens=$("$1" $device "$2/decoder_4bit.pte" 64 3 14 15 92 65 2>&1); then
    if [ "$device" ] && [[ $tokens == *"no Vulkan"* ]]; then
      echo "without Vulkan: $tokens"
      continue
    fi
    echo "$tokens"
    exit 1
  fi
  if [ "$tokens" != "$(cat "$2/tokens.txt")" ]; then
    echo "other tokens than expected${device:+ with $device}: $tokens"
    exit 1
  fi
  echo "64 tokens agree${device:+ with $device}"
done
