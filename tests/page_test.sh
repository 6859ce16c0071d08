#!/usr/bin/env bash
# The page of `smelt inspect --html` in headless Chromium: it draws every node, finds an operator, shows no script error.
#   page_test.sh SMELT MODEL...         exit status 77: skipped, no chromium
set -euo pipefail
smelt=$1
shift
browser=$(command -v chromium || command -v chromium-browser || true)
if [ -z "$browser" ]; then
  echo "skipped: chromium is not installed"
  exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for model in "$@"; do
  "$smelt" inspect "$model" --html "$folder/page.html" >/dev/null
  nodes=$("$smelt" inspect "$model" --json | grep -c '"runs_on": "')
  # What a person does: search, choose the first hit. The result goes into the title, which the dump shows.
  sed 's|</body>|<script>window.onerror = e => document.title = "ERROR " + e; const s = document.getElementById("search"); s.value = "conv"; s.oninput({target: s}); s.onkeydown({key: "Enter"}); document.title = [document.querySelectorAll(".node").length, document.querySelectorAll(".edge").length, document.getElementById("hits").textContent, document.querySelector("aside h2").textContent].join("; ");</script></body>|' \
    "$folder/page.html" >"$folder/driven.html"
  timeout 90 "$browser" --headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking \
    --disable-component-update --disable-sync --user-data-dir="$folder/profile" --dump-dom "file://$folder/driven.html" >"$folder/dom.html" 2>/dev/null
  title=$(grep -o '<title>[^<]*</title>' "$folder/dom.html" | head -n 1 | sed 's/<[^>]*>//g')
  echo "$(basename "$model"): nodes in the model: $nodes; page: $title"
  case "$title" in
    ERROR* | "") exit 1 ;;
  esac
  boxes=${title%%;*}
  [ "$boxes" -gt "$nodes" ] || { echo "fewer boxes than nodes and ports"; exit 1; }
  echo "$title" | grep -qi 'found; .*conv' || { echo "the search did not choose a hit"; exit 1; }
done
