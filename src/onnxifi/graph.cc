#include "onnxifi/graph.h"

#include <cstring>
#include <map>
#include <optional>
#include <set>

#include "base/cat.h"
#include "onnxifi/backend.h"
#include "onnxifi/model_check.h"
#include "onnxifi/spin.h"
#include "onnxifi/trace.h"
#include "onnxifi/weights.h"

namespace smelt::onnxifi {

onnxStatus check_tags(const onnxTensorDescriptorV1* list, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i)
    if (list[i].tag != ONNXIFI_TAG_TENSOR_DESCRIPTOR_V1) return ONNXIFI_STATUS_UNSUPPORTED_TAG;
  return ONNXIFI_STATUS_SUCCESS;
}

namespace {

onnxStatus check_quantization(const onnxTensorDescriptorV1& d) {
  if (d.quantizationParams == 0) return ONNXIFI_STATUS_SUCCESS;
  if (!d.scales || !d.biases) return ONNXIFI_STATUS_INVALID_POINTER;
  if (d.quantizationParams == 1) return ONNXIFI_STATUS_SUCCESS;  // per tensor: the axis says nothing
  if (d.quantizationAxis >= d.dimensions || d.quantizationParams > d.shape[d.quantizationAxis])
    return ONNXIFI_STATUS_INVALID_SHAPE;
  return ONNXIFI_STATUS_SUCCESS;
}

Shape shape_of(const onnxTensorDescriptorV1& d) {
  Shape s = Shape::of_rank(static_cast<int>(d.dimensions), 0);
  for (uint32_t i = 0; i < d.dimensions; ++i) s[static_cast<int>(i)] = static_cast<int64_t>(d.shape[i]);
  return s;
}

/// Values of symbolic dimensions as one call binds them.
using Symbols = std::map<std::string, int64_t>;

/// A descriptor against a port. For outputs an unknown dimension takes any size: it is an upper limit.
onnxStatus fits(const onnxTensorDescriptorV1& d, const Port& port, Symbols& symbols) {
  if (!port.is_tensor && !port.optional) return ONNXIFI_STATUS_UNSUPPORTED_DATATYPE;
  if (port.dtype != DType::kInvalid && element_type(d.dataType) != port.dtype)
    return ONNXIFI_STATUS_MISMATCHING_DATATYPE;
  if (!port.ranked) return ONNXIFI_STATUS_SUCCESS;
  if (static_cast<int>(d.dimensions) != port.shape.rank()) return ONNXIFI_STATUS_MISMATCHING_SHAPE;
  for (int i = 0; i < port.shape.rank(); ++i) {
    const auto given = static_cast<int64_t>(d.shape[i]);
    if (port.shape[i] >= 0 && port.shape[i] != given) return ONNXIFI_STATUS_MISMATCHING_SHAPE;
    const std::string name =
        static_cast<size_t>(i) < port.dim_names.size() ? port.dim_names[static_cast<size_t>(i)] : "";
    if (port.shape[i] >= 0 || name.empty()) continue;
    const auto [it, fresh] = symbols.emplace(name, given);
    if (!fresh && it->second != given) return ONNXIFI_STATUS_MISMATCHING_SHAPE;
  }
  return ONNXIFI_STATUS_SUCCESS;
}

/// Matches descriptors to ports by name. `found` has an entry a port; null where no descriptor names it.
onnxStatus match(const onnxTensorDescriptorV1* list, uint32_t count, const std::vector<Port>& ports, Symbols& symbols,
                 std::vector<const onnxTensorDescriptorV1*>& found) {
  found.assign(ports.size(), nullptr);
  for (uint32_t i = 0; i < count; ++i) {
    const onnxTensorDescriptorV1& d = list[i];
    if (!d.name) return ONNXIFI_STATUS_INVALID_NAME;
    size_t at = 0;
    while (at < ports.size() && ports[at].name != d.name) ++at;
    if (at == ports.size() || found[at]) return ONNXIFI_STATUS_INVALID_NAME;
    if (const onnxStatus s = check_descriptor(d); s != ONNXIFI_STATUS_SUCCESS) return s;
    if (const onnxStatus s = fits(d, ports[at], symbols); s != ONNXIFI_STATUS_SUCCESS) return s;
    found[at] = &d;
  }
  return ONNXIFI_STATUS_SUCCESS;
}

}  // namespace

onnxStatus check_descriptor(const onnxTensorDescriptorV1& d) {
  if (element_type(d.dataType) == DType::kInvalid) return ONNXIFI_STATUS_INVALID_DATATYPE;
  switch (d.memoryType) {
    case ONNXIFI_MEMORY_TYPE_CPU:
      break;
    case ONNXIFI_MEMORY_TYPE_CUDA_BUFFER:
    case ONNXIFI_MEMORY_TYPE_OPENCL_BUFFER:
    case ONNXIFI_MEMORY_TYPE_OPENGLES_TEXTURE_2D:
    case ONNXIFI_MEMORY_TYPE_D3D_RESOURCE:
      return ONNXIFI_STATUS_UNSUPPORTED_MEMORY_TYPE;
    default:
      return ONNXIFI_STATUS_INVALID_MEMORY_TYPE;
  }
  if (d.dimensions > 0 && !d.shape) return ONNXIFI_STATUS_INVALID_POINTER;
  if (d.dimensions > Shape::kMaxRank) return ONNXIFI_STATUS_UNSUPPORTED_SHAPE;
  uint64_t elements = 1;
  for (uint32_t i = 0; i < d.dimensions; ++i) {
    if (d.shape[i] == 0) return ONNXIFI_STATUS_INVALID_SHAPE;
    if (__builtin_mul_overflow(elements, d.shape[i], &elements) || elements > (UINT64_C(1) << 40))
      return ONNXIFI_STATUS_UNSUPPORTED_SHAPE;
  }
  // An offline weight would need a deferred weight reader, which this backend refuses.
  if (d.isOffline || d.buffer == 0) return ONNXIFI_STATUS_INVALID_MEMORY_LOCATION;
  return check_quantization(d);
}

Graph::Graph(Model model, Session session, bool instrument)
    : model_(std::move(model)),
      session_(std::move(session)),
      instrument_(instrument),
      inputs_(model_.inputs()),
      outputs_(model_.outputs()) {}

Graph::~Graph() { drain(); }

onnxStatus Graph::create(BackendKind backend, int threads, const uint64_t* properties, std::string_view bytes,
                         const onnxTensorDescriptorV1* weights, uint32_t weight_count, std::shared_ptr<Graph>* out) {
  bool instrument = false;
  for (const uint64_t* p = properties; p && *p != ONNXIFI_GRAPH_PROPERTY_NONE; p += 2) {
    if (p[0] != ONNXIFI_GRAPH_PROPERTY_AUTO_INSTRUMENT_NODES) return ONNXIFI_STATUS_UNSUPPORTED_PROPERTY;
    if (p[1] > 1) return ONNXIFI_STATUS_INVALID_PROPERTY;
    instrument = p[1] == 1;
  }
  std::shared_ptr<const std::string> owned;
  if (const onnxStatus s = with_weights(bytes, weights, weight_count, &owned); s != ONNXIFI_STATUS_SUCCESS) return s;
  std::unique_ptr<Model> model;
  if (const onnxStatus s = load_model(*owned, owned, &model); s != ONNXIFI_STATUS_SUCCESS) return s;
  SessionOptions options;
  options.backend = backend;
  options.threads = threads;
  options.profile = instrument;
  auto session = Session::create(*model, options);
  if (!session.ok()) return ONNXIFI_STATUS_INTERNAL_ERROR;
  *out = std::shared_ptr<Graph>(new Graph(std::move(*model), std::move(*session), instrument));
  return ONNXIFI_STATUS_SUCCESS;
}

onnxStatus Graph::set_io(const onnxTensorDescriptorV1* inputs, uint32_t input_count,
                         const onnxTensorDescriptorV1* outputs, uint32_t output_count) {
  const auto settle = [&](std::shared_ptr<const Locations> locations, onnxStatus status) {
    const std::lock_guard lock(mutex_);
    locations_ = std::move(locations);
    return status;
  };
  if (!outputs || (input_count > 0 && !inputs)) return settle(nullptr, ONNXIFI_STATUS_INVALID_POINTER);
  onnxStatus s = check_tags(inputs, input_count);
  if (s == ONNXIFI_STATUS_SUCCESS) s = check_tags(outputs, output_count);
  Symbols symbols;
  std::vector<const onnxTensorDescriptorV1*> in, out;
  if (s == ONNXIFI_STATUS_SUCCESS) s = match(inputs, input_count, inputs_, symbols, in);
  if (s == ONNXIFI_STATUS_SUCCESS) s = match(outputs, output_count, outputs_, symbols, out);
  if (s != ONNXIFI_STATUS_SUCCESS) return settle(nullptr, s);
  auto locations = std::make_shared<Locations>();
  for (size_t i = 0; i < in.size(); ++i) {
    if (!in[i]) {
      if (!inputs_[i].optional) return settle(nullptr, ONNXIFI_STATUS_UNIDENTIFIED_NAME);
      locations->inputs.emplace_back();
      continue;
    }
    locations->inputs.emplace_back(Tensor::view(element_type(in[i]->dataType), shape_of(*in[i]),
                                                reinterpret_cast<const void*>(in[i]->buffer), nullptr));
    if (locations->batch == 0 && in[i]->dimensions > 0) locations->batch = static_cast<int64_t>(in[i]->shape[0]);
  }
  for (size_t i = 0; i < out.size(); ++i) {
    if (!out[i]) return settle(nullptr, ONNXIFI_STATUS_UNIDENTIFIED_NAME);
    const DType dtype = element_type(out[i]->dataType);
    locations->outputs.push_back(
        {reinterpret_cast<void*>(out[i]->buffer), dtype, Tensor::byte_size(dtype, shape_of(*out[i]).elements())});
  }
  return settle(std::move(locations), ONNXIFI_STATUS_SUCCESS);
}

onnxStatus Graph::run(std::shared_ptr<Event> ready, std::shared_ptr<Event> done, onnxTraceEventList* trace) {
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
    queued_.store(queue_.size(), std::memory_order_release);
  }
  wake_.notify_one();
  return ONNXIFI_STATUS_SUCCESS;
}

void Graph::work() {
  for (;;) {
    spin_until([&] { return queued_.load(std::memory_order_acquire) > 0; });
    Job job;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return closing_ || !queue_.empty(); });
      if (queue_.empty()) return;
      job = std::move(queue_.front());
      queue_.pop_front();
      queued_.store(queue_.size(), std::memory_order_release);
    }
    if (job.ready) job.ready->wait();
    execute(job);
  }
}

void Graph::execute(Job& job) {
  const uint64_t start = trace_clock();
  auto result = session_.run_in_place(job.locations->inputs);
  onnxStatus status = ONNXIFI_STATUS_SUCCESS;
  std::string message;
  if (!result.ok()) {
    status =
        result.error().code() == ErrorCode::kLimit ? ONNXIFI_STATUS_NO_SYSTEM_MEMORY : ONNXIFI_STATUS_INTERNAL_ERROR;
    message = result.error().message();
  } else {
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
  }
  if (job.trace)
    fill_trace(job.trace, start, trace_clock(), instrument_ ? session_.profile() : std::vector<ProfileEntry>{});
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
