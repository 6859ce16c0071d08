#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "smelt/export.h"
#include "smelt/options.h"
#include "smelt/result.h"
#include "smelt/tensor.h"
#include "smelt/version.h"

namespace smelt {

struct Module;   // the graphs of a model, src/graph/graph.h
class Compiled;  // optimised graph and packed weights, src/runtime/compiled.h

/// Version of the library that runs, "1.2.3"; SMELT_VERSION_STRING is that of the headers.
SMELT_API const char* version();

/// A named input or output of a method. shape: -1 where it is not known before the run.
struct Port : TensorType {
  std::string name;
  std::vector<int64_t> bound;          ///< of inputs: largest dimensions that a tensor may have; empty: no bound
  std::vector<std::string> dim_names;  ///< symbolic names, empty strings where a dimension has none
  bool is_tensor = true;               ///< false: sequence, map or optional
  bool optional = false;               ///< may be left out (Datum::Kind::kNone)
};

/// Values by name.
using NamedData = std::map<std::string, Datum, std::less<>>;

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
  /// What made the file, as the file says: description, producer's name and version.
  const std::string& producer() const;
  /// What the file says about itself beside the graph, in its order: versions, "opset ai.onnx", custom keys.
  const std::vector<std::pair<std::string, std::string>>& metadata() const;
  /// Class names that the file brings along; empty: none.
  const std::vector<std::string>& labels() const;
  /// Names of all methods. Session::create() says of one that can't run here what it needs.
  std::vector<std::string> methods() const;
  /// What departs from the format's rules and was read all the same, as peers do; each with its location.
  const std::vector<std::string>& warnings() const;
  /// Inputs of a method; "": the first method. Empty for an unknown method.
  std::vector<Port> inputs(const std::string& method = "") const;
  /// Outputs of a method; "": the first method. Empty for an unknown method.
  std::vector<Port> outputs(const std::string& method = "") const;
  /// A model on the same constants whose method gives the named values, in this order: outputs, inputs and intermediate
  /// values. What they do not need is not computed. kInvalidInput for a name that is none.
  Result<Model> with_outputs(std::span<const std::string> names, const std::string& method = "") const;

 private:
  friend struct ModelAccess;
  explicit Model(std::shared_ptr<const Module> module);
  std::shared_ptr<const Module> module_;
  std::shared_ptr<Compiled> compiled_;
};

struct ProfileEntry {
  std::string node;    ///< name in the model
  std::string op;      ///< graph operator
  std::string origin;  ///< operator name in the model's format
  std::string kernel;  ///< kernel that ran
  std::string output;  ///< dtype and shape of the first output
  double micros = 0;   ///< microseconds, summed over calls
  uint64_t calls = 0;
  /// Graph and node of the optimised model, as `smelt inspect --optimised --nodes` lists them; a node that is
  /// decomposed has an entry for each of its parts.
  size_t graph = 0, index = 0;
};

/// A compiled model. It keeps variables between runs; all its methods share them. Sessions of one model may run at the
/// same time, each with its own variables. A session takes one call at a time; only cancel() and run_async() may be
/// called during a run, from any thread. A moved-from session returns an error from run(), and an empty profile and
/// arena.
class SMELT_API Session {
 public:
  static Result<Session> create(const Model& model, const SessionOptions& options = {});
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  ~Session();  ///< stops what run_async() began; what waits ends with kCancelled

  /// Runs the session's method once and returns tensors that own their storage. Inputs come in the model's order; their
  /// shapes may change from run to run where the model allows it. Their quantization is ignored: the model's applies.
  /// kInvalidInput if their number, kinds, element types or shapes don't fit the model, or a tensor has no data. After
  /// an error, cancellation included, the session may run again; variables keep the values last written.
  Result<std::vector<Datum>> run(std::span<const Datum> inputs);
  /// Runs the given method once, on the same variables.
  Result<std::vector<Datum>> run(const std::string& method, std::span<const Datum> inputs);
  /// Runs with inputs by name and returns the outputs by name. Optional inputs may be left out. A port without a name
  /// is "input_N" or "output_N", N its index; a second port of one name is "NAME:N". kInvalidInput for another name.
  Result<NamedData> run_named(const NamedData& inputs);
  Result<NamedData> run_named(const std::string& method, const NamedData& inputs);
  /// Runs and writes each output into the caller's tensor of that index, which must have its element type and shape; an
  /// undefined tensor becomes one that owns its storage. An output may have the memory of an input: of a cache that the
  /// model updates in some rows, these alone are written then. kInvalidInput if their number, an element type or a
  /// shape is another, or an output is no tensor; after an error, `outputs` may be written in part.
  Status run_into(std::span<const Datum> inputs, std::span<Tensor> outputs);
  /// Runs without copying the outputs: they stay valid until the next run of this session, which may take them as
  /// inputs.
  Result<std::span<const Datum>> run_in_place(std::span<const Datum> inputs);
  Result<std::span<const Datum>> run_in_place(const std::string& method, std::span<const Datum> inputs);

  /// Runs on a thread of the session, behind the runs that were begun before, and hands the outputs to `done` there.
  /// `done` must neither throw nor destroy the session. Until all runs are done, only run_async() and cancel() may be
  /// called.
  void run_async(std::vector<Datum> inputs, std::function<void(Result<std::vector<Datum>>)> done);
  std::future<Result<std::vector<Datum>>> run_async(std::vector<Datum> inputs);

  /// Plans a run for inputs of these element types and shapes and packs the weights, so that run() need not; reports
  /// errors of shapes. Without it large weights are packed in the first run, for that run alone, and in the second one.
  /// Contents are not read. Returns the outputs; dimensions are -1, or the rank unknown, where they depend on contents.
  Result<std::vector<Port>> prepare(std::span<const Datum> inputs);
  /// Resets variables to their initial values.
  void reset_state();
  /// Stops a running run() from another thread; that call returns kCancelled. No effect when none is running.
  void cancel();
  /// Time of each node, summed over all runs since the session or the last reset_profile() began. Empty unless
  /// SessionOptions::profile is set.
  std::vector<ProfileEntry> profile() const;
  void reset_profile();
  const char* isa() const;     ///< instruction set level of the CPU kernels: "baseline", "avx2", "vnni", "amx", ...
  size_t arena_bytes() const;  ///< memory for activations of the last run's plan

 private:
  struct Impl;
  explicit Session(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace smelt
