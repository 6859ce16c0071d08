#pragma once

#include <onnxifi.h>

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "onnxifi/descriptor.h"
#include "onnxifi/event.h"
#include "onnxifi/loader.h"
#include "smelt/model.h"

namespace smelt::onnxifi {

/// A loaded model with its queue of runs. Runs of one graph go one after the other: on a thread of the graph's own, or
/// on a caller's that waits for one of them.
class Graph : public std::enable_shared_from_this<Graph> {
 public:
  static onnxStatus create(const SessionOptions& options, const uint64_t* properties, std::string_view model,
                           const onnxTensorDescriptorV1* weights, uint32_t weight_count, std::shared_ptr<Graph>* out);
  ~Graph();

  onnxStatus set_io(const onnxTensorDescriptorV1* inputs, uint32_t input_count, const onnxTensorDescriptorV1* outputs,
                    uint32_t output_count);
  /// Queues a run that starts when `ready` (may be null) is signalled; `done` gets the run's status.
  onnxStatus run(std::shared_ptr<Event> ready, std::shared_ptr<Event> done, onnxTraceEventList* trace);
  /// Executes queued runs on the calling thread until `done` is signalled or there is none that can start.
  void help(const Event& done);
  /// Waits for the queued runs and ends the thread.
  void drain();

 private:
  struct Output {
    void* data;
    DType dtype;
    size_t capacity;  ///< bytes
  };
  /// Input elements at an address that kernels can't read: copied to an aligned one before a run.
  struct Misaligned {
    void* to;
    const void* from;
    size_t bytes;
  };
  struct Locations {
    std::vector<Datum> inputs;
    std::vector<Misaligned> misaligned;
    std::vector<Output> outputs;
    int64_t batch = 0;
  };
  struct Job {
    std::shared_ptr<Event> ready, done;
    std::shared_ptr<const Locations> locations;
    onnxTraceEventList* trace;
    bool can_start() const { return !ready || ready->signalled(); }
  };
  /// What planning for some input types said.
  struct Prepared {
    std::vector<std::pair<DType, Shape>> inputs;
    std::vector<Port> outputs;
  };

  Graph(Loaded loaded, Session session, bool instrument);
  onnxStatus locate(const onnxTensorDescriptorV1* inputs, uint32_t input_count, const onnxTensorDescriptorV1* outputs,
                    uint32_t output_count, Locations& locations);
  onnxStatus prepare(const std::vector<Datum>& inputs, std::shared_ptr<const Prepared>& out);
  void work();
  void execute_first(std::unique_lock<std::mutex>& lock);
  void execute(Job& job);
  onnxStatus compute(const Job& job, std::string& message);

  Model model_;
  Session session_;
  std::mutex session_mutex_;  ///< held while the session plans or runs
  bool instrument_;
  std::vector<Port> inputs_, outputs_;
  size_t statics_ = 0;  ///< how many of inputs_, at the end, are static: a location given for them is not read
  Symbols symbols_;

  std::mutex mutex_;  ///< of all that follows
  std::condition_variable wake_;
  std::shared_ptr<const Locations> locations_;  ///< null: none valid
  std::shared_ptr<const Prepared> prepared_;    ///< the latest
  std::deque<Job> queue_;
  bool running_ = false;  ///< a job has left the queue and is not over
  bool asleep_ = false;   ///< the thread waits for wake_
  bool closing_ = false;
  std::thread worker_;
};

}  // namespace smelt::onnxifi
