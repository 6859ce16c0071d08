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

struct Module;         // the graphs of a model, src/graph/graph.h
class CustomOperator;  // smelt/custom_operator.h
class Compiled;        // optimised graph and packed weights, src/runtime/compiled.h

/// A named input or output of a method.
struct Port {
  std::string name;
  DType dtype = DType::kInvalid;
  bool ranked = true;
  Shape shape;                         ///< -1: unknown until run
  std::vector<int64_t> bound;          ///< of inputs: largest dimensions that a tensor may have; empty: no bound
  std::vector<std::string> dim_names;  ///< symbolic names, empty strings where a dimension has none
  QuantPtr quant;
  bool is_tensor = true;  ///< false: sequence, map or optional
  bool optional = false;  ///< may be left out (Datum::Kind::kNone)
};

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
};

/// A loaded model: an immutable graph whose constants are views of the mapped file. Cheap to copy (a move copies too)
/// and thread-safe. Sessions share ownership of the graph and may outlive the model.
class SMELT_API Model {
 public:
  Model(const Model&) = default;
  Model& operator=(const Model&) = default;
  /// Maps the file and recognises its format by content.
  static Result<Model> load(const std::string& path, const LoadOptions& options = {});
  /// Loads a model from memory. The bytes must stay valid while the model and its sessions live; `owner` may keep them
  /// alive. `name` labels error messages. `folder` may hold external data; "": external data is an error.
  static Result<Model> load_bytes(std::span<const std::byte> bytes, std::shared_ptr<const void> owner = nullptr,
                                  const std::string& name = "model", const std::string& folder = "",
                                  const LoadOptions& options = {});

  const std::string& format() const;  ///< "tflite", "onnx", "ort", "executorch", "xnnpack", "vulkan"
  /// Names of all methods. Session::create() says of one that can't run here what it needs.
  std::vector<std::string> methods() const;
  /// What departs from the format's rules and was read all the same, as peers do; each with its location.
  const std::vector<std::string>& warnings() const;
  /// Inputs of a method; "": the first method. Empty for an unknown method.
  std::vector<Port> inputs(const std::string& method = "") const;
  /// Outputs of a method; "": the first method. Empty for an unknown method.
  std::vector<Port> outputs(const std::string& method = "") const;
  const Module& module() const { return *module_; }
  std::shared_ptr<const Module> share_module() const { return module_; }
  explicit Model(std::shared_ptr<const Module> module);
  /// Optimised graphs and packed weights that the sessions of this model share.
  const std::shared_ptr<Compiled>& compiled() const { return compiled_; }

 private:
  std::shared_ptr<const Module> module_;
  std::shared_ptr<Compiled> compiled_;
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
  uint64_t seed = 0;  ///< for random operators without a seed of their own
  size_t limit_memory =
      0;  ///< bytes that a run may use beyond the weights; 0: 1 GiB + 64x inputs + 16x weights + file's plan
  double limit_seconds = 0;  ///< time limit of one run, >= 0; 0: none
  uint64_t limit_steps = 0;  ///< node executions in one run, loops included; 0: scales with the model
  bool profile = false;
  size_t max_plans =
      16;  ///< plans (one for each set of input shapes) to keep, >= 1; the least recently used is dropped

  static constexpr int kMaxThreads = 256;
};

struct ProfileEntry {
  std::string node;    ///< name in the model
  std::string op;      ///< graph operator
  std::string origin;  ///< operator name in the model's format
  std::string kernel;  ///< kernel that ran
  std::string output;  ///< dtype and shape of the first output
  double micros = 0;   ///< microseconds, summed over calls
  uint64_t calls = 0;
};

/// A compiled model. It keeps variables between runs; all its methods share them. Sessions of one model may run at the
/// same time, each with its own variables. A session takes one call at a time; only cancel() may be called from another
/// thread during a run. A moved-from session returns an error from run(), and an empty profile and arena.
class SMELT_API Session {
 public:
  static Result<Session> create(const Model& model, const SessionOptions& options = {});
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  ~Session();

  /// Runs the session's method once and returns tensors that own their storage. Inputs come in the model's order; their
  /// shapes may change from run to run where the model allows it. Their quantization is ignored: the model's applies.
  /// kInvalidInput if their number, kinds, element types or shapes don't fit the model, or a tensor has no data. After
  /// an error, cancellation included, the session may run again; variables keep the values last written.
  Result<std::vector<Datum>> run(std::span<const Datum> inputs);
  /// Runs the given method once, on the same variables.
  Result<std::vector<Datum>> run(const std::string& method, std::span<const Datum> inputs);
  /// Runs without copying the outputs: they stay valid until the next run of this session, which may take them as
  /// inputs.
  Result<std::span<const Datum>> run_in_place(std::span<const Datum> inputs);
  Result<std::span<const Datum>> run_in_place(const std::string& method, std::span<const Datum> inputs);
  /// Plans a run for inputs of these element types and shapes, so that run() need not; reports errors of shapes.
  /// Contents are not read. Returns the outputs; dimensions are -1, or the rank unknown, where they depend on contents.
  Result<std::vector<Port>> prepare(std::span<const Datum> inputs);
  /// Resets variables to their initial values.
  void reset_state();
  /// Stops a running run() from another thread; that call returns kCancelled. No effect when none is running.
  void cancel();
  std::vector<ProfileEntry> profile() const;
  const char* isa() const;     ///< instruction set level of the CPU kernels: "baseline", "avx2", "avx512", "vnni"
  size_t arena_bytes() const;  ///< memory for activations of the last run's plan

 private:
  struct Impl;
  explicit Session(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace smelt
