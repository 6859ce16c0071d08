#include "runtime/device_layout.h"

#include <algorithm>

#include "backends/vulkan/device/alignment.h"
#include "backends/vulkan/layout/image.h"
#include "base/checked.h"
#include "base/error.h"
#include "ops/control/control.h"

namespace smelt {
namespace {

/// A value's elements as an image, whose memory is an item of the arena.
struct ImageVersion {
  vulkan::ImageLayout layout;
  size_t item;
  int number = -1;  ///< in the program
};

/// Elements brought from one image of a value to another before a step; -1: its buffer or its content.
struct Conversion {
  int before;
  ValueId id;
  int from, to;
};

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
        images_of_(values.size()),
        viewed_(values.size(), false) {
    for (size_t i = 0; i < root_.size(); ++i) root_[i] = static_cast<ValueId>(i);
  }

  Result<DeviceLayout> make() {
    find_segments();
    DeviceLayout out;
    if (segments_.empty()) return out;
    place();
    SMELT_TRY(make_images());
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
    out.copies.conversions = conversions_.size();
    if (!env_.gpu.weights) return out;
    out.program = std::make_unique<vulkan::Program>(env_.gpu.device, env_.gpu.weights, env_.device_states,
                                                    env_.options.profile, env_.threads.threads());
    SMELT_TRY(record(*out.program, out));
    return out;
  }

 private:
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
      items_.push_back({.bytes = vulkan::align_binding(bytes_of(static_cast<ValueId>(r))), .first = from, .last = to});
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
          if (id != kNoValue) show_host(id, k, segment_of);
      }
    }
    for (ValueId id : graph_.outputs)
      if (id != kNoValue) show_host(id, static_cast<int>(steps_.size()), segment_of);
    for (const Step& s : steps_)
      if (s.kind == Step::Kind::kDeviceWrite) place_write(s, segment_of);
  }

  /// A new content is copied over the old one at the end of the first segment that knows it and of which none behind
  /// reads the old one.
  void place_write(const Step& s, std::vector<int>& segment_of) {
    const int state = static_cast<const StateAttrs&>(*s.node->attrs).state;
    int at = segment_of[static_cast<size_t>(s.in[0])];
    for (int k = at + 1; k < static_cast<int>(segments_.size()); ++k) {
      const auto& reads = segments_[static_cast<size_t>(k)].reads;
      if (std::find(reads.begin(), reads.end(), state) != reads.end()) at = k;
    }
    Segment& seg = segments_[static_cast<size_t>(at)];
    seg.writes.emplace_back(s.in[0], state);
    need_buffer(s.in[0], seg.last, seg.last + 1, at, segment_of);
  }

  void place_device_step(int k, int segment, std::vector<int>& segment_of) {
    const Step& s = steps_[static_cast<size_t>(k)];
    const vulkan::Kernel& kernel = *kernels_[static_cast<size_t>(k)];
    for (size_t i = 0; i < s.in.size(); ++i) {
      const ValueId id = s.in[i];
      if (id == kNoValue || !kernel.reads(i)) continue;
      const bool known = values_[static_cast<size_t>(id)].content != nullptr;
      Segment& seg = segments_[static_cast<size_t>(segment)];
      const int state = state_of(id);
      if (state >= 0 && std::find(seg.reads.begin(), seg.reads.end(), state) == seg.reads.end())
        seg.reads.push_back(state);
      if (state < 0 && !known && !values_[static_cast<size_t>(id)].on_device && item_[static_cast<size_t>(id)] < 0) {
        seg.uploads.push_back(id);
        live(id, seg.first, k);
      }
      if (const vulkan::ImageLayout* image = kernel.input_image(i))
        need_image(id, *image, k);
      else if (!known && state < 0)
        need_buffer(id, k, k, segment, segment_of);
    }
    for (size_t i = 0; i < s.out.size(); ++i) {
      const ValueId id = s.out[i];
      if (id == kNoValue) continue;
      if (const vulkan::ImageLayout* image = kernel.output_image(i))
        live_image(add_image(id, *image, k), k);
      else
        live(id, k, k);
      segment_of[static_cast<size_t>(id)] = segment;
    }
    if (const size_t n = kernel.scratch_bytes(); n > 0) {
      scratch_.push_back({k, static_cast<int>(items_.size())});
      items_.push_back({.bytes = vulkan::align_binding(n), .first = k, .last = k});
    }
  }

  int find_image(ValueId id, const vulkan::ImageLayout& layout) const {
    for (int v : images_of_[static_cast<size_t>(root_[static_cast<size_t>(id)])])
      if (images_[static_cast<size_t>(v)].layout.same_places(layout)) return v;
    return -1;
  }
  int add_image(ValueId id, const vulkan::ImageLayout& layout, int k) {
    const auto v = static_cast<int>(images_.size());
    images_.push_back({layout, items_.size()});
    items_.push_back({.bytes = 0, .first = k, .last = k});
    images_of_[static_cast<size_t>(root_[static_cast<size_t>(id)])].push_back(v);
    return v;
  }
  void live_image(int v, int k) {
    ArenaItem& item = items_[images_[static_cast<size_t>(v)].item];
    item.last = std::max(item.last, k);
  }

  /// Step k reads the value as an image of that layout.
  void need_image(ValueId id, const vulkan::ImageLayout& layout, int k) {
    int v = find_image(id, layout);
    if (v < 0) {
      const bool known = values_[static_cast<size_t>(id)].content != nullptr;
      const auto r = static_cast<size_t>(root_[static_cast<size_t>(id)]);
      // Images of what is known stay as they are through all runs.
      v = add_image(id, layout, known ? 0 : k);
      if (known) live_image(v, static_cast<int>(steps_.size()));
      const int from = known || state_of(id) >= 0 || item_[r] >= 0 ? -1 : images_of_[r].front();
      if (from >= 0) live_image(from, k);
      if (from < 0 && !known && state_of(id) < 0) live(id, k, k);
      conversions_.push_back({k, id, from, v});
    }
    live_image(v, k);
  }

  /// Something reads the value as a buffer at step k; where it is none yet, it becomes one before step `before`.
  void need_buffer(ValueId id, int k, int before, int segment, std::vector<int>& segment_of) {
    const auto r = static_cast<size_t>(root_[static_cast<size_t>(id)]);
    if (item_[r] < 0 && !images_of_[r].empty()) {
      const int from = images_of_[r].front();
      live_image(from, k);
      conversions_.push_back({before, id, from, -1});
      for (size_t i = 0; i < root_.size(); ++i)
        if (static_cast<size_t>(root_[i]) == r) segment_of[i] = segment;
    }
    live(id, k, k);
  }

  /// Images need sizes of their own and pages that they don't share.
  Status make_images() {
    size_t align = vulkan::kBindingAlignment;
    for (ImageVersion& v : images_) {
      SMELT_ASSIGN(auto image, vulkan::make_image(env_.gpu.device, v.layout));
      align = std::max(align, vulkan::image_alignment(*image));
      items_[v.item].bytes = vulkan::image_bytes(*image);
      made_.push_back(std::move(image));
    }
    for (ArenaItem& item : items_) item.bytes = round_up(item.bytes, align);
    return Ok();
  }

  /// The host reads the value at step k.
  void show_host(ValueId id, int k, std::vector<int>& segment_of) {
    const auto i = static_cast<size_t>(id);
    if (!values_[i].on_device) return;
    Segment& seg = segments_[static_cast<size_t>(segment_of[i])];
    need_buffer(id, seg.last, seg.last + 1, segment_of[i], segment_of);
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
    for (size_t v = 0; v < images_.size(); ++v)
      images_[v].number = program.place_image(std::move(made_[v]), items_[images_[v].item].offset);
    SMELT_TRY(program.allocate(out.arena_bytes));
    for (const Segment& s : segments_)
      for (ValueId id : s.downloads) {
        SMELT_ASSIGN(void* data, program.host_view(id, bytes_of(id)));
        out.views.push_back({id, data});
      }
    size_t next_scratch = 0, next_conversion = 0;
    std::stable_sort(conversions_.begin(), conversions_.end(),
                     [](const Conversion& a, const Conversion& b) { return a.before < b.before; });
    const auto convert = [&](int k) -> Status {
      for (; next_conversion < conversions_.size() && conversions_[next_conversion].before <= k; ++next_conversion) {
        const Conversion& c = conversions_[next_conversion];
        SMELT_TRY(program.convert(c.id, number(c.from), number(c.to)));
      }
      return Ok();
    };
    for (const Segment& seg : segments_) {
      program.begin_segment();
      for (ValueId id : seg.uploads) SMELT_TRY(program.upload(id));
      for (int k = seg.first; k <= seg.last; ++k) {
        const Step& s = steps_[static_cast<size_t>(k)];
        if (!device_step(s)) continue;
        SMELT_TRY(convert(k));
        size_t scratch = 0;
        if (next_scratch < scratch_.size() && scratch_[next_scratch].first == k)
          scratch = items_[static_cast<size_t>(scratch_[next_scratch++].second)].offset;
        const vulkan::Kernel& kernel = *kernels_[static_cast<size_t>(k)];
        std::vector<int> ins(s.in.size(), -1), outs(s.out.size(), -1);
        for (size_t i = 0; i < ins.size(); ++i)
          if (const auto* image = s.in[i] == kNoValue ? nullptr : kernel.input_image(i); image && kernel.reads(i))
            ins[i] = number(find_image(s.in[i], *image));
        for (size_t i = 0; i < outs.size(); ++i)
          if (const auto* image = s.out[i] == kNoValue ? nullptr : kernel.output_image(i))
            outs[i] = number(find_image(s.out[i], *image));
        if (auto r = program.add(kernel, *s.node, scratch, ins, outs); !r.ok())
          return r.error().within(node_label(*s.node));
      }
      SMELT_TRY(convert(seg.last + 1));
      for (ValueId id : seg.downloads) SMELT_TRY(program.download(id));
      for (int state : seg.reads) program.read_state(state);
      for (const auto& [id, state] : seg.writes) SMELT_TRY(program.write_state(id, state));
      program.end_segment();
    }
    return program.finish();
  }

  int number(int image) const { return image < 0 ? -1 : images_[static_cast<size_t>(image)].number; }

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
  std::vector<ImageVersion> images_;
  std::vector<std::shared_ptr<vulkan::Image>> made_;  ///< aligned with images_, until the program has them
  std::vector<std::vector<int>> images_of_;           ///< by root value
  std::vector<Conversion> conversions_;
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
