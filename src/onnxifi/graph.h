#pragma once

#include <onnxifi.h>

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "onnxifi/event.h"
#include "smelt/model.h"

namespace smelt::onnxifi {

/// Checks a descriptor's own members, in the documented order; what depends on a model is not looked at.
onnxStatus check_descriptor(const onnxTensorDescriptorV1& d);
/// All tags, before anything else of any descriptor is read.
onnxStatus check_tags(const onnxTensorDescriptorV1* list, uint32_t count);

/// A loaded model with its queue of runs. Runs of one graph go one after the other on a thread of its own.
class Graph {
 public:
  /// `weights` become constants; names of inputs or of values that nodes read.
  static onnxStatus create(BackendKind backend, int threads, const uint64_t* properties, std::string_view model,
                           const onnxTensorDescriptorV1* weights, uint32_t weight_count, std::shared_ptr<Graph>* out);
  ~Graph();

  onnxStatus set_io(const onnxTensorDescriptorV1* inputs, uint32_t input_count, const onnxTensorDescriptorV1* outputs,
                    uint32_t output_count);
  /// Queues a run that starts when `ready` (may be null) is signalled; `done` gets the run's status.
  onnxStatus run(std::shared_ptr<Event> ready, std::shared_ptr<Event> done, onnxTraceEventList* trace);
  /// Waits for the queued runs and ends the thread.
  void drain();

 private:
  struct Output {
    void* data;
    DType dtype;
    size_t capacity;  ///< bytes
  };
  struct Locations {
    std::vector<Datum> inputs;
    std::vector<Output> outputs;
    int64_t batch = 0;
  };
  struct Job {
    std::shared_ptr<Event> ready, done;
    std::shared_ptr<const Locations> locations;
    onnxTraceEventList* trace;
  };

  Graph(Model model, Session session, bool instrument);
  void work();
  void execute(Job& job);

  Model model_;
  Session session_;
  bool instrument_;
  std::vector<Port> inputs_, outputs_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::shared_ptr<const Locations> locations_;  ///< null: none valid
  std::deque<Job> queue_;
  std::atomic<size_t> queued_{0};
  bool closing_ = false;
  std::thread worker_;
};

}  // namespace smelt::onnxifi
