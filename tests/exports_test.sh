#!/usr/bin/env bash
# What libsmelt.so exports: each symbol of the C interface with its version, as tests/abi/c_api_symbols.txt lists them
# (one line more for each new function, none less), and beside them C++ of namespace smelt
# and instances of the standard library's templates only.
#   exports_test.sh LIBSMELT SYMBOLS
set -euo pipefail
export LC_ALL=C
symbols=$(nm -D --defined-only --with-symbol-versions "$1" | awk '{ print $NF }')
diff <(grep -E '^smelt_' <<<"$symbols" | sort) "$2"
foreign=$(grep -vE '^(smelt_|SMELT_)' <<<"$symbols" | c++filt | grep -vE 'smelt::|std::|__gnu_cxx::' || true)
if [ "$foreign" ]; then
  echo "exported and not smelt's:"
  echo "$foreign"
  exit 1
fi
echo "$(grep -c '^smelt_' <<<"$symbols") functions of the C interface"
