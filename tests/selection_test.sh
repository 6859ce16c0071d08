#!/usr/bin/env bash
# A build of SMELT_FOR gives the results of the whole build on every level, refuses other models by name and is small.
#   selection_test.sh SOURCE_FOLDER SMELT SELECTED     SELECTED: smelt_minimal for examples/digits/digits.tflite
set -euo pipefail
source=$1 smelt=$2 selected=$3
digits=$source/examples/digits
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

python3 -c 'import struct, sys
sys.stdout.buffer.write(struct.pack("<64f", *(i / 64 for i in range(64))))' >"$work/image.raw"
levels=0
for level in baseline avx2 avx512 vnni dot; do
  export SMELT_ISA=$level
  "$smelt" run "$digits/digits.tflite" --input "$work/image.raw" --output-dir "$work/out" >/dev/null 2>&1 || continue
  "$selected" "$digits/digits.tflite" "$work/image.raw" >"$work/scores"
  [ "$(stat -c %s "$work/scores")" = 40 ]
  tail -c 40 "$work/out/0.npy" | cmp - "$work/scores" || { echo "level $level: other results"; exit 1; }
  levels=$((levels + 1))
done
[ "$levels" -gt 0 ]
unset SMELT_ISA

refused() {
  "$selected" "$1" "$work/image.raw" >/dev/null 2>"$work/message" && { echo "$1 runs, but is left out"; exit 1; }
  grep -qF "$2" "$work/message" || { cat "$work/message"; echo "no word of: $2"; exit 1; }
}
refused "$digits/digits.onnx" "not a model of the formats of this build (SMELT_FOR): tflite"
refused "$source/examples/custom_operator/clipped_scale.tflite" "left out of this build (SMELT_FOR)"

strip -o "$work/stripped" "$selected"
size=$(stat -c %s "$work/stripped")
echo "digits.tflite: $size bytes, the same results on $levels levels"
[ "$size" -le 1048576 ]
