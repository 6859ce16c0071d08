#pragma once

#include <atomic>
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
#include "smelt/tensor.h"

namespace smelt {

struct Module;         // the graph form, src/graph/graph.h
class CustomOperator;  // smelt/custom_operator.h
class Compiled;        // optimised graph and packed weights, src/runtime/compiled.h

/// A named input or output of a method.
struct Port {
  std::string name;
  DType dtype = DType::kInvalid;
  bool ranked = true;
  Shape shape;                 ///< -1: unknown until run
  std::vector<int64_t> bound;  ///< of inputs: a tensor has at most as many elements as these dimensions; or empty
  std::vector<std::string> dim_names;  ///< symbolic names, empty strings where a dimension has none
  QuantPtr quant;
  bool is_tensor = true;  ///< false: sequence, map or optional
  bool optional = false;  ///< may be left out (Datum::Kind::kNone)
};

struct LoadOptions {
  std::vector<std::string> data_files = {};  ///< ExecuTorch external weights (.ptd)
  size_t max_nodes = 2'000'000;              ///< limit on nodes after inlining
  /// Custom operators that the model may use, in addition to the built-in ones. Null ones are passed over.
  std::vector<std::shared_ptr<CustomOperator>> custom_operators = {};
};

/// A loaded model: an immutable graph with constants that view the mapped file. Cheap to copy, thread-safe; moving
/// copies. Its sessions keep what they need of it and may outlive it.
class SMELT_API Model {
 public:
  Model(const Model&) = default;
  Model& operator=(const Model&) = default;
  /// Recognises the format by content and maps the file.
  static Result<Model> load(const std::string& path, const LoadOptions& options = {});
  /// The bytes must stay valid while the model lives, unless `owner` keeps them. `name` labels error messages;
  /// external data is refused unless `folder` names the folder that may hold it.
  static Result<Model> load_bytes(std::span<const std::byte> bytes, std::shared_ptr<const void> owner = nullptr,
                                  const std::string& name = "model", const std::string& folder = "",
                                  const LoadOptions& options = {});

  const std::string& format() const;  ///< "tflite", "onnx", "executorch", "xnnpack", "vulkan"
  std::vector<std::string> methods() const;
  /// "" = the first method; empty for a method that the model has not.
  std::vector<Port> inputs(const std::string& method = "") const;
  std::vector<Port> outputs(const std::string& method = "") const;
  const Module& module() const { return *module_; }
  std::shared_ptr<const Module> share_module() const { return module_; }
  explicit Model(std::shared_ptr<const Module> module);
  /// What the sessions of this model share.
  const std::shared_ptr<Compiled>& compiled() const { return compiled_; }

 private:
  std::shared_ptr<const Module> module_;
  std::shared_ptr<Compiled> compiled_;
};

enum class BackendKind : uint8_t { kReference, kCpu, kVulkan };

/// What tensors are on a Vulkan device.
enum class DeviceStorage : uint8_t {
  kAuto,     ///< on a GPU as the model asks, else textures on phones; buffers on all other devices
  kBuffer,   ///< buffers, whatever the model asks
  kTexture,  ///< textures wherever a kernel takes them
};

/// Session::create() refuses what lies outside the ranges named here (kInvalidInput).
struct SessionOptions {
  BackendKind backend = BackendKind::kCpu;
  int threads = 1;          ///< that compute: 1 to kMaxThreads
  std::string method = {};  ///< run when none is named; "" = the first method
  int device = -1;          ///< kVulkan: which device, as `smelt devices` lists them; -1: the best
  DeviceStorage device_storage = DeviceStorage::kAuto;  ///< kVulkan
  /// kVulkan: Conv, ConvTranspose and MatMul multiply in float16 (sums stay float32), their constant weights are stored
  /// so, and textures of float32 values hold float16. Values beyond 65504 are lost. An error where the device can't.
  bool fp16 = false;
  uint64_t seed = 0;         ///< of random operators that carry no seed of their own
  size_t limit_memory = 0;   ///< bytes that a run may hold beyond the weights; 0 = 1 GiB + 64x inputs + 16x weights
  double limit_seconds = 0;  ///< of one run; 0 = none; not negative, not NaN
  uint64_t limit_steps = 0;  ///< node executions in one run, loops included; 0 = in proportion to the model
  bool profile = false;
  size_t max_plans = 16;  ///< shape plans kept, at least one; the least recently used goes first

  static constexpr int kMaxThreads = 256;
};

struct ProfileEntry {
  std::string node;    ///< name in the model
  std::string op;      ///< graph operator
  std::string origin;  ///< operator name in the model's format
  std::string kernel;  ///< kernel that ran
  std::string output;  ///< dtype and shape of the first output
  double micros = 0;   ///< summed over calls
  uint64_t calls = 0;
};

/// A compiled model. Keeps state (variables) between runs; its methods share them. Sessions of one model run side by
/// side, each with state of its own. One call at a time on one session: only cancel() may be called from another
/// thread while a run goes on. A session that was moved from refuses to run, and has no profile and no arena.
class SMELT_API Session {
 public:
  static Result<Session> create(const Model& model, const SessionOptions& options = {});
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  ~Session();

  /// Runs the session's method once. Inputs in the model's order; their shapes may differ from run to run where the
  /// model allows. kInvalidInput when their number, kinds, element types or shapes are not the model's, or a tensor has
  /// no data. They are read as the model quantizes them, whatever quantization they carry. Output tensors own their
  /// storage. After an error, cancellation included, the session may run again; variables hold what was last written.
  Result<std::vector<Datum>> run(std::span<const Datum> inputs);
  /// The same for any method of the model, on the same state.
  Result<std::vector<Datum>> run(const std::string& method, std::span<const Datum> inputs);
  /// The same without copies: the outputs stay valid until the next run of this session, which may take them as inputs.
  Result<std::span<const Datum>> run_in_place(std::span<const Datum> inputs);
  Result<std::span<const Datum>> run_in_place(const std::string& method, std::span<const Datum> inputs);
  /// Plans a run for inputs of these element types and shapes, whose contents are not read: errors of shapes show here,
  /// and the run need not plan. The outputs as far as they follow: -1 or not ranked where they depend on contents.
  Result<std::vector<Port>> prepare(std::span<const Datum> inputs);
  /// Variables back to their initial values.
  void reset_state();
  /// Stops a run in flight from another thread; it returns kCancelled. Nothing when none is.
  void cancel();
  std::vector<ProfileEntry> profile() const;
  const char* isa() const;     ///< instruction set level of the CPU kernels: "baseline", "avx2", "avx512", "vnni"
  size_t arena_bytes() const;  ///< activations of the plan that ran last

 private:
  struct Impl;
  explicit Session(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace smelt
