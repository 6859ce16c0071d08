#include "runtime/device_layout.h"

#include <algorithm>

#include "base/error.h"
#include "ops/control/control.h"

namespace smelt {
namespace {

struct Segment {
  int first = 0, last = 0;  ///< steps
  std::vector<ValueId> uploads, downloads;
  std::vector<int> reads;                       ///< variables
  std::vector<std::pair<ValueId, int>> writes;  ///< of variables
};

class LayoutMaker {
 public:
  LayoutMaker(const Graph& graph, std::span<Step> steps, std::span<const std::unique_ptr<vulkan::Kernel>> kernels,
              std::span<const DeviceValue> values, PlannedEnvironment& env)
      : graph_(graph),
        steps_(steps),
        kernels_(kernels),
        values_(values),
        env_(env),
        unified_(vulkan::device_info(*env.gpu.device).unified_memory),
        item_(values.size(), -1),
        root_(values.size()),
        viewed_(values.size(), false) {
    for (size_t i = 0; i < root_.size(); ++i) root_[i] = static_cast<ValueId>(i);
  }

  Result<DeviceLayout> make() {
    find_segments();
    DeviceLayout out;
    if (segments_.empty()) return out;
    place();
    out.arena_lower_bound = arena_lower_bound(items_);
    out.arena_bytes = plan_arena(items_);
    SMELT_TRY(env_.control.charge(out.arena_bytes));
    env_.control.release(out.arena_bytes);
    for (const Segment& s : segments_) {
      out.copies.up += s.uploads.size();
      out.copies.down += s.downloads.size();
      for (ValueId id : s.uploads) out.copies.bytes_up += bytes_of(id);
      for (ValueId id : s.downloads) out.copies.bytes_down += bytes_of(id);
    }
    if (!env_.gpu.weights) return out;
    out.program = std::make_unique<vulkan::Program>(env_.gpu.device, env_.gpu.weights, env_.device_states,
                                                    env_.options.profile, env_.threads.threads());
    SMELT_TRY(record(*out.program, out));
    return out;
  }

 private:
  static size_t rounded(size_t bytes) { return (bytes + 255) & ~size_t{255}; }
  size_t bytes_of(ValueId id) const {
    const ValueType& t = values_[static_cast<size_t>(id)].type;
    return Tensor::byte_size(t.dtype, t.shape.elements());
  }
  bool device_step(const Step& s) const { return s.kind == Step::Kind::kDevice; }
  /// A variable is read or written where it lies.
  bool stays(const Step& s) const { return s.kind == Step::Kind::kDeviceRead || s.kind == Step::Kind::kDeviceWrite; }
  int state_of(ValueId id) const { return values_[static_cast<size_t>(root_[static_cast<size_t>(id)])].state; }

  void find_segments() {
    bool open = false;
    for (int k = 0; k < static_cast<int>(steps_.size()); ++k) {
      Step& s = steps_[static_cast<size_t>(k)];
      if (s.kind == Step::Kind::kDeviceAlias) {
        root_[static_cast<size_t>(s.out[0])] = root_[static_cast<size_t>(s.in[0])];
        continue;
      }
      if (stays(s)) continue;
      if (!device_step(s)) {
        open = false;
        continue;
      }
      if (!open) {
        s.segment = static_cast<int32_t>(segments_.size());
        segments_.push_back({k, k, {}, {}, {}, {}});
        open = true;
      }
      segments_.back().last = k;
    }
  }

  void live(ValueId id, int from, int to) {
    const auto r = static_cast<size_t>(root_[static_cast<size_t>(id)]);
    if (item_[r] < 0) {
      item_[r] = static_cast<int>(items_.size());
      items_.push_back({.bytes = rounded(bytes_of(static_cast<ValueId>(r))), .first = from, .last = to});
      return;
    }
    ArenaItem& item = items_[static_cast<size_t>(item_[r])];
    item.first = std::min(item.first, from);
    item.last = std::max(item.last, to);
  }

  void place() {
    std::vector<int> segment_of(values_.size(), -1);  // that makes the value
    size_t at = 0;
    for (int k = 0; k < static_cast<int>(steps_.size()); ++k) {
      const Step& s = steps_[static_cast<size_t>(k)];
      while (at + 1 < segments_.size() && k >= segments_[at + 1].first) ++at;
      if (s.kind == Step::Kind::kDeviceAlias) {
        segment_of[static_cast<size_t>(s.out[0])] = segment_of[static_cast<size_t>(s.in[0])];
        continue;
      }
      if (stays(s)) continue;
      if (device_step(s)) {
        place_device_step(k, static_cast<int>(at), segment_of);
      } else {
        for (ValueId id : s.in)
          if (id != kNone) show_host(id, k, segment_of);
      }
    }
    for (ValueId id : graph_.outputs)
      if (id != kNone) show_host(id, static_cast<int>(steps_.size()), segment_of);
    for (const Step& s : steps_)
      if (s.kind == Step::Kind::kDeviceWrite) place_write(s, segment_of);
  }

  /// A new content is copied over the old one at the end of the first segment that knows it and of which none behind
  /// reads the old one.
  void place_write(const Step& s, const std::vector<int>& segment_of) {
    const int state = static_cast<const StateAttrs&>(*s.node->attrs).state;
    int at = segment_of[static_cast<size_t>(s.in[0])];
    for (int k = at + 1; k < static_cast<int>(segments_.size()); ++k) {
      const auto& reads = segments_[static_cast<size_t>(k)].reads;
      if (std::find(reads.begin(), reads.end(), state) != reads.end()) at = k;
    }
    Segment& seg = segments_[static_cast<size_t>(at)];
    seg.writes.emplace_back(s.in[0], state);
    live(s.in[0], seg.last, seg.last);
  }

  void place_device_step(int k, int segment, std::vector<int>& segment_of) {
    const Step& s = steps_[static_cast<size_t>(k)];
    const vulkan::Kernel& kernel = *kernels_[static_cast<size_t>(k)];
    for (size_t i = 0; i < s.in.size(); ++i) {
      const ValueId id = s.in[i];
      if (id == kNone || values_[static_cast<size_t>(id)].content || !kernel.reads(i)) continue;
      Segment& seg = segments_[static_cast<size_t>(segment)];
      if (const int state = state_of(id); state >= 0) {
        if (std::find(seg.reads.begin(), seg.reads.end(), state) == seg.reads.end()) seg.reads.push_back(state);
        continue;
      }
      if (!values_[static_cast<size_t>(id)].on_device && item_[static_cast<size_t>(id)] < 0) {
        seg.uploads.push_back(id);
        live(id, seg.first, k);
      }
      live(id, k, k);
    }
    for (ValueId id : s.out) {
      if (id == kNone) continue;
      live(id, k, k);
      segment_of[static_cast<size_t>(id)] = segment;
    }
    if (const size_t n = kernel.scratch_bytes(); n > 0) {
      scratch_.push_back({k, static_cast<int>(items_.size())});
      items_.push_back({.bytes = rounded(n), .first = k, .last = k});
    }
  }

  /// The host reads the value at step k.
  void show_host(ValueId id, int k, const std::vector<int>& segment_of) {
    const auto i = static_cast<size_t>(id);
    if (!values_[i].on_device) return;
    Segment& seg = segments_[static_cast<size_t>(segment_of[i])];
    if (!viewed_[i]) seg.downloads.push_back(id);
    viewed_[i] = true;
    live(id, seg.last, unified_ ? std::max(k, seg.last) : seg.last);
  }

  size_t offset_of(ValueId id) const {
    return items_[static_cast<size_t>(item_[static_cast<size_t>(root_[static_cast<size_t>(id)])])].offset;
  }

  Status record(vulkan::Program& program, DeviceLayout& out) {
    for (size_t i = 0; i < values_.size(); ++i) {
      const auto id = static_cast<ValueId>(i);
      if (values_[i].content)
        program.place_constant(id, values_[i].content, values_[i].lasting);
      else if (const int state = state_of(id); state >= 0)
        program.place_state(id, state, bytes_of(id));
      else if (item_[static_cast<size_t>(root_[i])] >= 0)
        program.place(id, offset_of(id), bytes_of(id));
    }
    SMELT_TRY(program.allocate(out.arena_bytes));
    for (const Segment& s : segments_)
      for (ValueId id : s.downloads) {
        SMELT_ASSIGN(void* data, program.host_view(id, bytes_of(id)));
        out.views.push_back({id, data});
      }
    size_t next_scratch = 0;
    for (const Segment& seg : segments_) {
      program.begin_segment();
      for (ValueId id : seg.uploads) SMELT_TRY(program.upload(id));
      for (int k = seg.first; k <= seg.last; ++k) {
        const Step& s = steps_[static_cast<size_t>(k)];
        if (!device_step(s)) continue;
        size_t scratch = 0;
        if (next_scratch < scratch_.size() && scratch_[next_scratch].first == k)
          scratch = items_[static_cast<size_t>(scratch_[next_scratch++].second)].offset;
        if (auto r = program.add(*kernels_[static_cast<size_t>(k)], *s.node, scratch); !r.ok())
          return r.error().within(node_label(*s.node));
      }
      for (ValueId id : seg.downloads) SMELT_TRY(program.download(id));
      for (int state : seg.reads) program.read_state(state);
      for (const auto& [id, state] : seg.writes) SMELT_TRY(program.write_state(id, state));
      program.end_segment();
    }
    return program.finish();
  }

  const Graph& graph_;
  std::span<Step> steps_;
  std::span<const std::unique_ptr<vulkan::Kernel>> kernels_;
  std::span<const DeviceValue> values_;
  PlannedEnvironment& env_;
  bool unified_;
  std::vector<Segment> segments_;
  std::vector<ArenaItem> items_;
  std::vector<int> item_;      ///< by root value
  std::vector<ValueId> root_;  ///< whose storage a value is
  std::vector<bool> viewed_;
  std::vector<std::pair<int, int>> scratch_;  ///< step, item
};

}  // namespace

Result<DeviceLayout> lay_out_device(const Graph& graph, std::span<Step> steps,
                                    std::span<const std::unique_ptr<vulkan::Kernel>> kernels,
                                    std::span<const DeviceValue> values, PlannedEnvironment& env) {
  return LayoutMaker(graph, steps, kernels, values, env).make();
}

}  // namespace smelt
