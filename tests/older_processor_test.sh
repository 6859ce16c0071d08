#!/usr/bin/env bash
# The tests of the CPU's kernels on processors without AVX-512 and without AVX, as QEMU emulates them: no instruction that
# the processor lacks may run.
#   older_processor_test.sh SMELT_TESTS PROCESSOR SOURCE_FOLDER      exit status 77: skipped, no QEMU
set -euo pipefail
tests=$1 processor=$2 source=$3
if [ "$(uname -m)" != x86_64 ] || ! command -v qemu-x86_64 >/dev/null; then
  echo "skipped: qemu-x86_64 (Debian's qemu-user) is not installed"
  exit 77
fi
suites=$(grep -rhoE --include='*_test.cc' '^TEST(_[FP])?\(\w+' "$source/src/backends/cpu" "$source/src/base" | sed 's/.*(//' | sort -u |
  sed 's/.*/&.*:*\/&.*/' | paste -sd:)
export SMELT_TEST_LEVELS=best  # those below it are covered by the processor that has no other
exec qemu-x86_64 -cpu "$processor" "$tests" --gtest_brief=1 --gtest_filter="$suites"
