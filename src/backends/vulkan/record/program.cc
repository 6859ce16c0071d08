#include "backends/vulkan/record/program.h"

#include <cstring>
#include <unordered_map>

#include "backends/vulkan/layout/image.h"
#include "backends/vulkan/record/kernel_recorder.h"
#include "backends/vulkan/record/states.h"
#include "graph/node_label.h"
#include "ops/core/op.h"

namespace smelt::vulkan {
namespace {

struct Place {
  Binding binding;
  size_t offset = 0;  ///< in the arena
  const Tensor* constant = nullptr;
  bool model_lifetime = false;
  int state = -1;  ///< a variable's own memory
};

struct Upload {
  ValueId id;
  std::unique_ptr<Buffer> staging;  ///< null: the arena is mapped
  char* to;
  size_t bytes;
};

struct RecordedSegment {
  RecordedSegment(std::shared_ptr<Device> device, int threads) : recorder(std::move(device), threads) {}
  Recorder recorder;
  std::vector<Upload> uploads;
  std::vector<int> states_read, states_written;
  struct Ran {
    const Node* node;
    const char* fault;  ///< of its kernel
  };
  std::vector<Ran> nodes;
  std::vector<double> micros;
  bool faults = false;
};

}  // namespace

struct Program::Impl {
  std::shared_ptr<Device> device;
  std::shared_ptr<WeightStore> weights;
  std::shared_ptr<StateStore> states;
  bool profile = false;
  int threads = 1;
  WeightStore own;  ///< constants of this plan
  std::unique_ptr<Buffer> arena;
  std::unique_ptr<Buffer> faults;  ///< one word; staged when the arena isn't mapped
  std::unique_ptr<Buffer> faults_staging;
  std::unordered_map<ValueId, Place> places;
  std::vector<std::pair<std::shared_ptr<Image>, size_t>> images;  ///< and their offsets in the arena
  std::unique_ptr<Recorder> setup;                                ///< runs once, before the first segment
  std::unordered_map<ValueId, std::unique_ptr<Buffer>> views;     ///< staging of downloads
  std::vector<std::unique_ptr<RecordedSegment>> segments;

  Impl(std::shared_ptr<Device> d, std::shared_ptr<WeightStore> w, std::shared_ptr<StateStore> s, bool p, int t)
      : device(d), weights(std::move(w)), states(std::move(s)), profile(p), threads(t), own(d) {}

  const uint32_t* fault_word() const {
    const Buffer& b = faults_staging ? *faults_staging : *faults;
    return reinterpret_cast<const uint32_t*>(b.mapped());
  }
};

Program::Program(std::shared_ptr<Device> device, std::shared_ptr<WeightStore> weights,
                 std::shared_ptr<StateStore> states, bool profile, int threads)
    : impl_(std::make_unique<Impl>(std::move(device), std::move(weights), std::move(states), profile, threads)) {}
Program::~Program() = default;

void Program::place_state(ValueId id, int state, size_t bytes) {
  Place& p = impl_->places[id];
  p.state = state;
  p.binding.bytes = bytes;
}

void Program::place(ValueId id, size_t offset, size_t bytes) {
  Place& p = impl_->places[id];
  p.offset = offset;
  p.binding.bytes = bytes;
}

void Program::place_constant(ValueId id, const Tensor* content, bool model_lifetime) {
  Place& p = impl_->places[id];
  p.constant = content;
  p.model_lifetime = model_lifetime;
}

int Program::place_image(std::shared_ptr<Image> image, size_t offset) {
  impl_->images.emplace_back(std::move(image), offset);
  return static_cast<int>(impl_->images.size()) - 1;
}

Status Program::allocate(size_t bytes) {
  ImageWorkspace workspace;
  for (const auto& [image, offset] : impl_->images) image->join(workspace);
  SMELT_ASSIGN(impl_->arena, Buffer::make(impl_->device, bytes, Buffer::Use::kDevice, workspace));
  for (const auto& [image, offset] : impl_->images) SMELT_TRY(image->place(*impl_->arena, offset));
  SMELT_ASSIGN(impl_->faults, Buffer::make(impl_->device, 4, Buffer::Use::kDevice));
  if (!impl_->faults->mapped()) {
    SMELT_ASSIGN(impl_->faults_staging, Buffer::make(impl_->device, 4, Buffer::Use::kStaging));
  }
  for (auto& [id, p] : impl_->places) {
    if (p.state >= 0) {
      SMELT_ASSIGN(p.binding, impl_->states->place(p.state, p.binding.bytes));
    } else if (!p.constant) {
      p.binding = impl_->arena->slice(p.offset, p.binding.bytes);
    }
  }
  return Ok();
}

void Program::begin_segment() {
  impl_->segments.push_back(std::make_unique<RecordedSegment>(impl_->device, impl_->threads));
}

Status Program::upload(ValueId id) {
  RecordedSegment& s = *impl_->segments.back();
  const Binding& to = impl_->places[id].binding;
  Upload u{id, nullptr, nullptr, to.bytes};
  if (impl_->arena->mapped()) {
    u.to = impl_->arena->mapped() + to.offset;
  } else {
    SMELT_ASSIGN(u.staging, Buffer::make(impl_->device, to.bytes, Buffer::Use::kStaging));
    u.to = u.staging->mapped();
    s.recorder.copy(u.staging->slice(0, to.bytes), to);
  }
  s.uploads.push_back(std::move(u));
  return Ok();
}

Status Program::add(const Kernel& kernel, const Node& node, size_t scratch_offset, std::span<const int> input_images,
                    std::span<const int> output_images) {
  RecordedSegment& s = *impl_->segments.back();
  std::vector<KernelRecorder::Operand> inputs;
  std::vector<Binding> outputs;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    KernelRecorder::Operand o;
    if (input_images[i] >= 0) {
      o.binding = impl_->images[static_cast<size_t>(input_images[i])].first->binding();
    } else if (const auto it = impl_->places.find(node.inputs[i]); it != impl_->places.end()) {
      const Place& p = it->second;
      o.binding = p.binding;
      o.constant = p.constant;
      o.store = p.model_lifetime ? impl_->weights.get() : &impl_->own;
    }
    inputs.push_back(o);
  }
  std::vector<Binding> started;
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (output_images[i] >= 0) {
      outputs.push_back(impl_->images[static_cast<size_t>(output_images[i])].first->binding());
      started.push_back(outputs.back());
    } else {
      outputs.push_back(node.outputs[i] == kNoValue ? Binding{} : impl_->places[node.outputs[i]].binding);
    }
  }
  const size_t scratch = kernel.scratch_bytes();
  if (impl_->profile && s.nodes.empty()) s.recorder.mark();
  s.nodes.push_back({&node, kernel.fault()});
  s.recorder.start(started);
  KernelRecorder r(s.recorder, inputs, outputs, impl_->arena->slice(scratch_offset, scratch),
                   impl_->faults->slice(0, 4), static_cast<uint32_t>(s.nodes.size()), &s.faults, impl_->own);
  SMELT_TRY(kernel.record(r));
  if (impl_->profile) s.recorder.mark();
  return Ok();
}

Status Program::convert(ValueId id, int from, int to) {
  const Place place = impl_->places[id];
  const auto image = [&](int i) -> const Image& { return *impl_->images[static_cast<size_t>(i)].first; };
  Recorder* recorder = &impl_->segments.back()->recorder;
  Binding source = place.binding, target = place.binding;
  if (from >= 0) {
    source = image(from).binding();
  } else if (place.constant) {
    if (!impl_->setup) impl_->setup = std::make_unique<Recorder>(impl_->device, impl_->threads);
    recorder = impl_->setup.get();
    SMELT_ASSIGN(source, (place.model_lifetime ? *impl_->weights : impl_->own).raw(*place.constant));
  }
  if (to >= 0) {
    target = image(to).binding();
    recorder->start({&target, 1});
  }
  return record_conversion(*recorder, from >= 0 ? &image(from).layout() : nullptr, source,
                           to >= 0 ? &image(to).layout() : nullptr, target);
}

Status Program::download(ValueId id) {
  const auto it = impl_->views.find(id);
  if (it != impl_->views.end()) {
    const Binding& from = impl_->places[id].binding;
    impl_->segments.back()->recorder.copy(from, it->second->slice(0, from.bytes));
  }
  return Ok();
}

void Program::read_state(int state) { impl_->segments.back()->states_read.push_back(state); }

Status Program::write_state(ValueId id, int state) {
  RecordedSegment& s = *impl_->segments.back();
  const Binding& from = impl_->places[id].binding;
  SMELT_ASSIGN(const Binding to, impl_->states->place(state, from.bytes));
  s.recorder.copy(from, to);
  s.states_written.push_back(state);
  return Ok();
}

void Program::end_segment() {
  RecordedSegment& s = *impl_->segments.back();
  if (s.faults && impl_->faults_staging)
    s.recorder.copy(impl_->faults->slice(0, 4), impl_->faults_staging->slice(0, 4));
}

Status Program::finish() {
  SMELT_TRY(impl_->weights->flush());
  SMELT_TRY(impl_->own.flush());
  if (impl_->setup) {
    SMELT_TRY(impl_->setup->end());
    SMELT_TRY(impl_->setup->run());
    impl_->setup.reset();
  }
  for (auto& s : impl_->segments) SMELT_TRY(s->recorder.end());
  impl_->device->pipelines().save();
  return Ok();
}

Result<void*> Program::host_view(ValueId id, size_t bytes) {
  if (impl_->arena->mapped()) return static_cast<void*>(impl_->arena->mapped() + impl_->places[id].offset);
  SMELT_ASSIGN(auto staging, Buffer::make(impl_->device, bytes, Buffer::Use::kStaging));
  void* p = staging->mapped();
  impl_->views[id] = std::move(staging);
  return p;
}

Status Program::run(int index, std::span<const Datum> values, KernelContext& context) {
  RecordedSegment& s = *impl_->segments[static_cast<size_t>(index)];
  for (const Upload& u : s.uploads) {
    const Tensor& t = values[static_cast<size_t>(u.id)].tensor;
    if (t.bytes() != u.bytes) return Internal("an upload of another size than planned");
    std::memcpy(u.to, t.raw(), u.bytes);
  }
  for (int i : s.states_read) SMELT_TRY(impl_->states->to_device(i, context.state(i).tensor));
  SMELT_TRY(s.recorder.run([&context] { return context.tick(); }));
  for (int i : s.states_written) impl_->states->written_on_device(i);
  if (impl_->profile) {
    SMELT_ASSIGN(s.micros, s.recorder.intervals());
    for (double& m : s.micros) m /= 1000;
  }
  if (s.faults && *impl_->fault_word() != 0) {
    const uint32_t code = *impl_->fault_word();
    const auto& [node, fault] = code <= s.nodes.size() ? s.nodes[code - 1] : s.nodes.front();
    return InvalidInput(node_label(*node), ": ", fault);
  }
  return Ok();
}

const std::vector<double>& Program::node_micros(int segment) const {
  return impl_->segments[static_cast<size_t>(segment)]->micros;
}

size_t Program::segments() const { return impl_->segments.size(); }
size_t Program::dispatches() const {
  size_t n = 0;
  for (const auto& s : impl_->segments) n += s->recorder.dispatches();
  return n;
}
size_t Program::table_bytes() const { return impl_->own.bytes(); }

}  // namespace smelt::vulkan
