#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "arrays.h"
#include "smelt/model.h"

namespace smelt::python {

/// Names of values, each once: an empty name becomes "PREFIX_I", a second of one name "NAME:I".
std::vector<std::string> unique_names(const Graph& graph, const std::vector<ValueId>& values, const char* prefix);

/// A session that several threads may use: runs take turns. Converts between Python objects and tensors; the GIL is
/// released while the session is made, waits for its turn and runs. Precondition of every member: the GIL is held.
class PySession {
 public:
  PySession(const Model& model, const SessionOptions& options);
  ~PySession();
  PySession(PySession&&) = delete;

  /// Runs a method ("": the session's) with inputs by position or by name. Returns a tuple of outputs, or a dict by
  /// name where inputs have names. The bound arrays take the outputs if there are any.
  nanobind::object run(const std::string& method, const nanobind::tuple& args, const nanobind::dict& kwargs);
  nanobind::object run(const nanobind::tuple& args, const nanobind::dict& kwargs) { return run("", args, kwargs); }
  /// Like run(), but the arrays view the session's memory, read-only. While one of them lives, a run raises
  /// InvalidInputError.
  nanobind::object view(const nanobind::tuple& args, const nanobind::dict& kwargs);
  /// Milliseconds of each of `runs` runs, after `warmup` others; the first of all comes first. Outputs stay inside.
  std::vector<double> measure(int warmup, int runs, const nanobind::tuple& args, const nanobind::dict& kwargs);
  /// Plans a run of the session's method for inputs of these types and shapes, whose contents are not read. Returns
  /// (dtype, shape) of each output; dtype "" and shape None where they depend on contents.
  nanobind::list plan(const nanobind::tuple& args, const nanobind::dict& kwargs);
  /// Arrays that run() writes the outputs of the session's method into: one for each output, None to allocate.
  void bind(const nanobind::tuple& arrays);
  void reset_state();
  void cancel();
  void close();
  bool closed() const { return state_ == nullptr; }
  nanobind::list profile() const;
  std::string isa() const;
  size_t arena_bytes() const;

  /// What runs need, shared with the views that outlive the Python object.
  struct State {
    Session session;
    std::mutex running;
    std::atomic<std::thread::id> runner = {};  ///< holds `running`
    std::atomic<int> views = 0;
    std::unique_ptr<Inputs> viewed;  ///< outputs that live in `views` may lie in inputs
  };

 private:
  struct Signature {
    std::vector<std::string> input_names, output_names;
    std::vector<nanobind::object> input_keys, output_keys;  ///< the names as str
    std::vector<ValueType> input_types;
    std::vector<bool> has_default;
  };
  class Turn;
  const Signature& signature(const std::string& method);
  Inputs inputs(const Signature& signature, const nanobind::tuple& args, const nanobind::dict& kwargs) const;
  std::shared_ptr<State> state() const;

  std::shared_ptr<const Module> module_;
  std::string method_;  ///< of run() without a method
  std::shared_ptr<State> state_;
  std::vector<std::pair<std::string, std::unique_ptr<Signature>>> signatures_;  ///< by method, made when first used
  std::vector<nanobind::object> bound_;
};

/// Keeps a session's memory as it is while Python objects view it.
class Lease {
 public:
  explicit Lease(std::shared_ptr<PySession::State> state) : state_(std::move(state)) { ++state_->views; }
  ~Lease() { --state_->views; }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

 private:
  std::shared_ptr<PySession::State> state_;
};

}  // namespace smelt::python
