#!/usr/bin/env bash
# What examples/detect and examples/keyword show, by the command alone.
#   examples_test.sh SMELT EXAMPLES
set -euo pipefail
smelt=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$2/detect"
"$smelt" run squares.onnx --image tiles.png --labels labels.txt --draw "$folder/found.png" >"$folder/found.txt"
for line in '0 .* 16 .* 8 .* 24 .* 16 +red' '1 .* 48 .* 32 .* 56 .* 40 +green' '2 .* 8 .* 48 .* 16 .* 56 +blue' '^3 objects'; do
  grep -qE "$line" "$folder/found.txt" || { echo "no '$line' in"; cat "$folder/found.txt"; exit 1; }
done
cmp -s tiles.png "$folder/found.png" && { echo "nothing is drawn"; exit 1; }
[ "$(head -c 4 "$folder/found.png" | tail -c 3)" = PNG ]
cd "../keyword"
"$smelt" run keys.onnx --input five.wav --labels labels.txt --top 1 >"$folder/key.txt"
grep -qE '^ +4 +0\.9[0-9]+ +5$|^ +4 +1\.0000 +5$' "$folder/key.txt" || { cat "$folder/key.txt"; exit 1; }
echo "the examples find three tiles and a key"
