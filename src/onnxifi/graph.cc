#include "onnxifi/graph.h"

#include <cstring>
#include <new>

#include "base/cat.h"
#include "onnxifi/backend.h"
#include "onnxifi/element.h"
#include "onnxifi/trace.h"

namespace smelt::onnxifi {
namespace {

onnxStatus read_properties(const uint64_t* list, bool& instrument) {
  for (const uint64_t* p = list; p && *p != ONNXIFI_GRAPH_PROPERTY_NONE; p += 2) {
    if (p[0] != ONNXIFI_GRAPH_PROPERTY_AUTO_INSTRUMENT_NODES) return ONNXIFI_STATUS_UNSUPPORTED_PROPERTY;
    if (p[1] > 1) return ONNXIFI_STATUS_INVALID_PROPERTY;
    instrument = p[1] == 1;
  }
  return ONNXIFI_STATUS_SUCCESS;
}

/// True if an output of planned shape fits into a location, whose dimensions are upper limits.
bool fits(const Port& planned, const onnxTensorDescriptorV1& d) {
  if (!planned.is_tensor || !planned.ranked) return true;
  if (static_cast<uint32_t>(planned.shape.rank()) != d.dimensions) return false;
  for (int i = 0; i < planned.shape.rank(); ++i)
    if (planned.shape[i] > static_cast<int64_t>(d.shape[i])) return false;
  return true;
}

/// Faults of making a session and of running it.
onnxStatus run_status(const Error& e) {
  switch (e.code()) {
    case ErrorCode::kLimit:
      return ONNXIFI_STATUS_NO_SYSTEM_MEMORY;
    case ErrorCode::kDevice:
      return ONNXIFI_STATUS_BACKEND_UNAVAILABLE;
    default:
      return ONNXIFI_STATUS_INTERNAL_ERROR;
  }
}

/// Faults of planning for shapes that a caller gave.
onnxStatus shape_status(const Error& e) {
  switch (e.code()) {
    case ErrorCode::kInvalidModel:
    case ErrorCode::kInvalidInput:
      return ONNXIFI_STATUS_MISMATCHING_SHAPE;
    case ErrorCode::kUnsupported:
      return ONNXIFI_STATUS_UNSUPPORTED_SHAPE;
    default:
      return run_status(e);
  }
}

}  // namespace

Graph::Graph(Loaded loaded, Session session, bool instrument)
    : model_(loaded.model),
      session_(std::move(session)),
      instrument_(instrument),
      inputs_(model_.inputs()),
      outputs_(model_.outputs()),
      statics_(loaded.statics.size()),
      symbols_(std::move(loaded.symbols)) {
  inputs_.insert(inputs_.end(), loaded.statics.begin(), loaded.statics.end());
}

Graph::~Graph() { drain(); }

onnxStatus Graph::create(const SessionOptions& backend, const uint64_t* properties, std::string_view bytes,
                         const onnxTensorDescriptorV1* weights, uint32_t weight_count, std::shared_ptr<Graph>* out) {
  SessionOptions options = backend;
  if (const onnxStatus s = read_properties(properties, options.profile); s != ONNXIFI_STATUS_SUCCESS) return s;
  std::optional<Loaded> loaded;
  if (const onnxStatus s = load_model(bytes, weights, weight_count, &loaded); s != ONNXIFI_STATUS_SUCCESS) return s;
  auto session = Session::create(loaded->model, options);
  if (!session.ok()) return run_status(session.error());
  *out = std::shared_ptr<Graph>(new Graph(std::move(*loaded), std::move(*session), options.profile));
  return ONNXIFI_STATUS_SUCCESS;
}

onnxStatus Graph::prepare(const std::vector<Datum>& inputs, std::shared_ptr<const Prepared>& out) {
  auto fresh = std::make_shared<Prepared>();
  for (const Datum& d : inputs) fresh->inputs.emplace_back(d.tensor.dtype(), d.tensor.shape());
  {
    const std::lock_guard lock(mutex_);
    out = prepared_;
  }
  if (out && out->inputs == fresh->inputs) return ONNXIFI_STATUS_SUCCESS;
  {
    const std::lock_guard lock(session_mutex_);
    auto outputs = session_.prepare(inputs);
    if (!outputs.ok()) return shape_status(outputs.error());
    fresh->outputs = std::move(*outputs);
  }
  const std::lock_guard lock(mutex_);
  out = prepared_ = std::move(fresh);
  return ONNXIFI_STATUS_SUCCESS;
}

onnxStatus Graph::locate(const onnxTensorDescriptorV1* inputs, uint32_t input_count,
                         const onnxTensorDescriptorV1* outputs, uint32_t output_count, Locations& locations) {
  if (!outputs || (input_count > 0 && !inputs)) return ONNXIFI_STATUS_INVALID_POINTER;
  onnxStatus s = check_tags(inputs, input_count);
  if (s == ONNXIFI_STATUS_SUCCESS) s = check_tags(outputs, output_count);
  Symbols symbols = symbols_;
  std::vector<const onnxTensorDescriptorV1*> in, out;
  if (s == ONNXIFI_STATUS_SUCCESS) s = match(inputs, input_count, inputs_, symbols, in);
  if (s == ONNXIFI_STATUS_SUCCESS) s = match(outputs, output_count, outputs_, symbols, out);
  if (s != ONNXIFI_STATUS_SUCCESS) return s;
  in.resize(inputs_.size() - statics_);
  for (size_t i = 0; i < in.size(); ++i)
    if (!in[i] && !inputs_[i].optional) return ONNXIFI_STATUS_UNIDENTIFIED_NAME;
  for (const auto* d : out)
    if (!d) return ONNXIFI_STATUS_UNIDENTIFIED_NAME;

  for (size_t i = 0; i < in.size(); ++i) {
    Datum& datum = locations.inputs.emplace_back();
    if (!in[i]) continue;
    const DType dtype = element_type(in[i]->dataType);
    const auto* data = reinterpret_cast<const void*>(in[i]->buffer);
    const Shape shape = shape_of(*in[i]);
    if (in[i]->buffer % element_alignment(dtype) == 0) {
      datum = Datum(Tensor::view(dtype, shape, data, nullptr));
    } else {
      auto copy = Tensor::allocate(dtype, shape, false);
      if (!copy.ok()) return ONNXIFI_STATUS_NO_SYSTEM_MEMORY;
      locations.misaligned.push_back({copy->raw(), data, copy->bytes()});
      datum = Datum(std::move(*copy));
    }
    if (locations.batch == 0 && in[i]->dimensions > 0) locations.batch = static_cast<int64_t>(in[i]->shape[0]);
  }
  std::shared_ptr<const Prepared> prepared;
  s = prepare(locations.inputs, prepared);
  if (s != ONNXIFI_STATUS_SUCCESS) return s;
  for (size_t i = 0; i < out.size(); ++i) {
    if (!fits(prepared->outputs[i], *out[i])) return ONNXIFI_STATUS_MISMATCHING_SHAPE;
    const DType dtype = element_type(out[i]->dataType), planned = prepared->outputs[i].dtype;
    if (planned != DType::kInvalid && planned != dtype) return ONNXIFI_STATUS_MISMATCHING_DATATYPE;
    locations.outputs.push_back(
        {reinterpret_cast<void*>(out[i]->buffer), dtype, Tensor::byte_size(dtype, shape_of(*out[i]).elements())});
  }
  return ONNXIFI_STATUS_SUCCESS;
}

onnxStatus Graph::set_io(const onnxTensorDescriptorV1* inputs, uint32_t input_count,
                         const onnxTensorDescriptorV1* outputs, uint32_t output_count) {
  auto locations = std::make_shared<Locations>();
  const onnxStatus s = locate(inputs, input_count, outputs, output_count, *locations);
  if (s != ONNXIFI_STATUS_SUCCESS) locations = nullptr;
  const std::lock_guard lock(mutex_);
  locations_ = std::move(locations);
  return s;
}

onnxStatus Graph::run(std::shared_ptr<Event> ready, std::shared_ptr<Event> done, onnxTraceEventList* trace) {
  bool asleep;
  {
    const std::lock_guard lock(mutex_);
    if (!locations_) return ONNXIFI_STATUS_UNIDENTIFIED_NAME;
    if (closing_) return ONNXIFI_STATUS_INVALID_GRAPH;
    if (!worker_.joinable()) {
      try {
        worker_ = std::thread([this] { work(); });
      } catch (const std::system_error&) {
        return ONNXIFI_STATUS_NO_SYSTEM_RESOURCES;
      }
    }
    Library::get().batch_size.store(locations_->batch, std::memory_order_relaxed);
    queue_.push_back({std::move(ready), std::move(done), locations_, trace});
    asleep = asleep_;
  }
  if (asleep) wake_.notify_one();
  return ONNXIFI_STATUS_SUCCESS;
}

void Graph::execute_first(std::unique_lock<std::mutex>& lock) {
  Job job = std::move(queue_.front());
  queue_.pop_front();
  running_ = true;
  lock.unlock();
  execute(job);
  job = {};
  lock.lock();
  running_ = false;
}

void Graph::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    while (running_ || (queue_.empty() && !closing_)) {
      asleep_ = true;
      wake_.wait(lock);
      asleep_ = false;
    }
    if (queue_.empty()) return;
    if (queue_.front().can_start()) {
      execute_first(lock);
      continue;
    }
    const auto ready = queue_.front().ready;
    lock.unlock();
    ready->wait();
    lock.lock();
  }
}

void Graph::help(const Event& done) {
  std::unique_lock lock(mutex_);
  while (!done.signalled() && !running_ && !queue_.empty() && queue_.front().can_start()) execute_first(lock);
  // The thread sleeps while somebody else runs a job.
  if (!running_ && asleep_ && (closing_ || !queue_.empty())) wake_.notify_one();
}

onnxStatus Graph::compute(const Job& job, std::string& message) {
  if (job.ready && job.ready->status() != ONNXIFI_STATUS_SUCCESS) {
    message = Cat("the input event failed: ", job.ready->message());
    return ONNXIFI_STATUS_INTERNAL_ERROR;
  }
  for (const Misaligned& m : job.locations->misaligned) std::memcpy(m.to, m.from, m.bytes);
  auto result = session_.run_in_place(job.locations->inputs);
  if (!result.ok()) {
    message = result.error().message();
    return run_status(result.error());
  }
  onnxStatus status = ONNXIFI_STATUS_SUCCESS;
  for (size_t i = 0; i < job.locations->outputs.size(); ++i) {
    const Output& to = job.locations->outputs[i];
    const Datum& d = (*result)[i];
    if (!d.is_tensor() || d.tensor.dtype() != to.dtype || d.tensor.bytes() > to.capacity) {
      status = ONNXIFI_STATUS_MISMATCHING_SHAPE;
      message = Cat("output '", outputs_[i].name, "' is ",
                    d.is_tensor() ? Cat(to_string(d.tensor.dtype()), d.tensor.shape().str()) : "no tensor",
                    ": it does not fit the given location");
      continue;
    }
    if (d.tensor.bytes() > 0) std::memcpy(to.data, d.tensor.raw(), d.tensor.bytes());
  }
  return status;
}

void Graph::execute(Job& job) {
  const std::lock_guard lock(session_mutex_);
  onnxStatus status;
  std::string message;
  try {
    const uint64_t start = job.trace ? trace_clock() : 0;
    status = compute(job, message);
    if (job.trace)
      fill_trace(job.trace, start, trace_clock(), instrument_ ? session_.profile() : std::vector<ProfileEntry>{});
  } catch (const std::bad_alloc&) {
    status = ONNXIFI_STATUS_NO_SYSTEM_MEMORY;
  } catch (...) {
    status = ONNXIFI_STATUS_INTERNAL_ERROR;
  }
  job.done->signal(status, std::move(message));
}

void Graph::drain() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  wake_.notify_all();
  if (worker_.joinable()) worker_.join();
}

}  // namespace smelt::onnxifi
