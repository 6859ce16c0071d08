#pragma once

#include <algorithm>
#include <string_view>

#ifdef SMELT_SELECTION
#include <smelt_selection.h>
#endif

namespace smelt {

// What the build holds: everything, or what the models of SMELT_FOR need, as cmake/selection.py lists it. The answers
// are constants: what only a branch that is never taken names is not linked.

#ifdef SMELT_SELECTION
inline constexpr bool kBuildsEverything = false;
template <class List, class T>
consteval bool is_selected(const List& list, const T& name) {
  return std::ranges::find(list, name) != list.end();
}
consteval bool builds_format(std::string_view name) { return is_selected(selection::kFormats, name); }
consteval bool builds_backend(std::string_view name) { return name == "cpu"; }
consteval bool builds_op(std::string_view name) { return is_selected(selection::kOps, name); }
consteval bool builds_reference(std::string_view op) { return is_selected(selection::kReferenceOps, op); }
consteval bool builds_cpu_kernel(std::string_view op, std::string_view name) {
  return is_selected(selection::kOpsOfAnyKernel, op) ||
         (is_selected(selection::kKernels, name) && (op == "Count" || builds_op(op)));
}
/// `code`: tfl::BuiltinOperator.
consteval bool builds_tflite_operator(int code) { return is_selected(selection::kTfliteOperators, code); }
#else
inline constexpr bool kBuildsEverything = true;
consteval bool builds_format(std::string_view) { return true; }
consteval bool builds_backend(std::string_view) { return true; }
consteval bool builds_op(std::string_view) { return true; }
consteval bool builds_reference(std::string_view) { return true; }
consteval bool builds_cpu_kernel(std::string_view, std::string_view) { return true; }
consteval bool builds_tflite_operator(int) { return true; }
#endif

}  // namespace smelt
