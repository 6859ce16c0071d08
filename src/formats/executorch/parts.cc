#include "formats/executorch/parts.h"

#include <algorithm>
#include <set>

namespace smelt::executorch {
namespace {

/// Collects parts; what lies inside the file adds up to its size at the end. Segments belong to the first that asks.
class Parts {
 public:
  explicit Parts(const ProgramFile& file) : file_(file), program_(file.program()) {}

  std::vector<FilePart> run() {
    uint64_t inside = 0;
    const FilePart constants = inline_constants(), delegates = inline_delegates();
    const uint64_t taken = constants.bytes + delegates.bytes, flatbuffer = file_.flatbuffer().size();
    add({"program flatbuffer", 1, flatbuffer - std::min(taken, flatbuffer)});
    add(constants);
    add(delegates);
    if (const auto* table = program_.constant_segment(); table && table->offsets() && table->offsets()->size() > 1)
      add(segment({"constant segment", table->offsets()->size() - 1}, table->segment_index()));  // entry 0: nothing
    FilePart data{"initial state", 0};
    if (const auto* groups = program_.mutable_data_segments())
      for (const auto* table : *groups) {
        data.count += table->offsets() && table->offsets()->size() > 0 ? table->offsets()->size() - 1 : 0;
        data = segment(data, table->segment_index());
      }
    add(data);
    add(delegate_segments());
    add(named_segments());
    FilePart rest{"other segments", 0};
    for (uint32_t i = 0; program_.segments() && i < program_.segments()->size(); ++i) {
      if (seen_.contains(i)) continue;
      ++rest.count;
      rest = segment(rest, i);
    }
    add(rest);
    for (const FilePart& p : out_) inside += p.bytes;
    if (inside < file_.size()) add({"padding", 1, file_.size() - inside});
    for (const auto& [name, bytes] : file_.data_files()) out_.push_back({name, 1, bytes, true});
    return std::move(out_);
  }

 private:
  void add(FilePart part) {
    if (part.bytes > 0 || part.count > 0) out_.push_back(std::move(part));
  }

  /// The part with the bytes of one more segment, each counted once.
  FilePart segment(FilePart part, uint64_t index) {
    const auto bytes = file_.segment(index);
    if (bytes.ok() && seen_.insert(index).second) part.bytes += bytes->size();
    return part;
  }

  /// The bytes that `bytes_of` the entries names, each vector counted once.
  template <class List, class BytesOf>
  static FilePart inline_part(const char* name, const List* list, const BytesOf& bytes_of) {
    FilePart part{name, 0};
    std::set<const void*> seen;
    if (!list) return part;
    for (const auto* entry : *list)
      if (const auto* bytes = bytes_of(*entry); bytes && bytes->size() > 0 && seen.insert(bytes).second) {
        ++part.count;
        part.bytes += bytes->size();
      }
    return part;
  }

  FilePart inline_constants() const {
    return inline_part("constants in the flatbuffer", program_.constant_buffer(),
                       [](const auto& buffer) { return buffer.storage(); });
  }

  FilePart inline_delegates() const {
    return inline_part("delegates in the flatbuffer", program_.backend_delegate_data(),
                       [](const auto& blob) { return blob.data(); });
  }

  FilePart delegate_segments() {
    FilePart part{"delegate blobs", 0};
    for (const auto* plan : *program_.execution_plan()) {
      if (!plan->delegates()) continue;
      for (const auto* delegate : *plan->delegates()) {
        const auto* where = delegate->processed();
        if (!where || where->location() != fb::et::DataLocation::SEGMENT || seen_.contains(where->index())) continue;
        ++part.count;
        part = segment(part, where->index());
      }
    }
    return part;
  }

  FilePart named_segments() {
    FilePart part{"named data", 0};
    if (const auto* list = program_.named_data())
      for (const auto* entry : *list) {
        ++part.count;
        part = segment(part, entry->segment_index());
      }
    return part;
  }

  const ProgramFile& file_;
  const fb::et::Program& program_;
  std::set<uint64_t> seen_;
  std::vector<FilePart> out_;
};

}  // namespace

std::vector<FilePart> file_parts(const ProgramFile& file) { return Parts(file).run(); }

std::vector<uint64_t> planned_memory(const fb::et::ExecutionPlan& plan) {
  std::vector<uint64_t> out;
  const auto* sizes = plan.non_const_buffer_sizes();
  // Buffer 0 stands for constants.
  for (uint32_t i = 1; sizes && i < sizes->size(); ++i)
    out.push_back(static_cast<uint64_t>(std::max<int64_t>(sizes->Get(i), 0)));
  return out;
}

}  // namespace smelt::executorch
