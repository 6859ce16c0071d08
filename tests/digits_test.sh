#!/usr/bin/env bash
# One network, every format, one answer: each file of examples/digits names each of the ten pictures.
#   digits_test.sh SMELT FOLDER
set -euo pipefail
smelt=$1
cd "$2"
files=0 wrong=0
for model in digits*.{tflite,onnx,pte,bpte}; do
  files=$((files + 1))
  while read -r name; do
    label=$("$smelt" run "$model" --image "$name.png" --labels labels.txt --top 1 | awk 'END { print $3 }')
    [ "$label" = "$name" ] || { echo "$model: $name.png is taken for '$label'"; wrong=$((wrong + 1)); }
  done <labels.txt
done
"$smelt" verify digits.bpte | tail -n 1
echo "$files files, $wrong wrong answers"
[ "$files" -ge 10 ] && [ "$wrong" = 0 ]
