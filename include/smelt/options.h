#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "smelt/export.h"
#include "smelt/result.h"

namespace smelt {

class CustomOperator;  // smelt/custom_operator.h
class ThreadPool;

enum class LogLevel : uint8_t {
  kInfo,     ///< what was loaded, planned and placed
  kWarning,  ///< what departs from a format's rules, or runs slower than asked for
};
/// Takes messages of one line. Called on the thread that loads or runs; must not throw.
using LogSink = std::function<void(LogLevel level, std::string_view message)>;

/// A rule of a file format that LoadOptions::tolerate can waive.
struct TolerableRule {
  const char* name;    ///< "node-order"
  const char* breach;  ///< the format, and what a file does that breaks the rule
};
SMELT_API std::span<const TolerableRule> tolerable_rules();

struct LoadOptions {
  std::vector<std::string> data_files = {};  ///< ExecuTorch external weights (.ptd)
  size_t max_nodes = 2'000'000;              ///< limit on nodes after inlining
  /// Custom operators that the model may use, in addition to the built-in ones. Null pointers are ignored.
  std::vector<std::shared_ptr<CustomOperator>> custom_operators = {};
  /// Rules that the file may break, by the names of tolerable_rules(); "all": each of them. Loading refuses a file that
  /// breaks another one, and fails with kInvalidInput for a name that is none.
  std::vector<std::string> tolerate = {};
  LogSink log = {};  ///< what was loaded, and each of Model::warnings(); empty: nothing is told
};

/// The name of a back-end, which Session::create() looks up. Those that come with smelt are the constants.
class BackendKind {
 public:
  BackendKind(std::string name) : name_(std::move(name)) {}
  BackendKind(const char* name) : name_(name) {}
  const std::string& name() const { return name_; }
  bool operator==(const BackendKind&) const = default;

  static const BackendKind kReference;  ///< the reference kernels: slow, what operators mean
  static const BackendKind kCpu, kVulkan;

 private:
  std::string name_;
};
inline const BackendKind BackendKind::kReference{"reference"};
inline const BackendKind BackendKind::kCpu{"cpu"};
inline const BackendKind BackendKind::kVulkan{"vulkan"};

/// Memory of tensors on a Vulkan device.
enum class DeviceStorage : uint8_t {
  kAuto,     ///< on a GPU what the model asks for, else textures on phones; buffers on all other devices
  kBuffer,   ///< buffers, whatever the model asks
  kTexture,  ///< textures wherever a kernel takes them
};

/// Whose arithmetic the quantized operators of a TFLite model follow; docs/arithmetic.md has the rules. Models of other
/// formats have one arithmetic.
enum class Arithmetic : uint8_t {
  kReference,      ///< LiteRT's reference kernels
  kLiteRtXnnpack,  ///< LiteRT as it runs by default, with XNNPACK
};

/// Options of a session. Session::create() fails with kInvalidInput for values outside the ranges named here.
struct SessionOptions {
  BackendKind backend = BackendKind::kCpu;
  int threads = 1;          ///< number of compute threads, 1 to kMaxThreads
  std::string method = {};  ///< method that run(inputs) runs; "": the first
  int device = -1;          ///< kVulkan: index in the list of `smelt devices`; -1: the best device
  DeviceStorage device_storage = DeviceStorage::kAuto;  ///< kVulkan
  /// kVulkan: Conv, ConvTranspose and MatMul multiply in float16 and accumulate in float32; their constant weights, and
  /// textures of float32 values, are stored as float16. Values beyond 65504 become infinite. An error if the device
  /// does not support it.
  bool fp16 = false;
  Arithmetic arithmetic = Arithmetic::kReference;
  /// Floating-point results are the same bits for every number of threads and every position of a sample in a batch.
  /// Without it they are within rounding. Results on integers are the same bits in any case, on every level. Excludes
  /// thread_pool.
  bool deterministic = false;
  /// Intermediate values have the element types that the file gives. Otherwise the CPU keeps float16 and bfloat16
  /// values between nodes in float32, which is faster and closer to the exact result. Inputs, outputs and variables
  /// have the file's types either way.
  bool strict_types = false;
  /// kCpu: instruction set level of the kernels ("baseline", "avx2", ...; `smelt devices` lists the machine's); "":
  /// that of the environment variable SMELT_ISA, else the best.
  std::string isa = {};
  uint64_t seed = 0;  ///< for random operators without a seed of their own
  size_t limit_memory =
      0;  ///< bytes that a run may use beyond the weights; 0: 1 GiB + 64x inputs + 16x weights + file's plan
  double limit_seconds = 0;  ///< time limit of one run, >= 0; 0: none
  uint64_t limit_steps = 0;  ///< node executions in one run, loops included; 0: scales with the model
  bool profile = false;
  size_t max_plans =
      16;  ///< plans (one for each set of input shapes) to keep, >= 1; the least recently used is dropped
  /// Threads that several sessions share, of make_thread_pool(); they replace `threads`. Sessions that run at the same
  /// time take turns at them, operator by operator. nullptr: the session has threads of its own.
  std::shared_ptr<ThreadPool> thread_pool = {};
  LogSink log = {};  ///< plans that were made, and what runs on reference kernels; empty: nothing is told

  static constexpr int kMaxThreads = 256;
};

/// A pool of compute threads for SessionOptions::thread_pool. They begin when first used and end with the last owner.
/// kInvalidInput unless `threads` is 1 to SessionOptions::kMaxThreads.
SMELT_API Result<std::shared_ptr<ThreadPool>> make_thread_pool(int threads);

}  // namespace smelt
