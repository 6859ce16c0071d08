#!/usr/bin/env bash
# Installs a build into a scratch folder and uses libonnxifi from there as a program would (opened at run time, linked
# through pkg-config, linked through CMake), and libsmelt.
#   install_test.sh BUILD_FOLDER SOURCE_FOLDER
set -euo pipefail
build=$1 source=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cmake --install "$build" --prefix "$folder/usr" >/dev/null
library=$(find "$folder/usr" -name libonnxifi.so)
libraries=$(dirname "$library")
model=$source/examples/digits/digits.onnx

# Opened at run time, under both names.
cc -std=c99 -Wall -Wextra -pedantic -Werror -I"$folder/usr/include" "$source/examples/onnxifi/run_model.c" -ldl \
  -o "$folder/run_model"
for name in libonnxifi.so libonnxifi-smelt.so; do
  "$folder/run_model" "$libraries/$name" "$model" image scores 1,1,8,8 1,10 >"$folder/$name.txt"
  [ "$(wc -l <"$folder/$name.txt")" = 10 ]
done
cmp "$folder/libonnxifi.so.txt" "$folder/libonnxifi-smelt.so.txt"

# pkg-config.
export PKG_CONFIG_PATH=$libraries/pkgconfig
read -ra flags <<<"$(pkg-config --cflags --libs onnxifi)"
cc -std=c99 "$source/tests/abi/c99_client.c" "${flags[@]}" -o "$folder/by_pkg_config"
LD_LIBRARY_PATH=$libraries "$folder/by_pkg_config"

# CMake.
mkdir "$folder/project"
cp "$source/tests/abi/c99_client.c" "$folder/project/client.c"
cat >"$folder/project/CMakeLists.txt" <<'CMAKE'
cmake_minimum_required(VERSION 3.25)
project(client LANGUAGES C CXX)
find_package(smelt REQUIRED)
add_executable(client client.c)
target_link_libraries(client PRIVATE smelt::onnxifi)
CMAKE
cmake -G Ninja -S "$folder/project" -B "$folder/project/build" -DCMAKE_PREFIX_PATH="$folder/usr" >/dev/null
cmake --build "$folder/project/build" >/dev/null
"$folder/project/build/client"

# The C++ library by CMake in a project that knows C++ only, shared and static, and by pkg-config.
mkdir "$folder/app"
# The program that README.md shows.
{
  echo '#include <smelt/custom_operator.h>'
  sed -n '/^```cpp$/,/^```$/p' "$source/README.md" | sed '/^```/d'
} >"$folder/app/main.cc"
cat >"$folder/app/CMakeLists.txt" <<'CMAKE'
cmake_minimum_required(VERSION 3.25)
project(app LANGUAGES CXX)
find_package(smelt REQUIRED)
foreach(library smelt smelt_static)
  add_executable(app_${library} main.cc)
  target_compile_options(app_${library} PRIVATE -Wall -Wextra -Wpedantic -Werror)
  target_link_libraries(app_${library} PRIVATE smelt::${library})
endforeach()
CMAKE
cmake -G Ninja -S "$folder/app" -B "$folder/app/build" -DCMAKE_PREFIX_PATH="$folder/usr" >/dev/null
cmake --build "$folder/app/build" >/dev/null
for each in "$model" "$source"/examples/digits/digits_{portable,xnnpack,vulkan}.pte; do
  [ "$("$folder/app/build/app_smelt" "$each")" = "[1,10]" ]
  [ "$("$folder/app/build/app_smelt_static" "$each")" = "[1,10]" ]
done
read -ra flags <<<"$(pkg-config --cflags --libs smelt)"
c++ -std=c++20 -Wall -Wextra -Wpedantic -Werror "$folder/app/main.cc" "${flags[@]}" -o "$folder/app/by_pkg_config"
LD_LIBRARY_PATH=$libraries "$folder/app/by_pkg_config" "$model"
# A missing file is an error, not a crash.
status=0
LD_LIBRARY_PATH=$libraries "$folder/app/by_pkg_config" missing.onnx 2>"$folder/error.txt" || status=$?
[ $status = 1 ] && grep -q 'missing.onnx: cannot open' "$folder/error.txt"

# The examples, as a person builds them: C99 and C++ by pkg-config, C++ by CMake.
export LD_LIBRARY_PATH=$libraries
examples=$source/examples
picture=$examples/classify/seven.pgm labels=$examples/digits/labels.txt
cc -std=c99 -Wall -Wextra -pedantic -Werror "$examples/c_api/classify.c" "${flags[@]}" -o "$folder/classify_c"
[ "$("$folder/classify_c" "$model" "$picture")" = "class 7, score 1.0000" ]
"$folder/classify_c" "$model" "$model" 2>"$folder/error.txt" && exit 1
grep -q "does not fit the model's input image" "$folder/error.txt"
c++ -std=c++20 "$examples/classify/classify.cc" "${flags[@]}" -o "$folder/classify"
[[ $("$folder/classify" "$model" "$labels" "$picture") == seven* ]]
cc -shared -fPIC "${flags[@]}" "$examples/custom_operator/clipped_scale.c" -o "$folder/clipped_scale.so"
"$folder/usr/bin/smelt" run "$examples/custom_operator/clipped_scale.tflite" --custom-ops "$folder/clipped_scale.so" |
  grep -q float32
unset LD_LIBRARY_PATH
for each in classify custom_operator decoder; do
  cmake -G Ninja -S "$examples/$each" -B "$folder/$each.build" -DCMAKE_PREFIX_PATH="$folder/usr" >/dev/null
  cmake --build "$folder/$each.build" >/dev/null
done
[[ $("$folder/classify.build/classify" "$model" "$labels" "$picture") == seven* ]]
"$folder/custom_operator.build/custom_operator" "$examples/custom_operator/clipped_scale.tflite" >/dev/null
decoder=$examples/decoder
complete=("$folder/decoder.build/complete" "$decoder/decoder_4bit.pte" "$decoder/vocabulary.txt")
[[ $("${complete[@]}" 20 "Hello ") == "Hello "?* ]]
"${complete[@]}" 200 "Hello " >/dev/null 2>"$folder/error.txt" && exit 1
grep -q 'the cache of 128 positions is full' "$folder/error.txt"
echo "libsmelt, libonnxifi and the examples work as installed"
