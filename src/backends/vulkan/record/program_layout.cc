#include "backends/vulkan/record/program_layout.h"

#include <algorithm>

#include "backends/vulkan/device/alignment.h"
#include "backends/vulkan/layout/image.h"
#include "base/arena.h"
#include "base/checked.h"
#include "base/error.h"
#include "graph/node_label.h"
#include "ops/control/control.h"

namespace smelt::vulkan {
namespace {

/// A value's elements as an image, whose memory is an item of the arena.
struct ImageVersion {
  ImageLayout layout;
  size_t item;
  int number = -1;  ///< in the program
};

/// Elements brought from one image of a value to another before a node of the order; -1: its buffer or its content.
struct Conversion {
  int before;
  ValueId id;
  int from, to;
};

/// What one partition needs beside its nodes.
struct SegmentLayout {
  NodeRange range;
  std::vector<ValueId> uploads, downloads;
  std::vector<int> reads;                       ///< variables
  std::vector<std::pair<ValueId, int>> writes;  ///< of variables
};

class LayoutMaker {
 public:
  LayoutMaker(const PlanOutline& plan, std::span<const ProgramNode> nodes, const ProgramOptions& options)
      : graph_(plan.graph),
        nodes_(nodes),
        values_(plan.values),
        options_(options),
        unified_(device_info(*options.device).unified_memory),
        item_(values_.size(), -1),
        root_(values_.size()),
        images_of_(values_.size()),
        viewed_(values_.size(), false) {
    for (size_t i = 0; i < root_.size(); ++i) root_[i] = static_cast<ValueId>(i);
    for (const ProgramNode& n : nodes_)
      if (n.placement == Placement::kView) root_of(n.node->outputs[0]) = root_of(n.node->inputs[0]);
    for (const NodeRange& range : plan.partitions) segments_.push_back({range, {}, {}, {}, {}});
  }

  Result<ProgramLayout> make(const std::function<Status(size_t)>& check_memory) {
    ProgramLayout out;
    if (segments_.empty()) return out;
    place();
    SMELT_TRY(make_images());
    out.use.arena_lower_bound = arena_lower_bound(items_);
    out.use.arena_bytes = plan_arena(items_);
    SMELT_TRY(check_memory(out.use.arena_bytes));
    Copies& copies = out.use.copies;
    for (const SegmentLayout& s : segments_) {
      copies.up += s.uploads.size();
      copies.down += s.downloads.size();
      for (ValueId id : s.uploads) copies.bytes_up += bytes_of(id);
      for (ValueId id : s.downloads) copies.bytes_down += bytes_of(id);
    }
    copies.conversions = conversions_.size();
    if (!options_.weights) return out;
    out.program = std::make_unique<Program>(options_.device, options_.weights, options_.states, options_.profile,
                                            options_.threads);
    SMELT_TRY(record(*out.program, out));
    out.use.constant_bytes = out.program->table_bytes();
    return out;
  }

 private:
  ValueId& root_of(ValueId id) { return root_[static_cast<size_t>(id)]; }
  size_t bytes_of(ValueId id) const {
    const ValueType& t = *values_[static_cast<size_t>(id)].type;
    return Tensor::byte_size(t.dtype, t.shape.elements());
  }
  int state_of(ValueId id) const { return values_[static_cast<size_t>(root_[static_cast<size_t>(id)])].state; }

  void live(ValueId id, int from, int to) {
    const auto r = static_cast<size_t>(root_[static_cast<size_t>(id)]);
    if (item_[r] < 0) {
      item_[r] = static_cast<int>(items_.size());
      items_.push_back({.bytes = align_binding(bytes_of(static_cast<ValueId>(r))), .first = from, .last = to});
      return;
    }
    ArenaItem& item = items_[static_cast<size_t>(item_[r])];
    item.first = std::min(item.first, from);
    item.last = std::max(item.last, to);
  }

  void place() {
    std::vector<int> segment_of(values_.size(), -1);  // that makes the value
    size_t at = 0;
    for (int k = 0; k < static_cast<int>(nodes_.size()); ++k) {
      const ProgramNode& n = nodes_[static_cast<size_t>(k)];
      while (at + 1 < segments_.size() && k >= segments_[at + 1].range.first) ++at;
      switch (n.placement) {
        case Placement::kView:
          segment_of[static_cast<size_t>(n.node->outputs[0])] = segment_of[static_cast<size_t>(n.node->inputs[0])];
          break;
        case Placement::kHere:
          place_node(k, static_cast<int>(at), segment_of);
          break;
        case Placement::kElsewhere:
          for (ValueId id : n.node->inputs)
            if (id != kNoValue) show_host(id, k, segment_of);
          break;
        case Placement::kStateRead:
        case Placement::kStateWrite:
          break;
      }
    }
    for (ValueId id : graph_.outputs)
      if (id != kNoValue) show_host(id, static_cast<int>(nodes_.size()), segment_of);
    for (const ProgramNode& n : nodes_)
      if (n.placement == Placement::kStateWrite) place_write(*n.node, segment_of);
  }

  /// A new content is copied over the old one at the end of the first segment that knows it and of which none behind
  /// reads the old one.
  void place_write(const Node& node, std::vector<int>& segment_of) {
    const int state = static_cast<const StateAttrs&>(*node.attrs).state;
    const ValueId id = node.inputs[0];
    int at = segment_of[static_cast<size_t>(id)];
    for (int k = at + 1; k < static_cast<int>(segments_.size()); ++k) {
      const auto& reads = segments_[static_cast<size_t>(k)].reads;
      if (std::ranges::find(reads, state) != reads.end()) at = k;
    }
    SegmentLayout& seg = segments_[static_cast<size_t>(at)];
    seg.writes.emplace_back(id, state);
    need_buffer(id, seg.range.last, seg.range.last + 1, at, segment_of);
  }

  void place_node(int k, int segment, std::vector<int>& segment_of) {
    const Node& node = *nodes_[static_cast<size_t>(k)].node;
    const Kernel& kernel = *nodes_[static_cast<size_t>(k)].kernel;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId id = node.inputs[i];
      if (id == kNoValue || !kernel.reads(i)) continue;
      const bool constant = values_[static_cast<size_t>(id)].content != nullptr;
      SegmentLayout& seg = segments_[static_cast<size_t>(segment)];
      const int state = state_of(id);
      if (state >= 0 && std::ranges::find(seg.reads, state) == seg.reads.end()) seg.reads.push_back(state);
      if (state < 0 && !constant && !values_[static_cast<size_t>(id)].here && item_[static_cast<size_t>(id)] < 0) {
        seg.uploads.push_back(id);
        live(id, seg.range.first, k);
      }
      if (const ImageLayout* image = kernel.input_image(i))
        need_image(id, *image, k);
      else if (!constant && state < 0)
        need_buffer(id, k, k, segment, segment_of);
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const ValueId id = node.outputs[i];
      if (id == kNoValue) continue;
      if (const ImageLayout* image = kernel.output_image(i))
        live_image(add_image(id, *image, k), k);
      else
        live(id, k, k);
      segment_of[static_cast<size_t>(id)] = segment;
    }
    if (const size_t n = kernel.scratch_bytes(); n > 0) {
      scratch_.push_back({k, static_cast<int>(items_.size())});
      items_.push_back({.bytes = align_binding(n), .first = k, .last = k});
    }
  }

  int find_image(ValueId id, const ImageLayout& layout) const {
    for (int v : images_of_[static_cast<size_t>(root_[static_cast<size_t>(id)])])
      if (images_[static_cast<size_t>(v)].layout.same_places(layout)) return v;
    return -1;
  }
  int add_image(ValueId id, const ImageLayout& layout, int k) {
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

  /// Node k reads the value as an image of that layout.
  void need_image(ValueId id, const ImageLayout& layout, int k) {
    int v = find_image(id, layout);
    if (v < 0) {
      const bool constant = values_[static_cast<size_t>(id)].content != nullptr;
      const auto r = static_cast<size_t>(root_[static_cast<size_t>(id)]);
      // Images of what is known stay as they are through all runs.
      v = add_image(id, layout, constant ? 0 : k);
      if (constant) live_image(v, static_cast<int>(nodes_.size()));
      const int from = constant || state_of(id) >= 0 || item_[r] >= 0 ? -1 : images_of_[r].front();
      if (from >= 0) live_image(from, k);
      if (from < 0 && !constant && state_of(id) < 0) live(id, k, k);
      conversions_.push_back({k, id, from, v});
    }
    live_image(v, k);
  }

  /// Something reads the value as a buffer at node k; where it is none yet, it becomes one before node `before`.
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
    size_t align = kBindingAlignment;
    for (ImageVersion& v : images_) {
      SMELT_ASSIGN(auto image, make_image(options_.device, v.layout));
      align = std::max(align, image_alignment(*image));
      items_[v.item].bytes = image_bytes(*image);
      made_.push_back(std::move(image));
    }
    for (ArenaItem& item : items_) item.bytes = round_up(item.bytes, align);
    return Ok();
  }

  /// The host reads the value at node k.
  void show_host(ValueId id, int k, std::vector<int>& segment_of) {
    const auto i = static_cast<size_t>(id);
    if (!values_[i].here) return;
    SegmentLayout& seg = segments_[static_cast<size_t>(segment_of[i])];
    need_buffer(id, seg.range.last, seg.range.last + 1, segment_of[i], segment_of);
    if (!viewed_[i]) seg.downloads.push_back(id);
    viewed_[i] = true;
    live(id, seg.range.last, unified_ ? std::max(k, seg.range.last) : seg.range.last);
  }

  size_t offset_of(ValueId id) const {
    return items_[static_cast<size_t>(item_[static_cast<size_t>(root_[static_cast<size_t>(id)])])].offset;
  }

  Status record(Program& program, ProgramLayout& out) {
    for (size_t i = 0; i < values_.size(); ++i) {
      const auto id = static_cast<ValueId>(i);
      if (values_[i].content)
        program.place_constant(id, values_[i].content, values_[i].model_lifetime);
      else if (const int state = state_of(id); state >= 0)
        program.place_state(id, state, bytes_of(id));
      else if (item_[static_cast<size_t>(root_[i])] >= 0)
        program.place(id, offset_of(id), bytes_of(id));
    }
    for (size_t v = 0; v < images_.size(); ++v)
      images_[v].number = program.place_image(std::move(made_[v]), items_[images_[v].item].offset);
    SMELT_TRY(program.allocate(out.use.arena_bytes));
    for (const SegmentLayout& s : segments_)
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
    for (const SegmentLayout& seg : segments_) {
      program.begin_segment();
      for (ValueId id : seg.uploads) SMELT_TRY(program.upload(id));
      for (int k = seg.range.first; k <= seg.range.last; ++k) {
        const ProgramNode& n = nodes_[static_cast<size_t>(k)];
        if (n.placement != Placement::kHere) continue;
        SMELT_TRY(convert(k));
        size_t scratch = 0;
        if (next_scratch < scratch_.size() && scratch_[next_scratch].first == k)
          scratch = items_[static_cast<size_t>(scratch_[next_scratch++].second)].offset;
        const Kernel& kernel = *n.kernel;
        const Node& node = *n.node;
        std::vector<int> ins(node.inputs.size(), -1), outs(node.outputs.size(), -1);
        for (size_t i = 0; i < ins.size(); ++i)
          if (const auto* image = node.inputs[i] == kNoValue ? nullptr : kernel.input_image(i);
              image && kernel.reads(i))
            ins[i] = number(find_image(node.inputs[i], *image));
        for (size_t i = 0; i < outs.size(); ++i)
          if (const auto* image = node.outputs[i] == kNoValue ? nullptr : kernel.output_image(i))
            outs[i] = number(find_image(node.outputs[i], *image));
        if (auto r = program.add(kernel, node, scratch, ins, outs); !r.ok()) return r.error().within(node_label(node));
      }
      SMELT_TRY(convert(seg.range.last + 1));
      for (ValueId id : seg.downloads) SMELT_TRY(program.download(id));
      for (int state : seg.reads) program.read_state(state);
      for (const auto& [id, state] : seg.writes) SMELT_TRY(program.write_state(id, state));
      program.end_segment();
    }
    return program.finish();
  }

  int number(int image) const { return image < 0 ? -1 : images_[static_cast<size_t>(image)].number; }

  const Graph& graph_;
  std::span<const ProgramNode> nodes_;
  std::span<const PlannedValue> values_;
  const ProgramOptions& options_;
  bool unified_;
  std::vector<SegmentLayout> segments_;
  std::vector<ArenaItem> items_;
  std::vector<int> item_;      ///< by root value
  std::vector<ValueId> root_;  ///< whose storage a value is
  std::vector<ImageVersion> images_;
  std::vector<std::shared_ptr<Image>> made_;  ///< aligned with images_, until the program has them
  std::vector<std::vector<int>> images_of_;   ///< by root value
  std::vector<Conversion> conversions_;
  std::vector<bool> viewed_;
  std::vector<std::pair<int, int>> scratch_;  ///< node, item
};

}  // namespace

Result<ProgramLayout> lay_out_program(const PlanOutline& plan, std::span<const ProgramNode> nodes,
                                      const ProgramOptions& options,
                                      const std::function<Status(size_t bytes)>& check_memory) {
  return LayoutMaker(plan, nodes, options).make(check_memory);
}

}  // namespace smelt::vulkan
