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
cat >"$folder/app/main.cc" <<'CODE'
#include <smelt/custom_operator.h>
#include <smelt/model.h>

#include <cstdio>
#include <vector>

int main(int, char** arguments) {
  auto model = smelt::Model::load(arguments[1], {.max_nodes = 1000});
  if (!model) return std::fputs(model.error().message().c_str(), stderr), 1;
  auto session = smelt::Session::create(*model, {.threads = 2, .limit_seconds = 60});
  const std::vector<smelt::Datum> inputs{smelt::Tensor(smelt::DType::kF32, {1, 1, 8, 8})};
  if (!session) return std::fputs(session.error().message().c_str(), stderr), 1;
  return session->run(inputs) ? 0 : 1;
}
CODE
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
  "$folder/app/build/app_smelt" "$each"
  "$folder/app/build/app_smelt_static" "$each"
done
read -ra flags <<<"$(pkg-config --cflags --libs smelt)"
c++ -std=c++20 -Wall -Wextra -Wpedantic -Werror "$folder/app/main.cc" "${flags[@]}" -o "$folder/app/by_pkg_config"
LD_LIBRARY_PATH=$libraries "$folder/app/by_pkg_config" "$model"
echo "libsmelt and libonnxifi work as installed"
