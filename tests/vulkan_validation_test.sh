#!/usr/bin/env bash
# vulkan_validation_test.sh SMELT FOLDER...: golden cases on the GPU under Vulkan's validation layers (core,
# synchronization, best practices). Fails on the first message. Skips (77) without the layers or a device.
set -euo pipefail
smelt=$1
shift
export VK_INSTANCE_LAYERS=VK_LAYER_KHRONOS_validation
if ! ls /usr/share/vulkan/explicit_layer.d/*khronos_validation* >/dev/null 2>&1 ||
  ! "$smelt" devices --json | grep -q subgroup_size; then
  echo "skipped: Vulkan's validation layers or a Vulkan device are not installed"
  exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
log=$work/log
cat >"$work/vk_layer_settings.txt" <<'SETTINGS'
khronos_validation.debug_action = VK_DBG_LAYER_ACTION_LOG_MSG
khronos_validation.report_flags = error,warn,perf
khronos_validation.log_filename = stdout
khronos_validation.enables = VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT,VK_VALIDATION_FEATURE_ENABLE_BEST_PRACTICES_EXT
SETTINGS
export VK_LAYER_SETTINGS_PATH=$work/vk_layer_settings.txt
status=0
for way in "0 auto 0" "1 auto 1" "0 texture 0" "0 buffer 2" "0 buffer 0 --fp16" "0 texture 0 --fp16"; do
  read -r staging storage plain fp16 <<<"$way"
  SMELT_VULKAN_STAGING=$staging SMELT_VULKAN_PLAIN=$plain "$smelt" verify --backend vulkan --device-storage "$storage" $fp16 "$@" >"$log" 2>&1 || status=$?
  # Workgroup sizes that are chosen at run time need the old built-in as long as Vulkan 1.1 and 1.2 are served; as 1.1
  # devices do (plain 2), extensions are asked for that are core here.
  if grep -v -e SpirvDeprecated_WorkgroupSize -e vkCreateDevice-deprecated-extension "$log" | grep -m 5 -E 'VUID|UNASSIGNED|SYNC-HAZARD|BestPractices|Validation'; then
    echo "validation messages, staging copies $staging, storage $storage, plain $plain $fp16"
    exit 1
  fi
done
tail -n 1 "$log"
# Whether the numbers match is for the corpus suites to say.
[ "$status" -eq 3 ] && status=0
exit "$status"
