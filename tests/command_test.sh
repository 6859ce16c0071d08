#!/usr/bin/env bash
# What the command line promises: exit status, a message for each fault, outputs whole or not at all, valid JSON.
#   command_test.sh SMELT DIGITS_FOLDER
set -uo pipefail
smelt=$1 digits=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
wrong=0 checks=0
model=$digits/digits.tflite program=$digits/digits_portable.pte picture=$digits/seven.png

# status STATUS PATTERN ARGUMENTS...: the exit status, and what standard output and standard error hold together.
status() {
  local want=$1 pattern=$2 got=0
  shift 2
  "$smelt" "$@" >out 2>error || got=$?
  checks=$((checks + 1))
  if [ "$got" != "$want" ] || ! cat out error | grep -q -e "$pattern"; then
    echo "smelt $*: status $got, expected $want and '$pattern'; printed:" && head -n 5 out error
    wrong=$((wrong + 1))
  fi
}
# holds COMMAND...
holds() {
  checks=$((checks + 1))
  "$@" || { echo "does not hold: $*" && wrong=$((wrong + 1)); }
}

long=$(printf 'a%.0s' {1..5000})
mkdir empty_folder sequence.seq && touch empty_file

# Wrong usage.
status 2 'no command; there are: run'
status 2 "no command is 'inspct'" inspct "$model"
status 2 'MODEL is required' run --threads 2
status 2 'model is required' inspect
status 2 'not expected: extra' run "$model" extra
status 2 'not in range 0 to 256' run "$model" --threads 257
status 2 'VULKAN not in {reference,cpu,vulkan}' run "$model" --backend VULKAN
status 2 '\-1 is not a size of at least 0' run "$model" --limit-memory -1
status 2 'nan is not a time of at least 0' run "$model" --limit-seconds nan
status 2 'device requires --backend vulkan' run "$model" --device 0
status 1 'labels.txt: cannot open' run "$model" --labels labels.txt
status 2 'input excludes --image' run "$model" --image "$picture" --input x.npy
status 2 'std: 0 is not a number above 0' run "$model" --image "$picture" --std 0
status 2 'json excludes --nodes' inspect "$model" --json --nodes

# Help and version.
status 0 'Exit status: 0 done' --help
status 0 '^smelt [0-9]' --version
for command in run inspect bench verify bundle devices; do status 0 'Examples:' "$command" --help; done

# What the file holds, and what runs.
status 0 'DequantizeLinear  *Dequantize' inspect "$digits/digits_qdq.onnx" --nodes
status 0 'Conv+QuantizeLinear  *Conv  *int8' inspect "$digits/digits_qdq.onnx" --nodes --optimised
status 0 'page.html: open it' inspect "$digits/digits_qdq.onnx" --optimised --html page.html

# A file that breaks a rule: appended bytes give an IR version that does not exist.
{ cat "$digits/digits.onnx"; printf '\x08\xe7\x07'; } >broken.onnx
mkdir broken_test && cp broken.onnx broken_test/model.onnx && mkdir broken_test/test_data_set_0
status 1 'IR version 999, 1 to .* (rule ir-version; --tolerate ir-version accepts it)' run broken.onnx
status 0 'output' run broken.onnx --tolerate ir-version
status 0 'opset ai.onnx' inspect broken.onnx --tolerate node-order,ir-version
status 0 'median' bench broken.onnx --runs 1 --tolerate all
status 1 'rule ir-version' verify broken_test
status 3 'is missing' verify broken_test --tolerate ir-version
status 1 'rule ir-version' run broken.onnx --tolerate node-order
status 2 'not in {all,ir-version' run broken.onnx --tolerate no-rule

# The model or an input is at fault.
status 1 'nope.onnx: cannot open: No such file' run nope.onnx
status 1 'empty_file: the file is empty' run empty_file
status 1 'empty_folder: not a regular file' run empty_folder
status 1 'File name too long' run "$long"
status 1 'File name too long' run "$model" --input "$long"
status 1 'external data files belong to ExecuTorch programs' run "$model" --data x.ptd
status 1 'no input of the model is .x.; there are: ' run "$model" --input x=x.npy
status 1 'a folder without 0.npy' run "$model" --input empty_folder
status 1 'is a sequence, the model takes float32' run "$model" --input sequence.seq
status 1 "no method 'foo'" run "$program" --method foo
status 1 'empty_file: not an image' run "$model" --image empty_file
status 1 'mean of 2 channels, input .* has 1' run "$model" --image "$picture" --mean 1,2
status 1 'took longer than its time limit' run "$model" --limit-seconds 1e-9 --output-dir never
status 1 'needs more than 1 bytes' run "$model" --limit-memory 1 --output-dir never
status 1 'needs more than 1 bytes' bench "$model" --limit-memory 1
status 1 'took longer than its time limit' bench "$model" --limit-seconds 1e-9
status 1 'needs more than 1 bytes' verify "$digits/digits.bpte" --limit-memory 1
status 1 'no test sets that --add could keep' bundle "$program" --add -o never
status 1 'not a bundled program, nothing to compare' verify "$model"
status 1 'nothing to verify' verify empty_folder
SMELT_ISA=avx7 status 1 'SMELT_ISA is avx7; this machine has baseline' run "$model"
status 2 '--bf16 requires --backend cpu' run "$model" --bf16 --backend reference
if SMELT_ISA=bf16 "$smelt" devices >/dev/null 2>&1; then
  status 0 'conv_nhwc_bf16' inspect "$model" --bf16
  status 0 'float32  .1,10.' run "$model" --bf16
else
  status 1 'isa is bf16; this machine has baseline' run "$model" --bf16
fi
SMELT_ISA=avx7 status 1 'SMELT_ISA is avx7' devices
SMELT_CPU_WINOGRAD=3 status 1 'SMELT_CPU_WINOGRAD is 3; it may be 0, 2, 4, always2, always4' run "$model"
holds [ ! -e never ]

# What is written is whole, or not there.
status 0 'float32' run "$model" --output-dir outputs
holds [ "$(ls outputs)" = 0.npy ]
status 1 'has shape .1,10., the model takes' run --input outputs/0.npy "$model" # the model last
status 0 '1 test set' bundle "$program" --record -o made.bpte
status 0 '1 passed' verify made.bpte
status 1 'set 0: .*has shape .1,10., the model takes' bundle "$program" --input outputs/0.npy -o never
status 2 'output is required' bundle "$program"
holds [ ! -e never ]
ln -s /dev/full full
for arguments in "run $model --output-dir linked" "inspect $model --html full" "bench $model --profile full" "bundle $program -o full"; do
  mkdir -p linked && ln -sf /dev/full linked/0.npy
  # shellcheck disable=SC2086
  status 1 'No space left on device' $arguments
  holds [ -L full ]
done
holds [ -z "$(find . -name '*.part')" ]

# Standard output: full, closed early, not there.
for arguments in "run $model" "inspect $model --json" "bench $model --runs 1" "verify made.bpte" devices --help; do
  got=0
  # shellcheck disable=SC2086
  "$smelt" $arguments >/dev/full 2>error || got=$?
  holds [ $got = 1 ] && holds grep -q 'standard output: No space left' error
  # shellcheck disable=SC2086
  "$smelt" $arguments 2>error | true
  holds [ "${PIPESTATUS[0]}" -le 1 ] && holds [ ! -s error ]
  # shellcheck disable=SC2086
  "$smelt" $arguments >&- 2>error
  holds [ $? = 0 ] && holds [ ! -s error ]
done

# JSON.
if command -v python3 >/dev/null; then
  json=(python3 -c 'import json, sys
def refuse(word): raise ValueError(word)
json.load(sys.stdin, parse_constant=refuse)')
  for file in "$digits"/digits*.{tflite,onnx,pte,bpte}; do
    holds "${json[@]}" < <("$smelt" inspect "$file" --json --html page.html)
    holds "${json[@]}" < <("$smelt" inspect "$file" --json --optimised)
  done
  holds "${json[@]}" < <("$smelt" bench "$model" --json --runs 1 --profile profile.json)
  holds "${json[@]}" <profile.json
fi
echo "$checks checks, $wrong wrong"
[ $wrong = 0 ]
