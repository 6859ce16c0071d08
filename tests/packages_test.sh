#!/usr/bin/env bash
# Makes the packages, installs the Debian ones into a scratch root, uses them, removes them; unpacks the archive elsewhere.
#   packages_test.sh BUILD_FOLDER SOURCE_FOLDER
set -euo pipefail
build=$1 source=$2
command -v dpkg >/dev/null && command -v dpkg-shlibdeps >/dev/null || { echo "no dpkg or dpkg-dev here"; exit 77; }
[ "$(id -u)" = 0 ] || { echo "dpkg installs into a root as root only"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
packages=$folder/packages root=$folder/root
cpack --config "$build/CPackConfig.cmake" -B "$packages" >"$folder/cpack.txt" 2>&1 || { cat "$folder/cpack.txt"; exit 1; }
[ "$(find "$packages" -maxdepth 1 -name '*.deb' | wc -l)" = 4 ]
field() { dpkg-deb -f "$packages"/"$1"_*.deb "$2"; }
field smelt Depends | grep -q libc6
field libsmelt Depends | grep -q liblzma5
field libsmelt-dev Depends | grep -q 'libsmelt (= '
field libsmelt-dev Depends | grep -q 'libonnxifi (= '
for package in libsmelt libsmelt-dev; do dpkg-deb -c "$packages/$package"_*.deb >"$folder/$package.txt"; done
grep -q 'libsmelt\.so\.' "$folder/libsmelt.txt"
grep -q 'include/smelt/smelt\.h' "$folder/libsmelt-dev.txt"

mkdir -p "$root/var/lib/dpkg/updates" "$root/var/lib/dpkg/info"
touch "$root/var/lib/dpkg/status" "$root/var/lib/dpkg/available"
# The scratch root has none of the packages that these depend on.
dpkg=(dpkg --root="$root" --force-depends --force-script-chrootless --log=/dev/null)
"${dpkg[@]}" -i "$packages"/*.deb >"$folder/dpkg.txt" 2>&1 || { cat "$folder/dpkg.txt"; exit 1; }
"$root/usr/bin/smelt" run "$source/examples/digits/digits.onnx" --fill zeros | grep -q scores
libraries=$(dirname "$(find "$root/usr" -name libsmelt.so)")
cc -std=c99 -I"$root/usr/include" "$source/examples/c_api/classify.c" -L"$libraries" -lsmelt -o "$folder/classify"
LD_LIBRARY_PATH=$libraries "$folder/classify" "$source/examples/digits/digits.onnx" "$source/examples/classify/seven.pgm" |
  grep -q 'class 7'
"${dpkg[@]}" -r smelt libsmelt-dev libsmelt libonnxifi >"$folder/dpkg.txt" 2>&1 || { cat "$folder/dpkg.txt"; exit 1; }
left=$(find "$root" -type f -path '*/usr/*')
[ -z "$left" ] || { echo "left behind: $left"; exit 1; }

mkdir "$folder/elsewhere"
tar -xf "$packages"/smelt-*.tar.gz -C "$folder/elsewhere" --strip-components 1
"$folder/elsewhere/bin/smelt" run "$source/examples/digits/digits.onnx" --fill zeros | grep -q scores
mkdir "$folder/build"
cmake -G Ninja -S "$source/examples/classify" -B "$folder/build" -DCMAKE_PREFIX_PATH="$folder/elsewhere" >/dev/null
cmake --build "$folder/build" >/dev/null
"$folder/build/classify" "$source/examples/digits/digits.onnx" "$source/examples/digits/labels.txt" \
  "$source/examples/classify/seven.pgm" | grep -q seven
ls "$packages"
